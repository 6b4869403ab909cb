import { formatRate, formatUsd } from "../core/money.ts";
import type { PriceTier, PriceVersion, Rates } from "../core/price.ts";
import { dayMs, isoTime } from "../core/time.ts";
import { tokenClasses } from "../core/usage.ts";
import type { Catalogue, CatalogueModel, ModelHistory } from "../ports/catalogue.ts";
import type { PricedModelJson, PriceHistoryJson, PriceJson, PriceListJson, RatesJson } from "./shapes/prices.ts";

/** Returns every model of the catalogue with its price in force at the instant. */
export function pricesJson(catalogue: Catalogue, at: number): PriceListJson {
  return { digest: catalogue.digest, models: catalogue.list(at).map(pricedModel) };
}

/** Returns one model with its price in force, in the same form as in the list. */
export function pricedModel(model: CatalogueModel): PricedModelJson {
  const { id, provider, group, unit } = model;
  return { id, provider, group, unit, price: priceJson(model) };
}

/** Returns the price history of one model, newest first. The earliest span has no start. */
export function priceHistoryJson({ id, aliases, spans }: ModelHistory, at: number): PriceHistoryJson {
  const current = spans.findLastIndex(({ start }) => start <= at);
  const entries = spans.map(({ start, model }, index) => ({
    starts_at: Number.isFinite(start) && index > 0 ? isoTime(start) : null,
    in_force: index === current,
    group: model.group,
    price: priceJson(model),
  }));
  return { id, provider: spans[0]?.model.provider ?? null, aliases, entries: entries.toReversed() };
}

function priceJson({ price }: CatalogueModel): PriceJson | null {
  if (price === null) return null;
  const { id, version } = price;
  return {
    id,
    from: version.from,
    until: version.until,
    source: version.source,
    fraction: version.fraction,
    tier_mode: tierModeOf(version),
    tiers: version.tiers.map(tierJson),
    per_request_usd: version.perRequest && {
      gateway: formatUsd(version.perRequest.charged),
      official: formatUsd(version.perRequest.list),
    },
    minimum: { tokens: version.minimum.tokens, usd: formatUsd(version.minimum.usd) },
    service_tiers: Object.entries(version.serviceTiers ?? {}).map(([name, tiers]) => ({
      service_tier: name,
      tiers: tiers.map(tierJson),
    })),
    factors: Object.entries(version.factors ?? {}).map(([name, factors]) => {
      const [field = "", value = ""] = name.split(".");
      return { field, value, factors };
    }),
    fees: Object.entries(version.fees ?? {}).map(([tool, fee]) => ({
      tool,
      gateway_usd: formatUsd(fee.charged),
      official_usd: formatUsd(fee.list),
      input_tokens: fee.inputTokens,
    })),
  };
}

/** Returns the tier mode as price files state it. It does not tell apart the two rules for the first token of a tier. */
export function tierModeOf({ tierMode }: PriceVersion): "whole_request" | "marginal" {
  return tierMode === "whole_request" ? tierMode : "marginal";
}

function tierJson(tier: PriceTier) {
  return {
    from_prompt_tokens: tier.fromPromptTokens,
    gateway_usd_per_million: ratesJson(tier.charged),
    official_usd_per_million: ratesJson(tier.list),
  };
}

function ratesJson(rates: Rates): RatesJson {
  return Object.fromEntries(tokenClasses.map((name) => [name, formatRate(rates[name])])) as RatesJson;
}

/** Largest age of a review, in days. Prices with an older review may have changed. */
const reviewDaysMax = 60;

export interface PriceReview {
  /** UTC day of the newest review; null if no price in force has a review date in the past. */
  readonly reviewed_on: string | null;
  readonly age_days: number | null;
  /** True if there is no review, or the newest is more than 60 days old. */
  readonly review_due: boolean;
}

/** Returns the newest review of the prices in force. */
export function newestReview(catalogue: Catalogue, now: number): PriceReview {
  const reviews = catalogue.list(now).flatMap((model) => reviewOf(model) ?? []);
  const newest = Math.max(...reviews.filter((at) => at <= now));
  if (!Number.isFinite(newest)) return { reviewed_on: null, age_days: null, review_due: true };
  const days = Math.floor((now - newest) / dayMs);
  return { reviewed_on: new Date(newest).toISOString().slice(0, 10), age_days: days, review_due: days > reviewDaysMax };
}

/**
 * Returns the time of the last date in the text of a price's source, such as "announced for 2027-01-01, reviewed on
 * 2026-11-22". Returns the first day of the price if the text has no date; undefined if the model has no price.
 */
function reviewOf({ price }: CatalogueModel): number | undefined {
  if (price === null) return undefined;
  const { source, from } = price.version;
  const days = source.match(/\b\d{4}-\d{2}-\d{2}\b/g) ?? [];
  const known = days.map((day) => Date.parse(day)).filter((at) => !Number.isNaN(at));
  return known.at(-1) ?? Date.parse(from);
}
