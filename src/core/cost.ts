import { add, larger, noMoney, priceOf, type PicoUsd, type PicoUsdPerToken } from "./money.ts";
import { tierFor, type PriceTier, type PriceVersion } from "./price.ts";
import {
  completionClasses,
  completionTotal,
  promptClasses,
  promptTotal,
  tokenClasses,
  type TokenClass,
  type TokenCounts,
} from "./tokens.ts";

export interface Cost {
  /** What the gateway charges, its minimum included. */
  readonly charged: PicoUsd;
  /** The same tokens at the provider's official rates; it has no minimum. */
  readonly list: PicoUsd;
  readonly minimumApplied: boolean;
}

/** One line of an itemised cost. */
export interface CostItem {
  readonly class: TokenClass | "request" | "minimum";
  readonly tokens: number;
  readonly rate: PicoUsdPerToken | null;
  readonly cost: PicoUsd;
}

/** Exact cost of these tokens: tokens times rate, no rounding. */
export function costOf(price: PriceVersion, tokens: TokenCounts): Cost {
  const before = price.perRequest?.charged ?? tokenCost(price, tokens, "charged");
  const list = price.perRequest?.list ?? tokenCost(price, tokens, "list");
  const charged = withMinimum(price, tokens, before);
  return { charged, list, minimumApplied: charged !== before };
}

/** The lines that add up to the charged cost of `costOf`. */
export function itemise(price: PriceVersion, tokens: TokenCounts): CostItem[] {
  const items: CostItem[] = [];
  if (price.perRequest !== null) {
    items.push({ class: "request", tokens: 0, rate: null, cost: price.perRequest.charged });
  } else {
    for (const part of pricedParts(price, tokens)) {
      const rate = part.tier.charged[part.class];
      items.push({ class: part.class, tokens: part.tokens, rate, cost: priceOf(part.tokens, rate) });
    }
  }
  const before = items.reduce((total, item) => add(total, item.cost), noMoney);
  const after = withMinimum(price, tokens, before);
  if (after !== before) items.push({ class: "minimum", tokens: 0, rate: null, cost: (after - before) as PicoUsd });
  return items;
}

function tokenCost(price: PriceVersion, tokens: TokenCounts, side: "charged" | "list"): PicoUsd {
  if (price.tiers.length === 1) {
    const rates = price.tiers[0][side];
    let total = 0n;
    for (const name of tokenClasses) {
      const count = tokens[name];
      if (count !== 0) total += priceOf(count, rates[name]);
    }
    return total as PicoUsd;
  }
  let total = noMoney;
  for (const part of pricedParts(price, tokens)) total = add(total, priceOf(part.tokens, part.tier[side][part.class]));
  return total;
}

/** A shortfall of tokens is priced at the output rate, one of USD is filled up. Beside a flat price tokens cost nothing. */
function withMinimum(price: PriceVersion, tokens: TokenCounts, cost: PicoUsd): PicoUsd {
  const { minimum } = price;
  if (minimum.tokens === 0 && minimum.usd === 0n) return cost;
  if (price.perRequest !== null) return larger(cost, minimum.usd);
  const shortfall = Math.max(minimum.tokens - promptTotal(tokens) - completionTotal(tokens), 0);
  const filled = add(cost, priceOf(shortfall, tierFor(price, promptTotal(tokens)).charged.output));
  return larger(filled, minimum.usd);
}

interface PricedPart {
  readonly class: TokenClass;
  readonly tokens: number;
  readonly tier: PriceTier;
}

/** Marginal tiers are filled from the front of the prompt, where cached tokens are; the others follow in this order. */
const promptOrder = ["cached_input", "cache_write", "image_input", "audio_input", "input"] as const satisfies readonly (typeof promptClasses)[number][];

function pricedParts(price: PriceVersion, tokens: TokenCounts): PricedPart[] {
  const reached = tierFor(price, promptTotal(tokens));
  const completion = completionClasses.map((name) => ({ class: name, tokens: tokens[name], tier: reached }));
  const prompt =
    price.tierMode === "marginal"
      ? marginalPrompt(price, tokens)
      : promptClasses.map((name) => ({ class: name, tokens: tokens[name], tier: reached }));
  return [...prompt, ...completion].filter((part) => part.tokens > 0);
}

function marginalPrompt(price: PriceVersion, tokens: TokenCounts): PricedPart[] {
  const parts: PricedPart[] = [];
  let position = 0;
  for (const name of promptOrder) {
    const end = position + tokens[name];
    price.tiers.forEach((tier, index) => {
      const tierEnd = price.tiers[index + 1]?.fromPromptTokens ?? Number.POSITIVE_INFINITY;
      const inTier = Math.min(end, tierEnd) - Math.max(position, tier.fromPromptTokens);
      if (inTier > 0) parts.push({ class: name, tokens: inTier, tier });
    });
    position = end;
  }
  return parts;
}
