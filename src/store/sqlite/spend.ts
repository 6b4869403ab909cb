import { add, noMoney, type PicoUsd } from "../../core/money.ts";
import type { Calendar } from "../../ports/calendar.ts";
import { otherNames, type SpendQuery, type SpendRow } from "../../ports/spend.ts";
import type { Connection } from "./connection.ts";

const columns = { key: "key", team: "team", model: "model", group: "price_group" } as const;
const hourMs = 3_600_000;

type Row = [start: string | bigint, ...names: string[], requests: bigint, unpriced: bigint, cost: bigint, listCost: bigint];

/**
 * See the ledger's port. Only the sums that are asked for: what takes time is the sorting of wide rows. A span that is one row
 * is taken from whole days, and from quarter hours at its edges: they are a tenth as many.
 */
export function readSpend(db: Connection, calendar: Calendar, query: SpendQuery): readonly SpendRow[] {
  const { each, since, until } = query;
  if (each !== "all") return selectSpend(db, calendar, query, each === "day");
  const firstDay = calendar.spanOf("1d", since).start === since ? since : (calendar.spanOf("1d", since).end ?? until);
  const lastDay = calendar.spanOf("1d", until).start;
  const part = (from: number, to: number, fromDays: boolean) =>
    from < to ? selectSpend(db, calendar, { ...query, since: from, until: to }, fromDays) : [];
  if (firstDay >= lastDay) return part(since, until, false);
  return db.transaction(() => together(since, [...part(since, firstDay, false), ...part(firstDay, lastDay, true), ...part(lastDay, until, false)]))();
}

/** Rows of parts of a span as those of the whole. */
function together(since: number, rows: readonly SpendRow[]): readonly SpendRow[] {
  const byNames = new Map<string, SpendRow>();
  for (const row of rows) {
    const name = row.names.map((each) => each ?? "").join("\0");
    const { requests = 0, unpricedRequests = 0, cost = noMoney, listCost = noMoney } = byNames.get(name) ?? {};
    byNames.set(name, {
      start: since,
      names: row.names,
      requests: requests + row.requests,
      unpricedRequests: unpricedRequests + row.unpricedRequests,
      cost: add(cost, row.cost),
      listCost: add(listCost, row.listCost),
    });
  }
  return [...byNames].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}

function selectSpend(db: Connection, calendar: Calendar, query: SpendQuery, fromDays: boolean): readonly SpendRow[] {
  const { by, since, until, key } = query;
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
