import { callerOfRow, countedColumns, type CountedRow } from "../rows/budgets.ts";
import { assertNever } from "../../core/assert.ts";
import { appliesTo, formatScope, isRolledUp, parseScope, subjectsOf } from "../../core/scope.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { RepairedRow } from "../../ports/ledger.ts";
import type { Dialect } from "../queries/dialects.ts";
import { rowOf, rowsOf, sumSql, write, type Query, type Value } from "../queries/query.ts";
import { raiseSumsVersion, readWindowSums, type WindowSums } from "../queries/window-sums.ts";
import {
  carriedByDay,
  identityOf,
  quarterOf,
  rollupCounts,
  rollupDimensions,
  rollupSums,
  sumsFromCharges,
} from "../rollups.ts";
import { lockBudgets } from "../tables/budgets.ts";
import { differing, type Derived } from "./findings.ts";
import { readBudgetTexts, spanAt, validBudgets } from "./window-check.ts";
import { isPeriod, type Span } from "../../core/budget.ts";
import { quarterHourMs } from "../../core/time.ts";

/**
 * Repairs a derived row from its charges and returns the changes. Must run in a transaction. Other writers wait until
 * that transaction ends.
 */
export function* repairRow(dialect: Dialect, calendar: Calendar, derived: Derived): Query<RepairedRow[]> {
  yield* lockBudgets();
  return yield* changesOf(dialect, calendar, derived);
}

function changesOf(dialect: Dialect, calendar: Calendar, derived: Derived): Query<RepairedRow[]> {
  switch (derived.of) {
    case "rollup_quarter":
      return repairQuarterHour(dialect, derived.time, derived.key);
    case "rollup_day":
      return repairDay(dialect, calendar, derived.time, derived.key);
    case "window":
      return repairWindow(dialect, calendar, derived.seq);
    case "lost_window":
      return reopenSpan(derived.budget, derived.id);
    case "links":
      return repairLinks(dialect, calendar, derived.charge);
    case "carried":
      return repairCarried(calendar, derived.charge);
    default:
      return assertNever(derived);
  }
}

function* repairQuarterHour(dialect: Dialect, time: number, key: string): Query<RepairedRow[]> {
  const isKept = yield* rowOf<object>({ sql: "select 1 from meta where quarters_from <= ?", values: [time] });
  if (isKept === undefined) return [];
  const sums = sumsFromCharges(quarterOf, `key = ? and admitted_at >= ? and admitted_at < ? and ${quarterOf} = ?`);
  const values = [key, time, time + quarterHourMs, time];
  return yield* replaceRows(dialect, {
    table: "rollup_quarter",
    column: "starts_at",
    time,
    key,
    sums,
    values,
    shown: new Date(time).toISOString(),
  });
}

function* repairDay(dialect: Dialect, calendar: Calendar, time: string, key: string): Query<RepairedRow[]> {
  const names = ["day", ...rollupDimensions].join(", ");
  const { sql, values } = dayParts(calendar, time, key);
  const sums = `select ${names}, ${rollupSums.map((name) => `sum(${name})`).join(", ")} from (${sql}) parts group by ${names}`;
  return yield* replaceRows(dialect, { table: "rollup_day", column: "day", time, key, sums, values, shown: time });
}

/** Returns a query for the rows that a key's charges and carried sums contribute to the rollup of a day. */
function dayParts(
  calendar: Calendar,
  date: string,
  key: string,
): { readonly sql: string; readonly values: readonly Value[] } {
  const { start, end } = spanOfDate(calendar, date);
  const day = "cast(? as text) as day";
  const ofKeyAndSpan = "key = ? and admitted_at >= ? and admitted_at < ?";
  const values = [date, key, start, end];
  return {
    sql: `${sumsFromCharges(day, ofKeyAndSpan)} union all ${carriedByDay(day, ofKeyAndSpan)}`,
    values: [...values, ...values],
  };
}

/** Returns the span of a local date; an empty span if the calendar does not have the date. */
function spanOfDate(calendar: Calendar, date: string): { readonly start: number; readonly end: number } {
  const parsed = /^[12]\d{3}-\d{2}-\d{2}$/.test(date) ? new Date(`${date}T00:00:00Z`) : null;
  if (parsed === null || Number.isNaN(parsed.getTime()) || !parsed.toISOString().startsWith(date))
    return { start: 0, end: 0 };
  const span = calendar.spanOf("1d", Math.max(calendar.startOfDate(date), 0));
  return calendar.dateOf(span.start) === date
    ? { start: span.start, end: span.end ?? span.start }
    : { start: 0, end: 0 };
}

interface RollupRepair {
  readonly table: string;
  readonly column: string;
  readonly time: number | string;
  readonly key: string;
  /** SQL that selects the correct rows. */
  readonly sums: string;
  /** Values of the parameters in `sums`. */
  readonly values: readonly Value[];
  /** Text for `time` in the report of the repair. */
  readonly shown: string;
}

type RollupRow = Readonly<Record<string, string | bigint>>;

function* replaceRows(
  { isSharded }: Dialect,
  { table, column, time, key, sums, values, shown }: RollupRepair,
): Query<RepairedRow[]> {
  const names = rollupDimensions.join(", ");
  const stored = {
    sql: `select ${names}, ${rollupSums.map((name) => `${sumSql(name)} as ${name}`).join(", ")} from ${table} where ${column} = ? and key = ? group by ${names}`,
    values: [time, key],
  };
  yield* write(raiseSumsVersion);
  const before = byIdentity(yield* rowsOf<RollupRow>(stored));
  yield* write(`delete from ${table} where ${column} = ? and key = ?`, time, key);
  const into = [column, ...rollupDimensions, ...rollupSums];
  yield* write(
    isSharded
      ? `insert into ${table} (${into.join(", ")}, shard) select made.*, 0 from (${sums}) made`
      : `insert into ${table} (${into.join(", ")}) ${sums}`,
    ...values,
  );
  const after = byIdentity(yield* rowsOf<RollupRow>(stored));
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((identity) => {
    const [from, to] = [before.get(identity), after.get(identity)];
    const none = rollupSums.map(() => 0);
    const change = differing(rollupSums, to ?? none, from ?? none);
    if (change === null && from !== undefined && to !== undefined) return [];
    const text = (row: unknown, differingSums: string | undefined) =>
      row === undefined ? "no row" : (differingSums ?? "a row of zeros");
    return [
      {
        kind: "rollup" as const,
        id: `${table} ${shown}/${identity}`,
        from: text(from, change?.found),
        to: text(to, change?.expected),
      },
    ];
  });
}

/** Returns a map from the dimensions of each row to its sums. */
function byIdentity(rows: readonly RollupRow[]): Map<string, (string | bigint | undefined)[]> {
  return new Map(
    rows.map((row) => [rollupDimensions.map((name) => row[name]).join("/"), rollupSums.map((name) => row[name])]),
  );
}

interface CarriedSumRow {
  readonly id: string;
  readonly admitted_at: bigint;
  readonly key: string;
  readonly team: string | null;
  readonly model: string;
  readonly entry: string | null;
  readonly price_group: string | null;
  readonly source: string;
  readonly route: string;
}

/**
 * Removes counts that belong to no carried sum. If a carried sum lacks its counts, computes them from the rollup of its
 * day. Stores the computed counts only if they are plausible: not negative, and no count above the number of requests.
 */
function* repairCarried(calendar: Calendar, charge: number): Query<RepairedRow[]> {
  const row = yield* rowOf<CarriedSumRow>({
    sql: "select id, admitted_at, key, team, model, entry, price_group, source, route from charges where seq = ?",
    values: [charge],
  });
  const counted = yield* rowOf<object>({ sql: "select 1 from carried where charge = ?", values: [charge] });
  if (row === undefined) {
    if (counted === undefined) return [];
    yield* write("delete from carried where charge = ?", charge);
    return [{ kind: "carried", id: String(charge), from: "counts without a carried sum", to: "no row" }];
  }
  if (counted !== undefined || row.route !== "carried") return [];
  const counts = yield* missingCounts(calendar, row);
  const [requests = 0n, unpriced = 0n, retries = 0n] = counts;
  if (counts.some((count) => count < 0n) || requests < unpriced || requests < retries) return [];
  yield* write(`insert into carried (charge, ${rollupCounts.join(", ")}) values (?, ?, ?, ?)`, charge, ...counts);
  const to = rollupCounts.map((name, index) => `${name} ${counts[index]}`).join(", ");
  return [{ kind: "carried", id: row.id, from: "no counts", to }];
}

type Counts = Readonly<Record<(typeof rollupCounts)[number], bigint>>;

/**
 * Returns the missing counts of a carried sum: the counts in the rollup of its day, minus those of all other charges of
 * the day with the same dimensions.
 */
function* missingCounts(calendar: Calendar, row: CarriedSumRow): Query<bigint[]> {
  const day = calendar.dateOf(Number(row.admitted_at));
  const identity = identityOf(row);
  const same = rollupDimensions.map((name) => `${name} = ?`).join(" and ");
  const counted = rollupCounts.map((name) => `${sumSql(name)} as ${name}`).join(", ");
  const stored = yield* rowOf<Counts>({
    sql: `select ${counted} from rollup_day where day = ? and ${same}`,
    values: [day, ...identity],
  });
  const parts = dayParts(calendar, day, row.key);
  const others = yield* rowOf<Counts>({
    sql: `select ${counted} from (${parts.sql}) parts where ${same}`,
    values: [...parts.values, ...identity],
  });
  return rollupCounts.map((name) => (stored?.[name] ?? 0n) - (others?.[name] ?? 0n));
}

/** Makes the next hold in each span open all windows of the span, because some may be lost. */
export function* reopenSpans(): Query<void> {
  yield* write("update budgets set complete_from = null");
}

/** Makes the next hold in each span of a budget open all windows of the span. */
function* reopenSpan(budget: number, id: string): Query<RepairedRow[]> {
  yield* write("update budgets set complete_from = null where seq = ?", budget);
  return [{ kind: "window", id, from: "no window", to: "summed by the next request" }];
}

interface LinkedCharge extends CountedRow {
  readonly id: string;
  readonly state: string;
  readonly at: bigint;
}

/**
 * Links a pending charge to exactly the windows that apply to it. Removes all links of a missing charge. For a settled
 * charge, removes only links to missing windows, because its other links are never read.
 */
function* repairLinks(dialect: Dialect, calendar: Calendar, seq: number): Query<RepairedRow[]> {
  const charge = yield* rowOf<LinkedCharge>({
    sql: `select id, state, admitted_at as at, ${countedColumns.join(", ")} from charges where seq = ?`,
    values: [seq],
  });
  const before = yield* linksOf(dialect, seq);
  const wanted =
    charge === undefined
      ? []
      : charge.state === "pending"
        ? yield* windowsOf(calendar, charge)
        : yield* existingWindows(before);
  for (const { sql, values } of dialect.setLinks(seq, wanted)) yield { sql, values };
  const after = yield* linksOf(dialect, seq);
  const text = (windows: readonly number[]) => (windows.length === 0 ? "no window" : `windows ${windows.join(", ")}`);
  return String(before) === String(after)
    ? []
    : [{ kind: "link", id: charge?.id ?? String(seq), from: text(before), to: text(after) }];
}

function* linksOf(dialect: Dialect, charge: number): Query<number[]> {
  return (yield* rowsOf<{ win: bigint }>(dialect.links(charge))).map(({ win }) => Number(win));
}

function* existingWindows(windows: readonly number[]): Query<number[]> {
  const found: number[] = [];
  for (const window of windows) {
    if ((yield* rowOf<object>({ sql: "select 1 from windows where seq = ?", values: [window] })) !== undefined)
      found.push(window);
  }
  return found;
}

/** Returns the `seq` of each window that applies to a charge, in ascending order. */
function* windowsOf(calendar: Calendar, charge: LinkedCharge): Query<number[]> {
  const caller = callerOfRow(charge);
  const windows: number[] = [];
  for (const { seq, scope, period } of validBudgets(yield* readBudgetTexts())) {
    if (!appliesTo(scope, caller)) continue;
    for (const subject of subjectsOf(scope, caller)) {
      const row = yield* rowOf<{ seq: bigint }>({
        sql: "select seq from windows where budget = ? and subject = ? and starts_at = ?",
        values: [seq, subject, calendar.spanOf(period, Number(charge.at)).start],
      });
      if (row !== undefined) windows.push(Number(row.seq));
    }
  }
  return windows.sort((a, b) => a - b);
}

interface WindowRow {
  readonly budget: bigint;
  readonly subject: string;
  readonly starts_at: bigint;
  readonly ends_at: bigint | null;
  readonly spent: bigint;
  readonly held: bigint;
  readonly carried: bigint;
  readonly scope: string | null;
  readonly period: string | null;
}

/**
 * Repairs a window's span and sums. Removes a window whose budget is missing. Also removes a window if another window
 * already has its correct span. Most sums come from the rollups, which must be correct already. Other transactions
 * therefore wait only milliseconds.
 */
function* repairWindow(dialect: Dialect, calendar: Calendar, seq: number): Query<RepairedRow[]> {
  const row = yield* rowOf<WindowRow>({
    sql: `select budget, subject, starts_at, ends_at, spent, held, carried, scope, period
      from windows left join budgets on budgets.seq = budget where windows.seq = ?`,
    values: [seq],
  });
  if (row === undefined) return [];
  if (row.scope === null || row.period === null)
    return yield* removeWindow(dialect, seq, `window ${seq}`, "a window without a budget");
  const scope = parseScope(row.scope);
  if (scope === undefined || !isPeriod(row.period)) return [];
  const id = [`${formatScope(scope)}/${row.period}`, row.subject].filter((part) => part !== "").join(" ");
  const span = spanAt(calendar, row.period, Number(row.starts_at));
  if (span === null || (yield* hasOtherWindow(row, span, seq)))
    return yield* removeWindow(dialect, seq, id, `from ${row.starts_at}`);

  const charged = yield* readWindowSums(dialect, calendar, { scope, period: row.period, subject: row.subject, span });
  const sums = isRolledUp(scope) ? charged : { ...charged, spent: charged.spent + row.carried };
  const from = textOf(Number(row.starts_at), row.ends_at === null ? null : Number(row.ends_at), row);
  yield {
    sql: "update windows set starts_at = ?, ends_at = ?, spent = ?, held = ? where seq = ?",
    values: [span.start, span.end, sums.spent, sums.held, seq],
  };
  const to = textOf(span.start, span.end, sums);
  return from === to ? [] : [{ kind: "window", id, from, to }];
}

/** Removes a window and returns the change. */
function* removeWindow(dialect: Dialect, seq: number, id: string, from: string): Query<RepairedRow[]> {
  for (const statement of dialect.removeWindows([seq])) yield statement;
  return [{ kind: "window", id, from, to: "no window" }];
}

/** Returns true if the same budget and subject have another window with this start. */
function* hasOtherWindow({ budget, subject }: WindowRow, { start }: Span, seq: number): Query<boolean> {
  const sql = "select 1 from windows where budget = ? and subject = ? and starts_at = ? and seq <> ?";
  return (yield* rowOf<object>({ sql, values: [budget, subject, start, seq] })) !== undefined;
}

function textOf(start: number, end: number | null, { spent, held }: WindowSums): string {
  return `from ${start} to ${end ?? "no end"}, spent ${spent}, held ${held}`;
}
