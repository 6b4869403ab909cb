import type { Budget, Period, Span } from "../../core/budget.ts";
import {
  conditionsOf,
  formatScope,
  hasSubjects,
  isOfSession,
  isRolledUp,
  keyOfScope,
  type Scope,
} from "../../core/scope.ts";
import type { Calendar } from "../../ports/calendar.ts";
import { endOfTime, type SpentBefore } from "../rows/budgets.ts";
import { chargesBySubject, subjectAndCondition } from "./scope-condition.ts";
import type { Dialect } from "./dialects.ts";
import { rowOf, rowsOf, sumSql, type Query, type Statement } from "./query.ts";

/** Selects a budget's windows in one span: the window of `subject`, or all windows if `subject` is null. */
interface WindowTerms {
  readonly scope: Scope;
  readonly period: Period;
  readonly subject: string | null;
  readonly span: Span;
  /** Sums that were computed earlier; null for none. Ignored if they are for another span. */
  readonly before?: SpentBefore | null;
}

/**
 * Returns the amounts spent in the windows of a new budget. This query may read every charge, which takes seconds. It
 * therefore runs before the transaction that opens the windows. That transaction adds only the charges posted in
 * between. Returns null if the budget exists and all its windows are stored. Also returns null for a budget on one key
 * or session, because the transaction can sum those charges as fast. `upTo`: see `LongQueries`.
 */
export function* readSpentBefore(
  dialect: Dialect,
  calendar: Calendar,
  { scope, period }: Pick<Budget, "scope" | "period">,
  at: number,
  upTo?: number,
): Query<SpentBefore | null> {
  if (isOfSession(scope) || (isRolledUp(scope) && keyOfScope(scope) !== null)) return null;
  const span = calendar.spanOf(period, at);
  const known = yield* rowOf<object>({
    sql: "select 1 from budgets where scope = ? and period = ? and complete_from <= ?",
    values: [formatScope(scope), period, span.start],
  });
  if (known !== undefined) return null;
  const state = yield* rowOf<{ newest: bigint; version: bigint }>({
    sql: "select coalesce((select max(seq) from charges), 0) as newest, sums_version as version from meta",
    values: [],
  });
  const last = upTo ?? Number(state?.newest);
  const subject = hasSubjects(scope) ? null : "";
  const pending = yield* rowsOf<{ seq: bigint }>({
    sql: `select seq from ${dialect.pendingCharges} where state = 'pending' and admitted_at >= ? and admitted_at < ? and seq <= ?`,
    values: [span.start, span.end ?? endOfTime, last],
  });
  const parts = yield* partsOfWindows(dialect, calendar, { scope, period, subject, span });
  const later = chargesBySubject(dialect, scope, subject, span, { upTo: last, pending: "[]" });
  const sums = yield* rowsOf<{ subject: string; spent: bigint }>({
    sql: `select subject, ${sumSql("spent")} as spent from (
      select subject, spent from (${parts.sql}) parts union all select subject, -coalesce(cost, 0) from (${later.sql}) later
    ) parts group by subject`,
    values: [...parts.values, ...later.values],
  });
  return {
    span,
    spent: JSON.stringify(sums.map(({ subject: of, spent }) => [of, String(spent)])),
    upTo: last,
    pending: JSON.stringify(pending.map(({ seq }) => Number(seq))),
    sumsVersion: Number(state?.version),
  };
}

/**
 * SQL that increments the version of the sums. Every transaction that deletes charges, or changes rollups without a
 * charge, must run it.
 */
export const raiseSumsVersion = "update meta set sums_version = sums_version + 1";

export interface WindowSums {
  readonly spent: bigint;
  readonly held: bigint;
}

/** Computes a window's correct sums from rollups and charges. */
export function* readWindowSums(
  dialect: Dialect,
  calendar: Calendar,
  terms: WindowTerms & { readonly subject: string },
): Query<WindowSums> {
  const { sql, values } = yield* partsOfWindows(dialect, calendar, terms);
  const sums = yield* rowOf<WindowSums>({
    sql: `select ${sumSql("spent")} as spent, ${sumSql("held")} as held from (${sql}) parts`,
    values,
  });
  return sums ?? { spent: 0n, held: 0n };
}

/**
 * Returns a statement that selects `subject`, `spent` and `held`. Its rows add up to the sums of the windows. The
 * statement reads rollups and pending charges if the rollups can sum the scope and still have the span; otherwise it
 * reads all charges. If sums of the same span were computed earlier (`before`), it reads only the charges posted since
 * then, and the pending ones.
 */
export function* partsOfWindows(dialect: Dialect, calendar: Calendar, terms: WindowTerms): Query<Statement> {
  const { scope, subject, span } = terms;
  const before = terms.before?.span.start === span.start && terms.before.span.end === span.end ? terms.before : null;
  const pending = chargesBySubject(dialect, scope, subject, span, "pending");
  const holds = `union all select subject, 0, coalesce(hold, 0) from (${pending.sql}) charges`;
  if (before !== null) {
    const later = chargesBySubject(dialect, scope, subject, span, before);
    return {
      sql: `select value ->> 0 as subject, cast(value ->> 1 as bigint) as spent, 0 as held from ${dialect.eachOf}
        union all select subject, coalesce(cost, 0), 0 from (${later.sql}) charges ${holds}`,
      values: [before.spent, ...later.values, ...pending.values],
    };
  }
  const rows = isRolledUp(scope) ? yield* rollupRows(dialect, calendar, terms) : null;
  if (rows === null) {
    const charges = chargesBySubject(dialect, scope, subject, span);
    return {
      sql: `select subject, coalesce(cost, 0) as spent, case state when 'pending' then coalesce(hold, 0) else 0 end as held
        from (${charges.sql}) charges`,
      values: charges.values,
    };
  }
  const { named, counted } = subjectAndCondition(dialect, scope, subject, "rollup");
  return {
    sql: `select ${named.sql} as subject, cost as spent, 0 as held from ${rows.sql} and ${counted.sql} ${holds}`,
    values: [...named.values, ...rows.values, ...counted.values, ...pending.values],
  };
}

/** Returns the rollup table, with a condition, for the rows of a span; null if retention has removed the rows. */
function* rollupRows(
  dialect: Dialect,
  calendar: Calendar,
  { scope, period, subject, span: { start, end } }: WindowTerms,
): Query<Statement | null> {
  if (period === "1h") {
    const isKept = yield* rowOf<object>({ sql: "select 1 from meta where quarters_from <= ?", values: [start] });
    const sql = "rollup_quarter where starts_at >= ? and starts_at < ?";
    return isKept === undefined ? null : { sql, values: [start, end ?? endOfTime] };
  }
  const hasKey = conditionsOf(scope, subject ?? "").some(({ dimension, value }) => dimension === "key" && value !== "");
  const until = end === null ? "9999" : calendar.dateOf(end);
  if (!hasKey) return { sql: "rollup_day where day >= ? and day < ?", values: [calendar.dateOf(start), until] };
  const stored = yield* rowOf<{ first: string | null; last: string | null }>({
    // SQLite finds the least or the greatest day in the index, but not both at once.
    sql: "select (select min(day) from rollup_day where day >= ?) as first, (select max(day) from rollup_day where day < ?) as last",
    values: [calendar.dateOf(start), until],
  });
  const { first = null, last = null } = stored ?? {};
  const days =
    first === null || last === null
      ? []
      : daysBetween(calendar, calendar.startOfDate(first), calendar.startOfDate(last));
  return { sql: `rollup_day where ${dialect.isIn("day")}`, values: [JSON.stringify(days)] };
}

/**
 * Returns the dates from `since` to `last`, inclusive. With a list of dates, the database can look up each day of one
 * key.
 */
export function daysBetween(calendar: Calendar, since: number, last: number): string[] {
  const days: string[] = [];
  for (let at = since; at <= last; at = calendar.spanOf("1d", at).end ?? last + 1) days.push(calendar.dateOf(at));
  return days;
}
