import type { TokenClass } from "../../core/tokens.ts";
import type { StatedRates } from "../schema.ts";
import { rateOf } from "./exact.ts";
import { countOf, faultOfRates, isFields, type Fields, type LeftOut, type PriceReading, type TableModel, type TableResult, type WantsProvider } from "./table.ts";

/**
 * litellm's `model_prices_and_context_window.json`: a block by model, `provider/` before the name of most; costs in USD a
 * token. `…_above_200k_tokens` prices prompts of more than 200000 tokens as a whole.
 */
export function readLitellm(tree: unknown, wants: WantsProvider): TableResult {
  const entries = isFields(tree) ? Object.entries(tree).filter(([name, entry]) => name !== "sample_spec" && isFields(entry)) : [];
  if (!entries.some(([, entry]) => isFields(entry) && "litellm_provider" in entry)) {
    return { ok: false, problem: "not litellm's table: it should be model_prices_and_context_window.json, a block by model with litellm_provider" };
  }
  const models: TableModel[] = [];
  const leftOut: LeftOut[] = [];
  const otherModes = new Map<string, number>();
  const providers = new Set<string>();
  for (const [name, entry] of entries) {
    const fields = entry as Fields;
    const stated = String(fields["litellm_provider"] ?? "");
    providers.add(stated);
    const provider = families[stated] ?? stated;
    if (!wants(stated, provider)) continue;
    const mode = String(fields["mode"] ?? "chat");
    if (!textModes.has(mode)) {
      otherModes.set(mode, (otherModes.get(mode) ?? 0) + 1);
      continue;
    }
    const id = name.startsWith(`${stated}/`) ? name.slice(stated.length + 1) : name;
    const price = priceOf(fields);
    if (typeof price === "string") leftOut.push({ model: id, why: price });
    else models.push(modelOf(id, provider, fields, price));
  }
  for (const [mode, count] of otherModes) leftOut.push({ model: `${count} of mode ${mode}`, why: "only models that answer in text are read" });
  return { ok: true, table: { models, leftOut, providers: [...providers].sort() } };
}

/** The families that have another name here. */
const families: Readonly<Record<string, string>> = { gemini: "google" };

const textModes = new Set(["chat", "responses", "completion"]);

function modelOf(id: string, provider: string, fields: Fields, price: Exclude<PriceReading, string>): TableModel {
  const tokensMax = countOf(fields["max_tokens"]);
  return {
    id, provider, prices: [price],
    names: [],
    matches: (name) => name === id,
    contextTokens: countOf(fields["max_input_tokens"]) ?? tokensMax,
    maxOutputTokens: countOf(fields["max_output_tokens"]) ?? tokensMax,
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

/** Prices of other service tiers and batches have other endings and are not read. */
const ending = /^(?:_above_(\d+)(k?)_tokens)?$/;

function priceOf(fields: Fields): PriceReading {
  const official: { -readonly [name in TokenClass]?: string } = {};
  const above = new Map<number, { -readonly [name in TokenClass]?: string }>();
  for (const [field, value] of Object.entries(fields)) {
    if (value === null) continue;
    for (const [prefix, name] of classes) {
      const match = field.startsWith(prefix) ? ending.exec(field.slice(prefix.length)) : null;
      if (match === null) continue;
      const rate = rateOf(String(value), 0);
      if (rate === undefined) return `${field} ${String(value)} cannot be held exactly`;
      const start = match[1] === undefined ? 0 : Number(match[1]) * (match[2] === "k" ? 1000 : 1);
      if (start === 0) official[name] = rate;
      else above.set(start, { ...above.get(start), [name]: rate });
    }
  }
  const tiers: { from_prompt_tokens: number; official: StatedRates }[] = [];
  for (const [start, changed] of [...above].sort(([a], [b]) => a - b)) {
    // What a tier does not state is priced as below it.
    const below = tiers.at(-1)?.official ?? official;
    tiers.push({ from_prompt_tokens: start + 1, official: Object.assign({}, below, changed) });
  }
  return faultOfRates(official) ?? { from: null, official, tiers, perRequest: null };
}
