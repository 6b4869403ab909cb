import { hash } from "node:crypto";
import { tokenClasses } from "../core/usage.ts";
import { quarterHourMs } from "../core/time.ts";

/** Counts of charges. For a carried sum (a charge that replaces pruned charges), the table `carried` has the counts. */
export const rollupCounts = ["requests", "unpriced", "retries"] as const;
/** Tokens and amounts. The table `charges` has them for every charge, including carried sums. */
export const rollupAmounts = [...tokenClasses, "cost", "list_cost", "in_doubt"] as const;
export const rollupSums = [...rollupCounts, ...rollupAmounts] as const;
/** `model` is the requested name, and `entry` the model's name in the price files. */
export const rollupDimensions = ["key", "team", "model", "entry", "price_group", "source"] as const;

/** SQL expressions for a charge's values of `rollupDimensions`. Charges that earlier versions wrote have no entry. */
const dimensionsOfCharge: Readonly<Record<(typeof rollupDimensions)[number], string>> = {
  key: "key",
  team: "coalesce(team, '')",
  model: "model",
  entry: "coalesce(entry, model)",
  price_group: "coalesce(price_group, '')",
  source: "source",
};
/** SQL select list of `rollupDimensions` for a charge. */
export const selectDimensions = rollupDimensions.map((name) => `${dimensionsOfCharge[name]} as ${name}`).join(", ");

/** Returns the last part of a carried sum's id. `identity`: its time, key, team, model, group, source and entry. */
export function carriedDigest(identity: readonly unknown[]): string {
  const [, , , model, , , entry] = identity;
  // Carried sums of earlier versions have no entry. A later prune must find these sums by the same id.
  const parts = entry === null || entry === model ? identity.slice(0, -1) : identity;
  const text = JSON.stringify(parts.map((part) => (part === null ? null : String(part))));
  return hash("sha256", text).slice(0, 16);
}

/** SQL expression for the start of a charge's quarter hour. */
export const quarterOf = `admitted_at - admitted_at % ${quarterHourMs}`;

/**
 * Returns the SQL that computes the correct rows of a rollup from the posted charges that match a condition.
 * `time`: SQL expression for the rollup's time column.
 */
export function sumsFromCharges(time: string, condition = "true"): string {
  return `select ${time}, ${selectDimensions},
      sum(case when formula <> 'adjustment' then 1 else 0 end) as requests, sum(case when cost is null then 1 else 0 end) as unpriced,
      sum(case when retry > 0 then 1 else 0 end) as retries, ${rollupAmounts.map((name) => `coalesce(sum(${name}), 0) as ${name}`).join(", ")}
    from charges where state = 'posted' and ${condition} group by 1, ${rollupDimensions.map((_, index) => index + 2).join(", ")}`;
}

/**
 * Returns the SQL that selects the counts in `carried` as rows of the rollup by days. `day`: SQL expression for the
 * date.
 */
export function carriedByDay(day: string, condition = "true"): string {
  return `select ${day}, ${selectDimensions},
      ${rollupCounts.join(", ")}, ${rollupAmounts.map((name) => `0 as ${name}`).join(", ")}
    from carried join charges on charges.seq = carried.charge where ${condition}`;
}

/** Returns the SQL assignments of an upsert that adds new sums to the stored sums of a table. */
export function addedUp(table: string, names: readonly string[]): string {
  return names.map((name) => `${name} = ${table}.${name} + excluded.${name}`).join(", ");
}

/** Returns a charge's values of `rollupDimensions` in their order, with "" for null, as a rollup stores them. */
export function identityOf(row: {
  readonly key: string;
  readonly team: string | null;
  readonly model: string;
  readonly entry: string | null;
  readonly price_group: string | null;
  readonly source: string | null;
}): readonly string[] {
  return rollupDimensions.map((name) => row[name] ?? (name === "entry" ? row.model : ""));
}
