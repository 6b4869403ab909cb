import { add, type PicoUsd } from "./money.ts";

/** What the rest of a span will cost if it goes on as it went: money that was spent over so many milliseconds, for so many more. */
export function spentAtThisRate(recent: { readonly spent: PicoUsd; readonly overMs: number }, forMs: number): PicoUsd {
  return ((recent.spent * BigInt(Math.max(0, Math.round(forMs)))) /
    BigInt(Math.max(1, Math.round(recent.overMs)))) as PicoUsd;
}

/** What a month comes to by its end: what is spent of it, and the rest at the recent rate. */
export function forecastOf(
  spent: PicoUsd,
  recent: { readonly spent: PicoUsd; readonly overMs: number },
  leftMs: number,
): PicoUsd {
  return add(spent, spentAtThisRate(recent, leftMs));
}
