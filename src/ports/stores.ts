import type { AccountSample } from "../core/account.ts";
import type { RequestedRaise } from "../core/alerts.ts";
import type { AuditEntry } from "../core/audit.ts";
import type { Admin, Key, KeyChange, KeyState, RunSession, Team, TeamChange } from "../core/keys.ts";
import type { PicoUsd } from "../core/money.ts";
import type { Settlement } from "../core/settlement.ts";
import type { TaskInputs } from "../core/task-settlement.ts";
import type { FinalStatus, Task, TaskFailure, TaskStatus } from "../core/tasks.ts";
import type { Changes } from "./changes.ts";
import type { Fleet } from "./fleet.ts";
import type { ChargeEnd, Ledger, LedgerQueries, SettleResult } from "./ledger.ts";
import type { ListQueries } from "./lists.ts";
import type { Outbox } from "./outbox.ts";
import type { Refusals } from "./refusals.ts";
import { hourMs } from "../core/time.ts";

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
interface FigureQueries {
  readonly ledger: LedgerQueries;
  readonly samples: Pick<AccountSamples, "list" | "latest">;
  readonly refusals: Pick<Refusals, "list" | "count" | "causes">;
}

type KeyCreation = { readonly ok: true } | { readonly ok: false; readonly reason: "name_taken" };

/** A key before and after a change. */
interface ChangedKey {
  readonly before: Key;
  readonly after: Key;
}

/** Query for one page of the keys, in the order of creation. */
export interface KeyPageQuery {
  /** 1 to 1000. */
  readonly limit: number;
  /** Id of the last key on the previous page. */
  readonly after?: string;
  /** Only keys in this state at the instant `at`. */
  readonly state?: KeyState;
  readonly at: number;
}

export interface KeyPage {
  readonly keys: readonly Key[];
  /** Id after which the next page starts; null on the last page. */
  readonly next: string | null;
}

/** Keys. If a key names a team that does not exist, the same transaction creates the team without limits. */
export interface KeyStore {
  /** `by`, here and below: author for the audit log; `farebox` by default. */
  create(key: Key, by?: string): Promise<KeyCreation>;
  findById(id: string): Promise<Key | undefined>;
  /** Finds a key by name or id. */
  find(nameOrId: string): Promise<Key | undefined>;
  /** Returns the names of keys by their ids. Omits unknown ids. */
  names(ids: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Returns all keys in the order of creation. */
  list(): Promise<readonly Key[]>;
  /** Returns a page of keys. The page after an unknown id is empty. */
  page(query: KeyPageQuery): Promise<KeyPage>;
  /** Atomically reads the key and changes the fields in `change`. Returns undefined for an unknown key. */
  update(id: string, change: KeyChange, at: number, by?: string): Promise<ChangedKey | undefined>;
  /** Revokes a key at the instant, unless it is already revoked. Returns false if the key does not exist. */
  revoke(id: string, at: number, by?: string): Promise<boolean>;
}

export type TeamCreation = { readonly ok: true } | { readonly ok: false; readonly reason: "name_taken" };

interface ChangedTeam {
  readonly before: Team;
  readonly after: Team;
}

type TeamRemoval =
  | { readonly ok: true; readonly before: Team }
  | { readonly ok: false; readonly reason: "no_such_team" }
  /** `keys`: names of live keys in the team. `budgets`: scopes of the team's budgets. */
  | {
      readonly ok: false;
      readonly reason: "in_use";
      readonly keys: readonly string[];
      readonly budgets: readonly string[];
    };

/** Teams. `KeyStore` also creates a team if a key names one that does not exist. */
export interface TeamStore {
  /** `by`, in all methods: author of the change in the audit log; `farebox` by default. */
  create(team: Team, by?: string): Promise<TeamCreation>;
  find(name: string): Promise<Team | undefined>;
  /** Returns all teams in the order of creation. */
  list(): Promise<readonly Team[]>;
  /** Atomically reads the team and changes the fields in `change`. Returns undefined for an unknown team. */
  update(name: string, change: TeamChange, at: number, by?: string): Promise<ChangedTeam | undefined>;
  /** Atomically removes the team, unless a budget names it or a live key belongs to it. */
  remove(name: string, at: number, by?: string): Promise<TeamRemoval>;
}

type AdminCreation = { readonly ok: true } | { readonly ok: false; readonly reason: "name_taken" };

type AdminRevocation = "revoked" | "unknown" | "last_editor";

/** Tokens of the admin API. `by`: author of the change, for the audit log. */
export interface AdminStore {
  create(admin: Admin, by: string): Promise<AdminCreation>;
  findById(id: string): Promise<Admin | undefined>;
  /** Returns the admin with an id or name; undefined if there is none. */
  find(nameOrId: string): Promise<Admin | undefined>;
  /** Returns all admins in the order of creation. */
  list(): Promise<readonly Admin[]>;
  /**
   * Revokes an admin at the instant, unless the admin is already revoked. `keepsEditor`: true to refuse the only editor
   * with a valid token, and the only editor with a token that does not expire.
   */
  revoke(id: string, at: number, by: string, keepsEditor: boolean): Promise<AdminRevocation>;
}

/** Entries of the audit log. A store adds the entry of a change in the transaction of the change. */
export interface AuditLog {
  /** Returns entries, newest first. */
  entries(query: AuditQuery): Promise<AuditPage>;
}

export interface AuditQuery {
  /** Time of the change: from `since` to before `until`. Milliseconds since 1970 UTC. */
  readonly since?: number;
  readonly until?: number;
  /** Only changes of this object, such as `key:alice`. */
  readonly object?: string | undefined;
  /** Only changes of this key or team, such as `key:alice`, and of budgets whose scope names it. */
  readonly about?: string | undefined;
  /** Text that the object, the author or the action must contain. Letter case does not matter. */
  readonly search?: string | undefined;
  /** 1 to 1000. */
  readonly limit: number;
  /** Id of the last entry on the previous page. */
  readonly after?: number;
}

export interface AuditPage {
  readonly entries: readonly AuditEntry[];
  /** Value of `after` for the next page; null on the last page. */
  readonly next: number | null;
}

/** `invalid_key`: the key is not live, or the session's secret no longer opens it. */
type RunSessionCreation = "ok" | "invalid_key" | "too_many";

/** Session to create. Its secret is null if it begins without the key's text: the key's current secret then counts. */
export type NewRunSession = Omit<RunSession, "secret"> & { readonly secret: string | null };

/** Sessions of `farebox run` in the ledger. */
export interface RunSessions {
  /**
   * Returns the secret of the ledger, as 64 hexadecimal digits. It is the key for signatures of session credentials and
   * for hashes of user names.
   */
  secret(): Promise<string>;
  find(id: string): Promise<RunSession | undefined>;
  /**
   * Creates a session with its budget, if its secret opens its key, and the key is live and may have another session.
   * `by`: author for the audit log if a person with access to the ledger creates the session; null if its key does.
   */
  create(session: NewRunSession, by: string | null): Promise<RunSessionCreation>;
  /** Ends a session once and returns it; undefined if it does not exist. */
  end(id: string, at: number): Promise<RunSession | undefined>;
  /**
   * Removes the budgets of ended sessions, and later the sessions. Returns the number of sessions that lost their
   * budget or were removed.
   */
  tidy(at: number): Promise<number>;
}

/** Session of a browser that is signed in to the dashboard. Times are in milliseconds since 1970 UTC. */
export interface DashboardSession {
  /** SHA-256 of the session's token, hexadecimal. */
  readonly digest: string;
  readonly kind: "admin" | "key";
  /** Id of the admin or the key; "" for `FAREBOX_ADMIN_TOKEN`. */
  readonly holder: string;
  /** SHA-256 of the token or key that began the session, hexadecimal. */
  readonly secret: string;
  readonly createdAt: number;
  readonly expiresAt: number;
}

/** Largest number of sessions that one token or key has. A further session ends the oldest one. */
export const sessionsOfSecretMax = 20;
/** Largest number of sessions in total. A further session ends the oldest one. */
export const dashboardSessionsMax = 10_000;

/** Sessions of the dashboard. The ledger stores them, so each proxy accepts them, even after a restart. */
export interface DashboardSessions {
  find(digest: string): Promise<DashboardSession | undefined>;
  /**
   * Stores a session. Ends the session with the digest `replaced`, and the oldest sessions above the two maximums.
   * Removes expired sessions. Returns "unavailable" if the ledger cannot be written.
   */
  create(session: DashboardSession, replaced: string | null): Promise<"stored" | "unavailable">;
  /** Ends a session. Returns false if it does not exist. */
  end(digest: string): Promise<boolean>;
}

/** Request of a key for a raise of a window that refuses the key. Times are in milliseconds since 1970 UTC. */
export interface NewRaiseRequest extends RequestedRaise {
  readonly at: number;
}

export interface RaiseRequest extends NewRaiseRequest {
  readonly state: "open" | "approved" | "denied";
  readonly decidedAt: number | null;
  readonly decidedBy: string | null;
  /** Amount and end of the approved raise. */
  readonly granted: PicoUsd | null;
  readonly until: number | null;
}

/** Returns the state of a request. An open request lapses at the end of its window. */
export function raiseRequestState({ state, lapsesAt }: RaiseRequest, at: number): RaiseRequest["state"] | "lapsed" {
  return state === "open" && lapsesAt !== null && lapsesAt <= at ? "lapsed" : state;
}

/** Shortest time between two requests of a key for raises of one budget, in milliseconds. */
export const raiseRequestPauseMs = hourMs;

type RaiseRequested =
  | { readonly ok: true }
  /**
   * `open`: the key has an open request for the budget. `too_soon`: the key's last request for the budget is less than
   * an hour old.
   */
  | { readonly ok: false; readonly reason: "open" | "too_soon" | "no_such_budget" };

export type RaiseDecided =
  | { readonly ok: true; readonly request: RaiseRequest }
  /** `lapsed`: the window has ended. */
  | { readonly ok: false; readonly reason: "no_such_request" | "decided" | "lapsed" | "too_large" };

/** Requests of keys for raises. */
export interface RaiseRequests {
  /** Returns requests, newest first. `isOpen`: only open ones whose window has not ended at the instant. */
  list(query: {
    readonly key?: string | undefined;
    readonly isOpen?: boolean | undefined;
    readonly at: number;
    readonly limit: number;
  }): Promise<readonly RaiseRequest[]>;
  find(id: string): Promise<RaiseRequest | undefined>;
  create(request: NewRaiseRequest): Promise<RaiseRequested>;
  /** Approves an open request with an amount, and raises the window. */
  approve(
    id: string,
    raise: { readonly amount: PicoUsd; readonly from: number; readonly until: number | null },
    at: number,
    by: string,
  ): Promise<RaiseDecided>;
  deny(id: string, at: number, by: string): Promise<RaiseDecided>;
}

/** Samples of the gateway's account, stored next to the charges. They contain only figures, never secrets. */
export interface AccountSamples {
  /** Adds a sample, unless one with the same `askedAt` exists. Returns false if it could not be written. */
  add(sample: AccountSample): Promise<boolean>;
  /** Returns the samples whose `askedAt` is in the half-open span, oldest first. */
  list(since: number, until: number): Promise<readonly AccountSample[]>;
  /** Returns the newest sample; undefined if there are no samples. */
  latest(): Promise<AccountSample | undefined>;
  /** Removes samples by their `askedAt`. */
  remove(askedAts: readonly number[]): Promise<void>;
}

/**
 * Tasks and the charges that pay for them, written in the ledger's transactions. The store retries `bind` and `end`
 * until they are written. A result with `ok: true` is durable.
 */
export interface TaskStore {
  /** Binds a task to the pending charge that pays for it. Idempotent by the charge. */
  bind(task: NewTask): Promise<BindResult>;
  find(taskId: string): Promise<Task | undefined>;
  /** Returns the task that a charge pays for; undefined while it is not bound. */
  ofCharge(charge: string): Promise<Task | undefined>;
  /** Stores what a running task's record states. Ignores a settled task. Returns false if it could not be written. */
  observe(taskId: string, observation: TaskObservation): Promise<boolean>;
  /**
   * Posts or voids the task's charge and ends the task, in one transaction, even above the limits of budgets. A repeat
   * returns the first result and changes nothing.
   */
  end(task: Pick<Task, "taskId" | "charge">, ending: TaskEnding): Promise<SettleResult>;
  /** Returns tasks to poll, longest overdue first, and the time of the next poll. */
  due(query: DueQuery): Promise<DueTasks>;
  /** Returns the number of unsettled tasks. */
  running(): Promise<number>;
  /** Returns tasks that run at the gateway. Excludes completed tasks that are polled only for their consumption. */
  runningTasks(): Promise<readonly Pick<Task, "charge" | "model" | "taskType">[]>;
  /** Returns a page of tasks, newest first. */
  list(query: TaskQuery): Promise<TaskPage>;
}

/** A task to bind. It is not settled yet. */
export type NewTask = Pick<
  Task,
  "taskId" | "charge" | "key" | "model" | "taskType" | "status" | "createdAt" | "startedAt" | "deadlineAt" | "quantity"
> & { readonly nextPollAt: number };

export type BindResult =
  | { readonly ok: true }
  /** `taken`: another charge pays for this task. `no_such_charge`: no pending charge of a task has this id. */
  | { readonly ok: false; readonly reason: "taken" | "no_such_charge" | "unavailable" };

/** State of a running task, from its record. */
export interface TaskObservation {
  readonly status: TaskStatus;
  readonly startedAt: number | null;
  readonly seenAt: number;
  readonly nextPollAt: number;
  readonly deadlineAt: number;
}

export interface TaskEnding {
  readonly settlement: Settlement;
  readonly end: ChargeEnd;
  readonly status: FinalStatus;
  readonly startedAt: number | null;
  /** End time that the gateway states; null if it states none. */
  readonly endedAt: number | null;
  readonly failure: TaskFailure | null;
  readonly inputs: TaskInputs;
}

interface DueQuery {
  readonly now: number;
  readonly limit: number;
  /** Longest valid pause, in milliseconds. A poll that is due later was scheduled before the clock was set back. */
  readonly pauseMsMax: number;
  /** Tasks that are being polled. */
  readonly except: readonly string[];
}

interface DueTasks {
  readonly tasks: readonly Task[];
  /** Earliest time at which another task is due; null if there is none. */
  readonly nextPollAt: number | null;
}

interface TaskQuery {
  readonly key?: string;
  readonly running?: boolean;
  /** 1 to 1000. */
  readonly limit: number;
  /** Id of the last task on the previous page. */
  readonly after?: string;
}

interface TaskPage {
  readonly tasks: readonly Task[];
  readonly next: string | null;
}

/** Callback that Farebox requested from the gateway for a task. Its secrets are stored encrypted or as digests. */
export interface TaskCallback {
  /** Id of the task's charge. */
  readonly charge: string;
  /** SHA-256 of the callback's token, in hexadecimal. */
  readonly digest: string;
  /** Endpoints and secrets of Farebox and of the client, encrypted. */
  readonly sealed: string;
  /** Milliseconds since 1970 UTC. */
  readonly createdAt: number;
}

/** Callbacks of tasks. Retention removes a callback with its charge. */
export interface TaskCallbacks {
  /** Stores a callback durably. Returns false if it could not be written. */
  put(callback: TaskCallback): Promise<boolean>;
  byDigest(digest: string): Promise<TaskCallback | undefined>;
  byCharge(charge: string): Promise<TaskCallback | undefined>;
}

/**
 * `live`: sends heartbeats. `silent`: sends no heartbeats, but has not ended. `ended`: has ended and still has open
 * holds.
 */
export type ProxyState = "live" | "silent" | "ended";

/** One run of a proxy on a shared ledger. */
export interface ProxyRun {
  /** Unique number. A proxy that restarts, or continues after it was ended, gets a new run. */
  readonly run: number;
  /** Host and process. */
  readonly name: string;
  /** Null until it is known. */
  readonly version: string | null;
  readonly state: ProxyState;
  /** Milliseconds since 1970 UTC. */
  readonly startedAt: number;
  /** Time since the last heartbeat by the ledger's clock, in milliseconds. */
  readonly silentMs: number;
  /** Number of open holds of the run. Excludes holds of known tasks, which any proxy can poll. */
  readonly holds: number;
  readonly held: PicoUsd;
}

export type ProxyEnding =
  /** The ended runs, in their state before the end. Their holds are posted as `assumed`. */
  | { readonly ok: true; readonly ended: readonly ProxyRun[] }
  | { readonly ok: false; readonly reason: "unknown" }
  /** Every run with this name still sends heartbeats. */
  | { readonly ok: false; readonly reason: "live"; readonly silentMs: number };

/** The proxies of a shared ledger, for its administrator. */
export interface ProxyRuns {
  /** Returns the runs that have not ended or have open holds, oldest first. */
  list(): Promise<readonly ProxyRun[]>;
  /**
   * Ends runs, given by name or number, that send no heartbeats. Posts their open holds. If such a proxy settles a charge
   * later, the settlement becomes a correction.
   */
  end(nameOrRun: string, at: number, by: string): Promise<ProxyEnding>;
}

/**
 * Longest time between two heartbeats of a live proxy, in milliseconds. Proxies send two heartbeats a second. After
 * this time a proxy is `silent`, but it may still run.
 */
export const liveMs = 5_000;
