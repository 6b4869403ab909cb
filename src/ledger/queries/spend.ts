import { add, noMoney, type PicoUsd } from "../../core/money.ts";
import type { Calendar } from "../../ports/calendar.ts";
import { otherNames, type SpendQuery, type SpendRow } from "../../ports/spend.ts";
import { Conditions } from "./page.ts";
import { rowsOf, sumSql, type Query, type Statement } from "./query.ts";
import { dimensionColumns, wholeDays } from "./report.ts";
import { marks } from "../tables/table.ts";
import { hourMs } from "../../core/time.ts";

/**
 * Represents `otherNames` in SQL, because text in PostgreSQL cannot contain NUL. It sorts after "", which means no
 * name, and before every name.
 */
const othersInSql = "\u0001";

type Row = Readonly<Record<`name_${number}`, string>> & {
  readonly start: string | bigint;
  readonly requests: bigint;
  readonly unpriced: bigint;
  readonly cost: bigint;
  readonly list_cost: bigint;
  readonly in_doubt: bigint;
};

/**
 * Implements `LedgerQueries.spend`. Selects few columns, because sorting wide rows is slow. With `each: "all"`, reads
 * the rollup by days for whole days, and the larger rollup by quarter hours only for the edges of the span.
 */
export function* readSpend(calendar: Calendar, query: SpendQuery): Query<readonly SpendRow[]> {
  const { each, since, until } = query;
  function* part(from: number, to: number, fromDays: boolean): Query<readonly SpendRow[]> {
    if (from >= to) return [];
    const rows = yield* rowsOf<Row>(statementOf(calendar, { ...query, since: from, until: to }, fromDays));
    return rows.map((row) => rowOf(row, query, calendar));
  }
  if (each !== "all") return yield* part(since, until, each !== "hour");
  const { firstDay, lastDay } = wholeDays(calendar, query);
  if (firstDay >= lastDay) return yield* part(since, until, false);
  return mergeParts(since, [
    ...(yield* part(since, firstDay, false)),
    ...(yield* part(firstDay, lastDay, true)),
    ...(yield* part(lastDay, until, false)),
  ]);
}

/** Adds up the rows with equal names, and sorts the results by name. */
function mergeParts(since: number, rows: readonly SpendRow[]): readonly SpendRow[] {
  const byNames = new Map<string, SpendRow>();
  for (const row of rows) {
    const name = row.names.map((each) => each ?? "").join("\0");
    const {
      requests = 0,
      unpricedRequests = 0,
      cost = noMoney,
      listCost = noMoney,
      inDoubt = noMoney,
    } = byNames.get(name) ?? {};
    byNames.set(name, {
      start: since,
      names: row.names,
      requests: requests + row.requests,
      unpricedRequests: unpricedRequests + row.unpricedRequests,
      cost: add(cost, row.cost),
      listCost: add(listCost, row.listCost),
      inDoubt: add(inDoubt, row.inDoubt),
    });
  }
  return [...byNames].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}

function statementOf(calendar: Calendar, query: SpendQuery, fromDays: boolean): Statement {
  const { by, since, until, apart } = query;
  const table = fromDays ? "rollup_day" : "rollup_quarter";
  const time = fromDays ? "day" : "starts_at";
  const edge = (at: number) => (fromDays ? calendar.dateOf(at) : at);
  const where = new Conditions()
    .add(`${time} >= ? and ${time} < ?`, edge(since), edge(until))
    .add("key = ?", query.key)
    .add("team = ?", query.team)
    .add("model = ?", query.model);
  const bucket = {
    month: "substr(day, 1, 7)",
    day: "day",
    hour: `(starts_at - cast(? as bigint)) / ${hourMs}`,
    all: "0",
  }[query.each];
  const names = by.map((dimension, index) => {
    const column = dimensionColumns[dimension];
    if (apart === undefined || index > 0) return column;
    return apart.length === 0
      ? "cast(? as text)"
      : `case when ${column} in (${marks(apart)}) then ${column} else ? end`;
  });
  const folded = apart === undefined || by.length === 0 ? [] : [...apart.map((name) => name ?? ""), othersInSql];
  const order = [1, ...names.map((_, index) => index + 2)].join(", ");
  return {
    sql: `select ${[`${bucket} as start`, ...names.map((name, index) => `${name} as name_${index}`)].join(", ")},
        ${sumSql("requests")} as requests, ${sumSql("unpriced")} as unpriced, ${sumSql("cost")} as cost, ${sumSql("list_cost")} as list_cost, ${sumSql("in_doubt")} as in_doubt
      from ${table} where ${where.sql}
      group by ${order} order by ${order}`,
    values: [...(query.each === "hour" ? [since] : []), ...folded, ...where.values],
  };
}

function rowOf(row: Row, { by, each, since }: SpendQuery, calendar: Calendar): SpendRow {
  const startOf = (start: string | bigint) => {
    if (each === "month") return calendar.startOfDate(`${start}-01`);
    return each === "day" ? calendar.startOfDate(String(start)) : since + Number(start) * hourMs;
  };
  return {
    start: startOf(row.start),
    names: by.map((_, index) => nameOf(row[`name_${index}`] ?? "")),
    requests: Number(row.requests),
    unpricedRequests: Number(row.unpriced),
    cost: row.cost as PicoUsd,
    listCost: row.list_cost as PicoUsd,
    inDoubt: row.in_doubt as PicoUsd,
  };
}

function nameOf(stored: string): string | null {
  if (stored === othersInSql) return otherNames;
  return stored === "" ? null : stored;
}
