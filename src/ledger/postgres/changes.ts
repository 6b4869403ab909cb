import type { Client } from "pg";
import type { Clock, Timer } from "../../ports/clock.ts";
import type { Statements } from "./connection.ts";

/** Channel of the whole database: notices name their schema and sender. */
const channel = "farebox_changes";
const firstPauseMs = 250;
const longestPauseMs = 5_000;

/** Notifies all processes, once the transaction is committed, that keys, teams, budgets or settings changed. */
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

export interface ChangeWatchDeps {
  /** Creates an unconnected client. */
  readonly newClient: () => Client;
  readonly clock: Clock;
  /** Part of the name of every connection that this process writes with, so that it skips its own changes. */
  readonly ownName: string;
  /** Counter when the ledger was opened. */
  readonly seen: bigint;
  readonly onChange: () => void;
}

/**
 * Receives notices of changes by other processes on a separate connection, which is reopened whenever it breaks.
 * Callers that read the counter pass it to `saw`, which makes up for a lost notice.
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

  /** Resolves once it listens, or once the first attempt failed. */
  async start(): Promise<void> {
    const client = this.#deps.newClient();
    this.#client = client;
    const lost = () => this.#lost(client);
    client.on("error", lost);
    client.on("end", lost);
    try {
      await client.connect();
      const { rows } = await client.query<{ schema: string }>("select current_schema() as schema");
      client.on("notification", ({ payload }) => this.#heard(payload ?? "", rows[0]?.schema ?? ""));
      await client.query(`listen ${channel}`);
      const counted = await client.query<{ changes: bigint }>("select changes from meta");
      this.#pauseMs = firstPauseMs;
      this.saw(counted.rows[0]?.changes ?? 0n);
    } catch {
      lost();
    }
  }

  /** Compares a counter that was read elsewhere. */
  saw(changes: bigint): void {
    if (this.#closed || changes <= this.#seen) return;
    this.#seen = changes;
    this.#deps.onChange();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#retry?.cancel();
    await this.#client?.end().catch(() => {});
  }

  #heard(payload: string, schema: string): void {
    const [sentIn, changes, by] = JSON.parse(payload) as [schema: string, changes: number, by: string];
    if (sentIn !== schema) return;
    if (by.includes(this.#deps.ownName) && BigInt(changes) === this.#seen + 1n) this.#seen++;
    else this.saw(BigInt(changes));
  }

  #lost(client: Client): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = null;
    client.end().catch(() => {});
    this.#retry = this.#deps.clock.after(this.#pauseMs, () => void this.start());
    this.#pauseMs = Math.min(this.#pauseMs * 2, longestPauseMs);
  }
}
