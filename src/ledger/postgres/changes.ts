import type { Client } from "pg";
import type { Clock, Timer } from "../../ports/clock.ts";
import type { Statements } from "./connection.ts";

/**
 * Channel for notices of changes. All schemas of a database share the channel, so each notice names its schema and
 * sender.
 */
const channel = "farebox_changes";
/** Pause before the first attempt to reconnect, in milliseconds. It doubles with each attempt. */
const firstPauseMs = 250;
/** Longest pause before an attempt to reconnect, in milliseconds. */
const longestPauseMs = 5_000;

/**
 * Notifies all processes that keys, teams, budgets or settings changed, or that a charge was corrected. PostgreSQL
 * sends the notice when the transaction commits.
 */
export async function announce(db: Statements): Promise<void> {
  await db.run(
    `with moved as (update meta set changes = changes + 1 returning changes)
     select pg_notify('${channel}', json_build_array(current_schema(), changes, current_setting('application_name'))::text) from moved`,
  );
}

/** Returns the counter of changes. */
export async function changesIn(db: Statements): Promise<bigint> {
  const row = await db.row<{ changes: bigint }>("select changes from meta");
  return row?.changes ?? 0n;
}

interface ChangeWatchDeps {
  /** Creates an unconnected client. */
  readonly newClient: () => Client;
  readonly clock: Clock;
  /**
   * Text in the names of all connections of this process. A notice from such a connection does not call `onChange`,
   * unless an earlier notice was lost.
   */
  readonly ownName: string;
  /** Counter of changes when the ledger was opened. */
  readonly seen: bigint;
  readonly onChange: () => void;
}

/**
 * Listens for changes by other processes on a separate connection. Reconnects if the connection is lost. Callers that
 * read the counter of changes pass it to `updateCounter`, so a lost notice does no harm.
 */
export class ChangeWatch implements AsyncDisposable {
  readonly #deps: ChangeWatchDeps;
  #seen: bigint;
  #client: Client | null = null;
  #pauseMs = firstPauseMs;
  #retry: Timer | null = null;
  #closed = false;

  constructor(deps: ChangeWatchDeps) {
    this.#deps = deps;
    this.#seen = deps.seen;
  }

  /** Starts to listen. Resolves when the connection listens, or after one failed attempt. */
  async start(): Promise<void> {
    const client = this.#deps.newClient();
    this.#client = client;
    const lost = () => this.#lost(client);
    client.on("error", lost);
    client.on("end", lost);
    try {
      await client.connect();
      const { rows } = await client.query<{ schema: string }>("select current_schema() as schema");
      client.on("notification", ({ payload }) => this.#onNotice(payload ?? "", rows[0]?.schema ?? ""));
      await client.query(`listen ${channel}`);
      const counted = await client.query<{ changes: bigint }>("select changes from meta");
      this.#pauseMs = firstPauseMs;
      this.updateCounter(counted.rows[0]?.changes ?? 0n);
    } catch {
      lost();
    }
  }

  /** Receives the current counter of changes. Calls `onChange` if it has grown. */
  updateCounter(changes: bigint): void {
    if (this.#closed || changes <= this.#seen) return;
    this.#seen = changes;
    this.#deps.onChange();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#retry?.cancel();
    await this.#client?.end().catch(() => {});
  }

  #onNotice(payload: string, schema: string): void {
    const [sentIn, changes, by] = JSON.parse(payload) as [schema: string, changes: number, by: string];
    if (sentIn !== schema) return;
    if (by.includes(this.#deps.ownName) && BigInt(changes) === this.#seen + 1n) this.#seen++;
    else this.updateCounter(BigInt(changes));
  }

  #lost(client: Client): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = null;
    client.end().catch(() => {});
    this.#retry = this.#deps.clock.after(this.#pauseMs, () => void this.start());
    this.#pauseMs = Math.min(this.#pauseMs * 2, longestPauseMs);
  }
}
