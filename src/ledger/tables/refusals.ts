import { hash } from "node:crypto";
import type { PicoUsd } from "../../core/money.ts";
import {
  refusalRowsMax,
  type RefusalCause,
  type RefusalCauseQuery,
  type RefusalCauses,
  type RefusalColumn,
  type RefusalCount,
  type RefusalCountQuery,
  type RefusalPage,
  type RefusalPosition,
  type RefusalQuery,
  type RefusalRow,
  type RefusalSort,
  type Refusals,
} from "../../ports/refusals.ts";
import { Conditions, containing, pageOf, type ListRows } from "../queries/page.ts";
import { rowsOf, sumSql, write, type Query, type Value } from "../queries/query.ts";
import { marks, one, type Table } from "./table.ts";
import { minuteMs, quarterHourMs } from "../../core/time.ts";

/** Possible numbers of rows in one insert. There are only three, because each number needs a prepared statement. */
const rowsAtOnce = [64, 8, 1] as const;
/** Largest number of rows that one transaction removes, so that holds do not wait long for it. */
const removedAtOnce = 500;

const names = [
  "minute",
  "id",
  "key",
  "team",
  "route",
  "model",
  "code",
  "scope",
  "period",
  "subject",
  "count",
  "first_at",
  "last_at",
  "needed",
] as const;

/**
 * Returns the values of a row in the order of `names`. The id is a digest. Refusals of a minute with equal ids are
 * counted in the same row.
 */
function valuesOf(row: RefusalRow): readonly Value[] {
  const { minute, key, team, route, model, code, scope, period, subject, count, firstAt, lastAt, needed } = row;
  const id = hash("sha256", JSON.stringify([key, team, route, model, code, scope, period, subject]), "base64url").slice(
    0,
    22,
  );
  return [minute, id, key, team, route, model, code, scope, period, subject, count, firstAt, lastAt, needed];
}

const extremeOf = (column: string, comparison: "<" | ">") =>
  `${column} = case when excluded.${column} ${comparison} refusals.${column} then excluded.${column} else refusals.${column} end`;

/** Returns the statement that inserts a number of rows, or adds them to stored rows with the same minute and id. */
const addSql = (count: number) => `insert into refusals (${names.join(", ")})
  values ${Array.from({ length: count }, () => `(${marks(names)})`).join(", ")}
  on conflict (minute, id) do update set count = refusals.count + excluded.count,
    ${extremeOf("first_at", "<")}, ${extremeOf("last_at", ">")},
    needed = case when refusals.needed is null or excluded.needed > refusals.needed then excluded.needed else refusals.needed end`;
const addStatements = rowsAtOnce.map((count) => ({ count, sql: addSql(count) }));

export const refusals: Table<Pick<Refusals, "add" | "remove">, "add" | "remove"> = {
  queries: {},
  announces: false,
  unavailable: { add: false, remove: 0 },
  writes: {
    *add(rows) {
      // Writes rows in a fixed order, so that two proxies do not deadlock.
      const given = rows.map(valuesOf).sort((a, b) => (positionOf(a) < positionOf(b) ? -1 : 1));
      let from = 0;
      for (const { count, sql } of addStatements)
        for (; from + count <= given.length; from += count)
          yield* write(sql, ...given.slice(from, from + count).flat());
      return true;
    },
    *remove({ minute, id }) {
      // Locks rows in a fixed order, so that two proxies do not deadlock.
      const removed = yield* rowsOf<RefusalPosition>({
        sql: "select minute, id from refusals where (minute, id) <= (?, ?) order by minute, id limit ?",
        values: [minute, id, removedAtOnce],
        isSmall: true,
        lock: "update",
      });
      const last = removed.at(-1);
      if (last !== undefined) yield* write("delete from refusals where (minute, id) <= (?, ?)", last.minute, last.id);
      return removed.length;
    },
  },
};

function positionOf([minute, id]: readonly Value[]): string {
  return `${String(minute).padStart(16, "0")}-${String(id)}`;
}

type StoredRow = Omit<RefusalRow, "minute" | "count" | "firstAt" | "lastAt"> & {
  readonly minute: bigint;
  readonly id: string;
  readonly count: bigint;
  readonly first_at: bigint;
  readonly last_at: bigint;
  readonly needed: PicoUsd | null;
  readonly amount: PicoUsd;
};

const byTime = [
  ["minute", "integer"],
  ["id", "text"],
] as const;
const sorts: ListRows<RefusalSort>["sorts"] = {
  time: byTime,
  count: [["count", "integer"], ...byTime],
  needed: [["amount", "integer"], ...byTime],
};

/**
 * Implements `Refusals.list`. Only the key, the team and the time have an index, so a list with any other filter or
 * order examines row after row. `examinedMax` limits these rows: a first query finds the last row to examine, and the
 * second query reads no rows beyond it. A list by time continues after that row on its next page. Any other list
 * contains only the examined rows.
 */
export function* readRefusals(query: RefusalQuery): Query<RefusalPage | undefined> {
  const { limit, sort = "time", order = "desc", cursor: after, examinedMax } = query;
  const { span, filters } = conditionsOf(query);
  const isByTime = sort === "time";
  const edge =
    examinedMax === undefined || (isByTime && filters.isEmpty)
      ? { rows: [], next: null }
      : yield* pageOf<RefusalPosition, RefusalSort>(
          { sql: `select minute, id from refusals where ${span.sql}`, values: span.values, sorts },
          { sort: "time", limit: 1, skip: examinedMax - 1, ...(isByTime ? { order, after } : { order: "desc" }) },
        );
  if (edge === null) return undefined;
  const [last] = edge.next === null ? [] : edge.rows;
  span.add(`(minute, id) ${isByTime && order === "asc" ? "<=" : ">="} (?, ?)`, last?.minute, last?.id);
  // SQLite sorts many equal counts or amounts faster if it reads the rows in the final order. Without the limit, it
  // would ignore this order.
  const ordered = isByTime ? "" : `order by minute ${order}, id ${order} limit ${refusalRowsMax}`;
  const page = yield* pageOf<StoredRow, RefusalSort>(
    {
      sql: `select ${names.join(", ")}, coalesce(needed, 0) as amount
        from (select * from refusals where ${span.sql} and ${filters.sql} ${ordered}) matching`,
      values: [...span.values, ...filters.values],
      sorts,
    },
    { sort, order, limit, after },
  );
  if (page === null) return undefined;
  const end = last === undefined || (isByTime && page.next !== null) ? null : last;
  return {
    refusals: page.rows.map(refusalOf),
    next: isByTime && end !== null ? edge.next : page.next,
    examinedTo: end === null ? null : Number(end.minute),
  };
}

/** SQL expression for the text to search: one line for each searched column. */
const searched = `concat_ws('\n', key, team, model, code, scope, replace(replace(subject, '%20', ' '), '%25', '%'))`;

/** Returns the conditions of a list. `span`: conditions that can use an index. `filters`: the other conditions. */
function conditionsOf(query: RefusalQuery): { readonly span: Conditions; readonly filters: Conditions } {
  const { key, team, model, code, since, until, search = "" } = query;
  const span = new Conditions()
    .add("key = ?", key)
    .add("minute >= ? and last_at >= ?", since === undefined ? since : since - minuteMs, since)
    .add("minute < ? and first_at < ?", until, until);
  const filters = new Conditions().add("model = ?", model).add("code = ?", code);
  (key === undefined ? span : filters).add("team = ?", team);
  if (search === "") return { span, filters };
  const [named, found] = [containing("name", search), containing(searched, search)];
  const sql = `(key in (select id from keys where ${named.sql}) or ${found.sql})`;
  return { span, filters: filters.add(sql, ...named.values, ...found.values) };
}

function refusalOf({ id: _id, amount: _amount, minute, count, first_at, last_at, ...rest }: StoredRow): RefusalRow {
  return {
    ...rest,
    minute: Number(minute),
    count: Number(count),
    firstAt: Number(first_at),
    lastAt: Number(last_at),
  };
}

interface CauseRow extends Omit<RefusalCause, "count" | "lastAt"> {
  readonly count: bigint;
  readonly last_at: bigint;
  readonly total: bigint;
}

/** Implements `Refusals.causes`. */
export function* readCauses({ limit, examinedMax, ...query }: RefusalCauseQuery): Query<RefusalCauses> {
  const { span, filters } = conditionsOf({ ...query, limit });
  const [last] =
    examinedMax === undefined
      ? []
      : yield* rowsOf<{ readonly minute: bigint; readonly id: string }>({
          sql: `select minute, id from refusals where ${span.sql} order by minute desc, id desc limit 1 offset ?`,
          values: [...span.values, examinedMax],
        });
  span.add("(minute, id) > (?, ?)", last?.minute, last?.id);
  const rows = yield* rowsOf<CauseRow>({
    sql: `select key, code, scope, period, subject, case when code = 'model_not_allowed' then model end as model,
        ${sumSql("count")} as count, max(last_at) as last_at, max(needed) as needed, count(*) over () as total
      from refusals where ${span.sql} and ${filters.sql}
      group by 1, 2, 3, 4, 5, 6 order by 8 desc, 7 desc, 1, 2 limit ?`,
    values: [...span.values, ...filters.values, limit],
  });
  return {
    causes: rows.map(({ total: _total, count, last_at: lastAt, ...cause }) => ({
      ...cause,
      count: Number(count),
      lastAt: Number(lastAt),
    })),
    total: Number(rows[0]?.total ?? 0),
    examinedTo: last === undefined ? null : Number(last.minute),
  };
}

const columnSql: Readonly<Record<RefusalColumn, string>> = {
  key: "key",
  team: "team",
  model: "model",
  scope: "scope",
  period: "period",
  subject: "subject",
  quarter: `minute - minute % ${quarterHourMs}`,
};

/** Implements `Refusals.count`. */
export function* countRefusals({ by, since, until, key }: RefusalCountQuery): Query<readonly RefusalCount[]> {
  const columns = by.map((name) => `${columnSql[name]} as ${name}`);
  const where = new Conditions()
    .add("minute >= ? and minute < ?", Math.floor(since / minuteMs) * minuteMs, until)
    .add("key = ?", key);
  const rows = yield* rowsOf<Omit<RefusalCount, "count" | "quarter"> & { quarter?: bigint; count: bigint }>({
    sql: `select ${[...columns, `${sumSql("count")} as count`].join(", ")} from refusals
      where ${where.sql}
      ${by.length === 0 ? "" : `group by ${by.map((_, index) => index + 1).join(", ")}`}`,
    values: where.values,
  });
  return rows
    .map(({ count, quarter, ...rest }) => ({
      ...rest,
      ...(quarter !== undefined && { quarter: Number(quarter) }),
      count: Number(count),
    }))
    .filter(({ count }) => count > 0);
}

/** Implements `Refusals.excess`. */
export function* readExcess(kept: number): Query<RefusalPosition | null> {
  const sql = "select minute, id from refusals order by minute desc, id desc limit 1 offset ?";
  return (yield* one<RefusalPosition>(sql, kept)) ?? null;
}
