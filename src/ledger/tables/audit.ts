import {
  changesAnything,
  type AuditAction,
  type AuditEntry,
  type AuditDetails,
  type NewAuditEntry,
} from "../../core/audit.ts";
import type { AuditPage, AuditQuery } from "../../ports/audit-log.ts";
import type { Query } from "../queries/query.ts";
import { all, insert } from "./table.ts";

interface AuditRow {
  readonly id: number;
  readonly made_at: number;
  readonly made_by: string;
  readonly action: AuditAction;
  readonly object: string;
  readonly facts_before: string | null;
  readonly facts_after: string | null;
}

function entryOf({ id, made_at, made_by, action, object, facts_before, facts_after }: AuditRow): AuditEntry {
  return {
    id,
    at: made_at,
    by: made_by,
    action,
    object,
    before: detailsOf(facts_before),
    after: detailsOf(facts_after),
  };
}

/** Adds an entry in the transaction of its change. Adds nothing if nothing differs. */
export function* recordAudit(entry: NewAuditEntry): Query<void> {
  if (!changesAnything(entry)) return;
  const { at, by, action, object, before, after } = entry;
  yield* insert("audit_entries", {
    made_at: at,
    made_by: by,
    action,
    object,
    facts_before: textOf(before),
    facts_after: textOf(after),
  });
}

/** Returns a page of entries, newest first. */
export function* readAudit({ since, until, limit, after }: AuditQuery): Query<AuditPage> {
  const rows = yield* all<AuditRow>(
    "select id, made_at, made_by, action, object, facts_before, facts_after from audit_entries where id < ? and made_at >= ? and made_at < ? order by id desc limit ?",
    after ?? Number.MAX_SAFE_INTEGER,
    since ?? Number.MIN_SAFE_INTEGER,
    until ?? Number.MAX_SAFE_INTEGER,
    limit + 1,
  );
  const entries = rows.slice(0, limit).map(entryOf);
  return { entries, next: rows.length > limit ? (entries.at(-1)?.id ?? null) : null };
}

function textOf(facts: AuditDetails | null): string | null {
  return facts && JSON.stringify(facts);
}

function detailsOf(text: string | null): AuditDetails | null {
  return text === null ? null : JSON.parse(text);
}
