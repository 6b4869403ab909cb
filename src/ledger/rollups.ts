import { createHash } from "node:crypto";
import { tokenClasses } from "../core/usage.ts";

/**
 * Quarter hour of UTC, the unit of a rollup, in milliseconds. All current time zones differ from UTC by whole quarters.
 */
export const quarterMs = 900_000;

/** Sums that count charges. They are not in a carried sum's row in `charges`. */
export const rollupCounts = ["requests", "unpriced", "retries"] as const;
/** Sums that are in the row of a carried sum, as in the row of any charge. */
export const rollupAmounts = [...tokenClasses, "cost", "list_cost", "in_doubt"] as const;
export const rollupSums = [...rollupCounts, ...rollupAmounts] as const;
export const rollupDimensions = ["key", "team", "model", "price_group", "source"] as const;

/** Returns the end of a carried sum's id, from its time, key, team, model, group and source. */
export function carriedDigest(identity: readonly unknown[]): string {
  const text = JSON.stringify(identity.map((part) => (part === null ? null : String(part))));
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

/** SQL expression for a charge's quarter hour. */
export const quarterOf = `admitted_at - admitted_at % ${quarterMs}`;

/**
 * Returns the SQL of the correct rows of a rollup, summed from the posted charges that match a condition. `time` is the
 * expression of the rollup's time.
 */
export function sumsFromCharges(time: string, condition = "true"): string {
  return `select ${time}, key, coalesce(team, '') as team, model, coalesce(price_group, '') as price_group, source,
      sum(case when formula <> 'adjustment' then 1 else 0 end) as requests, sum(case when cost is null then 1 else 0 end) as unpriced,
      sum(case when retry > 0 then 1 else 0 end) as retries, ${rollupAmounts.map((name) => `coalesce(sum(${name}), 0) as ${name}`).join(", ")}
    from charges where state = 'posted' and ${condition} group by 1, 2, 3, 4, 5, 6`;
}

/**
 * Returns the SQL of the counts that carried sums add to the rollup by days, beyond their rows in `charges`. `day` is
 * the expression of their date.
 */
export function carriedByDay(day: string, condition = "true"): string {
  return `select ${day}, key, coalesce(team, '') as team, model, coalesce(price_group, '') as price_group, source,
      ${rollupCounts.join(", ")}, ${rollupAmounts.map((name) => `0 as ${name}`).join(", ")}
    from carried join charges on charges.seq = carried.charge where ${condition}`;
}

/** Returns a charge's values as a rollup stores them, in the order of `rollupDimensions`. */
export function identityOf(row: {
  readonly key: string;
  readonly team: string | null;
  readonly model: string;
  readonly price_group: string | null;
  readonly source: string;
}): readonly string[] {
  return rollupDimensions.map((name) => row[name] ?? "");
}
