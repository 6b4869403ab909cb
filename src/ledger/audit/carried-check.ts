import { carriedDigest, rollupCounts, rollupDimensions } from "../rollups.ts";
import type { Query } from "../queries/query.ts";
import { Feed } from "./feed.ts";
import type { Report } from "./findings.ts";

interface CarriedRow {
  readonly charge: bigint;
  readonly id: string | null;
  readonly admitted_at: bigint;
  readonly key: string;
  readonly team: string | null;
  readonly model: string;
  readonly price_group: string | null;
  readonly source: string | null;
  readonly route: string;
  readonly requests: bigint;
  readonly unpriced: bigint;
  readonly retries: bigint;
}

/**
 * Checks the counts of carried sums: each belongs to a sum named by the digest of its contents, with at most as many
 * unpriced requests and retries as requests. Sums without counts are found among the charges.
 */
export function* checkCarried(report: Report): Query<void> {
  const columns = ["id", "admitted_at", "route", ...rollupDimensions].join(", ");
  const counts = rollupCounts.join(", ");
  const rows = new Feed<CarriedRow>(
    `select charge, ${columns}, ${counts} from carried left join charges on seq = charge`,
  );
  for (yield* rows.fill(); rows.next !== undefined; rows.advance(), yield* rows.fill()) check(rows.next, report);
}

function check(row: CarriedRow, report: Report): void {
  const differ = (expected: string, found: string, isDerived: boolean) =>
    report({
      kind: "carried",
      id: row.id ?? String(row.charge),
      expected,
      found,
      derived: isDerived ? { of: "carried", charge: Number(row.charge) } : null,
    });
  if (row.id === null) {
    differ("a carried sum", "counts of none", true);
    return;
  }
  const digest = carriedDigest([row.admitted_at, row.key, row.team, row.model, row.price_group, row.source]);
  if (row.route !== "carried" || !row.id.endsWith(`-${digest}`))
    differ(`a carried sum with the digest ${digest}`, `${row.route} ${row.id}`, false);
  const { requests, unpriced, retries } = row;
  if (unpriced < 0n || retries < 0n || unpriced > requests || retries > requests) {
    differ(
      "unpriced and retries among the requests",
      `requests ${requests}, unpriced ${unpriced}, retries ${retries}`,
      false,
    );
  }
}
