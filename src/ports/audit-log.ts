import type { AuditEntry } from "../core/audit.ts";

/** The audit's entries. Only the store's own changes add to them, each in its transaction. */
export interface AuditLog {
  /** Newest first. */
  entries(query: AuditQuery): Promise<AuditPage>;
}

export interface AuditQuery {
  /** Half-open, by when the change was made: from `since` to before `until`. Milliseconds since 1970 UTC. */
  readonly since?: number;
  readonly until?: number;
  /** 1 to 1000. */
  readonly limit: number;
  /** The id of the last entry of the page before. */
  readonly after?: number;
}

export interface AuditPage {
  readonly entries: readonly AuditEntry[];
  /** The `after` of the next page; null where this one is the last. */
  readonly next: number | null;
}
