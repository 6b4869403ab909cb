import { catalogueOf as catalogueWith } from "../../../src/catalogue/catalogue.ts";
import { usd, type PicoUsd, type PicoUsdPerToken } from "../../../src/core/money.ts";
import { canonicalPrice, type PinnedPrice, type PriceVersion } from "../../../src/core/price.ts";
import { tokenClasses, unchanged } from "../../../src/core/usage.ts";
import type { Catalogue, CatalogueModel } from "../../../src/ports/catalogue.ts";
import type { TokenCount, TokenCounter } from "../../../src/ports/token-counter.ts";
import type { Authenticated } from "../../../src/request/authenticate.ts";
import type { ModelRequest } from "../../../src/wire/model-request.ts";
import { requestSize } from "../core/examples.ts";

export const noon = Date.parse("2026-11-20T12:00:00Z");

/** Returns a price of 1 pico-USD per prompt token and 100 per completion token, so that a cost shows both counts. */
export function version(changes: Partial<PriceVersion> = {}): PriceVersion {
  const rates = Object.fromEntries(
    tokenClasses.map((name) => [name, (/output|reasoning/.test(name) ? 100n : 1n) as PicoUsdPerToken]),
  ) as PriceVersion["tiers"][0]["charged"];
  return {
    model: "plain",
    group: null,
    fraction: null,
    from: "2026-01-01",
    until: null,
    source: "made up for tests",
    tierMode: "whole_request",
    tiers: [{ fromPromptTokens: 0, charged: rates, list: rates }],
    perRequest: null,
    minimum: { tokens: 0, usd: usd("0") },
    ...changes,
  };
}

export function pinned(changes: Partial<PriceVersion> = {}): PinnedPrice {
  const price = version(changes);
  const canonical = canonicalPrice(price);
  return { id: `id of ${canonical}`, canonical, version: price };
}

export function flat(amount: bigint): PinnedPrice {
  return pinned({ perRequest: { charged: amount as PicoUsd, list: amount as PicoUsd } });
}

export function model(changes: Partial<CatalogueModel> = {}): CatalogueModel {
  return {
    id: "plain",
    provider: "example",
    group: "general",
    servedAs: [],
    price: pinned(),
    unit: "token",
    imagesOnly: false,
    encoding: "cl100k_base",
    tokenizerIsPublic: true,
    errorFactor: unchanged,
    promptForm: "chat",
    imageRule: null,
    reasons: false,
    tokensPerSecond: 0,
    billsServerErrors: false,
    maxOutputField: { chat: "max_tokens", completions: "max_tokens", responses: "max_output_tokens" },
    streams: "live",
    obeysMaxToolCalls: true,
    contextTokens: 10_000,
    outputTokensMax: 1000,
    tokensPerByte: unchanged,
    imagePartTokens: null,
    audioPartTokens: null,
    filePartTokens: null,
    ...changes,
  };
}

const prompt: ModelRequest["prompt"] = {
  text: (body) => ({ kind: "plain", texts: [body.toString()], tokens: 0 }),
  bytesOutside: () => 0,
};

/** Returns a text stream without a maximum. Its 500 bytes and 11 tokens of the template bound the prompt. */
export function request(
  changes: Omit<Partial<ModelRequest>, "size"> & { readonly size?: Partial<ModelRequest["size"]> } = {},
): ModelRequest {
  return {
    model: "plain",
    stream: true,
    wantsStreamUsage: false,
    unboundedFields: [],
    fields: { models: [], mentions: [], unknown: [], why: null, doubts: [], user: null },
    classes: { prompt: ["input"], completion: ["output"] },
    prompt,
    ...changes,
    size: requestSize({ textBytes: 500, messages: 1, ...changes.size }),
  };
}

/** Returns a catalogue of the models by their ids. `otherwise`: model with the price of unknown models. */
export function catalogueOf(models: readonly CatalogueModel[], otherwise?: CatalogueModel): Catalogue {
  const historyOf = (model: CatalogueModel) => ({ id: model.id, aliases: [], spans: [{ start: -Infinity, model }] });
  const entries = models.map(historyOf);
  return catalogueWith({
    entries,
    byName: new Map(entries.map((entry) => [entry.id, entry])),
    fallback: otherwise === undefined ? null : historyOf(otherwise),
    taskUnits: new Map(),
    taskTimeLimits: new Map(),
    routes: [],
    digest: "",
  });
}

/** Text that a tokenizer was asked to count. */
export interface Counted {
  readonly texts: readonly string[];
  readonly encoding: string;
  readonly atMost: number | undefined;
}

/** Returns a tokenizer that counts each character as a token. It is busy for the first `busy` calls. */
export function characterCounter(busy = 0): TokenCounter & {
  readonly counted: readonly Counted[];
  readonly prepared: readonly string[];
} {
  const counted: Counted[] = [];
  const prepared: string[] = [];
  const count = (texts: readonly string[], encoding: string, atMost: number | undefined, template = 0): TokenCount => {
    counted.push({ texts, encoding, atMost });
    if (counted.length <= busy) return { ok: false, reason: "busy" };
    return { ok: true, tokens: Math.min(texts.join("").length + template, atMost ?? Infinity) };
  };
  return {
    counted,
    prepared,
    prepare: (encoding) => void prepared.push(encoding),
    countTexts: async (texts, encoding, atMost) => count(texts, encoding, atMost),
    countText: async (text, encoding, atMost) => count([text], encoding, atMost),
    countChat: async ({ texts, messages, tools }, encoding, atMost) =>
      count(texts, encoding, atMost, 3 * messages + 100 * tools.length),
  };
}

export const someone: Authenticated = { key: null, team: null, caller: { key: "", team: null } };
