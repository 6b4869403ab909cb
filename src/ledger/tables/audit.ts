import { changesAnything, type AuditEntry, type AuditDetails, type NewAuditEntry } from "../../core/audit.ts";
import type { AuditPage, AuditQuery } from "../../ports/stores.ts";
import { Conditions, containing } from "../queries/page.ts";
import type { Query } from "../queries/query.ts";
import { all, insert } from "./table.ts";

type AuditRow = Omit<AuditEntry, "before" | "after"> & Readonly<Record<"before" | "after", string | null>>;

function entryOf({ before, after, ...row }: AuditRow): AuditEntry {
  return { ...row, before: detailsOf(before), after: detailsOf(after) };
}

/** Adds an entry in the transaction of its change. Adds nothing if `before` and `after` are equal. */
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
export function* readAudit({ since, until, object, about, search, limit, after }: AuditQuery): Query<AuditPage> {
  const matches = ["object", "made_by", "action"].map((column) => containing(column, search));
  const where = new Conditions()
    .add("id < ?", after)
    .add("made_at >= ?", since)
    .add("made_at < ?", until)
    .add("object = ?", object)
    .add(...aboutCondition(about))
    .add(`(${matches.map(({ sql }) => sql).join(" or ")})`, ...matches.flatMap(({ values }) => values));
  const rows = yield* all<AuditRow>(
    `select id, made_at as at, made_by as by, action, object, facts_before as before, facts_after as after from audit_entries
      where ${where.sql} order by id desc limit ?`,
    ...where.values,
    limit + 1,
  );
  const entries = rows.slice(0, limit).map(entryOf);
  return { entries, next: rows.length > limit ? (entries.at(-1)?.id ?? null) : null };
}

/** Returns the SQL condition for changes of a key or team, and for changes of budgets whose scope names it. */
function aboutCondition(about: string | undefined): readonly [sql: string, ...values: (string | undefined)[]] {
  if (about === undefined) return ["true"];
  const words = about.startsWith("team:") ? [about, about.replace("team:", "each-key:")] : [about];
  // A budget's name has its conditions, separated by spaces, then a slash and the period.
  const parts = words.flatMap((word) => [` ${word} `, ` ${word}/`]);
  const scope = "' ' || substr(object, 8)";
  const names = parts.map(() => `replace(${scope}, ?, '') <> ${scope}`).join(" or ");
  return [`(object = ? or (substr(object, 1, 7) = 'budget:' and (${names})))`, about, ...parts];
}

function textOf(details: AuditDetails | null): string | null {
  return details && JSON.stringify(details);
}

function detailsOf(text: string | null): AuditDetails | null {
  return text === null ? null : JSON.parse(text);
}
