import type { PicoUsd, PicoUsdPerToken } from "./money.ts";
import { knownVariant } from "./rate-variants.ts";
import { parentClass, tokenClasses, type TokenClass } from "./usage.ts";

/**
 * Id of the price for models that no price file names. The charges of these models also have it as their group, so that
 * lists, reports and metrics by group include them.
 */
export const ceilingPrice = "default";

/**
 * Names of the price presets. `piapi`: the published shares of one gateway, which the shipped files state. `official`:
 * the official prices.
 */
export const presets = ["piapi", "official"] as const;
export type Preset = (typeof presets)[number];

/** A rate for each token class. A class without a rate in the price file has the rate of its parent class. */
export type Rates = Readonly<Record<TokenClass, PicoUsdPerToken>>;

/** Rates of the gateway and of the provider's official list, for prompts of at least `fromPromptTokens` tokens. */
export interface PriceTier {
  readonly fromPromptTokens: number;
  readonly charged: Rates;
  readonly list: Rates;
}

type PriceTiers = readonly [PriceTier, ...PriceTier[]];

/** Price of one hosted tool call, in addition to its tokens. */
export interface ToolFee {
  readonly charged: PicoUsd;
  readonly list: PicoUsd;
  /** Largest number of tokens that one call adds to the prompt. */
  readonly inputTokens: number;
}

/**
 * A resolved price of one model. Its rates already include the group's fraction or the gateway's absolute rates. The
 * ledger stores each version, so that charges can be recomputed after their price file is gone.
 */
export interface PriceVersion {
  readonly model: string;
  readonly group: string | null;
  /**
   * The group's fraction of the official rate as written ("0.75"); null if absolute rates took precedence or no
   * fraction applies.
   */
  readonly fraction: string | null;
  /** ISO date, inclusive. */
  readonly from: string;
  /** ISO date, exclusive; null if the price has no end. */
  readonly until: string | null;
  readonly source: string;
  /**
   * `whole_request`: the whole request has the rates of the tier that the prompt reaches. `marginal`: each part of the
   * prompt has the rates of its own tier. With `marginal_from`, token number `fromPromptTokens` is the first of a tier.
   * With `marginal`, which only earlier versions stored, the token after it.
   */
  readonly tierMode: "whole_request" | "marginal" | "marginal_from";
  /** Ascending; the first starts at 0. */
  readonly tiers: PriceTiers;
  /**
   * Price tiers of other service tiers ("priority", "flex", "batch") and of all variants by `variantName` ("fast",
   * "batch+us"); absent if there are none. `tiers` applies to the standard service tier.
   */
  readonly serviceTiers?: Readonly<Record<string, PriceTiers>>;
  /**
   * Factors of the variants, by term and value, as text for people: "speed.fast": "2, cached_input 1". The rates of the
   * variants already include them. Absent if there are none.
   */
  readonly factors?: Readonly<Record<string, string>>;
  /**
   * Fee of one hosted tool call, by the item type of the call in an answer ("web_search_call"); absent if no tool has a
   * fee.
   */
  readonly fees?: Readonly<Record<string, ToolFee>>;
  /** Flat price of one request, as for image models. Tokens are then free. Null if tokens are priced. */
  readonly perRequest: { readonly charged: PicoUsd; readonly list: PicoUsd } | null;
  readonly minimum: { readonly tokens: number; readonly usd: PicoUsd };
  /** Price of a task; absent if the price is for requests. It replaces the token rates and the flat price. */
  readonly task?: TaskPrice;
}

/** A price version with its id and canonical text, as stored with a hold. */
export interface PinnedPrice {
  /** Digest of the canonical text. */
  readonly id: string;
  readonly canonical: string;
  readonly version: PriceVersion;
}

/** Task type of a price for all task types that have no separate price. */
export const anyTaskType = "*";

/** Pattern of the item types of hosted tool calls, such as "web_search_call". */
export const toolCallType = /^[a-z][a-z0-9_]{0,58}_call$/;

/** Unit of a task price: the task as a whole, or each second or piece of its output. */
type TaskPriceUnit = "task" | "second" | "piece";

export interface TaskPrice {
  /** A task type, or `anyTaskType`. */
  readonly taskType: string;
  readonly per: TaskPriceUnit;
  readonly charged: PicoUsd;
  readonly list: PicoUsd;
}

/**
 * Multiplies the flat price of a request by its number of pieces. Returns a new version, from which the charge can be
 * recomputed. The minimum still applies to the request as a whole.
 */
export function multiplyByPieces(price: PriceVersion, pieces: number): PriceVersion {
  const { perRequest } = price;
  if (perRequest === null) return price;
  const times = (amount: PicoUsd) => (amount * BigInt(pieces)) as PicoUsd;
  return { ...price, perRequest: { charged: times(perRequest.charged), list: times(perRequest.list) } };
}

/**
 * Returns the price for a service tier or another variant of the rates. Leaves out parts of the name for which the price
 * has no rates, so that an unknown service tier does not hide a known factor.
 */
export function inServiceTier(price: PriceVersion, variant: string | null): PriceVersion {
  const { serviceTiers } = price;
  if (variant === null || serviceTiers === undefined) return price;
  const known = knownVariant(variant, (name) => Object.hasOwn(serviceTiers, name));
  const tiers = known === null ? undefined : serviceTiers[known];
  return tiers === undefined ? price : { ...price, tiers };
}

/**
 * Returns true if a tier has a higher rate for cache writes than for input, but no still higher rate for one-hour cache
 * writes.
 */
export function lacksHourRate({ tiers }: PriceVersion): boolean {
  return tiers.some(
    ({ charged }) => charged.cache_write > charged.input && charged.cache_write_1h <= charged.cache_write,
  );
}

/**
 * Returns true if a request or task may cost nothing under the price. Each request has a prompt, so only the input rates
 * decide about requests with token prices.
 */
export function mayBeFree({ tiers, serviceTiers = {}, perRequest, task, minimum }: PriceVersion): boolean {
  if (task !== undefined) return task.charged === 0n;
  if (minimum.usd > 0n) return false;
  if (perRequest !== null) return perRequest.charged === 0n;
  return [tiers, ...Object.values(serviceTiers)].flat().some(({ charged }) => charged.input === 0n);
}

/** Returns the tier for a prompt of this size. */
export function tierFor(price: PriceVersion, promptTokens: number): PriceTier {
  let found: PriceTier = price.tiers[0];
  for (const tier of price.tiers) if (tier.fromPromptTokens <= promptTokens) found = tier;
  return found;
}

/** Returns the position of a tier's first token in the prompt, counted from 0, if each part has its own tier. */
export function firstTokenOf({ tierMode }: PriceVersion, { fromPromptTokens }: PriceTier): number {
  return tierMode === "marginal_from" ? Math.max(fromPromptTokens - 1, 0) : fromPromptTokens;
}

/**
 * Returns the canonical text of a price, with a fixed key order and integers as decimal strings. The text's digest is
 * the id of the version.
 */
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
    // Left out if absent, so that the ids of existing prices do not change.
    ...(price.serviceTiers && { serviceTiers: byName(price.serviceTiers, tiersOf) }),
    ...(price.factors && { factors: byName(price.factors, (text) => text) }),
    ...(price.fees && { fees: byName(price.fees, (fee) => ({ ...fee, ...amounts(fee) })) }),
    ...(price.task && { task: { ...price.task, ...amounts(price.task) } }),
  });
}

/** Parses the output of `canonicalPrice`. A class that the text does not list has its parent's rate. */
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
    ...(stored.factors && { factors: Object.fromEntries(stored.factors as Named<string>) }),
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
