import type { RecentQuery } from "../ports/spend.ts";

/** A first look goes back so many charges. */
const firstQueryCharges = 5_000;
/** Later ones: whoever watches looks each second, and shows fewer. */
const laterQueryCharges = 1_000;
/** A settlement is written a moment after the end that it states; so much later at most, where the ledger keeps up. Milliseconds. */
export const writtenLateMs = 2_000;

/** How many of the last charges a look goes through. */
export function chargesToScan({ after }: RecentQuery): number {
  return after === undefined ? firstQueryCharges : laterQueryCharges;
}
