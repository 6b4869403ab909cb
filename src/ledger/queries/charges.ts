import type { ChargePage, ChargeQuery } from "../../ports/ledger.ts";
import type { PageEnd } from "./interfaces.ts";
import { Conditions } from "./page.ts";
import { withNumbers, rowOf, rowsOf, type Query, type Statement } from "./query.ts";
import { chargeColumns, chargeOf, type ShownChargeRow } from "../rows/charges.ts";
import type { Dialect } from "./dialects.ts";

/**
 * Implements `LedgerQueries.charges`. Orders charges with equal times or costs by `seq`, in the direction of the list.
 *
 * Only the conditions in `Plan.indexed` have an index. With any other filter, and in order of cost, the database must read
 * all charges of the span. `examinedMax` limits their number: an index query first finds the last charge to examine,
 * and the list reads no charge beyond it. The next page of a list by time continues there. A list by cost contains only
 * the examined charges.
 */
export function* readCharges(dialect: Dialect, query: ChargeQuery): Query<ChargePage> {
  const after = query.after === undefined ? null : yield* positionOf(query.after);
  if (after === undefined) return { charges: [], next: null, examinedTo: null };
  const plan = planOf(dialect, query, after);
  const lastExamined = yield* lastExaminedOf(query, plan);
  const rows = yield* rowsOf<ShownChargeRow>(statementOf(query, plan, lastExamined));
  const charges = rows.slice(0, query.limit).map(chargeOf);
  const hasMore = rows.length > query.limit;
  if (hasMore && !(lastExamined !== null && plan.isByCost))
    return { charges, next: charges.at(-1)?.id ?? null, examinedTo: null };
  if (lastExamined === null) return { charges, next: null, examinedTo: null };
  const next = plan.isByCost ? (hasMore ? charges.at(-1)?.id : null) : yield* idOf(lastExamined);
  return { charges, next: next ?? null, examinedTo: lastExamined.at };
}

/** Position of a charge in a list. Only a list by cost uses `cost`. */
type Position = PageEnd & { readonly cost: bigint };

/** Returns the position of a charge; undefined if the charge does not exist. */
function* positionOf(id: string): Query<Position | undefined> {
  const row = yield* rowOf<{ readonly at: bigint; readonly seq: bigint; readonly cost: bigint }>({
    sql: "select admitted_at as at, seq, coalesce(cost, 0) as cost from charges where id = ?",
    values: [id],
  });
  return row && { at: Number(row.at), seq: Number(row.seq), cost: row.cost };
}

function* idOf({ seq }: PageEnd): Query<string | undefined> {
  return (yield* rowOf<{ readonly id: string }>({ sql: "select id from charges where seq = ?", values: [seq] }))?.id;
}

interface Plan {
  readonly isByCost: boolean;
  readonly order: "asc" | "desc";
  /** Conditions that the database can check with an index. */
  readonly indexed: Conditions;
  readonly filters: Conditions;
}

/** Length of the shortest id prefix that the query looks up in an index. Shorter prefixes match too many charges. */
const prefixMin = 8;
/** Character that sorts after every character of an id. */
const lastCharacter = "\u{10FFFF}";

const withoutSql: Readonly<Record<NonNullable<ChargeQuery["without"]>, string>> = {
  key: "key = ''",
  team: "team is null",
  group: "price_group is null",
};

function planOf(dialect: Dialect, query: ChargeQuery, after: Position | null): Plan {
  const { sort = "time", order = "desc", idPrefix, status, doubt } = query;
  const isByCost = sort === "cost";
  const compare = order === "desc" ? "<" : ">";
  const indexed = new Conditions()
    .add("key = ?", query.key)
    .add("adjusts = ?", query.adjusts)
    .add("admitted_at >= ?", query.since)
    .add("admitted_at < ?", query.until);
  // A literal, because the database uses the index of pending charges only for constants.
  if (query.state === "pending") indexed.add("state = 'pending'");
  if (idPrefix !== undefined && idPrefix.length >= prefixMin)
    indexed.add("seq in (select seq from charges where id >= ? and id < ?)", idPrefix, idPrefix + lastCharacter);
  // The first condition is redundant, but lets the database use the index.
  if (!isByCost)
    indexed.add(
      `admitted_at ${compare}= ? and (admitted_at ${compare} ? or seq ${compare} ?)`,
      after?.at,
      after?.at,
      after?.seq,
    );
  const filters = new Conditions()
    .add("model = ?", query.model)
    .add("team = ?", query.team)
    .add("price_group = ?", query.group)
    .add("source = ?", query.source)
    .add("status between ? and ?", ...(status ?? [undefined]))
    .add("cost >= ?", query.minCost)
    .add("cost <= ?", query.maxCost);
  if (query.state !== undefined && query.state !== "pending") filters.add(`state = '${query.state}'`);
  if (query.without !== undefined) filters.add(withoutSql[query.without]);
  if (doubt === true) filters.add("doubts is not null");
  else if (doubt !== undefined) filters.add("',' || doubts || ',' like ?", `%,${doubt},%`);
  for (const [column, pair] of [
    ["tags", query.tag],
    ["labels", query.label],
  ] as const) {
    if (pair === undefined) continue;
    const member = dialect.member(column, pair.name);
    filters.add(`${member.sql} = ?`, ...member.values, pair.value);
  }
  if (query.user !== undefined) filters.add("end_user = ?", query.user);
  if (idPrefix !== undefined && idPrefix.length < prefixMin)
    filters.add("substr(id, 1, cast(? as integer)) = ?", idPrefix.length, idPrefix);
  if (isByCost)
    filters.add(
      `(coalesce(cost, 0) ${compare} ? or (coalesce(cost, 0) = ? and seq ${compare} ?))`,
      after?.cost,
      after?.cost,
      after?.seq,
    );
  return { isByCost, order, indexed, filters };
}

/** Returns the last charge to examine; null if the query may examine all charges of the span. */
function* lastExaminedOf(
  { examinedMax }: ChargeQuery,
  { isByCost, order, indexed, filters }: Plan,
): Query<PageEnd | null> {
  if (examinedMax === undefined || (filters.isEmpty && !isByCost)) return null;
  const towards = isByCost ? "desc" : order;
  const rows = yield* rowsOf<{ readonly at: bigint; readonly seq: bigint }>({
    sql: `select admitted_at as at, seq from charges where ${indexed.sql} order by admitted_at ${towards}, seq ${towards} limit 2 offset ? + 0`,
    values: [...indexed.values, examinedMax - 1],
  });
  const [last] = rows;
  return last === undefined || rows.length < 2 ? null : withNumbers(last);
}

function statementOf({ limit }: ChargeQuery, plan: Plan, lastExamined: PageEnd | null): Statement {
  const { isByCost, order, indexed, filters } = plan;
  const values = [...indexed.values, ...filters.values];
  let where = `${indexed.sql} and ${filters.sql}`;
  if (lastExamined !== null) {
    const compare = isByCost || order === "desc" ? ">" : "<";
    where += ` and admitted_at ${compare}= ? and (admitted_at ${compare} ? or seq ${compare}= ?)`;
    values.push(lastExamined.at, lastExamined.at, lastExamined.seq);
  }
  if (!isByCost)
    return {
      sql: `select ${chargeColumns} from charges where ${where} order by admitted_at ${order}, seq ${order} limit ?`,
      values: [...values, limit + 1],
    };
  const byCost = `order by coalesce(cost, 0) ${order}, seq ${order}`;
  // The subquery sorts charge numbers, because sorting whole rows is slow.
  return {
    sql: `select ${chargeColumns} from charges where seq in (select seq from charges where ${where} ${byCost} limit ?) ${byCost}`,
    values: [...values, limit + 1],
  };
}
