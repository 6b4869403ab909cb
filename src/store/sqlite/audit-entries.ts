import { changesAnything, type NewAuditEntry } from "../../core/audit.ts";
import { factsText } from "../rows/audit.ts";
import type { Connection } from "./connection.ts";

/** Writes down who changed what, in the transaction of the change; nothing where nothing is different. */
export function recordAudit(db: Connection, entry: NewAuditEntry): void {
  if (!changesAnything(entry)) return;
  const { at, by, action, object, before, after } = entry;
  db.prepare(
    "insert into audit_entries (made_at, made_by, action, object, facts_before, facts_after) values (?, ?, ?, ?, ?, ?)",
  ).run(at, by, action, object, factsText(before), factsText(after));
}
