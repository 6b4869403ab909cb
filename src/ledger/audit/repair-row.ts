import { assertNever } from "../../core/assert.ts";
import { appliesTo, subjectOf } from "../../core/budget.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { Dialect } from "../queries/dialects.ts";
import { rowOf, rowsOf, sumOf, write, type Query, type Value } from "../queries/query.ts";
import {
  quarterMs,
  rollupCounts,
  rollupDimensions,
  rollupSums,
  carriedByDay,
  identityOf,
  quarterOf,
  sumsFromCharges,
} from "../rollups.ts";
import { differing, type Derived } from "./findings.ts";
import { repairWindow } from "./repair-window.ts";
import { readBudgetTexts, soundBudgets } from "./window-check.ts";

/** Change of a derived row. */
export interface RepairedRow {
  readonly kind: "window" | "link" | "rollup" | "carried";
  readonly id: string;
  readonly from: string;
  readonly to: string;
}

/** Repairs one derived row from its charges and returns the changes. Needs a transaction that keeps others from writing. */
export function repairRow(dialect: Dialect, calendar: Calendar, derived: Derived): Query<RepairedRow[]> {
  switch (derived.of) {
    case "rollup_quarter":
      return repairQuarter(dialect, derived.time, derived.key);
    case "rollup_day":
      return repairDay(dialect, calendar, derived.time, derived.key);
    case "window":
      return repairWindow(dialect, calendar, derived.seq);
    case "links":
      return repairLinks(dialect, calendar, derived.charge);
    case "carried":
      return repairCarried(calendar, derived.charge);
    default:
      return assertNever(derived);
  }
}

function* repairQuarter(dialect: Dialect, time: number, key: string): Query<RepairedRow[]> {
  const kept = yield* rowOf<object>({ sql: "select 1 from meta where quarters_from <= ?", values: [time] });
  if (kept === undefined) return [];
  const sums = sumsFromCharges(quarterOf, `key = ? and admitted_at >= ? and admitted_at < ? and ${quarterOf} = ?`);
  const values = [key, time, time + quarterMs, time];
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

/** Returns the SQL of what a key's charges and carried sums of a day add to the rollup by days. */
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

/** Returns the span of a local date; an empty span for a text that is no date. */
function spanOfDate(calendar: Calendar, date: string): { readonly start: number; readonly end: number } {
  const parsed = /^[12]\d{3}-\d{2}-\d{2}$/.test(date) ? new Date(`${date}T00:00:00Z`) : null;
  if (parsed === null || Number.isNaN(parsed.getTime()) || !parsed.toISOString().startsWith(date))
    return { start: 0, end: 0 };
  const span = calendar.spanOf("1d", Math.max(calendar.startOfDate(date), 0));
  return calendar.dateOf(span.start) === date
    ? { start: span.start, end: span.end ?? span.start }
    : { start: 0, end: 0 };
}

interface Rows {
  readonly table: string;
  readonly column: string;
  readonly time: number | string;
  readonly key: string;
  /** Selects the correct rows, with these values. */
  readonly sums: string;
  readonly values: readonly Value[];
  readonly shown: string;
}

type RollupRow = Readonly<Record<string, string | bigint>>;

function* replaceRows(
  { isSharded }: Dialect,
  { table, column, time, key, sums, values, shown }: Rows,
): Query<RepairedRow[]> {
  const names = rollupDimensions.join(", ");
  const stored = {
    sql: `select ${names}, ${rollupSums.map((name) => `${sumOf(name)} as ${name}`).join(", ")} from ${table} where ${column} = ? and key = ? group by ${names}`,
    values: [time, key],
  };
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
    const text = (row: unknown, sums: string | undefined) =>
      row === undefined ? "no row" : (sums ?? "a row of zeros");
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

/** Returns the sums of rows by their dimensions. */
function byIdentity(rows: readonly RollupRow[]): Map<string, (string | bigint | undefined)[]> {
  return new Map(
    rows.map((row) => [rollupDimensions.map((name) => row[name]).join("/"), rollupSums.map((name) => row[name])]),
  );
}

interface SumRow {
  readonly id: string;
  readonly admitted_at: bigint;
  readonly key: string;
  readonly team: string | null;
  readonly model: string;
  readonly price_group: string | null;
  readonly source: string;
  readonly route: string;
}

/**
 * Removes counts without a carried sum. Restores missing counts as the difference between the rollup by days and the
 * day's other charges if that is possible.
 */
function* repairCarried(calendar: Calendar, charge: number): Query<RepairedRow[]> {
  const row = yield* rowOf<SumRow>({
    sql: "select id, admitted_at, key, team, model, price_group, source, route from charges where seq = ?",
    values: [charge],
  });
  const counted = yield* rowOf<object>({ sql: "select 1 from carried where charge = ?", values: [charge] });
  if (row === undefined) {
    if (counted === undefined) return [];
    yield* write("delete from carried where charge = ?", charge);
    return [{ kind: "carried", id: String(charge), from: "counts of none", to: "no row" }];
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

function* missingCounts(calendar: Calendar, row: SumRow): Query<bigint[]> {
  const day = calendar.dateOf(Number(row.admitted_at));
  const identity = identityOf(row);
  const same = rollupDimensions.map((name) => `${name} = ?`).join(" and ");
  const counted = rollupCounts.map((name) => `${sumOf(name)} as ${name}`).join(", ");
  const stored = yield* rowOf<Counts>({
    sql: `select ${counted} from rollup_day where day = ? and ${same}`,
    values: [day, ...identity],
  });
  const parts = dayParts(calendar, day, row.key);
  const own = yield* rowOf<Counts>({
    sql: `select ${counted} from (${parts.sql}) parts where ${same}`,
    values: [...parts.values, ...identity],
  });
  return rollupCounts.map((name) => (stored?.[name] ?? 0n) - (own?.[name] ?? 0n));
}

interface LinkedCharge {
  readonly id: string;
  readonly state: string;
  readonly at: bigint;
  readonly key: string;
  readonly team: string | null;
  readonly session: string | null;
}

/**
 * Links a pending charge to exactly the windows that apply to it. A settled or missing charge loses only its dangling
 * links: no one reads the others.
 */
function* repairLinks(dialect: Dialect, calendar: Calendar, seq: number): Query<RepairedRow[]> {
  const charge = yield* rowOf<LinkedCharge>({
    sql: "select id, state, admitted_at as at, key, team, session from charges where seq = ?",
    values: [seq],
  });
  const before = yield* linksOf(dialect, seq);
  const wanted =
    charge === undefined
      ? []
      : charge.state === "pending"
        ? yield* windowsOf(calendar, charge)
        : yield* existing(before);
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

function* existing(windows: readonly number[]): Query<number[]> {
  const found: number[] = [];
  for (const window of windows) {
    if ((yield* rowOf<object>({ sql: "select 1 from windows where seq = ?", values: [window] })) !== undefined)
      found.push(window);
  }
  return found;
}

function* windowsOf(calendar: Calendar, { at, ...caller }: LinkedCharge): Query<number[]> {
  const windows: number[] = [];
  for (const { seq, scope, period } of soundBudgets(yield* readBudgetTexts())) {
    if (!appliesTo(scope, caller)) continue;
    const row = yield* rowOf<{ seq: bigint }>({
      sql: "select seq from windows where budget = ? and subject = ? and starts_at = ?",
      values: [seq, subjectOf(scope, caller), calendar.spanOf(period, Number(at)).start],
    });
    if (row !== undefined) windows.push(Number(row.seq));
  }
  return windows.sort((a, b) => a - b);
}
