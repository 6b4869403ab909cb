import { createHash } from "node:crypto";
import { tokenClasses } from "../core/usage.ts";

/** Rollups are kept by quarter hours of UTC: all zones of today are whole quarters apart from it. Milliseconds. */
export const quarterMs = 900_000;

/** Sums that count charges; the row of a carried sum cannot say them. */
export const rollupCounts = ["requests", "unpriced", "retries"] as const;
/** Sums that a carried sum's row has like any other's. */
export const rollupAmounts = [...tokenClasses, "cost", "list_cost", "in_doubt"] as const;
export const rollupSums = [...rollupCounts, ...rollupAmounts] as const;
export const rollupDimensions = ["key", "team", "model", "price_group", "source"] as const;

/** What the id of a carried sum ends with, from its time, key, team, model, group and source. */
export function carriedDigest(identity: readonly unknown[]): string {
  const text = JSON.stringify(identity.map((part) => (part === null ? null : String(part))));
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

/** The quarter hour of a charge. */
export const quarterOf = `admitted_at - admitted_at % ${quarterMs}`;

/** The rows that a rollup must have, summed from the posted charges that a condition picks; `time` is what the rollup says of their time. */
export function sumsFromCharges(time: string, condition = "true"): string {
  return `select ${time}, key, coalesce(team, '') as team, model, coalesce(price_group, '') as price_group, source,
      sum(case when formula <> 'adjustment' then 1 else 0 end) as requests, sum(case when cost is null then 1 else 0 end) as unpriced,
      sum(case when retry > 0 then 1 else 0 end) as retries, ${rollupAmounts.map((name) => `coalesce(sum(${name}), 0) as ${name}`).join(", ")}
    from charges where state = 'posted' and ${condition} group by 1, 2, 3, 4, 5, 6`;
}

/** What the rollup by days has of carried sums beyond what their rows in `charges` add to it. `day` is the date of their time. */
export function carriedByDay(day: string, condition = "true"): string {
  return `select ${day}, key, coalesce(team, '') as team, model, coalesce(price_group, '') as price_group, source,
      ${rollupCounts.join(", ")}, ${rollupAmounts.map((name) => `0 as ${name}`).join(", ")}
    from carried join charges on charges.seq = carried.charge where ${condition}`;
}

/** In the order of `rollupDimensions`, the values of a charge's columns as a rollup has them. */
export function identityOf(row: {
  readonly key: string;
  readonly team: string | null;
  readonly model: string;
  readonly price_group: string | null;
  readonly source: string;
}): readonly string[] {
  return rollupDimensions.map((name) => row[name] ?? "");
}
