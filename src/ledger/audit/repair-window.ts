import {
  formatScope,
  isOfSession,
  isPeriod,
  parseScope,
  type Period,
  type Scope,
  type Span,
} from "../../core/budget.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { Dialect } from "../queries/dialects.ts";
import { rowOf, sumOf, type Query } from "../queries/query.ts";
import { endOfTime, scopeCondition } from "../rows/budgets.ts";
import type { RepairedRow } from "./repair-row.ts";
import { spanAt } from "./window-check.ts";

interface WindowRow {
  readonly budget: bigint;
  readonly subject: string;
  readonly starts_at: bigint;
  readonly ends_at: bigint | null;
  readonly spent: bigint;
  readonly held: bigint;
  readonly scope: string | null;
  readonly period: string | null;
}

/**
 * Repairs a window's span and sums. Removes a window without a budget, and one that has the span of another. The daily
 * rollups must be right already: sums of whole days come from them, so that other transactions wait only milliseconds.
 */
export function* repairWindow(dialect: Dialect, calendar: Calendar, seq: number): Query<RepairedRow[]> {
  const row = yield* rowOf<WindowRow>({
    sql: `select budget, subject, starts_at, ends_at, spent, held, scope, period
      from windows left join budgets on budgets.seq = budget where windows.seq = ?`,
    values: [seq],
  });
  if (row === undefined) return yield* removedLeases(dialect, seq);
  if (row.scope === null || row.period === null) return yield* removed(dialect, seq, `window ${seq}`, "of no budget");
  const scope = parseScope(row.scope);
  if (scope === undefined || !isPeriod(row.period)) return [];
  const id = [`${formatScope(scope)}/${row.period}`, row.subject].filter((part) => part !== "").join(" ");
  const span = spanAt(calendar, row.period, Number(row.starts_at));
  if (span === null || (yield* isTaken(row, span, seq)))
    return yield* removed(dialect, seq, id, `from ${row.starts_at}`);

  const sums = yield* sumsOf(calendar, { scope, period: row.period, subject: row.subject, span });
  const from =
    textOf(Number(row.starts_at), row.ends_at === null ? null : Number(row.ends_at), row) +
    (yield* leasesOf(dialect, seq));
  for (const { sql, values } of dialect.setWindow(seq, { ...span, ...sums })) yield { sql, values };
  const to = textOf(span.start, span.end, sums) + (yield* leasesOf(dialect, seq));
  return from === to ? [] : [{ kind: "window", id, from, to }];
}

function* removed(dialect: Dialect, seq: number, id: string, from: string): Query<RepairedRow[]> {
  for (const { sql, values } of dialect.removeWindow(seq)) yield { sql, values };
  return [{ kind: "window", id, from, to: "no window" }];
}

/** Removes the leases of a missing window. */
function* removedLeases(dialect: Dialect, seq: number): Query<RepairedRow[]> {
  const leases = yield* leasesOf(dialect, seq);
  return leases === "" ? [] : yield* removed(dialect, seq, `window ${seq}`, `no window${leases}`);
}

function* isTaken({ budget, subject }: WindowRow, { start }: Span, seq: number): Query<boolean> {
  const sql = "select 1 from windows where budget = ? and subject = ? and starts_at = ? and seq <> ?";
  return (yield* rowOf<object>({ sql, values: [budget, subject, start, seq] })) !== undefined;
}

function* leasesOf(dialect: Dialect, seq: number): Query<string> {
  return (yield* rowOf<{ text: string }>(dialect.leases(seq)))?.text ?? "";
}

interface Wanted {
  readonly scope: Scope;
  readonly period: Period;
  readonly subject: string;
  readonly span: Span;
}

interface Sums {
  readonly spent: bigint;
  readonly held: bigint;
}

/** Sums a window. Takes whole days of a window longer than an hour from the rollups, which have no sessions. */
function* sumsOf(calendar: Calendar, { scope, period, subject, span }: Wanted): Query<Sums> {
  const { sql, values } = scopeCondition(scope, subject);
  const [since, until] = [span.start, span.end ?? endOfTime];
  const inSpan = `${sql} and admitted_at >= ? and admitted_at < ?`;
  const pending = yield* rowOf<{ sum: bigint }>({
    sql: `select ${sumOf("hold")} as sum from charges where state = 'pending' and ${inSpan}`,
    values: [...values, since, until],
  });
  const spent = yield* rowOf<{ sum: bigint }>(
    period === "1h" || isOfSession(scope)
      ? { sql: `select ${sumOf("cost")} as sum from charges where ${inSpan}`, values: [...values, since, until] }
      : {
          sql: `select ${sumOf("cost")} as sum from rollup_day where ${sql} and day >= ? and day < ?`,
          values: [...values, calendar.dateOf(span.start), span.end === null ? "9999" : calendar.dateOf(span.end)],
        },
  );
  return { spent: spent?.sum ?? 0n, held: pending?.sum ?? 0n };
}

function textOf(start: number, end: number | null, { spent, held }: Sums): string {
  return `from ${start} to ${end ?? "the end"}, spent ${spent}, held ${held}`;
}
