import type { AuditEntry } from "../core/audit.ts";
import type { AuditPage } from "../ports/audit-log.ts";
import { isoTime } from "../core/time.ts";
import type { AuditEntryJson } from "./shapes/health.ts";

export function auditEntryJson({ id, at, by, action, object, before, after }: AuditEntry): AuditEntryJson {
  return { id, time: isoTime(at), by, action, object, before, after };
}

/** Returns a page of audit entries, newest first, with the cursor of the next page. */
export function auditJson({ entries, next }: AuditPage) {
  return { entries: entries.map(auditEntryJson), next: next === null ? null : String(next) };
}

/** Returns the number of the entry that a cursor names; undefined for an invalid cursor. */
export function readAuditCursor(cursor: string): number | undefined {
  return /^[1-9]\d{0,14}$/.test(cursor) ? Number(cursor) : undefined;
}
