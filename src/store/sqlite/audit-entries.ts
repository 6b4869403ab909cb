import { changesAnything, type NewAuditEntry } from "../../core/audit.ts";
import type { AuditPage, AuditQuery } from "../../ports/audit-log.ts";
import { auditPage, factsText, type AuditRow } from "../rows/audit.ts";
import type { Connection } from "./connection.ts";

/** Writes down who changed what, in the transaction of the change; nothing where nothing is different. */
export function recordAudit(db: Connection, entry: NewAuditEntry): void {
  if (!changesAnything(entry)) return;
  const { at, by, action, object, before, after } = entry;
  db.prepare(
    "insert into audit_entries (made_at, made_by, action, object, facts_before, facts_after) values (?, ?, ?, ?, ?, ?)",
  ).run(at, by, action, object, factsText(before), factsText(after));
}

/** One page of entries, newest first. */
export function readAudit(db: Connection, { since, until, limit, after }: AuditQuery): AuditPage {
  const rows = db
    .prepare(
      `select * from audit_entries where id < :before and made_at >= :since and made_at < :until order by id desc limit :rows`,
    )
    .all({
      before: after ?? Number.MAX_SAFE_INTEGER, since: since ?? Number.MIN_SAFE_INTEGER, until: until ?? Number.MAX_SAFE_INTEGER, rows: limit + 1,
    }) as AuditRow[];
  return auditPage(rows, limit);
}
