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
  readonly tiers: readonly [PriceTier, ...PriceTier[]];
  /** Flat price of one request (image models), beside which tokens cost nothing; null where tokens are priced. */
  readonly perRequest: { readonly charged: PicoUsd; readonly list: PicoUsd } | null;
  readonly minimum: { readonly tokens: number; readonly usd: PicoUsd };
  /** The price of a task, beside which tokens and requests have none; absent for a price of requests. */
  readonly task?: TaskPrice;
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

/** The tier that a prompt of this size reaches. */
export function tierFor(price: PriceVersion, promptTokens: number): PriceTier {
  let found: PriceTier = price.tiers[0];
  for (const tier of price.tiers) if (tier.fromPromptTokens <= promptTokens) found = tier;
  return found;
}

/** One text for one price: fixed key order, integers as decimal strings. Its digest is the version's id. */
export function canonicalPrice(price: PriceVersion): string {
  const rates = (from: Rates) => tokenClasses.map((name) => from[name].toString());
  return JSON.stringify({
    model: price.model,
    group: price.group,
    fraction: price.fraction,
    from: price.from,
    until: price.until,
    source: price.source,
    tierMode: price.tierMode,
    tiers: price.tiers.map((tier) => ({
      fromPromptTokens: tier.fromPromptTokens,
      charged: rates(tier.charged),
      list: rates(tier.list),
    })),
    perRequest: price.perRequest && {
      charged: price.perRequest.charged.toString(),
      list: price.perRequest.list.toString(),
    },
    minimum: { tokens: price.minimum.tokens, usd: price.minimum.usd.toString() },
    classes: tokenClasses,
    // Left out of others, whose ids must stay as they are.
    ...(price.task && { task: { ...price.task, charged: price.task.charged.toString(), list: price.task.list.toString() } }),
  });
}

/** Reads back what `canonicalPrice` wrote. A class that a later release added has its parent's rate, as in a price file. */
export function parseCanonicalPrice(text: string): PriceVersion {
  const stored = JSON.parse(text);
  const names: string[] = stored.classes;
  const rates = (values: string[]) => {
    const written = (name: TokenClass) => values[names.indexOf(name)];
    const rate = (name: TokenClass) => BigInt(written(name) ?? written(parentClass[name] ?? name) ?? "0");
    return Object.fromEntries(tokenClasses.map((name) => [name, rate(name)])) as unknown as Rates;
  };
  return {
    model: stored.model,
    group: stored.group,
    fraction: stored.fraction,
    from: stored.from,
    until: stored.until,
    source: stored.source,
    tierMode: stored.tierMode,
    tiers: stored.tiers.map((tier: { fromPromptTokens: number; charged: string[]; list: string[] }) => ({
      fromPromptTokens: tier.fromPromptTokens,
      charged: rates(tier.charged),
      list: rates(tier.list),
    })),
    perRequest: stored.perRequest && {
      charged: BigInt(stored.perRequest.charged) as PicoUsd,
      list: BigInt(stored.perRequest.list) as PicoUsd,
    },
    minimum: { tokens: stored.minimum.tokens, usd: BigInt(stored.minimum.usd) as PicoUsd },
    ...(stored.task && {
      task: { ...stored.task, charged: BigInt(stored.task.charged) as PicoUsd, list: BigInt(stored.task.list) as PicoUsd },
    }),
  };
}
