import type { AccountSamples } from "../ports/account-samples.ts";
import type { AdminStore } from "../ports/admin-store.ts";
import type { AuditLog } from "../ports/audit-log.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Changes } from "../ports/changes.ts";
import type { Fleet } from "../ports/fleet.ts";
import type { Clock } from "../ports/clock.ts";
import type { KeyStore } from "../ports/key-store.ts";
import type { Ledger, LedgerQueries } from "../ports/ledger.ts";
import type { Outbox } from "../ports/outbox.ts";
import type { ProxyRuns } from "../ports/proxies.ts";
import type { RunSessions } from "../ports/run-sessions.ts";
import type { TaskStore } from "../ports/task-store.ts";
import type { TaskCallbacks } from "../ports/task-callbacks.ts";
import type { TeamStore } from "../ports/team-store.ts";
import type { StoreEvent } from "./health.ts";
import type { CommandSink } from "./queue.ts";

/** Everything stored in one database. */
export interface Store extends AsyncDisposable {
  readonly ledger: Ledger;
  readonly figures: FigureQueries;
  readonly keys: KeyStore;
  readonly teams: TeamStore;
  readonly samples: AccountSamples;
  readonly admins: AdminStore;
  readonly audit: AuditLog;
  readonly outbox: Outbox;
  readonly tasks: TaskStore;
  readonly callbacks: TaskCallbacks;
  readonly sessions: RunSessions;
  readonly changes: Changes;
  /** Proxies that share the ledger; null for a ledger of one proxy, and for a command. */
  readonly fleet: Fleet | null;
  /** Null for a ledger of one proxy. */
  readonly proxies: ProxyRuns | null;
  /** Stored time zone of windows and days. */
  readonly timeZone: string;
  /** True if this call created the database. */
  readonly created: boolean;
}

/** Store whose writes go through a queue. */
export interface QueuedStore extends Store {
  /** Queue for commands of a proxy's workers, which share transactions. */
  readonly commands: CommandSink;
}

/**
 * Ledger queries for figures that are read often, as by each scrape of the metrics. A running proxy answers them on a
 * separate thread, so that they never wait for a report or a verification.
 */
export interface FigureQueries {
  readonly ledger: LedgerQueries;
  readonly samples: Pick<AccountSamples, "list" | "latest">;
}

export type OpenFailure =
  /** Another `serve` runs on the file. */
  | { kind: "in_use" }
  /** Written by a later release. */
  | { kind: "newer_schema"; found: number; known: number }
  | { kind: "missing" }
  | { kind: "unusable"; message: string };

export type OpenResult = { ok: true; store: QueuedStore } | { ok: false; failure: OpenFailure };

/** Options of every engine. */
export interface StoreOptions {
  /** Time zone to use from now on for `serve`; otherwise only for a database that stores none yet. */
  readonly calendar: Calendar;
  readonly clock: Clock;
  /**
   * `serve`: a running proxy; a file allows only one. `command`: short transactions next to it; creates a missing
   * ledger. `read`: never writes and never creates.
   */
  readonly access: "serve" | "command" | "read";
  /** False keeps the writer and the queries of a served file on this thread, for tests that start many proxies. */
  readonly threads?: boolean;
  /** Called after each transaction with its duration in seconds and its number of calls. */
  readonly onWrite?: (seconds: number, calls: number) => void;
  /** Called when writes begin to fail and when they work again. */
  readonly onEvent?: (event: StoreEvent) => void;
  /** Longest time that a settlement waits to share a hold's transaction, in milliseconds; 0 unless given. */
  readonly settlePauseMs?: number;
  /** Longest life of a request, in milliseconds. A proxy of a shared ledger that is silent for longer is dead. */
  readonly requestLifeMs?: number;
  /** Version of the program, shown in the list of proxies. */
  readonly version?: string;
  /** Calls back at the end of the current turn of the event loop. Simulations pass their own. */
  readonly afterTurn?: (callback: () => void) => void;
}
