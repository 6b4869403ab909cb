import type { AuditEntry } from "../core/audit.ts";

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
