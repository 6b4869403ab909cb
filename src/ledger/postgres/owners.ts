import type { Clock } from "../../ports/clock.ts";
import { loop, type Loop } from "../../platform/loop.ts";
import type { Database, Statements } from "./connection.ts";
import { ensureMonths } from "./partitions.ts";

/** How often a running proxy beats, in milliseconds. */
const beatEveryMs = 500;
/** How often it makes the months of charges that are to come, and clears its leases of windows that are over. Milliseconds. */
const maintainEveryMs = 3_600_000;
/** How long a window has been over when its leases are cleared: nearly all that was held in them has ended by then. Milliseconds. */
const overForMs = 86_400_000;
/** Leases that one transaction clears at most. */
const clearedAtOnce = 500;

/** The run under which a process places holds. */
export interface OwnRun {
  /** Its epoch, registered where that was not done yet. */
  epoch(): Promise<number>;
  /** Null while none is registered. */
  known(): number | null;
  /** Registers anew where this is the present epoch: others have ended it. */
  renew(ended: number | null): Promise<void>;
  /** How many proxies live, this one included, as far as it knows. */
  live(): number;
}

/** What a beat says of the proxy beside that it lives. */
export interface BeatData {
  readonly catalogue: string | null;
  readonly uses: string | null;
}

/** Another proxy that lives. */
export interface LivePeer {
  readonly epoch: number;
  readonly instance: string;
  readonly catalogue: string | null;
  readonly uses: string | null;
}

/** What a beat that came through has brought. */
export interface Beat {
  /** The counter of changes of keys, budgets and settings. */
  readonly changes: bigint;
  /** How many proxies live, this one included. */
  readonly live: number;
  /** The others of them. */
  readonly peers: readonly LivePeer[];
}

export interface OwnerOptions {
  readonly database: Database;
  readonly clock: Clock;
  /** A name for people: where it runs. */
  readonly instance: string;
  /** How long one of its requests may live, with a margin: silent for longer, it is dead. Milliseconds. */
  readonly lifeMs: number;
  readonly onBeat?: (beat: Beat) => void;
}

/** The run of a proxy: registered, it beats until it is disposed of. */
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
    // Without the database nothing is known of the others; the next beat tries again.
    this.#beats = loop(options.clock, beat, { firstMs: Infinity, everyMs: beatEveryMs, onError() {} });
  }

  /** Registers the run and beats for the first time. */
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

  /** Has each beat take along what this answers. */
  publish(data: () => BeatData): void {
    this.#data = data;
  }

  /** Beats now, or once more where a beat is under way. */
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

  /** Ends the run and gives its leases back; where the database is out of reach, others find out by its silence. */
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

/** The run of a command beside the proxies: registered with its first hold; it does not beat, and is over with the process. */
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
    // Others end it, once it has been silent for long enough.
  }
}

/** Ends runs that have been silent for longer than one of their requests may live; `except`: the own one. */
export async function endDeadOwners(db: Statements, except: number | null): Promise<void> {
  await db.run("select farebox_end_dead_owners($1)", [except]);
}

/** Gives back what the leases of runs that are over do not hold. */
export async function returnLeasesOfDead(db: Statements): Promise<void> {
  const rows = await db.rows<{ owner: bigint }>(
    `select distinct l.owner from window_leases l where (l.spent <> 0 or l.granted > l.held or l.held = 0)
       and not exists (select from owners o where o.epoch = l.owner and o.ended_at is null)`,
  );
  for (const { owner } of rows) await db.run("select farebox_return_leases($1)", [owner]);
}
