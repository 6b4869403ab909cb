import { assertNever } from "../../core/assert.ts";
import type { TokenClass } from "../../core/tokens.ts";
import type { Calendar } from "../../ports/calendar.ts";
import { isTagDimension, tagNameOf, type ReportDimension, type ReportQuery, type ReportRow } from "../../ports/ledger.ts";
import { ReportSums } from "../report-sums.ts";
import { tokensOf } from "../rows/charges.ts";
import type { Connection } from "./connection.ts";
import { quarterMs, rollupAmounts, rollupCounts, rollupSums } from "./rollups.ts";

export type GroupRow = Readonly<Record<TagColumn, string | null>> & {
  readonly time: bigint | string | null;
  readonly key: string;
  readonly team: string;
  readonly model: string;
  readonly price_group: string;
  readonly source: string;
};

type SumRow = GroupRow & Readonly<Record<TokenClass, bigint>> & {
  readonly requests: bigint;
  readonly unpriced: bigint;
  readonly retries: bigint;
  readonly cost: bigint;
  readonly list_cost: bigint;
};

/** The column of a tag, by its place among the dimensions. */
type TagColumn = `tag_${number}`;

const columns = { key: "key", team: "team", model: "model", group: "price_group" } as const;

/**
 * Sums by the asked dimensions: whole days from the rollup by days, the edges (and hours) from the quarter hours. Where
 * retention has left days only, a span is rounded outwards to them, and an hour is null. Rollups have no tags: where one
 * is asked for, the sums are taken from the charges.
 */
export function readReport(db: Connection, calendar: Calendar, query: ReportQuery): readonly ReportRow[] {
  const sums = new ReportSums(query.by);
  const take = (table: string, time: string, from: string | number, to: string | number) => {
    if (from < to) addAll(selectSums(db, query.by, table, time, from, to));
  };
  const addAll = (rows: Iterable<SumRow>) => {
    for (const row of rows) {
      sums.add({
        dimensions: query.by.map((dimension, index) => valueOf(dimension, index, row, calendar)),
        source: row.source,
        requests: Number(row.requests),
        unpriced: Number(row.unpriced),
        retries: Number(row.retries),
        tokens: tokensOf(row),
        cost: row.cost,
        listCost: row.list_cost,
      });
    }
  };
  db.transaction(() => {
    const { since, until, quartersFrom } = spanOfReport(db, calendar, query);
    if (query.by.some(isTagDimension)) {
      addAll(selectChargeSums(db, calendar, query.by, since, until));
      return;
    }
    const firstDay = calendar.spanOf("1d", since).start === since ? since : (calendar.spanOf("1d", since).end ?? until);
    const lastDay = calendar.spanOf("1d", until).start;
    if (query.by.includes("hour") || firstDay >= lastDay) {
      const daysUntil = Math.min(until, Math.max(since, quartersFrom));
      take("rollup_day", "day", calendar.dateOf(since), calendar.dateOf(daysUntil));
      take("rollup_quarter", "starts_at", daysUntil, until);
      return;
    }
    take("rollup_quarter", "starts_at", since, firstDay);
    take("rollup_day", "day", calendar.dateOf(firstDay), calendar.dateOf(lastDay));
    take("rollup_quarter", "starts_at", lastDay, until);
  })();
  return sums.rows();
}

/** The span as it is reported, and from where on there are quarter hours. */
export function spanOfReport(db: Connection, calendar: Calendar, query: ReportQuery) {
  const quartersFrom = startOfQuarters(db, calendar);
  const since = outwards(calendar, query.since, quartersFrom, "start");
  const until = outwards(calendar, query.until, quartersFrom, "end");
  return { since, until, quartersFrom };
}

/** From where on there are quarter hours: the first whole day of this zone after the horizon of retention. */
function startOfQuarters(db: Connection, calendar: Calendar): number {
  const stored = Number(db.prepare("select quarters_from from meta").pluck().get());
  if (stored === 0) return 0;
  const { start, end } = calendar.spanOf("1d", stored);
  return start === stored ? stored : (end ?? stored);
}

/** An edge of a span, moved to the next one that there are sums for. */
function outwards(calendar: Calendar, at: number, quartersFrom: number, edge: "start" | "end"): number {
  if (at >= quartersFrom) return (edge === "start" ? Math.floor(at / quarterMs) : Math.ceil(at / quarterMs)) * quarterMs;
  const day = calendar.spanOf("1d", at);
  return edge === "start" || day.start === at ? day.start : (day.end ?? at);
}

function selectSums(db: Connection, by: readonly ReportDimension[], table: string, time: string, from: string | number, to: string | number) {
  const named = namedColumns(by);
  const byTime = by.includes("day") || by.includes("hour");
  const grouped = ["source", ...named, ...(byTime ? [time] : [])];
  return db
    .prepare(
      `select ${byTime ? `${time} as time` : "null as time"}, ${["source", ...named].join(", ")},
         ${rollupSums.map((name) => `sum(${name}) ${name}`).join(", ")}
       from ${table} where ${time} >= ? and ${time} < ? group by ${grouped.join(", ")}`,
    )
    .safeIntegers()
    .iterate(from, to) as IterableIterator<SumRow>;
}

function namedColumns(by: readonly ReportDimension[]): string[] {
  return by.flatMap((dimension) => (dimension in columns ? [columns[dimension as keyof typeof columns]] : []));
}

/** The same from the posted charges. */
function selectChargeSums(db: Connection, calendar: Calendar, by: readonly ReportDimension[], from: number, to: number) {
  const { groups, values } = chargeGroups(db, calendar, by);
  return db
    .prepare(
      `select ${groups.join(", ")},
         ${rollupCounts.map((name) => `sum(${chargeCounts[name]}) ${name}`).join(", ")},
         ${rollupAmounts.map((name) => `coalesce(sum(charges.${name}), 0) ${name}`).join(", ")}
       from charges left join carried on carried.charge = charges.seq
       where state = 'posted' and admitted_at >= ? and admitted_at < ? group by ${groups.map((_, index) => index + 1).join(", ")}`,
    )
    .safeIntegers()
    .iterate(...values, from, to) as IterableIterator<SumRow>;
}

/**
 * What a charge, with its carried sum beside it, is grouped by. A carried sum stands at noon of its day, so that its time is
 * the day; how many requests it is made of stands beside it.
 */
export function chargeGroups(db: Connection, calendar: Calendar, by: readonly ReportDimension[]) {
  db.function("local_date", { deterministic: true }, (at: unknown) => calendar.dateOf(Number(at)));
  const byTime = by.includes("day") || by.includes("hour");
  const time = `iif(carried.charge is null, admitted_at - admitted_at % ${quarterMs}, local_date(admitted_at))`;
  const tags = by.map((dimension) => (isTagDimension(dimension) ? `$."${tagNameOf(dimension)}"` : null));
  const groups = [
    `${byTime ? time : "null"} as time`,
    ...["source", ...namedColumns(by)].map((name) => `coalesce(${name}, '') as ${name}`),
    ...tags.flatMap((path, index) => (path === null ? [] : [`tags ->> ? as tag_${index}`])),
  ];
  return { groups, values: tags.filter((path) => path !== null) };
}

/** What a charge, or the carried sum that it is, counts for. */
export const chargeCounts = Object.fromEntries(
  Object.entries({ requests: "formula <> 'adjustment'", unpriced: "cost is null", retries: "retry > 0" }).map(
    ([name, ofOne]) => [name, `iif(carried.charge is null, ${ofOne}, carried.${name})`],
  ),
) as Record<(typeof rollupCounts)[number], string>;

/** See the ledger's port. */
export function readPrunedUntil(db: Connection, calendar: Calendar): number | null {
  const last = db.prepare("select max(admitted_at) from carried cross join charges on seq = charge").pluck().get() as number | null;
  return last === null ? null : calendar.spanOf("1d", last).end;
}

/** The value of the dimension at this place in a row of `chargeGroups` or of a rollup. */
export function valueOf(dimension: ReportDimension, index: number, row: GroupRow, calendar: Calendar): string | null {
  if (isTagDimension(dimension)) return row[`tag_${index}`] ?? null;
  switch (dimension) {
    case "key":
    case "team":
    case "model":
    case "group":
      return row[columns[dimension]] === "" ? null : row[columns[dimension]];
    case "day":
      return typeof row.time === "string" ? row.time : calendar.dateOf(Number(row.time));
    case "hour":
      return typeof row.time === "string" ? null : hourOf(calendar, Number(row.time));
    default:
      return assertNever(dimension);
  }
}

/** The instant at which the local hour of a time began. */
export function hourOf(calendar: Calendar, at: number): string {
  return new Date(calendar.spanOf("1h", at).start).toISOString();
}
