import type { RecentQuery } from "../ports/spend.ts";

/** Charges to scan in a first query. */
const firstQueryCharges = 5_000;
/** Charges to scan in a later query: clients poll each second and show fewer. */
const laterQueryCharges = 1_000;
/** Longest expected delay from a settlement's stated end to its write, in milliseconds. */
export const writtenLateMs = 2_000;

/** Returns the number of latest charges to scan. */
export function chargesToScan({ after }: RecentQuery): number {
  return after === undefined ? firstQueryCharges : laterQueryCharges;
}
