import { formatScope, isPeriod, parseScope, type Period, type Scope, type Span } from "../../../core/budget.ts";
import type { Calendar } from "../../../ports/calendar.ts";
import { endOfTime } from "../../rows/budgets.ts";
import { scopeCondition, sumCharges } from "../budgets.ts";
import type { Connection } from "../connection.ts";
import type { Mended } from "./mend.ts";
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
 * Gives a window its span and its sums. One of no budget goes, as does one that has the span of another. Rollups by days
 * are to be mended before: the sums of whole days are taken from them, so that the write lock is held for milliseconds.
 */
export function mendWindow(db: Connection, calendar: Calendar, seq: number): Mended[] {
  const row = db
    .prepare("select windows.*, scope, period from windows left join budgets on budgets.seq = budget where windows.seq = ?")
    .safeIntegers()
    .get(seq) as WindowRow | undefined;
  if (row === undefined) return [];
  if (row.scope === null || row.period === null) return removed(db, seq, `window ${seq}`, "of no budget");
  const scope = parseScope(row.scope);
  if (scope === undefined || !isPeriod(row.period)) return [];
  const id = [`${formatScope(scope)}/${row.period}`, row.subject].filter((part) => part !== "").join(" ");
  const span = spanAt(calendar, row.period, Number(row.starts_at));
  if (span === null || isTaken(db, row, span, seq)) return removed(db, seq, id, `from ${row.starts_at}`);

  const sums = sumsOf(db, calendar, { scope, period: row.period, subject: row.subject, span });
  const from = textOf(Number(row.starts_at), row.ends_at === null ? null : Number(row.ends_at), row.spent, row.held);
  const to = textOf(span.start, span.end, sums.spent, sums.held);
  if (from === to) return [];
  db.prepare("update windows set starts_at = ?, ends_at = ?, spent = ?, held = ? where seq = ?").run(span.start, span.end, sums.spent, sums.held, seq);
  return [{ kind: "window", id, from, to }];
}

function removed(db: Connection, seq: number, id: string, from: string): Mended[] {
  db.prepare("delete from charge_windows where window = ?").run(seq);
  db.prepare("delete from windows where seq = ?").run(seq);
  return [{ kind: "window", id, from, to: "no window" }];
}

function isTaken(db: Connection, { budget, subject }: WindowRow, { start }: Span, seq: number): boolean {
  return db.prepare("select 1 from windows where budget = ? and subject = ? and starts_at = ? and seq <> ?").get(budget, subject, start, seq) !== undefined;
}

interface Wanted {
  readonly scope: Scope;
  readonly period: Period;
  readonly subject: string;
  readonly span: Span;
}

/** Windows longer than an hour are made of whole days. */
function sumsOf(db: Connection, calendar: Calendar, { scope, period, subject, span }: Wanted): { readonly spent: bigint; readonly held: bigint } {
  if (period === "1h") return sumCharges(db, scope, subject, span);
  const { sql, values } = scopeCondition(scope, subject);
  const [from, to] = [calendar.dateOf(span.start), span.end === null ? "9999" : calendar.dateOf(span.end)];
  const spent = db
    .prepare(`select coalesce(sum(cost), 0) from rollup_day where ${sql} and day >= ? and day < ?`)
    .pluck()
    .safeIntegers()
    .get(...values, from, to) as bigint;
  const held = db
    .prepare(`select coalesce(sum(hold), 0) from charges where state = 'pending' and ${sql} and admitted_at >= ? and admitted_at < ?`)
    .pluck()
    .safeIntegers()
    .get(...values, span.start, span.end ?? endOfTime) as bigint;
  return { spent, held };
}

function textOf(start: number, end: number | null, spent: bigint, held: bigint): string {
  return `from ${start} to ${end ?? "the end"}, spent ${spent}, held ${held}`;
}
