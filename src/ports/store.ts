import type { AccountSamples } from "./account-samples.ts";
import type { AdminStore } from "./admin-store.ts";
import type { AuditLog } from "./audit-log.ts";
import type { Changes } from "./changes.ts";
import type { DashboardSessions } from "./dashboard-sessions.ts";
import type { Fleet } from "./fleet.ts";
import type { KeyStore } from "./key-store.ts";
import type { Ledger, LedgerQueries } from "./ledger.ts";
import type { ListQueries } from "./lists.ts";
import type { Outbox } from "./outbox.ts";
import type { ProxyRuns } from "./proxies.ts";
import type { RaiseRequests } from "./raise-requests.ts";
import type { Refusals } from "./refusals.ts";
import type { RunSessions } from "./run-sessions.ts";
import type { TaskStore } from "./task-store.ts";
import type { TaskCallbacks } from "./task-callbacks.ts";
import type { TeamStore } from "./team-store.ts";

/** Everything stored in one database. */
export interface Store extends AsyncDisposable {
  readonly ledger: Ledger;
  readonly figures: FigureQueries;
  readonly lists: ListQueries;
  readonly keys: KeyStore;
  readonly teams: TeamStore;
  readonly samples: AccountSamples;
  readonly admins: AdminStore;
  readonly audit: AuditLog;
  readonly outbox: Outbox;
  readonly tasks: TaskStore;
  readonly callbacks: TaskCallbacks;
  readonly sessions: RunSessions;
  readonly dashboardSessions: DashboardSessions;
  readonly refusals: Refusals;
  readonly raiseRequests: RaiseRequests;
  readonly changes: Changes;
  /** Proxies that share the ledger; null for a command and for an SQLite file. */
  readonly fleet: Fleet | null;
  /** Runs of proxies on the ledger; null for an SQLite file. */
  readonly proxies: ProxyRuns | null;
  /** Stored time zone of windows and days. */
  readonly timeZone: string;
  /** True if this call created the database. */
  readonly created: boolean;
}

/**
 * Queries for figures that are read often, such as at each scrape of the metrics. A running proxy answers them on a
 * separate thread, so they never wait for a report or a verification.
 */
export interface FigureQueries {
  readonly ledger: LedgerQueries;
  readonly samples: Pick<AccountSamples, "list" | "latest">;
  readonly refusals: Pick<Refusals, "list" | "count" | "causes">;
}
