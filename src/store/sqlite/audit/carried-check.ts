import { carriedDigest } from "../prune.ts";
import type { Connection } from "../connection.ts";
import { rollupCounts, rollupDimensions } from "../rollups.ts";
import type { Report } from "./findings.ts";

interface CarriedRow {
  readonly charge: number;
  readonly id: string | null;
  readonly admitted_at: number;
  readonly key: string;
  readonly team: string | null;
  readonly model: string;
  readonly price_group: string | null;
  readonly source: string | null;
  readonly route: string;
  readonly requests: number;
  readonly unpriced: number;
  readonly retries: number;
}

/**
 * Counts of carried sums: each belongs to a sum whose name is the digest of what it is the sum of, and there are not more
 * unpriced requests or retries than requests. Sums without counts are found among the charges.
 */
export function checkCarried(db: Connection, report: Report): void {
  const columns = ["id", "admitted_at", "route", ...rollupDimensions].join(", ");
  const counts = rollupCounts.join(", ");
  const rows = db
    .prepare(`select charge, ${columns}, ${counts} from carried left join charges on seq = charge`)
    .iterate() as IterableIterator<CarriedRow>;
  for (const row of rows) {
    const differ = (expected: string, found: string, isDerived: boolean) =>
      report({
        kind: "carried", id: row.id ?? String(row.charge), expected, found, derived: isDerived ? { of: "carried", charge: row.charge } : null,
      });
    if (row.id === null) differ("a carried sum", "counts of none", true);
    else {
      const digest = carriedDigest([row.admitted_at, row.key, row.team, row.model, row.price_group, row.source]);
      if (row.route !== "carried" || !row.id.endsWith(`-${digest}`)) differ(`a carried sum with the digest ${digest}`, `${row.route} ${row.id}`, false);
      const { requests, unpriced, retries } = row;
      if (Math.min(unpriced, retries) < 0 || Math.max(unpriced, retries) > requests) {
        differ("unpriced and retries among the requests", `requests ${requests}, unpriced ${unpriced}, retries ${retries}`, false);
      }
    }
  }
}
