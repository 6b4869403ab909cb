import { changesAnything, type AuditAction, type AuditEntry, type Facts, type NewAuditEntry } from "../../core/audit.ts";
import type { AuditPage, AuditQuery } from "../../ports/audit-log.ts";
import type { Connection } from "./connection.ts";

/** Writes down who changed what, in the transaction of the change; nothing where nothing is different. */
export function recordAudit(db: Connection, entry: NewAuditEntry): void {
  if (!changesAnything(entry)) return;
  const { at, by, action, object, before, after } = entry;
  db.prepare(
    "insert into audit_entries (made_at, made_by, action, object, facts_before, facts_after) values (?, ?, ?, ?, ?, ?)",
  ).run(at, by, action, object, textOf(before), textOf(after));
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
  const entries = rows.slice(0, limit).map(entryOf);
  return { entries, next: rows.length > limit ? (entries.at(-1)?.id ?? null) : null };
}

interface AuditRow {
  readonly id: number;
  readonly made_at: number;
  readonly made_by: string;
  readonly action: AuditAction;
  readonly object: string;
  readonly facts_before: string | null;
  readonly facts_after: string | null;
}

function entryOf(row: AuditRow): AuditEntry {
  const { id, action, object } = row;
  return { id, at: row.made_at, by: row.made_by, action, object, before: factsOf(row.facts_before), after: factsOf(row.facts_after) };
}

function textOf(facts: Facts | null): string | null {
  return facts && JSON.stringify(facts);
}

function factsOf(text: string | null): Facts | null {
  return text === null ? null : JSON.parse(text);
}
