import type { TokenClass } from "../../core/usage.ts";
import type { StatedRates } from "../schema.ts";
import {
  countOf,
  familyOf,
  faultOfRates,
  isFields,
  rateOf,
  usdOfThousand,
  withoutZeros,
  type Fields,
  type LeftOut,
  type PriceResult,
  type ServiceTierName,
  type TableModel,
  type TablePrice,
  type TableResult,
  type TableServiceTiers,
  type WantsProvider,
} from "./table.ts";

/**
 * Reads pydantic/genai-prices: `prices/data.json` (a list of providers) or the YAML file of one provider. A provider
 * has `id` and `models`. A model has `id`, `match`, `context_window` and `prices`. `prices` is one object, or a list
 * of `{constraint, prices}` in which the last entry whose constraint holds is used. A price is in USD per 1M tokens,
 * or is `{base, tiers: [{start, price}]}`, in which a tier prices the whole of a prompt with more than `start`
 * tokens. `price_variants` are the prices of service tiers: `{when: {service_tier} or {processing: batch},
 * constraint, prices}`.
 */
export function readGenaiPrices(tree: unknown, wants: WantsProvider): TableResult {
  const providers = Array.isArray(tree) ? tree : [tree];
  if (
    !providers.every(
      (provider) => isFields(provider) && typeof provider["id"] === "string" && Array.isArray(provider["models"]),
    )
  ) {
    return {
      ok: false,
      problem:
        "not a genai-prices table: it should be data.json (a list of providers with id and models) or one provider's YAML file",
    };
  }
  const models: TableModel[] = [];
  const leftOut: LeftOut[] = [];
  for (const provider of providers as { id: string; models: unknown[] }[]) {
    const family = familyOf(provider.id);
    if (!wants(provider.id, family)) continue;
    for (const each of provider.models) {
      if (!isFields(each) || typeof each["id"] !== "string") continue;
      const prices = pricesOf(each["prices"]);
      if (typeof prices === "string") leftOut.push({ model: each["id"], why: prices });
      else models.push(modelOf(family, each["id"], each, prices));
    }
  }
  return {
    ok: true,
    table: { models, leftOut, providers: providers.map((provider) => String((provider as Fields)["id"])) },
  };
}

function modelOf(provider: string, id: string, fields: Fields, prices: readonly TablePrice[]): TableModel {
  const match = fields["match"];
  return {
    id,
    provider,
    prices,
    names: equalNames(match).filter((name) => name !== id),
    matches: (name) => fits(match, name.toLowerCase()),
    contextTokens: countOf(fields["context_window"]),
    maxOutputTokens: null,
    serviceTiers: (day) => serviceTiersOf(fields["price_variants"], day),
  };
}

const serviceTiers: Readonly<Record<string, ServiceTierName>> = { priority: "priority", flex: "flex", batch: "batch" };

/** Returns the latest variant of each tier on this day. Skips variants that cannot be read or have other conditions. */
function serviceTiersOf(variants: unknown, day: string): TableServiceTiers {
  const found = new Map<ServiceTierName, { readonly from: string; readonly price: TablePrice }>();
  for (const variant of Array.isArray(variants) ? variants.filter(isFields) : []) {
    const when = isFields(variant["when"]) ? Object.entries(variant["when"]) : [];
    const [[kind, value] = []] = when;
    const name = serviceTiers[String(value)];
    const constraint = variant["constraint"] ?? null;
    const start = isFields(constraint) ? constraint["start_date"] : "";
    if (name === undefined || when.length !== 1 || (kind !== "service_tier" && kind !== "processing")) continue;
    if (typeof start !== "string" || start > day || start < (found.get(name)?.from ?? "")) continue;
    const price = priceOf(variant["prices"], null);
    if (typeof price !== "string" && price.official !== null) found.set(name, { from: start, price });
  }
  return Object.fromEntries(
    [...found].map(([name, { price }]) => [name, { official: price.official, tiers: price.tiers }]),
  );
}

/** Returns the prices. The last entry whose constraint holds is used, so the entries must be in order of their days. */
function pricesOf(stated: unknown): TablePrice[] | string {
  const blocks = Array.isArray(stated) ? stated : [{ prices: stated }];
  const read: TablePrice[] = [];
  for (const block of blocks) {
    const constraint = isFields(block) ? (block["constraint"] ?? null) : null;
    const from = isFields(constraint) ? constraint["start_date"] : null;
    if (constraint !== null && typeof from !== "string") return "its price depends on the time of day";
    const price = priceOf(isFields(block) ? block["prices"] : undefined, typeof from === "string" ? from : null);
    if (typeof price === "string") return price;
    const before = read.at(-1);
    if (before !== undefined && (price.from === null || (before.from !== null && price.from <= before.from)))
      return "its prices are not in the order of their days";
    read.push(price);
  }
  return read.length === 0 ? "no price" : read;
}

const classes: Readonly<Record<string, TokenClass>> = {
  input_mtok: "input",
  cache_read_mtok: "cached_input",
  cache_write_mtok: "cache_write",
  cache_write_1h_mtok: "cache_write_1h",
  input_audio_mtok: "audio_input",
  input_image_mtok: "image_input",
  output_mtok: "output",
  output_audio_mtok: "audio_output",
  output_image_mtok: "image_output",
};

/** Hosted tools by the field that states the fee for a thousand calls. */
const toolFees: Readonly<Record<string, string>> = {
  web_searches_kcount: "web_search_call",
  storage_searches_kcount: "file_search_call",
};

/** Fields for cached media, which Farebox counts as cached input because it has no class for them. */
const withoutClass = new Set(["cache_audio_read_mtok", "cache_image_read_mtok", "cache_video_read_mtok"]);

function priceOf(stated: unknown, from: string | null): PriceResult {
  const all = Object.entries(isFields(stated) ? stated : {}).filter(
    ([name, value]) => value !== null && !withoutClass.has(name),
  );
  const fields = all.filter(([name]) => toolFees[name] === undefined);
  const fees: Record<string, string> = {};
  for (const [name, value] of all) {
    const tool = toolFees[name];
    if (tool === undefined) continue;
    const fee = usdOfThousand(String(value));
    if (fee === undefined) return `${name} ${String(value)} cannot be held exactly`;
    fees[tool] = fee;
  }
  if (fields.length === 0) return "no price";
  const request = fields.find(([name]) => name === "requests_kcount");
  if (request !== undefined) {
    if (fields.length > 1) return "a price of requests next to one of tokens cannot be stated here";
    const perRequest = usdOfThousand(String(request[1]));
    return perRequest === undefined
      ? `requests_kcount ${String(request[1])} cannot be held exactly`
      : { from, official: null, tiers: [], perRequest, fees };
  }
  const starts = [...new Set(fields.flatMap(([, value]) => tiersOf(value).map(({ start }) => start)))].sort(
    (a, b) => a - b,
  );
  const tiers: { from_prompt_tokens: number; official: StatedRates }[] = [];
  let official: StatedRates = {};
  for (const start of [-1, ...starts]) {
    const rates: { -readonly [name in TokenClass]?: string } = {};
    for (const [name, value] of fields) {
      const known = classes[name];
      if (known === undefined) return `its price has ${name}, which has no class here`;
      const written = reached(value, start);
      const rate = rateOf(written, 6);
      if (rate === undefined) return `${name} ${written} cannot be held exactly`;
      rates[known] = rate;
    }
    if (start === -1) official = withoutZeros(rates);
    else tiers.push({ from_prompt_tokens: start + 1, official: withoutZeros(rates) });
  }
  return faultOfRates(official) ?? { from, official, tiers, perRequest: null, fees };
}

interface Tier {
  readonly start: number;
  readonly price: string;
}

function tiersOf(value: unknown): Tier[] {
  const tiers = isFields(value) && Array.isArray(value["tiers"]) ? value["tiers"] : [];
  return tiers.filter(isFields).map((tier) => ({ start: Number(tier["start"]), price: String(tier["price"]) }));
}

/** Returns the price, as written, of prompts with slightly more than `start` tokens. */
function reached(value: unknown, start: number): string {
  if (!isFields(value)) return String(value);
  const tier = tiersOf(value)
    .filter((each) => each.start <= start)
    .toSorted((a, b) => a.start - b.start)
    .at(-1);
  return tier?.price ?? String(value["base"]);
}

function fits(clause: unknown, name: string): boolean {
  if (!isFields(clause)) return false;
  const [[kind, wanted] = []] = Object.entries(clause);
  if (Array.isArray(wanted))
    return kind === "and" ? wanted.every((each) => fits(each, name)) : wanted.some((each) => fits(each, name));
  const text = String(wanted).toLowerCase();
  switch (kind) {
    case "equals":
      return name === text;
    case "starts_with":
      return name.startsWith(text);
    case "ends_with":
      return name.endsWith(text);
    case "contains":
      return name.includes(text);
    default:
      // Does not evaluate regular expressions of a foreign file. The model can still be found by its id.
      return false;
  }
}

function equalNames(clause: unknown): string[] {
  if (!isFields(clause)) return [];
  const alternatives = clause["or"];
  if (Array.isArray(alternatives)) return alternatives.flatMap(equalNames);
  return typeof clause["equals"] === "string" ? [clause["equals"]] : [];
}
