import type { TokenClass } from "../../core/usage.ts";
import type { StatedRates } from "../schema.ts";
import {
  countOf,
  familyOf,
  faultOfRates,
  isFields,
  rateOf,
  withoutZeros,
  type Fields,
  type LeftOut,
  type PriceResult,
  type ServiceTierName,
  type TableModel,
  type TableResult,
  type TableServiceTiers,
  type WantsProvider,
} from "./table.ts";

/**
 * Reads litellm's `model_prices_and_context_window.json`: one object for each model, most with `provider/` before the
 * name. Costs are in USD per token. `…_above_200k_tokens` prices the whole of a prompt with more than 200000 tokens,
 * as does each `range` of `tiered_pricing`. `…_priority`, `…_flex` and `…_batches` are rates of service tiers.
 */
export function readLitellm(tree: unknown, wants: WantsProvider): TableResult {
  const entries = isFields(tree)
    ? Object.entries(tree).filter(([name, entry]) => name !== "sample_spec" && isFields(entry))
    : [];
  if (!entries.some(([, entry]) => isFields(entry) && "litellm_provider" in entry)) {
    return {
      ok: false,
      problem:
        "not litellm's table: it should be model_prices_and_context_window.json, a block by model with litellm_provider",
    };
  }
  const models = new Map<string, TableModel>();
  const leftOut: LeftOut[] = [];
  const otherModes = new Map<string, number>();
  const providers = new Set<string>();
  for (const [name, entry] of entries) {
    const fields = entry as Fields;
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
    // Some models occur twice, with and without `provider/`. The entry with it is the provider's own.
    if (typeof price === "string") leftOut.push({ model: id, why: price });
    else if (id !== name || !models.has(id)) models.set(id, modelOf(id, provider, fields, price));
  }
  for (const [mode, count] of otherModes)
    leftOut.push({ model: `${count} of mode ${mode}`, why: "only models that answer in text are read" });
  return { ok: true, table: { models: [...models.values()], leftOut, providers: [...providers].sort() } };
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

const above = /^(?:_above_(\d+)(k?)_tokens)?$/;

function priceOf(fields: Fields): PriceResult {
  const ranges = fields["tiered_pricing"];
  const read = Array.isArray(ranges) ? rangesOf(ranges) : ratesOf(fields, "");
  if (typeof read === "string") return read;
  return faultOfRates(read.official) ?? { from: null, ...read, perRequest: null };
}

/** Returns the service tiers. Skips tiers without both rates and tiers with inexact rates. */
function serviceTiersOf(fields: Fields): TableServiceTiers {
  const found = tierEndings.flatMap(([name, ending]) => {
    const read = ratesOf(fields, ending);
    return typeof read === "string" || faultOfRates(read.official) !== undefined ? [] : [[name, read] as const];
  });
  return Object.fromEntries(found);
}

interface Read {
  readonly official: StatedRates;
  readonly tiers: readonly { readonly from_prompt_tokens: number; readonly official: StatedRates }[];
}

/** Reads the rates of fields with this ending. Fields of the standard tier have none. */
function ratesOf(fields: Fields, ending: string): Read | string {
  const starts = new Map<number, StatedRates>();
  for (const [field, value] of Object.entries(fields)) {
    if (value === null || !field.endsWith(ending)) continue;
    for (const [prefix, name] of classes) {
      const match = field.startsWith(prefix)
        ? above.exec(field.slice(prefix.length, field.length - ending.length))
        : null;
      if (match === null) continue;
      const rate = rateOf(String(value), 0);
      if (rate === undefined) return `${field} ${String(value)} cannot be held exactly`;
      const start = match[1] === undefined ? 0 : Number(match[1]) * (match[2] === "k" ? 1000 : 1);
      starts.set(start, { ...starts.get(start), [name]: rate });
    }
  }
  return inTiers(starts);
}

/** Reads `[{range: [0, 32000], input_cost_per_token, …}, …]`. */
function rangesOf(ranges: readonly unknown[]): Read | string {
  const starts = new Map<number, StatedRates>();
  for (const range of ranges) {
    const bounds = isFields(range) ? range["range"] : undefined;
    const from = Array.isArray(bounds) ? String(bounds[0]) : "";
    if (!isFields(range) || !/^\d{1,9}(?:\.0+)?$/.test(from)) return "a range of its tiered_pricing has no beginning";
    const read = ratesOf(range, "");
    if (typeof read === "string") return read;
    starts.set(Number(from), read.official);
  }
  return inTiers(starts);
}

function inTiers(starts: ReadonlyMap<number, StatedRates>): Read {
  const official = withoutZeros(starts.get(0) ?? {});
  const tiers: { from_prompt_tokens: number; official: StatedRates }[] = [];
  for (const [start, changed] of [...starts].filter(([from]) => from > 0).sort(([a], [b]) => a - b)) {
    // A class that the tier does not state keeps the rate of the tier below.
    const below = tiers.at(-1)?.official ?? official;
    tiers.push({ from_prompt_tokens: start + 1, official: withoutZeros(Object.assign({}, below, changed)) });
  }
  return { official, tiers };
}
