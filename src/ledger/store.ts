import type { Calendar } from "../ports/calendar.ts";
import type { Clock } from "../ports/clock.ts";
import type { Store } from "../ports/stores.ts";
import type { StoreEvent, CommandSink } from "./queue.ts";

/** Store whose writes go through a queue. */
export interface QueuedStore extends Store {
  /** Queue for the commands of a proxy's workers. Commands of different workers share transactions. */
  readonly commands: CommandSink;
}

export type OpenFailure =
  /** A proxy is running on the file. */
  | { kind: "in_use" }
  /** A later release of Farebox wrote the ledger. */
  | { kind: "newer_schema"; found: number; known: number }
  /** There is no ledger: the file does not exist or is empty. */
  | { kind: "missing" }
  | { kind: "unusable"; message: string };

export type OpenResult = { ok: true; store: QueuedStore } | { ok: false; failure: OpenFailure };

/** Options of every engine. */
export interface StoreOptions {
  /** Calendar whose time zone `serve` stores in the ledger. `command` stores it only if the ledger has no time zone. */
  readonly calendar: Calendar;
  readonly clock: Clock;
  /**
   * `serve`: for a proxy; a file allows only one. `command`: for short transactions, even while a proxy runs; creates a
   * missing ledger. `read`: never writes and never creates a ledger.
   */
  readonly access: "serve" | "command" | "read";
  /** False to run the writer and the queries of a served file on this thread, for tests that start many proxies. */
  readonly threads?: boolean;
  /** Called after each batch with its duration in seconds and its number of commands. */
  readonly onWrite?: (seconds: number, commands: number) => void;
  /** Called when writes begin to fail, when they work again, and when the open ledger file is lost. */
  readonly onEvent?: (event: StoreEvent) => void;
  /** Longest time that a settlement waits to share a hold's transaction, in milliseconds; 0 unless given. */
  readonly settlePauseMs?: number;
  /** Longest duration of a request, in milliseconds. A proxy without a heartbeat for longer is considered dead. */
  readonly requestLifeMs?: number;
  /**
   * Largest number of new users, tag values and models per key and day for which windows are opened; 10,000 unless
   * given.
   */
  readonly subjectsMax?: number;
  /** Version of the program, shown in the list of proxies. */
  readonly version?: string;
  /** Calls `callback` at the end of the current turn of the event loop. Simulations pass another function. */
  readonly afterTurn?: (callback: () => void) => void;
}
