import type { PicoUsd, PicoUsdPerToken } from "./money.ts";
import { parentClass, tokenClasses, type TokenClass } from "./tokens.ts";

/**
 * The id of the ceiling price for models that no price file names, and the group of every charge that it priced: so the
 * mark is in each list, report and metric that shows groups.
 */
export const ceilingPrice = "default";

/** A rate for every class: a class that a price file leaves out has its parent's rate here. */
export type Rates = Readonly<Record<TokenClass, PicoUsdPerToken>>;

/** What the gateway charges and what the provider's official list asks, for prompts of at least this many tokens. */
export interface PriceTier {
  readonly fromPromptTokens: number;
  readonly charged: Rates;
  readonly list: Rates;
}

export type PriceTiers = readonly [PriceTier, ...PriceTier[]];

/** What one call of a hosted tool costs beside its tokens. */
export interface ToolFee {
  readonly charged: PicoUsd;
  readonly list: PicoUsd;
  /** The most tokens that one call adds to the prompt. */
  readonly inputTokens: number;
}

/**
 * One model's price, resolved: group, fraction and absolute rates are already worked into the rates.
 * It is stored by its content, so that a charge can be recomputed when the file it came from is gone.
 */
export interface PriceVersion {
  readonly model: string;
  readonly group: string | null;
  /** The group's fraction of the official rate as written ("0.75"); null where absolute rates won or none applies. */
  readonly fraction: string | null;
  /** ISO date, inclusive. */
  readonly from: string;
  /** ISO date, exclusive; null while it has no successor. */
  readonly until: string | null;
  readonly source: string;
  /** `whole_request`: the tier that the prompt reaches prices all of it. `marginal`: each tier prices its own part of the prompt. */
  readonly tierMode: "whole_request" | "marginal";
  /** Ascending; the first starts at 0. */
  readonly tiers: PriceTiers;
  /** The tiers of other service tiers ("priority", "flex", "batch"); absent for none. `tiers` are those of the standard one. */
  readonly serviceTiers?: Readonly<Record<string, PriceTiers>>;
  /** The price of a call of a hosted tool, by the type of its item in an answer ("web_search_call"); absent for none. */
  readonly fees?: Readonly<Record<string, ToolFee>>;
  /** Flat price of one request (image models), beside which tokens cost nothing; null where tokens are priced. */
  readonly perRequest: { readonly charged: PicoUsd; readonly list: PicoUsd } | null;
  readonly minimum: { readonly tokens: number; readonly usd: PicoUsd };
  /** The price of a task, beside which tokens and requests have none; absent for a price of requests. */
  readonly task?: TaskPrice;
}

/** The service tiers that a price file can state rates for, beside the standard one. */
export const serviceTierNames = ["priority", "flex", "batch"] as const;

/** A price with its content address, ready to be written next to a hold. */
export interface PinnedPrice {
  /** Digest of the canonical text. */
  readonly id: string;
  readonly canonical: string;
  readonly version: PriceVersion;
}

/** The task type of a price for every type of the model that has none of its own. */
export const anyTaskType = "*";

/** What a task price is for: the whole task, or each second or piece of what it makes. */
export type TaskMeasure = "task" | "second" | "piece";

export interface TaskPrice {
  /** Or `anyTaskType`. */
  readonly taskType: string;
  readonly per: TaskMeasure;
  readonly charged: PicoUsd;
  readonly list: PicoUsd;
}

/** A flat price for so many pieces in one request; the minimum is the request's. A version of its own, so that it can be recomputed. */
export function timesPieces(price: PriceVersion, pieces: number): PriceVersion {
  const { perRequest } = price;
  if (perRequest === null) return price;
  const times = (amount: PicoUsd) => (amount * BigInt(pieces)) as PicoUsd;
  return { ...price, perRequest: { charged: times(perRequest.charged), list: times(perRequest.list) } };
}

/** The price as a service tier has it; the price itself where it states no rates for that tier. */
export function inServiceTier(price: PriceVersion, serviceTier: string | null): PriceVersion {
  const { serviceTiers } = price;
  if (serviceTier === null || serviceTiers === undefined) return price;
  const tiers = Object.hasOwn(serviceTiers, serviceTier) ? serviceTiers[serviceTier] : undefined;
  return tiers === undefined ? price : { ...price, tiers };
}

/** Whether writing to a cache has a price, and none of its own where the cache is kept for an hour. */
export function lacksHourRate({ tiers }: PriceVersion): boolean {
  return tiers.some(
    ({ charged }) => charged.cache_write > charged.input && charged.cache_write_1h <= charged.cache_write,
  );
}

/** The tier that a prompt of this size reaches. */
export function tierFor(price: PriceVersion, promptTokens: number): PriceTier {
  let found: PriceTier = price.tiers[0];
  for (const tier of price.tiers) if (tier.fromPromptTokens <= promptTokens) found = tier;
  return found;
}

/** One text for one price: fixed key order, integers as decimal strings. Its digest is the version's id. */
export function canonicalPrice(price: PriceVersion): string {
  const rates = (from: Rates) => tokenClasses.map((name) => from[name].toString());
  const tiersOf = (tiers: PriceTiers) =>
    tiers.map((tier) => ({
      fromPromptTokens: tier.fromPromptTokens,
      charged: rates(tier.charged),
      list: rates(tier.list),
    }));
  const byName = <T, U>(from: Readonly<Record<string, T>>, form: (value: T) => U) =>
    Object.keys(from)
      .sort()
      .map((name) => [name, form(from[name] as T)]);
  return JSON.stringify({
    model: price.model,
    group: price.group,
    fraction: price.fraction,
    from: price.from,
    until: price.until,
    source: price.source,
    tierMode: price.tierMode,
    tiers: tiersOf(price.tiers),
    perRequest: price.perRequest && {
      charged: price.perRequest.charged.toString(),
      list: price.perRequest.list.toString(),
    },
    minimum: { tokens: price.minimum.tokens, usd: price.minimum.usd.toString() },
    classes: tokenClasses,
    // Left out of others, whose ids must stay as they are.
    ...(price.serviceTiers && { serviceTiers: byName(price.serviceTiers, tiersOf) }),
    ...(price.fees && {
      fees: byName(price.fees, (fee) => ({ ...fee, charged: fee.charged.toString(), list: fee.list.toString() })),
    }),
    ...(price.task && {
      task: { ...price.task, charged: price.task.charged.toString(), list: price.task.list.toString() },
    }),
  });
}

/** Reads back what `canonicalPrice` wrote. A class that a later release added has its parent's rate, as in a price file. */
export function parseCanonicalPrice(text: string): PriceVersion {
  const stored = JSON.parse(text);
  const names: string[] = stored.classes;
  const rates = (values: string[]) => {
    const written = (name: TokenClass | null): string =>
      name === null ? "0" : (values[names.indexOf(name)] ?? written(parentClass[name]));
    return Object.fromEntries(tokenClasses.map((name) => [name, BigInt(written(name))])) as unknown as Rates;
  };
  const tiersOf = (tiers: { fromPromptTokens: number; charged: string[]; list: string[] }[]) =>
    tiers.map((tier) => ({
      fromPromptTokens: tier.fromPromptTokens,
      charged: rates(tier.charged),
      list: rates(tier.list),
    })) as unknown as PriceTiers;
  const amounts = ({ charged, list }: { charged: string; list: string }) => ({
    charged: BigInt(charged) as PicoUsd,
    list: BigInt(list) as PicoUsd,
  });
  type Named<T> = [name: string, value: T][];
  return {
    model: stored.model,
    group: stored.group,
    fraction: stored.fraction,
    from: stored.from,
    until: stored.until,
    source: stored.source,
    tierMode: stored.tierMode,
    tiers: tiersOf(stored.tiers),
    perRequest: stored.perRequest && amounts(stored.perRequest),
    minimum: { tokens: stored.minimum.tokens, usd: BigInt(stored.minimum.usd) as PicoUsd },
    ...(stored.serviceTiers && {
      serviceTiers: Object.fromEntries(
        (stored.serviceTiers as Named<Parameters<typeof tiersOf>[0]>).map(([name, tiers]) => [name, tiersOf(tiers)]),
      ),
    }),
    ...(stored.fees && {
      fees: Object.fromEntries(
        (stored.fees as Named<{ charged: string; list: string; inputTokens: number }>).map(([name, fee]) => [
          name,
          { ...fee, ...amounts(fee) },
        ]),
      ),
    }),
    ...(stored.task && { task: { ...stored.task, ...amounts(stored.task) } }),
  };
}
