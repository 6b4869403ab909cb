import type { AuditAction, AuditEntry, Facts } from "../../core/audit.ts";
import type { AuditPage } from "../../ports/audit-log.ts";

/** A row of `audit_entries`; times and ids fit a number. */
export interface AuditRow {
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
  return {
    id,
    at: row.made_at,
    by: row.made_by,
    action,
    object,
    before: factsOf(row.facts_before),
    after: factsOf(row.facts_after),
  };
}

/** The page of so many entries, from one row more than it takes, if there is one. */
export function auditPage(rows: readonly AuditRow[], limit: number): AuditPage {
  const entries = rows.slice(0, limit).map(entryOf);
  return { entries, next: rows.length > limit ? (entries.at(-1)?.id ?? null) : null };
}

export function factsText(facts: Facts | null): string | null {
  return facts && JSON.stringify(facts);
}

function factsOf(text: string | null): Facts | null {
  return text === null ? null : JSON.parse(text);
}
