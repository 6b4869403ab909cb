import { assertNever } from "./assert.ts";
import type { Charge } from "./charge.ts";
import { costWithinRange, standardBilling, type Cost } from "./cost.ts";
import type { PriceVersion } from "./price.ts";
import { termsWithRuns } from "./runs.ts";

/** Inputs from which a posted charge's amount can be recomputed. */
export type ChargeInputs = Pick<Charge, "at" | "model" | "formula" | "source" | "tokens" | "cost" | "listCost"> &
  Partial<Pick<Charge, "billing" | "runs">>;

/**
 * Reasons why a charge cannot be recomputed under other prices.
 *
 * - `assumed`: its amount is a hold. The bounds from which the hold was computed are not stored.
 * - `no_usage`: it had no price, and its usage is unknown.
 * - `task`, `adjustment`: its amount does not come from tokens.
 * - `unknown_model`: the other prices do not name its model.
 * - `no_price`: the other prices have no price for its model in force at its time.
 * - `too_large`: its cost would exceed 64 bits of pico-USD.
 */
export const notRecomputed = [
  "assumed",
  "no_usage",
  "task",
  "adjustment",
  "unknown_model",
  "no_price",
  "too_large",
] as const;
export type NotRecomputed = (typeof notRecomputed)[number];

export type Recomputed =
  | { readonly ok: true; readonly cost: Cost }
  | { readonly ok: false; readonly why: NotRecomputed };

/** Returns the price of a requested model in force at an instant, or the reason why there is none. */
export type PriceAt = (model: string, at: number) => PriceVersion | "unknown_model" | "no_price";

/**
 * Returns the cost of a posted charge's tokens under other prices. Uses the price of the requested model, even if
 * another model answered. Runs that name a model of their own have the price of that model. If no other model answered,
 * the result under the charge's own price is the charge's cost.
 */
export function recomputeUnder(charge: ChargeInputs, priceAt: PriceAt): Recomputed {
  const why = whyNotRecomputed(charge);
  if (why !== null) return { ok: false, why };
  const price = priceAt(charge.model, charge.at);
  if (typeof price === "string") return { ok: false, why: price };
  const runs = charge.runs ?? [];
  const ownPrices = runs.map(({ model }) => (model === null ? null : priceAt(model, charge.at)));
  const unpriced = ownPrices.find((own) => typeof own === "string");
  if (unpriced !== undefined) return { ok: false, why: unpriced };
  const billing = termsWithRuns({ billing: charge.billing ?? standardBilling, runs }, ({ model }) => {
    const own = ownPrices[runs.findIndex((run) => run.model === model)] ?? null;
    return typeof own === "string" ? null : own;
  });
  const cost = billing && costWithinRange({ price, servedPrice: null }, charge.tokens, billing);
  return cost === null ? { ok: false, why: "too_large" } : { ok: true, cost };
}

/** Returns the reason why a charge cannot be recomputed from its tokens; null if it can. */
function whyNotRecomputed({ formula, source }: ChargeInputs): NotRecomputed | null {
  switch (formula) {
    case "tokens":
    case "per_request":
      return null;
    case "unpriced":
      return source === "assumed" ? "no_usage" : null;
    case "assumed":
    case "task":
    case "adjustment":
      return formula;
    case null:
      return "no_usage";
    default:
      return assertNever(formula);
  }
}
