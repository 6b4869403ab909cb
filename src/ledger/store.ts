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

/** All that is kept in one database. */
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
  /** The proxies that share the ledger; null for a ledger of one proxy, and for a command. */
  readonly fleet: Fleet | null;
  /** Null for a ledger that one proxy has alone. */
  readonly proxies: ProxyRuns | null;
  /** The zone of windows and days, as it is stored. */
  readonly timeZone: string;
  /** Whether this call created the database. */
  readonly created: boolean;
}

/** One whose writes go through a queue. */
export interface QueuedStore extends Store {
  /** The queue, for commands of a proxy's workers: they share transactions with the others. */
  readonly commands: CommandSink;
}

/**
 * The same ledger, for figures that are queried often, as by each scrape of the metrics: where a proxy runs, a thread of
 * their own answers these, so that they never wait for somebody's report or verification.
 */
export interface FigureQueries {
  readonly ledger: LedgerQueries;
  readonly samples: Pick<AccountSamples, "list" | "latest">;
}

export type OpenFailure =
  /** Another `serve` runs on the file. */
  | { kind: "in_use" }
  /** A later release wrote it. */
  | { kind: "newer_schema"; found: number; known: number }
  | { kind: "missing" }
  | { kind: "unusable"; message: string };

export type OpenResult = { ok: true; store: QueuedStore } | { ok: false; failure: OpenFailure };

/** How a store is opened, whatever its engine. */
export interface StoreOptions {
  /** For `serve`, the zone to use from now on; otherwise only for a database that has none stored. */
  readonly calendar: Calendar;
  readonly clock: Clock;
  /**
   * `serve`: a running proxy; of a file, which has one writer, a second one is refused. `command`: short transactions beside
   * it; creates the ledger where it is missing. `read`: never writes and never creates.
   */
  readonly access: "serve" | "command" | "read";
  /** False keeps the writer and the reads of a served file on this thread, for tests that start many proxies. */
  readonly threads?: boolean;
  /** Told of each transaction: how long it took, in seconds, and how many calls it took along. */
  readonly onWrite?: (seconds: number, calls: number) => void;
  /** Told when writing begins to fail, and when it works again. */
  readonly onEvent?: (event: StoreEvent) => void;
  /** How long a settlement may wait for a hold to share its transaction, in milliseconds; 0 (not at all) unless given. */
  readonly settlePauseMs?: number;
  /** How long a request may live: a proxy that several share the ledger with, and that was silent for longer, is dead. Milliseconds. */
  readonly requestLifeMs?: number;
  /** Version of the program, shown in the list of proxies. */
  readonly version?: string;
  /** Calls back when the present turn of the event loop is over; handed in where a simulation owns what a turn is. */
  readonly afterTurn?: (callback: () => void) => void;
}
