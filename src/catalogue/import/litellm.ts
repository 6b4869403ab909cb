import { isObject, objectOr } from "../../wire/json.ts";
import type { TokenClass } from "../../core/usage.ts";
import type { StatedRates } from "../schema.ts";
import {
  countOf,
  familyOf,
  faultOfRates,
  inTiers,
  rateOf,
  type Fields,
  type LeftOutModel,
  type PriceResult,
  type ServiceTierName,
  type TableModel,
  type TableResult,
  type TableServiceTiers,
  type TieredRates,
  type WantsProvider,
} from "./table.ts";

/**
 * Reads litellm's `model_prices_and_context_window.json`: an object with an entry for each model. Most names begin with
 * `provider/`. Costs are in USD per token. `…_above_200k_tokens` is the rate for the whole prompt if the prompt has
 * more than 200000 tokens. A `range` of `tiered_pricing` also applies to the whole prompt. `…_priority`, `…_flex` and
 * `…_batches` are rates of service tiers.
 */
export function readLitellm(tree: unknown, wants: WantsProvider): TableResult {
  const entries = Object.entries(objectOr(tree)).filter(([name]) => name !== "sample_spec");
  if (!entries.some(([, entry]) => isModel(entry))) {
    return {
      ok: false,
      problem:
        "not litellm's table: it should be model_prices_and_context_window.json, a block by model with litellm_provider",
    };
  }
  const models = new Map<string, TableModel>();
  const leftOut: LeftOutModel[] = [];
  const otherModes = new Map<string, number>();
  const providers = new Set<string>();
  for (const [name, fields] of entries) {
    if (!isObject(fields)) continue;
    const stated = String(fields["litellm_provider"] ?? "");
    providers.add(stated);
    const provider = familyOf(stated);
    if (!wants(stated, provider)) continue;
    const mode = String(fields["mode"] ?? "chat");
    if (!textModes.has(mode)) {
      otherModes.set(mode, (otherModes.get(mode) ?? 0) + 1);
      continue;
    }
    const id = name.startsWith(`${stated}/`) ? name.slice(stated.length + 1) : name;
    const price = priceOf(fields);
    // Some models occur twice, with and without `provider/`. The entry with the prefix takes precedence.
    if (typeof price === "string") leftOut.push({ model: id, why: price });
    else if (id !== name || !models.has(id)) models.set(id, modelOf(id, provider, fields, price));
  }
  for (const [mode, count] of otherModes)
    leftOut.push({ model: `${count} of mode ${mode}`, why: "only models that answer with text are imported" });
  return { ok: true, table: { models: [...models.values()], leftOut, providers: [...providers].sort() } };
}

/** Returns true for an entry of the table that states a model's provider. */
export function isModel(entry: unknown): boolean {
  return isObject(entry) && "litellm_provider" in entry;
}

const textModes = new Set(["chat", "responses", "completion"]);

function modelOf(id: string, provider: string, fields: Fields, price: Exclude<PriceResult, string>): TableModel {
  const tokensMax = countOf(fields["max_tokens"]);
  return {
    id,
    provider,
    prices: [price],
    names: [],
    matches: (name) => name === id,
    contextTokens: countOf(fields["max_input_tokens"]) ?? tokensMax,
    maxOutputTokens: countOf(fields["max_output_tokens"]) ?? tokensMax,
    serviceTiers: () => serviceTiersOf(fields),
  };
}

const classes: readonly (readonly [prefix: string, name: TokenClass])[] = [
  ["input_cost_per_token", "input"],
  ["cache_read_input_token_cost", "cached_input"],
  ["cache_creation_input_token_cost", "cache_write"],
  ["cache_creation_input_token_cost_above_1hr", "cache_write_1h"],
  ["input_cost_per_audio_token", "audio_input"],
  ["input_cost_per_image_token", "image_input"],
  ["output_cost_per_token", "output"],
  ["output_cost_per_reasoning_token", "reasoning"],
  ["output_cost_per_audio_token", "audio_output"],
  ["output_cost_per_image_token", "image_output"],
];

const tierEndings: readonly (readonly [name: ServiceTierName, ending: string])[] = [
  ["priority", "_priority"],
  ["flex", "_flex"],
  ["batch", "_batches"],
];

const thresholdSuffix = /^(?:_above_(\d+)(k?)_tokens)?$/;

function priceOf(fields: Fields): PriceResult {
  const ranges = fields["tiered_pricing"];
  const read = Array.isArray(ranges) ? rangesOf(ranges) : ratesOf(fields, "");
  if (typeof read === "string") return read;
  return faultOfRates(read.official) ?? { from: null, ...read, perRequest: null };
}

/** Returns the service tiers. Skips a tier that lacks the input or output rate, or has an inexact rate. */
function serviceTiersOf(fields: Fields): TableServiceTiers {
  const found = tierEndings.flatMap(([name, ending]) => {
    const read = ratesOf(fields, ending);
    return typeof read === "string" || faultOfRates(read.official) !== undefined ? [] : [[name, read] as const];
  });
  return Object.fromEntries(found);
}

/**
 * Returns the rates in fields with this ending, or the reason why a rate cannot be imported. The ending of the standard
 * tier is "".
 */
function ratesOf(fields: Fields, ending: string): TieredRates | string {
  const bySize = new Map<number, StatedRates>();
  for (const [field, value] of Object.entries(fields)) {
    if (value === null || !field.endsWith(ending)) continue;
    for (const [prefix, name] of classes) {
      const match = field.startsWith(prefix)
        ? thresholdSuffix.exec(field.slice(prefix.length, field.length - ending.length))
        : null;
      if (match === null) continue;
      const rate = rateOf(String(value), 0);
      if (rate === undefined) return `${field} ${String(value)} cannot be represented exactly`;
      const size = sizeAbove(Number(match[1] ?? 0) * (match[2] === "k" ? 1000 : 1));
      bySize.set(size, { ...bySize.get(size), [name]: rate });
    }
  }
  return inTiers(bySize);
}

/**
 * Reads `[{range: [0, 32000], input_cost_per_token, …}, …]`. Returns the rates, or the reason why they cannot be
 * imported.
 */
function rangesOf(ranges: readonly unknown[]): TieredRates | string {
  const bySize = new Map<number, StatedRates>();
  for (const range of ranges) {
    const bounds = isObject(range) ? range["range"] : undefined;
    const from = Array.isArray(bounds) ? String(bounds[0]) : "";
    if (!isObject(range) || !/^\d{1,9}(?:\.0+)?$/.test(from)) return "a range of its tiered_pricing has no valid start";
    const read = ratesOf(range, "");
    if (typeof read === "string") return read;
    bySize.set(sizeAbove(Number(from)), read.official);
  }
  return inTiers(bySize);
}

/** Returns the smallest prompt size above `tokens`; 0 for the rates of short prompts, whose `tokens` is 0. */
function sizeAbove(tokens: number): number {
  return tokens === 0 ? 0 : tokens + 1;
}
