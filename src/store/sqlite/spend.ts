import type { PicoUsd } from "../../core/money.ts";
import type { Calendar } from "../../ports/calendar.ts";
import { otherNames, type SpendQuery, type SpendRow } from "../../ports/spend.ts";
import type { Connection } from "./connection.ts";

const columns = { key: "key", team: "team", model: "model", group: "price_group" } as const;
const hourMs = 3_600_000;

type Row = [start: string | bigint, ...names: string[], requests: bigint, unpriced: bigint, cost: bigint, listCost: bigint];

/** See the ledger's port. Only the sums that are asked for: what takes time is the sorting of wide rows. */
export function readSpend(db: Connection, calendar: Calendar, query: SpendQuery): readonly SpendRow[] {
  const { by, since, until, key } = query;
  const fromDays = query.each === "day" || (query.each === "all" && isDayEdge(calendar, since) && isDayEdge(calendar, until));
  const table = fromDays ? "rollup_day" : "rollup_quarter";
  const time = fromDays ? "day" : "starts_at";
  const edge = (at: number) => (fromDays ? calendar.dateOf(at) : at);
  const bucket = { day: "day", hour: `(starts_at - cast(? as integer)) / ${hourMs}`, all: "0" }[query.each];
  const { apart } = query;
  const names = by.map((dimension, index) => {
    const column = columns[dimension];
    return apart === undefined || index > 0 ? column : `iif(${column} in (${apart.map(() => "?").join(", ")}), ${column}, ?)`;
  });
  const folded = apart === undefined || by.length === 0 ? [] : [...apart.map((name) => name ?? ""), otherNames];
  const groups = names.map((_, index) => index + 2);
  const rows = db
    .prepare(
      `select ${[bucket, ...names].join(", ")}, sum(requests), sum(unpriced), sum(cost), sum(list_cost)
       from ${table} where ${time} >= ? and ${time} < ? ${key === undefined ? "" : "and key = ?"}
       group by ${[1, ...groups].join(", ")} order by ${[1, ...groups].join(", ")}`,
    )
    .safeIntegers()
    .raw()
    .all(...(query.each === "hour" ? [since] : []), ...folded, edge(since), edge(until), ...(key === undefined ? [] : [key])) as Row[];
  return rows.map((row) => rowOf(row, query, calendar));
}

function rowOf(row: Row, { by, each, since }: SpendQuery, calendar: Calendar): SpendRow {
  const [start, ...rest] = row;
  const names = rest.slice(0, by.length) as string[];
  const [requests = 0n, unpriced = 0n, cost = 0n, listCost = 0n] = rest.slice(by.length) as bigint[];
  return {
    start: each === "day" ? calendar.startOfDate(String(start)) : since + Number(start) * hourMs,
    names: names.map((name) => (name === "" ? null : name)),
    requests: Number(requests),
    unpricedRequests: Number(unpriced),
    cost: cost as PicoUsd,
    listCost: listCost as PicoUsd,
  };
}

function isDayEdge(calendar: Calendar, at: number): boolean {
  return calendar.spanOf("1d", at).start === at;
}
