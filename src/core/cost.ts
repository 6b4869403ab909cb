import {
  add,
  larger,
  noMoney,
  picoUsdMax,
  priceOf,
  subtract,
  sum,
  type PicoUsd,
  type PicoUsdPerToken,
} from "./money.ts";
import { firstTokenOf, inServiceTier, tierFor, type PinnedPrice, type PriceTier, type PriceVersion } from "./price.ts";
import {
  completionClasses,
  completionTotal,
  promptClasses,
  promptTotal,
  tokenClasses,
  type TokenClass,
  type TokenCounts,
} from "./usage.ts";

export interface Cost {
  /** Amount that the gateway charges, including its minimum and the fees of hosted tools. */
  readonly charged: PicoUsd;
  /** Cost of the same tokens and fees at the provider's official rates, without a minimum. */
  readonly list: PicoUsd;
  readonly minimumApplied: boolean;
}

/** Terms of an answer that affect its cost, in addition to its tokens. */
export interface Billing {
  /** Service tier, speed and region that answered, by `variantName`; null for the standard rates. */
  readonly serviceTier: string | null;
  /** Number of hosted tool calls by item type, for types that may have a fee. */
  readonly calls: Readonly<Record<string, number>>;
  /** Runs of the model, whose sum are the charge's tokens. Absent if the tokens cost as much as those of one run. */
  readonly runs?: readonly BilledRun[];
}

/** Tokens of one run of a model, or of several runs that have the same price and the same tier. */
export interface BilledRun {
  readonly tokens: TokenCounts;
  /** Prompt tokens of the largest run, which decide the tier. */
  readonly promptTokens: number;
  /** Price of the run's own model; null for the price of the request. */
  readonly price: RunPrice | null;
}

/** Price of a run. The text is absent if the price comes from the ledger. */
export type RunPrice = Pick<PinnedPrice, "id" | "version"> & Partial<Pick<PinnedPrice, "canonical">>;

export const standardBilling: Billing = { serviceTier: null, calls: {} };

/**
 * One line of an itemized cost: tokens of one class and tier, a flat request price, the amount added by a minimum, or
 * hosted tool calls.
 */
export interface CostItem {
  readonly class: TokenClass | "request" | "minimum" | "fee";
  /** For `minimum`, the number of tokens by which the request is below the minimum. For `fee`, the number of calls. */
  readonly tokens: number;
  /** Item type of the tool's calls; only for `fee`. */
  readonly tool?: string;
  /** Price of the run's own model; absent for tokens at the price of the request. */
  readonly price?: RunPrice;
  /** Null if the line does not price tokens: a flat request, a fee, or an amount added for a minimum in USD. */
  readonly rate: PicoUsdPerToken | null;
  readonly cost: PicoUsd;
  /** The provider's official rate; null if the line has none. */
  readonly listRate: PicoUsdPerToken | null;
  readonly listCost: PicoUsd;
  /** Prompt size at which the applied tier begins. */
  readonly tierFrom: number;
}

/**
 * Formula with which an amount can be recomputed. `tokens`, `per_request`: from the price version. `assumed`: the
 * amount is the hold. `unpriced`: there is no amount. `task`, `adjustment`: the row states the amount.
 */
export type Formula = "tokens" | "per_request" | "task" | "assumed" | "adjustment" | "unpriced";

/**
 * Returns the exact cost of these tokens plus the fees of hosted tools, without rounding.
 *
 * @example
 * // `price`: half of USD 2.00 per 1M tokens of the prompt, and of USD 10.00 per 1M tokens of the completion
 * const cost = costOf(price, { ...noTokens, input: 1_000, output: 200 });
 * formatUsd(cost.charged); // "0.002"
 * formatUsd(cost.list); // "0.004"
 */
export function costOf(standard: PriceVersion, tokens: TokenCounts, billing: Billing = standardBilling): Cost {
  const price = inServiceTier(standard, billing.serviceTier);
  const before = costBeforeMinimum(price, tokens, billing, "charged");
  const list = costBeforeMinimum(price, tokens, billing, "list");
  const charged = withMinimum(price, tokens, before);
  const cost = { charged, list, minimumApplied: charged !== before };
  if (price.fees === undefined) return cost;
  const fees = feeItems(price, billing);
  if (fees.length === 0) return cost;
  return {
    ...cost,
    charged: sum([charged, ...fees.map((fee) => fee.cost)]),
    list: sum([list, ...fees.map((fee) => fee.listCost)]),
  };
}

/**
 * Prices from which a charge is computed. `servedPrice` is null unless a model other than the requested one answered.
 */
export interface ChargePrices {
  readonly price: PriceVersion;
  readonly servedPrice: PriceVersion | null;
}

/** Returns the cost of a request and the formula used. */
export function costUnder(
  prices: ChargePrices,
  tokens: TokenCounts,
  billing: Billing = standardBilling,
): Cost & { readonly formula: Formula } {
  const price = decidingPrice(prices, tokens, billing);
  return { ...costOf(price, tokens, billing), formula: price.perRequest === null ? "tokens" : "per_request" };
}

/**
 * Returns the price by which a request is charged. If another model answered, this is the price with the larger cost.
 */
export function decidingPrice(
  { price, servedPrice }: ChargePrices,
  tokens: TokenCounts,
  billing: Billing = standardBilling,
): PriceVersion {
  if (servedPrice === null) return price;
  return costOf(servedPrice, tokens, billing).charged > costOf(price, tokens, billing).charged ? servedPrice : price;
}

/** Returns the result of `costUnder`; null if an amount exceeds 64 bits of pico-USD. */
export function costWithinRange(
  prices: ChargePrices,
  tokens: TokenCounts,
  billing: Billing = standardBilling,
): ReturnType<typeof costUnder> | null {
  try {
    const cost = costUnder(prices, tokens, billing);
    return larger(cost.charged, cost.list) > picoUsdMax ? null : cost;
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** Returns the lines whose sums are the charged cost and the list cost that `costOf` returns. */
export function itemize(standard: PriceVersion, tokens: TokenCounts, billing: Billing = standardBilling): CostItem[] {
  const price = inServiceTier(standard, billing.serviceTier);
  const { runs = [{ tokens, promptTokens: promptTotal(tokens), price: null }] } = billing;
  const items = [
    ...(price.perRequest === null ? [] : [requestItem(price.perRequest)]),
    ...runs.flatMap((run) => runItems(price, run, billing)),
  ];
  return [...items, ...minimumItems(price, tokens, sum(items.map((item) => item.cost))), ...feeItems(price, billing)];
}

const noItems: readonly CostItem[] = [];

/** Returns one line for each type of hosted tool call that has a fee. */
function feeItems({ fees = {} }: PriceVersion, billing: Billing): readonly CostItem[] {
  // Most answers have no hosted tool calls.
  if (billing === standardBilling) return noItems;
  const { calls } = billing;
  return Object.entries(calls).flatMap(([kind, count]) => {
    const fee = Object.hasOwn(fees, kind) ? fees[kind] : undefined;
    if (fee === undefined || count === 0) return [];
    const timesCount = (amount: PicoUsd) => (amount * BigInt(count)) as PicoUsd;
    return [
      {
        class: "fee",
        tokens: count,
        tool: kind,
        rate: null,
        cost: timesCount(fee.charged),
        listRate: null,
        listCost: timesCount(fee.list),
        tierFrom: 0,
      } as const,
    ];
  });
}

/** Returns one line for each class and tier of a run. With a price per request, only runs at their own price cost more. */
function runItems(requestPrice: PriceVersion, run: BilledRun, billing: Billing): CostItem[] {
  const price = priceOfRun(requestPrice, run, billing);
  if (price === null) return [];
  return pricedParts(price, run.tokens, run.promptTokens).map(({ class: name, tokens: count, tier }) => ({
    class: name,
    tokens: count,
    ...(run.price !== null && { price: run.price }),
    rate: tier.charged[name],
    cost: priceOf(count, tier.charged[name]),
    listRate: tier.list[name],
    listCost: priceOf(count, tier.list[name]),
    tierFrom: tier.fromPromptTokens,
  }));
}

function requestItem({ charged, list }: NonNullable<PriceVersion["perRequest"]>): CostItem {
  return { class: "request", tokens: 0, rate: null, cost: charged, listRate: null, listCost: list, tierFrom: 0 };
}

/** Returns the cost of all runs, in addition to a price per request. The price is that of the service tier. */
function costBeforeMinimum(
  price: PriceVersion,
  tokens: TokenCounts,
  billing: Billing,
  side: "charged" | "list",
): PicoUsd {
  const { runs } = billing;
  if (runs === undefined) return price.perRequest?.[side] ?? tokenCost(price, tokens, side);
  let total = price.perRequest?.[side] ?? noMoney;
  for (const run of runs) {
    const own = priceOfRun(price, run, billing);
    if (own !== null) total = add(total, tokenCost(own, run.tokens, side, run.promptTokens));
  }
  return total;
}

/** Returns the price of a run's tokens; null if the price of the request includes them. */
function priceOfRun(requestPrice: PriceVersion, { price }: BilledRun, { serviceTier }: Billing): PriceVersion | null {
  if (price !== null) return inServiceTier(price.version, serviceTier);
  return requestPrice.perRequest === null ? requestPrice : null;
}

function tokenCost(price: PriceVersion, tokens: TokenCounts, side: "charged" | "list", promptTokens?: number): PicoUsd {
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
  for (const part of pricedParts(price, tokens, promptTokens))
    total = add(total, priceOf(part.tokens, part.tier[side][part.class]));
  return total;
}

function withMinimum(price: PriceVersion, tokens: TokenCounts, cost: PicoUsd): PicoUsd {
  const { minimum } = price;
  if (minimum.tokens === 0 && minimum.usd === 0n) return cost;
  return minimumItems(price, tokens, cost).reduce((total, item) => add(total, item.cost), cost);
}

/**
 * Returns the lines that a minimum adds: missing tokens at the output rate, then missing USD. With a flat price, the
 * token minimum does not apply.
 */
function minimumItems(price: PriceVersion, tokens: TokenCounts, cost: PicoUsd): CostItem[] {
  const { minimum } = price;
  const items: CostItem[] = [];
  const prompt = promptTotal(tokens);
  const tier = tierFor(price, prompt);
  const item = { class: "minimum", listRate: null, listCost: noMoney, tierFrom: tier.fromPromptTokens } as const;
  const shortfall = price.perRequest === null ? Math.max(minimum.tokens - prompt - completionTotal(tokens), 0) : 0;
  const rate = tier.charged.output;
  const filled = priceOf(shortfall, rate);
  if (filled > 0n) items.push({ ...item, tokens: shortfall, rate, cost: filled });
  const missing = subtract(minimum.usd, add(cost, filled));
  if (missing > 0n) items.push({ ...item, tokens: 0, rate: null, cost: missing });
  return items;
}

interface PricedPart {
  readonly class: TokenClass;
  readonly tokens: number;
  readonly tier: PriceTier;
}

/** Order in which classes fill marginal tiers. Cached tokens are first, because they are at the start of the prompt. */
const promptOrder = [
  "cached_input",
  "cache_write",
  "cache_write_1h",
  "image_input",
  "audio_input",
  "input",
] as const satisfies readonly (typeof promptClasses)[number][];

/** Divides tokens by class and tier. `promptTokens`: the prompt of the largest run, if the tokens are those of several. */
function pricedParts(price: PriceVersion, tokens: TokenCounts, promptTokens = promptTotal(tokens)): PricedPart[] {
  const reached = tierFor(price, promptTokens);
  const isOneTier = price.tierMode === "whole_request" || promptTokens < promptTotal(tokens);
  const completion = completionClasses.map((name) => ({ class: name, tokens: tokens[name], tier: reached }));
  const prompt = isOneTier
    ? promptClasses.map((name) => ({ class: name, tokens: tokens[name], tier: reached }))
    : marginalPrompt(price, tokens);
  return [...prompt, ...completion].filter((part) => part.tokens > 0);
}

function marginalPrompt(price: PriceVersion, tokens: TokenCounts): PricedPart[] {
  const parts: PricedPart[] = [];
  let position = 0;
  for (const name of promptOrder) {
    const end = position + tokens[name];
    price.tiers.forEach((tier, index) => {
      const next = price.tiers[index + 1];
      const tierEnd = next === undefined ? Infinity : firstTokenOf(price, next);
      const inTier = Math.min(end, tierEnd) - Math.max(position, firstTokenOf(price, tier));
      if (inTier > 0) parts.push({ class: name, tokens: inTier, tier });
    });
    position = end;
  }
  return parts;
}
