import type { PicoUsd, PicoUsdPerToken } from "./money.ts";
import { parentClass, tokenClasses, type TokenClass } from "./usage.ts";

/**
 * Id of the ceiling price for models that no price file names, and the group of its charges: it marks them in every
 * list, report and metric that shows groups.
 */
export const ceilingPrice = "default";

/** A rate for every class. A class that a price file leaves out has its parent's rate. */
export type Rates = Readonly<Record<TokenClass, PicoUsdPerToken>>;

/** Rates of the gateway and of the provider's official list, for prompts of at least this many tokens. */
export interface PriceTier {
  readonly fromPromptTokens: number;
  readonly charged: Rates;
  readonly list: Rates;
}

type PriceTiers = readonly [PriceTier, ...PriceTier[]];

/** Price of one call of a hosted tool, in addition to its tokens. */
export interface ToolFee {
  readonly charged: PicoUsd;
  readonly list: PicoUsd;
  /** The most tokens that one call adds to the prompt. */
  readonly inputTokens: number;
}

/**
 * A resolved price of one model: group, fraction and absolute rates are worked into the rates. Stored by its content,
 * so that a charge can be recomputed when its price file is gone.
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
  /** Flat price of one request (image models), with free tokens; null where tokens are priced. */
  readonly perRequest: { readonly charged: PicoUsd; readonly list: PicoUsd } | null;
  readonly minimum: { readonly tokens: number; readonly usd: PicoUsd };
  /** Price of a task, in place of token and request prices; absent for a price of requests. */
  readonly task?: TaskPrice;
}

/** Service tiers that a price file can state, in addition to the standard one. */
export const serviceTierNames = ["priority", "flex", "batch"] as const;

/** A price with its content address, ready to be stored with a hold. */
export interface PinnedPrice {
  /** Digest of the canonical text. */
  readonly id: string;
  readonly canonical: string;
  readonly version: PriceVersion;
}

/** Task type of a price for all types of the model without a price of their own. */
export const anyTaskType = "*";

/** Unit of a task price: the whole task, or each second or piece of its output. */
type TaskMeasure = "task" | "second" | "piece";

export interface TaskPrice {
  /** Or `anyTaskType`. */
  readonly taskType: string;
  readonly per: TaskMeasure;
  readonly charged: PicoUsd;
  readonly list: PicoUsd;
}

/**
 * Returns a flat price times the pieces of one request, as a version of its own that can be recomputed. The minimum
 * stays per request.
 */
export function timesPieces(price: PriceVersion, pieces: number): PriceVersion {
  const { perRequest } = price;
  if (perRequest === null) return price;
  const times = (amount: PicoUsd) => (amount * BigInt(pieces)) as PicoUsd;
  return { ...price, perRequest: { charged: times(perRequest.charged), list: times(perRequest.list) } };
}

/** Returns the price in a service tier; the price itself where it has no rates for that tier. */
export function inServiceTier(price: PriceVersion, serviceTier: string | null): PriceVersion {
  const { serviceTiers } = price;
  if (serviceTier === null || serviceTiers === undefined) return price;
  const tiers = Object.hasOwn(serviceTiers, serviceTier) ? serviceTiers[serviceTier] : undefined;
  return tiers === undefined ? price : { ...price, tiers };
}

/** Reports that cache writes have a price, but one-hour writes have none of their own. */
export function lacksHourRate({ tiers }: PriceVersion): boolean {
  return tiers.some(
    ({ charged }) => charged.cache_write > charged.input && charged.cache_write_1h <= charged.cache_write,
  );
}

/** Returns the tier for a prompt of this size. */
export function tierFor(price: PriceVersion, promptTokens: number): PriceTier {
  let found: PriceTier = price.tiers[0];
  for (const tier of price.tiers) if (tier.fromPromptTokens <= promptTokens) found = tier;
  return found;
}

/** Returns one text for one price: fixed key order, integers as decimal strings. Its digest is the version's id. */
export function canonicalPrice(price: PriceVersion): string {
  const rates = (from: Rates) => tokenClasses.map((name) => from[name].toString());
  const amounts = ({ charged, list }: Record<"charged" | "list", PicoUsd>) => ({
    charged: charged.toString(),
    list: list.toString(),
  });
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
    perRequest: price.perRequest && amounts(price.perRequest),
    minimum: { tokens: price.minimum.tokens, usd: price.minimum.usd.toString() },
    classes: tokenClasses,
    // Left out when absent: the ids of other prices must not change.
    ...(price.serviceTiers && { serviceTiers: byName(price.serviceTiers, tiersOf) }),
    ...(price.fees && { fees: byName(price.fees, (fee) => ({ ...fee, ...amounts(fee) })) }),
    ...(price.task && { task: { ...price.task, ...amounts(price.task) } }),
  });
}

/**
 * Parses the output of `canonicalPrice`. A class that a later release added has its parent's rate, as in a price file.
 */
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
