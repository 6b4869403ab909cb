import type { ChargeState } from "../../core/charge.ts";
import type { ChargePage, ChargeQuery } from "../../ports/ledger.ts";
import type { PageEnd } from "./interfaces.ts";
import { withNumbers, rowOf, rowsOf, type Query, type Statement, type Value } from "./query.ts";
import { chargeColumns, chargeOf, type ShownChargeRow } from "../rows/charges.ts";
import type { Dialect } from "./dialects.ts";

/** Implements `LedgerQueries.charges`: newest first; for equal times, the last written first. */
export function* readCharges(dialect: Dialect, query: ChargeQuery): Query<ChargePage> {
  const after = query.after === undefined ? null : yield* placeOf(query.after);
  if (after === undefined) return { charges: [], next: null };
  const rows = yield* rowsOf<ShownChargeRow>(statementOf(dialect, query, after));
  const charges = rows.slice(0, query.limit).map(chargeOf);
  return { charges, next: rows.length > query.limit ? (charges.at(-1)?.id ?? null) : null };
}

function* placeOf(id: string): Query<PageEnd | undefined> {
  const row = yield* rowOf<PageEnd>({ sql: "select admitted_at as at, seq from charges where id = ?", values: [id] });
  return row && withNumbers(row);
}

function statementOf(dialect: Dialect, query: ChargeQuery, after: PageEnd | null): Statement {
  const conditions: string[] = [];
  const values: Value[] = [];
  const where = (sql: string, ...given: (Value | undefined)[]) => {
    const known = given.filter((value) => value !== undefined);
    if (known.length < given.length) return;
    conditions.push(sql);
    values.push(...known);
  };
  where("key = ?", query.key);
  where("model = ?", query.model);
  // A literal, because the index of pending charges serves constants only.
  if (query.state !== undefined) where(`state = '${query.state satisfies ChargeState}'`);
  where("adjusts = ?", query.adjusts);
  if (query.tag !== undefined) {
    const tag = dialect.tag(query.tag.name);
    where(`${tag.sql} = ?`, ...tag.values, query.tag.value);
  }
  where("admitted_at >= ?", query.since);
  where("admitted_at < ?", query.until);
  // The first condition is for the index.
  where("admitted_at <= ? and (admitted_at < ? or seq < ?)", after?.at, after?.at, after?.seq);
  return {
    sql: `select ${chargeColumns} from charges ${conditions.length === 0 ? "" : `where ${conditions.join(" and ")}`} order by admitted_at desc, seq desc limit ?`,
    values: [...values, query.limit + 1],
  };
}
