import { changesAnything, type NewAuditEntry } from "../../core/audit.ts";
import type { AuditPage, AuditQuery } from "../../ports/audit-log.ts";
import { auditPage, factsText, type AuditRow } from "../rows/audit.ts";
import type { Statements } from "./connection.ts";
import { withNumbers } from "./numbers.ts";

/** Writes down who changed what, in the transaction of the change; nothing where nothing is different. */
export async function recordAudit(db: Statements, entry: NewAuditEntry): Promise<void> {
  if (!changesAnything(entry)) return;
  const { at, by, action, object, before, after } = entry;
  await db.run(
    "insert into audit_entries (made_at, made_by, action, object, facts_before, facts_after) values ($1, $2, $3, $4, $5, $6)",
    [at, by, action, object, factsText(before), factsText(after)],
  );
}

/** One page of entries, newest first. */
export async function readAudit(db: Statements, { since, until, limit, after }: AuditQuery): Promise<AuditPage> {
  const rows = await db.rows<AuditRow>(
    "select * from audit_entries where id < $1 and made_at >= $2 and made_at < $3 order by id desc limit $4",
    [after ?? Number.MAX_SAFE_INTEGER, since ?? Number.MIN_SAFE_INTEGER, until ?? Number.MAX_SAFE_INTEGER, limit + 1],
  );
  return auditPage(rows.map(withNumbers), limit);
}
