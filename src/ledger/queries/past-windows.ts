import { noMoney, type PicoUsd } from "../../core/money.ts";
import type { Period, Span } from "../../core/budget.ts";
import { hasSubjects, isRolledUp, type Scope } from "../../core/scope.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { PastWindow } from "../../ports/lists.ts";
import { subjectAndCondition } from "./scope-condition.ts";
import type { Dialect } from "./dialects.ts";
import { readFirstDay } from "./report.ts";
import { daysBetween } from "./window-sums.ts";
import { rowsOf, sumSql, type Query, type Statement } from "./query.ts";
import { quarterHourMs } from "../../core/time.ts";

interface SumRow {
  readonly time: string | bigint;
  readonly spent: PicoUsd;
  readonly requests: bigint;
}

/**
 * Implements `ListQueries.pastWindows`. Reads the charges for a scope on users, tags or labels, and the rollups for any
 * other scope.
 */
export function* readPastWindows(
  dialect: Dialect,
  calendar: Calendar,
  scope: Scope,
  {
    period,
    subject,
    at,
    limit,
  }: { readonly period: Period; readonly subject?: string | undefined; readonly at: number; readonly limit: number },
): Query<readonly PastWindow[]> {
  const spans = lastSpans(calendar, period, at, limit);
  const firstDay = (yield* readFirstDay(calendar)) ?? calendar.spanOf("1d", at).start;
  const since = Math.max(spans.at(-1)?.start ?? at, firstDay);
  const rows = yield* rowsOf<SumRow>(sumsOf(dialect, calendar, { scope, subject, period, since, at }));
  const sums = new Map<number, { spent: bigint; requests: number }>();
  for (const { time, spent, requests } of rows) {
    const start = calendar.spanOf(period, typeof time === "string" ? calendar.startOfDate(time) : Number(time)).start;
    const sum = sums.get(start) ?? { spent: 0n, requests: 0 };
    sums.set(start, { spent: sum.spent + spent, requests: sum.requests + Number(requests) });
  }
  return spans.map((span) => {
    const { spent = noMoney, requests = 0 } = sums.get(span.start) ?? {};
    return { ...span, spent: spent as PicoUsd, requests };
  });
}

/** Returns the spans of the latest windows of a period, newest first, at most `limit`. */
function lastSpans(calendar: Calendar, period: Period, at: number, limit: number): Span[] {
  const spans: Span[] = [];
  for (let span = calendar.spanOf(period, at); ; span = calendar.spanOf(period, span.start - 1)) {
    spans.push(span);
    if (period === "total" || spans.length >= limit) return spans;
  }
}

function sumsOf(
  dialect: Dialect,
  calendar: Calendar,
  {
    scope,
    subject,
    period,
    since,
    at,
  }: {
    readonly scope: Scope;
    readonly subject: string | undefined;
    readonly period: Period;
    readonly since: number;
    readonly at: number;
  },
): Statement {
  // Null sums the charges of all subjects.
  const summed = subject ?? (hasSubjects(scope) ? null : "");
  const { counted } = subjectAndCondition(dialect, scope, summed, isRolledUp(scope) ? "rollup" : "charges");
  const sums = `${sumSql("cost")} as spent, ${sumSql("requests")} as requests`;
  if (!isRolledUp(scope))
    return {
      sql: `select admitted_at - admitted_at % ${quarterHourMs} as time, ${sumSql("cost")} as spent, count(*) as requests
        from charges where state = 'posted' and ${counted.sql} and admitted_at >= ? group by 1`,
      values: [...counted.values, since],
    };
  if (period === "1h")
    return {
      sql: `select starts_at as time, ${sums} from rollup_quarter where ${counted.sql} and starts_at >= ? and starts_at <= ? group by starts_at`,
      values: [...counted.values, since, at],
    };
  return {
    sql: `select day as time, ${sums} from rollup_day where ${counted.sql} and ${dialect.isIn("day")} group by day`,
    values: [...counted.values, JSON.stringify(daysBetween(calendar, since, at))],
  };
}
