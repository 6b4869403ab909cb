import type { Clock } from "../../ports/clock.ts";
import { liveMs } from "../../ports/stores.ts";
import { loop, type Loop } from "../../platform/loop.ts";
import type { Database, Statements } from "./connection.ts";
import { ensureMonths } from "./partitions.ts";
import { hourMs } from "../../core/time.ts";

/** Interval of heartbeats, in milliseconds. */
const beatEveryMs = 500;
/** Interval for creating the partitions of coming months, in milliseconds. */
const maintainEveryMs = hourMs;

/** SQL condition on `owners` that a run is that of a live proxy (`liveMs`). */
export const isLiveProxy = `serves = 1 and ended_at is null and beat_at > clock_timestamp() - interval '${liveMs} milliseconds'`;

/** Run of a process, registered in the ledger. Each hold stores the epoch of its run. */
export interface OwnRun {
  /** Returns the epoch of the run. Registers the run at the first call. */
  epoch(): Promise<number>;
  /** Returns the epoch of the run; null before it is registered. */
  knownEpoch(): number | null;
  /** Registers a new run if `ended` is still the epoch of this run. Call it when another process has ended the run. */
  renew(ended: number | null): Promise<void>;
}

/** Data that a heartbeat sends. */
interface BeatData {
  readonly catalogue: string | null;
  readonly uses: string | null;
}

/** Another live proxy. */
export interface LivePeer {
  readonly epoch: number;
  readonly instance: string;
  readonly catalogue: string | null;
  readonly uses: string | null;
}

/** Result of a successful heartbeat. */
export interface Beat {
  /** Counter of changes of keys, budgets and settings. */
  readonly changes: bigint;
  /** Live proxies, without this one. */
  readonly peers: readonly LivePeer[];
}

interface OwnerOptions {
  readonly database: Database;
  readonly clock: Clock;
  /** Readable name of the process: the host and the process id. */
  readonly instance: string;
  /**
   * Longest duration of a request plus a margin, in milliseconds. A proxy that sends no heartbeat for longer is
   * considered dead.
   */
  readonly lifeMs: number;
  readonly onBeat?: (beat: Beat) => void;
}

/** Run of a proxy. Sends heartbeats from registration to disposal. */
export class Owner implements OwnRun, AsyncDisposable {
  readonly #options: OwnerOptions;
  #epoch: number;
  #data: () => BeatData = () => ({ catalogue: null, uses: null });
  readonly #beats: Loop;
  #renewing: Promise<void> | null = null;
  #maintainedAt: number;

  private constructor(options: OwnerOptions, epoch: number) {
    this.#options = options;
    this.#epoch = epoch;
    this.#maintainedAt = options.clock.now();
    const beat = async (): Promise<void> => {
      await this.#beat();
      await this.#maintain();
    };
    // Ignores errors, because the next heartbeat tries again.
    this.#beats = loop(options.clock, beat, { firstMs: Infinity, everyMs: beatEveryMs, onError() {} });
  }

  /** Registers the run and sends the first heartbeat. */
  static async start(options: OwnerOptions): Promise<Owner> {
    const owner = new Owner(options, await register(options, 1));
    await owner.#beat();
    owner.#beats.wake(beatEveryMs);
    return owner;
  }

  async epoch(): Promise<number> {
    await this.#renewing;
    return this.#epoch;
  }

  knownEpoch(): number {
    return this.#epoch;
  }

  /** Sets the function whose result each heartbeat sends. */
  publish(data: () => BeatData): void {
    this.#data = data;
  }

  /** Sends a heartbeat now. If a heartbeat is in progress, sends another after it. */
  beatNow(): void {
    this.#beats.wake();
  }

  async renew(ended: number | null): Promise<void> {
    if (ended !== this.#epoch || this.#beats.ending.aborted) return this.#renewing ?? undefined;
    this.#renewing ??= register(this.#options, 1).then(
      (epoch) => {
        this.#epoch = epoch;
        this.#renewing = null;
      },
      (error: unknown) => {
        this.#renewing = null;
        throw error;
      },
    );
    return this.#renewing;
  }

  /** Ends the run. If the database cannot be reached, peers end it later. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#beats.ending.aborted) return;
    await this.#beats[Symbol.asyncDispose]();
    await endRun(this.#options.database, this.#epoch);
  }

  /** Creates partitions, once an hour. */
  async #maintain(): Promise<void> {
    const { clock, database } = this.#options;
    const now = clock.now();
    if (Math.abs(now - this.#maintainedAt) < maintainEveryMs) return;
    this.#maintainedAt = now;
    await ensureMonths(database, now);
  }

  async #beat(): Promise<void> {
    const epoch = await this.epoch();
    const { catalogue, uses } = this.#data();
    const beat = await this.#options.database.row<{
      is_live: boolean;
      changes: bigint;
      peers: readonly LivePeer[];
    }>({ name: "farebox_beat", text: "select * from farebox_beat($1, $2, $3)" }, [epoch, catalogue, uses]);
    if (beat === undefined) return;
    if (!beat.is_live) await this.renew(epoch);
    this.#options.onBeat?.(beat);
  }
}

/** Run of a CLI command. It is registered with the first hold, sends no heartbeats, and ends with its disposal. */
export class CommandRun implements OwnRun, AsyncDisposable {
  readonly #options: Omit<OwnerOptions, "onBeat">;
  #epoch: Promise<number> | null = null;
  #known: number | null = null;

  constructor(options: Omit<OwnerOptions, "onBeat">) {
    this.#options = options;
  }

  async epoch(): Promise<number> {
    this.#epoch ??= register(this.#options, 0);
    try {
      this.#known = await this.#epoch;
      return this.#known;
    } catch (error) {
      this.#epoch = null;
      throw error;
    }
  }

  knownEpoch(): number | null {
    return this.#known;
  }

  async renew(ended: number | null): Promise<void> {
    if (ended === this.#known) this.#epoch = null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#known !== null) await endRun(this.#options.database, this.#known);
  }
}

async function register(
  { database, clock, instance, lifeMs }: Omit<OwnerOptions, "onBeat">,
  serves: 0 | 1,
): Promise<number> {
  const row = await database.row<{ epoch: bigint }>(
    "insert into owners (started_at, life_ms, serves, instance) values ($1, $2, $3, $4) returning epoch",
    [clock.now(), lifeMs, serves, instance],
  );
  return Number(row?.epoch);
}

async function endRun(database: Database, epoch: number): Promise<void> {
  try {
    await database.run("select farebox_end_owner($1)", [epoch]);
  } catch {
    // Ignores the error, because peers end the run when it has been silent for `lifeMs`.
  }
}

/** Ends runs that have been silent for longer than their `lifeMs`. `except`: the run of this process. */
export async function endDeadOwners(db: Statements, except: number | null): Promise<void> {
  await db.run("select farebox_end_dead_owners($1)", [except]);
}
