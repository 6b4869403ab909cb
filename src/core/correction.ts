import type { Charge } from "./charge.ts";
import { noMoney, picoUsdMax, type PicoUsd } from "./money.ts";

export type CorrectionFault = "not_posted" | "is_adjustment" | "below_zero" | "too_large";

/**
 * Returns why a charge cannot be corrected by an amount; null when it can. `corrected` is the sum of its corrections so
 * far. A charge without a price counts as 0, so its cost can be added later.
 */
export function correctionFault(
  { state, formula, cost }: Pick<Charge, "state" | "formula" | "cost">,
  corrected: bigint,
  amount: PicoUsd,
): CorrectionFault | null {
  if (state !== "posted") return "not_posted";
  if (formula === "adjustment") return "is_adjustment";
  const total = (cost ?? noMoney) + corrected + amount;
  if (total < 0n) return "below_zero";
  return total > picoUsdMax ? "too_large" : null;
}
