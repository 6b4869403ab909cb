import type { Clock } from "../../ports/clock.ts";
import { loop, type Loop } from "../../platform/loop.ts";
import type { Database, Statements } from "./connection.ts";
import { ensureMonths } from "./partitions.ts";

/** Interval of heartbeats, in milliseconds. */
const beatEveryMs = 500;
/** Interval for creating partitions of coming months and clearing leases of ended windows. Milliseconds. */
const maintainEveryMs = 3_600_000;
/**
 * Age of an ended window when its leases are cleared, in milliseconds. Nearly all its holds have been settled by then.
 */
const overForMs = 86_400_000;
/** Most leases to clear per transaction. */
const clearedAtOnce = 500;

/** Run under which a process places holds. */
export interface OwnRun {
  /** Returns its epoch. Registers the run on first use. */
  epoch(): Promise<number>;
  /** Returns the epoch; null before registration. */
  known(): number | null;
  /** Registers a new run if `ended` is the current epoch, because another process has ended it. */
  renew(ended: number | null): Promise<void>;
  /** Returns the known number of live proxies, including this one. */
  live(): number;
}

/** Data that a heartbeat sends. */
export interface BeatData {
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
  /** Number of live proxies, including this one. */
  readonly live: number;
  /** The live proxies other than this one. */
  readonly peers: readonly LivePeer[];
}

export interface OwnerOptions {
  readonly database: Database;
  readonly clock: Clock;
  /** Name for people: where it runs. */
  readonly instance: string;
  /** Longest life of a request, with a margin, in milliseconds. A proxy silent for longer is dead. */
  readonly lifeMs: number;
  readonly onBeat?: (beat: Beat) => void;
}

/** Run of a proxy. Sends heartbeats from registration to disposal. */
export class Owner implements OwnRun, AsyncDisposable {
  readonly #options: OwnerOptions;
  #epoch: number;
  #data: () => BeatData = () => ({ catalogue: null, uses: null });
  #live = 1;
  readonly #beats: Loop;
  #renewing: Promise<void> | null = null;
  #maintainedAt: number;

  private constructor(options: OwnerOptions, epoch: number) {
    this.#options = options;
    this.#epoch = epoch;
    this.#maintainedAt = options.clock.now();
    const beat = async (): Promise<void> => {
      await this.#beat();
      await this.#keepUp();
    };
    // Peers are unknown without the database. The next heartbeat tries again.
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

  known(): number {
    return this.#epoch;
  }

  live(): number {
    return this.#live;
  }

  /** Sends the result of `data` with each heartbeat. */
  publish(data: () => BeatData): void {
    this.#data = data;
  }

  /** Sends a heartbeat now, or one more if one is in progress. */
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

  /** Ends the run and returns its leases. If the database is unreachable, others notice the silence. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#beats.ending.aborted) return;
    await this.#beats[Symbol.asyncDispose]();
    await endRun(this.#options.database, this.#epoch);
  }

  async #keepUp(): Promise<void> {
    const { clock, database } = this.#options;
    const now = clock.now();
    if (Math.abs(now - this.#maintainedAt) < maintainEveryMs) return;
    this.#maintainedAt = now;
    await ensureMonths(database, now);
    for (let cleared = clearedAtOnce; cleared === clearedAtOnce;) {
      const row = await database.row<{ cleared: number }>("select farebox_tidy_leases($1, $2, $3) as cleared", [
        this.#epoch,
        now - overForMs,
        clearedAtOnce,
      ]);
      cleared = row?.cleared ?? 0;
    }
  }

  async #beat(): Promise<void> {
    const epoch = await this.epoch();
    const { catalogue, uses } = this.#data();
    const beat = await this.#options.database.row<{
      is_live: boolean;
      changes: bigint;
      live: number;
      peers: readonly LivePeer[];
    }>({ name: "farebox_beat", text: "select * from farebox_beat($1, $2, $3)" }, [epoch, catalogue, uses]);
    if (beat === undefined) return;
    if (!beat.is_live) await this.renew(epoch);
    this.#live = Math.max(1, beat.peers.length + 1);
    this.#options.onBeat?.({ changes: beat.changes, live: this.#live, peers: beat.peers });
  }
}

/** Run of a command. Registered with its first hold; sends no heartbeats, and ends with the process. */
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

  known(): number | null {
    return this.#known;
  }

  async renew(ended: number | null): Promise<void> {
    if (ended === this.#known) this.#epoch = null;
  }

  live(): number {
    return 1;
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
    await database.run("select farebox_return_leases($1)", [epoch]);
  } catch {
    // Others end it after it has been silent long enough.
  }
}

/** Ends runs that have been silent for longer than one of their requests may live. `except`: this process's run. */
export async function endDeadOwners(db: Statements, except: number | null): Promise<void> {
  await db.run("select farebox_end_dead_owners($1)", [except]);
}

/** Returns the parts not held of the leases of ended runs. */
export async function returnLeasesOfDead(db: Statements): Promise<void> {
  const rows = await db.rows<{ owner: bigint }>(
    `select distinct l.owner from window_leases l where (l.spent <> 0 or l.granted > l.held or l.held = 0)
       and not exists (select from owners o where o.epoch = l.owner and o.ended_at is null)`,
  );
  for (const { owner } of rows) await db.run("select farebox_return_leases($1)", [owner]);
}
