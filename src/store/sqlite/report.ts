import { assertNever } from "../../core/assert.ts";
import type { TokenClass } from "../../core/tokens.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { ReportDimension, ReportQuery, ReportRow } from "../../ports/ledger.ts";
import { ReportSums } from "../report-sums.ts";
import type { Connection } from "./connection.ts";
import { quarterMs, rollupSums } from "./rollups.ts";
import { tokensOf } from "./rows.ts";

type SumRow = Readonly<Record<TokenClass, bigint>> & {
  readonly time: bigint | string | null;
  readonly key: string;
  readonly team: string;
  readonly model: string;
  readonly price_group: string;
  readonly source: string;
  readonly requests: bigint;
  readonly unpriced: bigint;
  readonly cost: bigint;
  readonly list_cost: bigint;
};

const columns = { key: "key", team: "team", model: "model", group: "price_group" } as const;

/** Sums by the asked dimensions: whole days from the rollup by days, the edges (and hours) from the quarter hours. */
export function readReport(db: Connection, calendar: Calendar, query: ReportQuery): readonly ReportRow[] {
  const since = Math.floor(query.since / quarterMs) * quarterMs;
  const until = Math.ceil(query.until / quarterMs) * quarterMs;
  const sums = new ReportSums(query.by);
  const take = (table: string, time: string, from: string | number, to: string | number) => {
    if (from >= to) return;
    for (const row of selectSums(db, query.by, table, time, from, to)) {
      sums.add({
        dimensions: query.by.map((dimension) => valueOf(dimension, row, calendar)),
        source: row.source,
        requests: Number(row.requests),
        unpriced: Number(row.unpriced),
        tokens: tokensOf(row),
        cost: row.cost,
        listCost: row.list_cost,
      });
    }
  };
  db.transaction(() => {
    const firstDay = calendar.spanOf("1d", since).start === since ? since : (calendar.spanOf("1d", since).end ?? until);
    const lastDay = calendar.spanOf("1d", until).start;
    if (query.by.includes("hour") || firstDay >= lastDay) {
      take("rollup_quarter", "starts_at", since, until);
      return;
    }
    take("rollup_quarter", "starts_at", since, firstDay);
    take("rollup_day", "day", calendar.dateOf(firstDay), calendar.dateOf(lastDay));
    take("rollup_quarter", "starts_at", lastDay, until);
  })();
  return sums.rows();
}

function selectSums(db: Connection, by: readonly ReportDimension[], table: string, time: string, from: string | number, to: string | number) {
  const named = by.flatMap((dimension) => (dimension === "day" || dimension === "hour" ? [] : [columns[dimension]]));
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

function valueOf(dimension: ReportDimension, row: SumRow, calendar: Calendar): string | null {
  switch (dimension) {
    case "key":
    case "team":
    case "model":
    case "group":
      return row[columns[dimension]] === "" ? null : row[columns[dimension]];
    case "day":
      return typeof row.time === "string" ? row.time : calendar.dateOf(Number(row.time));
    case "hour":
      return hourOf(calendar, Number(row.time));
    default:
      return assertNever(dimension);
  }
}

/** The instant at which the local hour of a time began. */
export function hourOf(calendar: Calendar, at: number): string {
  return new Date(calendar.spanOf("1h", at).start).toISOString();
}
