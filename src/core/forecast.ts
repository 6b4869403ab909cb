import { add, type PicoUsd } from "./money.ts";

/** Returns the expected cost of the next `forMs` milliseconds if spending continues at the recent rate. */
export function costAtRecentRate(recent: { readonly spent: PicoUsd; readonly spanMs: number }, forMs: number): PicoUsd {
  return ((recent.spent * BigInt(Math.max(0, Math.round(forMs)))) /
    BigInt(Math.max(1, Math.round(recent.spanMs)))) as PicoUsd;
}

/**
 * Returns the expected total of a month: the amount spent so far, plus the cost of the remaining time at the recent
 * rate.
 */
export function forecastOf(
  spent: PicoUsd,
  recent: { readonly spent: PicoUsd; readonly spanMs: number },
  leftMs: number,
): PicoUsd {
  return add(spent, costAtRecentRate(recent, leftMs));
}
