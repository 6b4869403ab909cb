import type { AuditEntry } from "../core/audit.ts";

/** Entries of the audit. Each change in the store adds its entry in its own transaction; nothing else adds any. */
export interface AuditLog {
  /** Returns entries, newest first. */
  entries(query: AuditQuery): Promise<AuditPage>;
}

export interface AuditQuery {
  /** Time of the change: from `since` to before `until`. Milliseconds since 1970 UTC. */
  readonly since?: number;
  readonly until?: number;
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
