import { isObject, listOr } from "../../wire/json.ts";
import type { TokenClass } from "../../core/usage.ts";
import type { StatedRates } from "../schema.ts";
import {
  countOf,
  familyOf,
  faultOfRates,
  inTiers,
  rateOf,
  usdOfThousand,
  type Fields,
  type LeftOutModel,
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
 * has `id` and `models`. A model has `id`, `match`, `context_window` and `prices`. `prices` is one object, or a list of
 * `{constraint, prices}`, where the last entry whose constraint is fulfilled applies. A price is a number in USD per 1M
 * tokens, or `{base, tiers: [{start, price}]}`: a tier's price applies to the whole prompt if the prompt has more than
 * `start` tokens. `price_variants` contains the prices of service tiers: `{when: {service_tier} or {processing: batch},
 * constraint, prices}`.
 */
export function readGenaiPrices(tree: unknown, wants: WantsProvider): TableResult {
  const providers = Array.isArray(tree) ? tree : [tree];
  if (!providers.every(isProvider)) {
    return {
      ok: false,
      problem:
        "not a genai-prices table: it should be data.json (a list of providers with id and models) or one provider's YAML file",
    };
  }
  const models: TableModel[] = [];
  const leftOut: LeftOutModel[] = [];
  for (const provider of providers) {
    const family = familyOf(provider.id);
    if (!wants(provider.id, family)) continue;
    for (const each of provider.models) {
      if (!isObject(each) || typeof each["id"] !== "string") continue;
      const prices = pricesOf(each["prices"]);
      if (typeof prices === "string") leftOut.push({ model: each["id"], why: prices });
      else models.push(modelOf(family, each["id"], each, prices));
    }
  }
  return { ok: true, table: { models, leftOut, providers: providers.map(({ id }) => id) } };
}

/** Returns true if a value is a provider: an entry of data.json, or the content of a provider's YAML file. */
export function isProvider(value: unknown): value is { readonly id: string; readonly models: readonly unknown[] } {
  return isObject(value) && typeof value["id"] === "string" && Array.isArray(value["models"]);
}

function modelOf(provider: string, id: string, fields: Fields, prices: readonly TablePrice[]): TableModel {
  const match = fields["match"];
  return {
    id,
    provider,
    prices,
    names: equalNames(match).filter((name) => name !== id),
    matches: (name) => fulfills(match, name.toLowerCase()),
    contextTokens: countOf(fields["context_window"]),
    maxOutputTokens: null,
    serviceTiers: (day) => serviceTiersOf(fields["price_variants"], day),
  };
}

const serviceTiers: Readonly<Record<string, ServiceTierName>> = { priority: "priority", flex: "flex", batch: "batch" };

/**
 * Returns the rates of each service tier on this day, from the variant that started most recently. Skips variants that
 * are malformed or have other conditions.
 */
function serviceTiersOf(variants: unknown, day: string): TableServiceTiers {
  const found = new Map<ServiceTierName, { readonly from: string; readonly price: TablePrice }>();
  for (const variant of Array.isArray(variants) ? variants.filter(isObject) : []) {
    const when = isObject(variant["when"]) ? Object.entries(variant["when"]) : [];
    const [[kind, value] = []] = when;
    const name = serviceTiers[String(value)];
    const constraint = variant["constraint"] ?? null;
    const start = isObject(constraint) ? constraint["start_date"] : "";
    if (name === undefined || when.length !== 1 || (kind !== "service_tier" && kind !== "processing")) continue;
    if (typeof start !== "string" || start > day || start < (found.get(name)?.from ?? "")) continue;
    const price = priceOf(variant["prices"], null);
    if (typeof price !== "string" && price.official !== null) found.set(name, { from: start, price });
  }
  return Object.fromEntries(
    [...found].map(([name, { price }]) => [name, { official: price.official, tiers: price.tiers }]),
  );
}

/**
 * Returns the prices, or the reason why they cannot be imported. Of several valid entries the last one applies, so
 * their order matters.
 */
function pricesOf(stated: unknown): TablePrice[] | string {
  const blocks = Array.isArray(stated) ? stated : [{ prices: stated }];
  const read: TablePrice[] = [];
  for (const block of blocks) {
    const constraint = isObject(block) ? (block["constraint"] ?? null) : null;
    const from = isObject(constraint) ? constraint["start_date"] : null;
    if (constraint !== null && typeof from !== "string") return "its price depends on the time of day";
    const price = priceOf(isObject(block) ? block["prices"] : undefined, typeof from === "string" ? from : null);
    if (typeof price === "string") return price;
    const before = read.at(-1);
    if (before !== undefined && (price.from === null || (before.from !== null && price.from <= before.from)))
      return "its prices are not in order of their days";
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

/** Item types of hosted tools, by the field that states the fee for a thousand calls. */
const toolFees: Readonly<Record<string, string>> = {
  web_searches_kcount: "web_search_call",
  storage_searches_kcount: "file_search_call",
};

/** Fields for cached media, which Farebox counts as cached input because it has no class for them. */
const withoutClass = new Set(["cache_audio_read_mtok", "cache_image_read_mtok", "cache_video_read_mtok"]);

function priceOf(stated: unknown, from: string | null): PriceResult {
  const all = Object.entries(isObject(stated) ? stated : {}).filter(
    ([name, value]) => value !== null && !withoutClass.has(name),
  );
  const fields = all.filter(([name]) => toolFees[name] === undefined);
  const fees: Record<string, string> = {};
  for (const [name, value] of all) {
    const tool = toolFees[name];
    if (tool === undefined) continue;
    const fee = usdOfThousand(String(value));
    if (fee === undefined) return `${name} ${String(value)} cannot be represented exactly`;
    fees[tool] = fee;
  }
  if (fields.length === 0) return "no price";
  const request = fields.find(([name]) => name === "requests_kcount");
  if (request !== undefined) {
    if (fields.length > 1) return "it has prices of requests and of tokens, which a price file cannot state together";
    const perRequest = usdOfThousand(String(request[1]));
    return perRequest === undefined
      ? `requests_kcount ${String(request[1])} cannot be represented exactly`
      : { from, official: null, tiers: [], perRequest, fees };
  }
  const bySize = new Map<number, StatedRates>();
  for (const [name, value] of fields) {
    const known = classes[name];
    if (known === undefined) return `its price has ${name}, for which Farebox has no token class`;
    for (const { from: size, price } of tiersOf(value)) {
      const rate = rateOf(price, 6);
      if (rate === undefined) return `${name} ${price} cannot be represented exactly`;
      bySize.set(size, { ...bySize.get(size), [known]: rate });
    }
  }
  const { official, tiers } = inTiers(bySize);
  return faultOfRates(official) ?? { from, official, tiers, perRequest: null, fees };
}

interface Tier {
  readonly from: number;
  readonly price: string;
}

/** Returns the prices by prompt size, smallest first. `from`: fewest prompt tokens to which the price applies. */
function tiersOf(value: unknown): Tier[] {
  if (!isObject(value)) return [{ from: 0, price: String(value) }];
  const tiers = listOr(value["tiers"]).filter(isObject);
  return [
    { from: 0, price: String(value["base"]) },
    ...tiers.map((tier) => ({ from: Number(tier["start"]) + 1, price: String(tier["price"]) })),
  ];
}

function fulfills(clause: unknown, name: string): boolean {
  if (!isObject(clause)) return false;
  const [[kind, wanted] = []] = Object.entries(clause);
  if (Array.isArray(wanted))
    return kind === "and" ? wanted.every((each) => fulfills(each, name)) : wanted.some((each) => fulfills(each, name));
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
      // Does not evaluate regular expressions from an external file. The model can still be found by its id.
      return false;
  }
}

function equalNames(clause: unknown): string[] {
  if (!isObject(clause)) return [];
  const alternatives = clause["or"];
  if (Array.isArray(alternatives)) return alternatives.flatMap(equalNames);
  return typeof clause["equals"] === "string" ? [clause["equals"]] : [];
}
