import type { Charge } from "../../core/charge.ts";
import type { RecentCursor, RecentQuery } from "../../ports/spend.ts";
import { chargesToScan } from "../recent-charges.ts";
import { chargeColumns, chargeOf, type ShownChargeRow } from "../rows/charges.ts";
import { numbered } from "./answer.ts";
import type { Statements } from "./connection.ts";

/** Transaction numbers in rows wrap around after this many. */
const around = 2 ** 32;

/**
 * Implements `LedgerQueries.recent`. Rows of several proxies do not become visible in the order of their numbers, and
 * clocks differ. So new rows are those of transactions that were still running at the previous query: the cursor's
 * `written` is the oldest of these.
 */
export async function readRecent(
  db: Statements,
  query: RecentQuery,
): Promise<{ readonly charges: readonly Charge[]; readonly cursor: RecentCursor }> {
  const conditions: string[] = [];
  const values: (string | number)[] = [chargesToScan(query)];
  for (const name of ["key", "team", "model", "state"] as const) {
    const value = query[name];
    if (value === undefined) continue;
    conditions.push(`${name} = ?`);
    values.push(value);
  }
  if (query.after !== undefined) {
    // A cursor of another database selects everything.
    conditions.push(`(running < ?::bigint or (written_by - ?::bigint + ${around}) % ${around} < ${around / 2})`);
    values.push(query.after.written, query.after.written % around);
  }
  const rows = await db.rows<ShownChargeRow & { readonly running: bigint }>(
    numbered(
      `select newest.*, running
       from (select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as running) now
       left join lateral (
         select ${chargeColumns} from (select *, xmin::text::bigint as written_by from charges order by seq desc limit ?) last
         ${conditions.length === 0 ? "" : `where ${conditions.join(" and ")}`} order by seq desc limit ?
       ) newest on true
       order by seq desc`,
    ),
    [...values, query.limit],
  );
  return {
    charges: rows.filter(({ id }) => id !== null).map(chargeOf),
    cursor: { written: Number(rows[0]?.running ?? 0n), endedAt: 0 },
  };
}
