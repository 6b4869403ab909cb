import { assertNever } from "../../core/assert.ts";
import type { TokenClass } from "../../core/usage.ts";
import type { Calendar } from "../../ports/calendar.ts";
import {
  isOfCharges,
  namedDimension,
  type SessionFilter,
  type ReportDimension,
  type ReportQuery,
  type ReportRow,
  type TimeSpan,
} from "../../ports/ledger.ts";
import { ReportSums, type ReportPart } from "../report-sums.ts";
import { rollupAmounts, rollupCounts, rollupSums } from "../rollups.ts";
import { tokensOf } from "../rows/charges.ts";
import type { Dialect } from "./dialects.ts";
import { Conditions } from "./page.ts";
import { rowOf, rowsOf, sumSql, type Query, type Statement, type Value } from "./query.ts";
import { quarterHourMs } from "../../core/time.ts";

/** Grouping columns of a row that a report reads. */
export type GroupRow = Readonly<Record<ValueColumn, string | null>> & {
  /**
   * Local date, start of a quarter hour, or an instant that represents its day. Null if the report does not group by
   * time.
   */
  readonly time: bigint | string | null;
  /** 1 if `time` is an instant that represents its whole day. */
  readonly whole_day?: bigint | number;
  readonly key: string;
  readonly team: string;
  readonly model: string;
  readonly price_group: string;
  readonly source: string;
};

type SumRow = GroupRow &
  Readonly<Record<TokenClass, bigint>> & {
    readonly requests: bigint;
    readonly unpriced: bigint;
    readonly retries: bigint;
    readonly cost: bigint;
    readonly list_cost: bigint;
    readonly in_doubt: bigint;
  };

/** Column of a dimension that no rollup has. The number is the position among the dimensions. */
type ValueColumn = `value_${number}`;

/** Columns of the rollups by the dimensions that reports and charts name. */
export const dimensionColumns = { key: "key", team: "team", model: "model", group: "price_group" } as const;

/** Span of a report, rounded to quarter hours or days. */
interface ReportSpan extends TimeSpan {
  /** Instant from which the rollup by quarter hours exists. */
  readonly quartersFrom: number;
}

/** Implements `LedgerQueries.report`. */
export function* readReport(
  dialect: Dialect,
  calendar: Calendar,
  query: ReportQuery & SessionFilter,
): Query<readonly ReportRow[]> {
  const { by } = query;
  const sums = new ReportSums(by);
  const span = yield* reportSpan(calendar, query);
  for (const statement of statementsOf(calendar, dialect, query, span)) {
    for (const row of yield* rowsOf<SumRow>(statement)) {
      sums.add({
        ...groupOf(calendar, by, row),
        ...countsOf(row),
        source: row.source,
        tokens: tokensOf(row),
        cost: row.cost,
        listCost: row.list_cost,
        inDoubt: row.in_doubt,
      });
    }
  }
  return sums.rows();
}

/** Returns the span of a report, rounded outwards to quarter hours or days. */
export function* reportSpan(calendar: Calendar, query: TimeSpan): Query<ReportSpan> {
  const [meta] = yield* rowsOf<{ quarters_from: bigint }>({ sql: "select quarters_from from meta", values: [] });
  const quartersFrom = startOfQuarters(calendar, Number(meta?.quarters_from ?? 0));
  const since = outwards(calendar, query.since, quartersFrom, "start");
  const until = outwards(calendar, query.until, quartersFrom, "end");
  return { since, until, quartersFrom };
}

/**
 * Returns the start of the first local day whose quarter hours all exist. `stored`: the first existing quarter hour.
 */
function startOfQuarters(calendar: Calendar, stored: number): number {
  if (stored === 0) return 0;
  const { start, end } = calendar.spanOf("1d", stored);
  return start === stored ? stored : (end ?? stored);
}

/** Rounds an edge of a span outwards to a quarter hour. Where no quarter hours exist, rounds it to a day. */
function outwards(calendar: Calendar, at: number, quartersFrom: number, edge: "start" | "end"): number {
  if (at >= quartersFrom)
    return (edge === "start" ? Math.floor(at / quarterHourMs) : Math.ceil(at / quarterHourMs)) * quarterHourMs;
  const day = calendar.spanOf("1d", at);
  return edge === "start" || day.start === at ? day.start : (day.end ?? at);
}

/**
 * Returns the statements whose rows add up to the report. Whole days come from the rollup by days. Hours and the edges
 * of the span come from the rollup by quarter hours. The hour is null where retention has removed the quarter hours. A
 * report by user, tag or label, or of a session, reads the charges, because rollups lack these values.
 */
function statementsOf(
  calendar: Calendar,
  dialect: Dialect,
  { by, session }: ReportQuery & SessionFilter,
  span: ReportSpan,
): readonly Statement[] {
  const { since, until, quartersFrom } = span;
  if (session !== undefined || by.some(isOfCharges)) return [chargeSums(dialect, { by, session }, span)];
  const dates = (from: number, to: number) =>
    sumsOfRollup(by, "rollup_day", "day", calendar.dateOf(from), calendar.dateOf(to));
  const quarters = (from: number, to: number) => sumsOfRollup(by, "rollup_quarter", "starts_at", from, to);
  const { firstDay, lastDay } = wholeDays(calendar, span);
  if (by.includes("hour") || firstDay >= lastDay) {
    const daysUntil = Math.min(until, Math.max(since, quartersFrom));
    return [...dates(since, daysUntil), ...quarters(daysUntil, until)];
  }
  return [...quarters(since, firstDay), ...dates(firstDay, lastDay), ...quarters(lastDay, until)];
}

/** Returns the start of the first whole day in a span, and the end of the last one; not in order if there is none. */
export function wholeDays(calendar: Calendar, { since, until }: TimeSpan) {
  const { start, end } = calendar.spanOf("1d", since);
  return { firstDay: start === since ? since : (end ?? until), lastDay: calendar.spanOf("1d", until).start };
}

export function groupOf(
  calendar: Calendar,
  by: readonly ReportDimension[],
  row: GroupRow,
): Pick<ReportPart, "dimensions"> {
  return { dimensions: by.map((dimension, index) => valueOf(dimension, index, row, calendar)) };
}

export function countsOf(
  row: Readonly<Record<(typeof rollupCounts)[number], bigint>>,
): Pick<ReportPart, "requests" | "unpriced" | "retries"> {
  return { requests: Number(row.requests), unpriced: Number(row.unpriced), retries: Number(row.retries) };
}

function sumsOfRollup(
  by: readonly ReportDimension[],
  table: string,
  time: string,
  from: string | number,
  to: string | number,
): Statement[] {
  if (from >= to) return [];
  const named = namedColumns(by);
  const byTime = isByTime(by);
  const grouped = ["source", ...named, ...(byTime ? [time] : [])];
  return [
    {
      sql: `select ${byTime ? time : "null"} as time, ${["source", ...named].join(", ")}, ${rollupSums.map((name) => `${sumSql(name)} as ${name}`).join(", ")}
      from ${table} where ${time} >= ? and ${time} < ? group by ${grouped.join(", ")}`,
      values: [from, to],
    },
  ];
}

/** Returns the statement that sums the posted charges. */
function chargeSums(
  dialect: Dialect,
  { by, session }: Pick<ReportQuery, "by"> & { readonly session: string | undefined },
  { since, until }: TimeSpan,
): Statement {
  const { groups, values } = chargeGroups(dialect, by);
  const where = new Conditions()
    .add("state = 'posted' and admitted_at >= ? and admitted_at < ?", since, until)
    .add("session = ?", session);
  return {
    sql: `select ${groups.join(", ")},
        ${rollupCounts.map((name) => `${sumSql(chargeCounts[name])} as ${name}`).join(", ")},
        ${rollupAmounts.map((name) => `${sumSql(`charges.${name}`)} as ${name}`).join(", ")}
      from charges left join carried on carried.charge = charges.seq
      where ${where.sql} group by ${groups.map((_, index) => index + 1).join(", ")}`,
    values: [...values, ...where.values],
  };
}

/**
 * Returns the grouping columns of `charges` joined with `carried`. The time of a carried sum is noon of its day, so
 * only the day is meaningful.
 */
export function chargeGroups(
  dialect: Dialect,
  by: readonly ReportDimension[],
): { readonly groups: readonly string[]; readonly values: readonly Value[] } {
  const time = `case when carried.charge is null then admitted_at - admitted_at % ${quarterHourMs} else admitted_at end`;
  const isDay = "case when carried.charge is null then 0 else 1 end";
  const ofCharges = by.flatMap((dimension, index) =>
    isOfCharges(dimension) ? [{ index, ...valueOfCharge(dialect, dimension) }] : [],
  );
  const groups = [
    ...(isByTime(by) ? [`${time} as time`, `${isDay} as whole_day`] : ["null as time"]),
    ...["source", ...namedColumns(by)].map((name) => `coalesce(${name}, '') as ${name}`),
    ...ofCharges.map(({ sql, index }) => `${sql} as value_${index}`),
  ];
  return { groups, values: ofCharges.flatMap(({ values }) => values) };
}

/** Returns the SQL expression for a charge's value of a dimension that no rollup has. */
function valueOfCharge(dialect: Dialect, dimension: ReportDimension): Statement {
  const named = namedDimension(dimension);
  return named === undefined ? { sql: "end_user", values: [] } : dialect.member(named.column, named.name);
}

/** SQL expressions for the counts of a charge or a carried sum. */
export const chargeCounts = Object.fromEntries(
  Object.entries({ requests: "formula <> 'adjustment'", unpriced: "cost is null", retries: "retry > 0" }).map(
    ([name, isCounted]) => [
      name,
      `case when carried.charge is not null then carried.${name} when ${isCounted} then 1 else 0 end`,
    ],
  ),
) as Record<(typeof rollupCounts)[number], string>;

function isByTime(by: readonly ReportDimension[]): boolean {
  return by.includes("day") || by.includes("hour");
}

function namedColumns(by: readonly ReportDimension[]): string[] {
  return by.flatMap((dimension) =>
    dimension in dimensionColumns ? [dimensionColumns[dimension as keyof typeof dimensionColumns]] : [],
  );
}

/**
 * Returns a row's value of a dimension; null if it has none. `index` is the position of the dimension in the report.
 */
function valueOf(dimension: ReportDimension, index: number, row: GroupRow, calendar: Calendar): string | null {
  if (isOfCharges(dimension)) return row[`value_${index}`] ?? null;
  switch (dimension) {
    case "key":
    case "team":
    case "model":
    case "group":
      return row[dimensionColumns[dimension]] || null;
    case "day":
      return typeof row.time === "string" ? row.time : calendar.dateOf(Number(row.time));
    case "hour":
      return typeof row.time === "string" || Number(row.whole_day ?? 0) === 1
        ? null
        : hourOf(calendar, Number(row.time));
    default:
      return assertNever(dimension);
  }
}

/** Returns the start of the local hour that contains an instant, in ISO 8601. */
function hourOf(calendar: Calendar, at: number): string {
  return new Date(calendar.spanOf("1h", at).start).toISOString();
}

/** Implements `LedgerQueries.firstDay`. */
export function* readFirstDay(calendar: Calendar): Query<number | null> {
  const row = yield* rowOf<{ day: string | null }>({ sql: "select min(day) as day from rollup_day", values: [] });
  return typeof row?.day === "string" ? calendar.startOfDate(row.day) : null;
}

/** Implements `LedgerQueries.prunedUntil`. */
export function* readPrunedUntil(calendar: Calendar): Query<number | null> {
  const [row] = yield* rowsOf<{ last: bigint | null }>({
    sql: "select max(admitted_at) as last from charges where route = 'carried'",
    values: [],
  });
  return row === undefined || row.last === null ? null : calendar.spanOf("1d", Number(row.last)).end;
}
