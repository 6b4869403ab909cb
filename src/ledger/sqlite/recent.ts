import type { Charge } from "../../core/charge.ts";
import type { RecentCursor, RecentQuery } from "../../ports/spend.ts";
import { chargesToScan, writtenLateMs } from "../recent-charges.ts";
import { chargeColumns, chargeOf, type ShownChargeRow } from "../rows/charges.ts";
import type { Connection } from "./connection.ts";

/** Implements `LedgerQueries.recent`. The last rows are stored together, so filters and ends need no index. */
export function readRecent(
  db: Connection,
  query: RecentQuery,
): { readonly charges: readonly Charge[]; readonly cursor: RecentCursor } {
  const conditions: string[] = [];
  const values: (string | number)[] = [];
  for (const name of ["key", "team", "model", "state"] as const) {
    const value = query[name];
    if (value === undefined) continue;
    conditions.push(`${name} = ?`);
    values.push(value);
  }
  if (query.after !== undefined) {
    conditions.push("(seq > ? or ended_at >= ?)");
    values.push(query.after.written, query.after.endedAt - writtenLateMs);
  }
  const last = "(select * from charges order by seq desc limit ?)";
  const scanned = chargesToScan(query);
  return db.transaction(() => {
    const rows = db
      .prepare(
        `select ${chargeColumns} from ${last} ${conditions.length === 0 ? "" : `where ${conditions.join(" and ")}`} order by seq desc limit ?`,
      )
      .safeIntegers()
      .all(scanned, ...values, query.limit) as ShownChargeRow[];
    const [written, endedAt] = db.prepare(`select max(seq), max(ended_at) from ${last}`).raw().get(scanned) as [
      number | null,
      number | null,
    ];
    return { charges: rows.map(chargeOf), cursor: { written: written ?? 0, endedAt: endedAt ?? 0 } };
  })();
}
