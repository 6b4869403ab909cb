import type { Charge } from "../core/charge.ts";
import { itemise } from "../core/cost.ts";
import { formatRate, formatUsd } from "../core/money.ts";
import type { PriceVersion } from "../core/price.ts";
import { isoTime } from "./names.ts";

/** A charge as its amount comes about: the lines that add up to it, the price they are of, and how that is known. */
export function itemisedJson(charge: Charge, price: PriceVersion | undefined) {
  const isPriced = charge.formula === "tokens" || charge.formula === "per_request";
  const items = price === undefined || !isPriced ? [] : itemise(price, charge.tokens, charge.billing);
  return {
    ended_at: charge.endedAt === null ? null : isoTime(charge.endedAt),
    formula: charge.formula,
    reason: charge.reason,
    clamped: charge.clamped,
    retry: charge.retry,
    items: items.map((item) => ({
      class: item.class,
      tokens: item.tokens,
      usd_per_million: item.rate === null ? null : formatRate(item.rate),
      cost_usd: formatUsd(item.cost),
      list_usd_per_million: item.listRate === null ? null : formatRate(item.listRate),
      list_cost_usd: formatUsd(item.listCost),
      tier_from: item.tierFrom,
    })),
    price: price === undefined ? null : {
      model: price.model, from: price.from, source: price.source, fraction: price.fraction,
      minimum: { tokens: price.minimum.tokens, usd: formatUsd(price.minimum.usd) },
    },
    known: knownBy(charge),
  };
}

/** How the amount is known, in a sentence or two. */
function knownBy({ state, formula, source, clamped }: Charge): string {
  if (state === "pending") return "It runs: the most that it can cost is held.";
  if (state === "voided") return "It cost nothing.";
  switch (formula) {
    case "adjustment":
      return "A person corrected a charge by this amount.";
    case "unpriced":
      return "No price file names a price for it, so nobody knows what it cost.";
    case "task":
      return "The task's own record says what it used.";
    default:
  }
  switch (source) {
    case "reported":
      return clamped ? "The gateway reported these tokens; where its figures contradicted each other, the dearer reading counts." : "The gateway reported these tokens.";
    case "counted":
      return "The gateway reported no usage; the tokens of the whole answer were counted.";
    case "partial":
      return "The answer was cut off; what had been delivered until then was counted.";
    default:
      return "Nobody could tell what it used, so it costs what was held for it.";
  }
}
