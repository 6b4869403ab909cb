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
