import { changesAnything, type NewAuditEntry } from "../../core/audit.ts";
import { factsText } from "../rows/audit.ts";
import type { Statements } from "./connection.ts";

/** Writes down who changed what, in the transaction of the change; nothing where nothing is different. */
export async function recordAudit(db: Statements, entry: NewAuditEntry): Promise<void> {
  if (!changesAnything(entry)) return;
  const { at, by, action, object, before, after } = entry;
  await db.run(
    "insert into audit_entries (made_at, made_by, action, object, facts_before, facts_after) values ($1, $2, $3, $4, $5, $6)",
    [at, by, action, object, factsText(before), factsText(after)],
  );
}
