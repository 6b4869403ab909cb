import { usd, type PicoUsd } from "../../src/core/money.ts";
import type { Unknown } from "./peer.ts";

/** Converts an amount that a peer's ledger states as a floating-point number of USD. Rounds to a trillionth of a USD. */
export function fromFloat(amount: number): PicoUsd {
  if (!Number.isFinite(amount)) throw new RangeError(`${amount} is not an amount of USD`);
  return usd(amount.toFixed(12));
}

export function isUnknown(value: unknown): value is Unknown {
  return typeof value === "object" && value !== null && "unknown" in value;
}

/** Returns the share of the bill that a ledger records, in percent with one decimal; null if nothing was billed. */
export function shareOf(recorded: PicoUsd, billed: PicoUsd): number | null {
  return billed === 0n ? null : Number((recorded * 2000n + billed) / (2n * billed)) / 10;
}
