import { describe, expect, it } from "vitest";
import { BodyBytes } from "../../../src/ports/exchange.ts";
import { noMoney, type PicoUsd } from "../../../src/core/money.ts";
import { plainTerms, type HostedTools } from "../../../src/core/bounds.ts";
import { anyServiceTier } from "../../../src/core/rate-variants.ts";
import { ceilingPrice, type PriceVersion } from "../../../src/core/price.ts";
import type { Permille } from "../../../src/core/usage.ts";
import type { CatalogueModel } from "../../../src/ports/catalogue.ts";
import { Pricer, firstHold, pricedFor, type Quote } from "../../../src/request/price.ts";
import type { ModelRequest } from "../../../src/wire/model-request.ts";
import { contentId } from "../../../src/wire/content-id.ts";
import { catalogueOf, characterCounter, flat, model, noon, pinned, request, version } from "./examples.ts";
import { noChat } from "../../../src/wire/prompt-text.ts";

const body = new BodyBytes([Buffer.from("0123456789")]);
/** The prompt of `request()`: 500 bytes, 3 for the reply and 8 for its message. */
const promptTokens = 511;

interface Setting {
  readonly models?: readonly CatalogueModel[];
  readonly otherwise?: CatalogueModel;
  readonly unpriced?: "record" | "refuse";
  readonly toolCalls?: number;
  readonly sliceTokens?: number;
  readonly fitTokensMin?: number | null;
}

function pricerOf({
  models = [model()],
  otherwise,
  unpriced = "record",
  toolCalls = 0,
  sliceTokens = 64,
  fitTokensMin = null,
}: Setting = {}) {
  const tokens = characterCounter();
  return {
    pricer: new Pricer({
      catalogue: () => catalogueOf(models, otherwise),
      tokens,
      unpriced,
      sliceTokens,
      toolCalls,
      fitTokensMin,
    }),
    counted: tokens.counted,
  };
}

function quoteOf(asked: ModelRequest, setting: Setting = {}): Quote {
  const pricing = pricerOf(setting).pricer.quote(asked, noon);
  if (!pricing.ok) throw new Error(`refused: ${pricing.refusal.code}`);
  return pricing.quote;
}

const naming = (changes: Partial<ModelRequest["fields"]>) => request({ fields: { ...request().fields, ...changes } });

/** Returns the tiers of `version()` with other rates for prompt tokens, completion tokens and some classes. */
function rates(input: bigint, output: bigint, more: object = {}): PriceVersion["tiers"] {
  const [tier] = version().tiers;
  const each = Object.fromEntries(
    Object.keys(tier.charged).map((name) => [name, /output|reasoning/.test(name) ? output : input]),
  );
  return [{ ...tier, charged: { ...each, ...more } as typeof tier.charged }];
}

describe("a hold", () => {
  it("of a stream without a maximum is its first slice, and grows up to the model's maximum", () => {
    const { growth, ...quoted } = quoteOf(request());
    expect(quoted).toMatchObject({
      at: noon,
      promptTokens,
      hold: 511n + 100_000n,
      bounded: true,
      unboundedFields: [],
      toolCalls: null,
    });
    expect(growth).toMatchObject({ sliceTokens: 64, outputTokensMax: 1000 });
    expect(growth?.costAt(65)).toBe(511n + 6500n);
    expect(firstHold({ hold: noMoney, growth })).toBe(511n + 6400n);
    expect(firstHold({ hold: 7n as PicoUsd, growth: null })).toBe(7n);
  });

  it("has a slice for each choice", () => {
    expect(quoteOf(request({ size: { choices: 3 } }))).toMatchObject({
      hold: 511n + 300_000n,
      growth: { sliceTokens: 192, outputTokensMax: 3000 },
    });
  });

  const all = 511n + 100_000n;
  it.each<[string, ModelRequest, Setting, bigint]>([
    ["a plain answer", request({ stream: false }), {}, all],
    [
      "output that is not text",
      request({ classes: { prompt: ["input"], completion: ["output", "audio_output"] } }),
      {},
      all,
    ],
    ["output that Farebox does not see", request({ isUnseen: true }), {}, all],
    ["a model with hidden reasoning", request(), { models: [model({ reasons: true })] }, all],
    ["a stated maximum", request({ size: { outputMax: 900 } }), {}, 511n + 90_000n],
    ["fields that may add tokens", request({ size: { unboundedFields: ["prediction"] } }), {}, 10_000n + 100_000n],
    [
      "fields that may add tokens, with a stated maximum",
      request({ size: { unboundedFields: ["prediction"], outputMax: 10 } }),
      {},
      10_000n + 100_000n,
    ],
    [
      "fields that may add prompt tokens, in a request without output",
      request({ size: { unboundedFields: ["prediction"], outputMax: 0 } }),
      {},
      10_000n,
    ],
    // The rejected part of a prediction is billed as output, for each choice.
    ["a prediction", request({ size: { predictedBytes: 20 } }), {}, all + 2_000n],
    [
      "a prediction for several choices, with a maximum",
      request({ size: { predictedBytes: 20, outputMax: 100, choices: 3 } }),
      {},
      511n + 30_000n + 6_000n,
    ],
    ["a slice as large as the model's maximum", request(), { sliceTokens: 1000 }, all],
    ["a price per request", request(), { models: [model({ price: flat(77n) })] }, 77n],
  ])("is the worst case for %s", (_, asked, setting, hold) => {
    expect(quoteOf(asked, setting)).toMatchObject({ hold, growth: null, bounded: true });
  });

  it.each<[string, ModelRequest, Setting]>([
    [
      "text and reasoning that is shown",
      request({ classes: { prompt: ["input"], completion: ["output", "reasoning"] } }),
      {},
    ],
    ["a slice one token below the maximum", request(), { sliceTokens: 999 }],
  ])("grows for %s", (_, asked, setting) => {
    expect(quoteOf(asked, setting).growth).not.toBeNull();
  });

  it.each<[string, ModelRequest, Setting]>([
    ["that is unknown", request(), { models: [] }],
    ["without a price", request(), { models: [model({ price: null })] }],
    ["on a path whose cost is not known", request({ isUnpriced: true }), {}],
  ])("of a model %s has no amount, and no bound", (_, asked, setting) => {
    expect(quoteOf(asked, setting)).toMatchObject({ hold: null, growth: null, bounded: false });
  });

  it.each<[string, boolean, ModelRequest, Setting]>([
    ["the models that it names", false, naming({ models: ["large"] }), { models: [model(), model({ id: "large" })] }],
    ["any model, on a path whose cost is not known", true, request({ isUnpriced: true }), {}],
    ["any model, if one of its names is unknown", true, naming({ models: ["large"] }), {}],
    [
      "any model, if its price is the one of unknown names",
      true,
      request(),
      { models: [], otherwise: model({ id: ceilingPrice }) },
    ],
  ])("counts in the budgets on %s", (_, anyModel, asked, setting) => {
    expect(quoteOf(asked, setting).anyModel).toBe(anyModel);
  });

  it("of an unknown model counts every byte of its prompt as a token", () => {
    expect(quoteOf(request(), { models: [] }).promptTokens).toBe(500);
  });

  it("has no bound if a field has none", () => {
    expect(quoteOf(request({ unboundedFields: ["prediction"] }))).toMatchObject({
      bounded: false,
      unboundedFields: ["prediction"],
    });
  });
});

describe("a request that names several models", () => {
  const large = model({ id: "large", price: pinned({ tiers: rates(10n, 10n) }), tokensPerByte: 2000 as Permille });
  const setting: Setting = { models: [model(), large] };

  it("holds the worst case of the most expensive model, and has the largest prompt bound", () => {
    const quote = quoteOf(naming({ models: ["large"] }), setting);
    // By the other's price: 1011 tokens at 10, and 1000 at 10.
    expect(quote).toMatchObject({ hold: 511n + 100_000n, growth: null, promptTokens: 1011, bounded: true });
    expect(quote.models.map(({ name }) => name)).toEqual(["plain", "large"]);
    const costly = model({ id: "large", price: pinned({ tiers: rates(100n, 100n) }) });
    expect(quoteOf(naming({ models: ["large"] }), { models: [model(), costly] }).hold).toBe(511n * 100n + 100_000n);
  });

  it("lists each model once, including the requested one", () => {
    const quote = quoteOf(naming({ models: ["plain", "large", "large"], mentions: ["large", "plain"] }), setting);
    expect(quote.models.map(({ name }) => name)).toEqual(["plain", "large"]);
  });

  it.each(["large", "LARGE", "openai/large", "OpenAI/Large:nitro", "a/b/large", "large:free\n"])(
    "finds the model that the text %j names",
    (text) => {
      expect(quoteOf(naming({ mentions: [text] }), setting).models).toMatchObject([
        { name: "plain" },
        { name: text, model: { id: "large" } },
      ]);
    },
  );

  it.each(["larger", "large/else", "nothing"])("finds no model in the text %j", (text) => {
    const quote = quoteOf(naming({ mentions: [text] }), { ...setting, otherwise: large });
    expect(quote.models.map(({ name }) => name)).toEqual(["plain"]);
    expect(quote.growth).not.toBeNull();
  });

  it("has no bound if one of them has no price", () => {
    const quote = quoteOf(naming({ models: ["new"] }), setting);
    expect(quote).toMatchObject({ hold: 511n + 100_000n, growth: null, bounded: false });
    expect(quote.models).toMatchObject([{ name: "plain" }, { name: "new", model: undefined }]);
  });

  it("has no price for models that are priced for images only", () => {
    const images = [model({ imagesOnly: true }), model({ id: "large", imagesOnly: true })];
    expect(quoteOf(naming({ models: ["large"] }), { models: images }).models).toMatchObject([
      { model: { price: null } },
      { model: { price: null } },
    ]);
  });

  it("is refused for its first model without a price if the settings refuse such models", () => {
    const { pricer } = pricerOf({ ...setting, unpriced: "refuse" });
    const refusalFor = (asked: ModelRequest) => {
      const pricing = pricer.quote(asked, noon);
      return pricing.ok ? null : pricing.refusal;
    };
    expect(refusalFor(naming({ models: ["new", "newer"] }))).toEqual({
      code: "model_not_priced",
      model: "new",
      hardBudget: false,
    });
    expect(refusalFor(request({ model: "new" }))).toEqual({
      code: "model_not_priced",
      model: "new",
      hardBudget: false,
    });
    expect(refusalFor(naming({ models: ["large"] }))).toBeNull();
  });

  it("is refused for more than 100 models, because each may have windows of budgets", () => {
    const models = Array.from({ length: 101 }, (_, index) => model({ id: index === 0 ? "plain" : `m${index}` }));
    const { pricer } = pricerOf({ models });
    const mentions = models.map(({ id }) => id);
    expect(pricer.quote(naming({ mentions: mentions.slice(0, 100) }), noon).ok).toBe(true);
    expect(pricer.quote(naming({ mentions }), noon)).toMatchObject({
      ok: false,
      refusal: { code: "invalid_request", message: expect.stringContaining("more than 100 models") },
    });
  });

  it("is refused for a stated model without a price, even if an unknown field also mentions it", () => {
    const { pricer } = pricerOf({ models: [model(), model({ id: "priceless", price: null })], unpriced: "refuse" });
    expect(pricer.quote(naming({ models: ["priceless"], mentions: ["priceless"] }), noon)).toMatchObject({
      ok: false,
      refusal: { model: "priceless" },
    });
  });

  it("is not refused for a model without a price that only an unknown field mentions", () => {
    const { pricer } = pricerOf({ models: [model(), model({ id: "priceless", price: null })], unpriced: "refuse" });
    expect(pricer.quote(naming({ mentions: ["priceless"] }), noon)).toMatchObject({
      ok: true,
      quote: { bounded: false },
    });
  });
});

describe("a prompt that is written to a cache for an hour", () => {
  const cached = request({
    classes: { prompt: ["input", "cache_write_1h"], completion: ["output"] },
    unboundedFields: ["prediction"],
  });
  const withoutHour = pinned({ tiers: rates(1n, 100n, { cache_write: 2n, cache_write_1h: 2n }) });

  it("has no bound at a price without a one-hour rate, and states the reason", () => {
    const quote = quoteOf(cached, { models: [model({ price: withoutHour })] });
    expect(quote).toMatchObject({ bounded: false, unboundedFields: ["prediction", "cache_control.ttl"] });
    expect(quote.request.fields).toEqual({
      models: [],
      mentions: [],
      unknown: [],
      why: "the price file states no cache_write_1h for a cache that is kept for an hour",
      doubts: ["unknown_field"],
      user: null,
    });
  });

  it.each<[string, ModelRequest, Setting]>([
    ["the price has a one-hour rate", cached, {}],
    [
      "the request makes no one-hour writes",
      request({ unboundedFields: ["prediction"] }),
      { models: [model({ price: withoutHour })] },
    ],
    ["the model has no price", cached, { models: [model({ price: null })] }],
    ["the model is unknown", cached, { models: [] }],
  ])("adds no unbounded field if %s", (_, asked, setting) => {
    const quote = quoteOf(asked, setting);
    expect(quote.request).toBe(asked);
    expect(quote.unboundedFields).toEqual(["prediction"]);
  });

  it("has no bound if another named model has no one-hour rate", () => {
    const asked = { ...cached, fields: { ...cached.fields, models: ["other"] } };
    expect(quoteOf(asked, { models: [model(), model({ id: "other", price: withoutHour })] }).unboundedFields).toContain(
      "cache_control.ttl",
    );
  });
});

describe("a request with a service tier or hosted tools", () => {
  const fee = { charged: 1000n as PicoUsd, list: 1000n as PicoUsd, inputTokens: 50 };
  const tools: HostedTools = { calls: ["web_search_call"], fields: ["tools"], areShown: true, callsMax: null };
  const priced = (changes: Partial<PriceVersion>): Setting => ({
    models: [model({ price: pinned(changes) })],
    toolCalls: 4,
  });
  const requestWith = (
    serviceTier: string | null,
    hostedTools: HostedTools | null,
    changes: Parameters<typeof request>[0] = {},
  ) => request({ terms: { ...plainTerms, serviceTier, hostedTools }, ...changes });
  const serviceTiers = { priority: rates(2n, 200n), flex: rates(1n, 50n) };

  it.each<[string | null, bigint]>([
    [null, 100_511n],
    ["flex", 100_511n],
    ["priority", 201_022n],
    [anyServiceTier, 201_022n],
  ])("holds for the most expensive tier that may answer: %s", (tier, hold) => {
    const quote = quoteOf(requestWith(tier, null), priced({ serviceTiers }));
    expect(quote).toMatchObject({ hold, bounded: true, toolCalls: null });
    expect(quote.growth?.costAt(0)).toBe((hold - 511n) / 1000n === 100n ? 511n : 1022n);
  });

  it("has no bound in a tier without rates", () => {
    expect(quoteOf(requestWith("priority", null), priced({}))).toMatchObject({
      bounded: false,
      unboundedFields: ["service_tier"],
    });
    expect(
      quoteOf(requestWith("priority", null, { unboundedFields: ["service_tier", "a"] }), priced({})).unboundedFields,
    ).toEqual(["service_tier", "a"]);
  });

  it("holds the fees, the prompt again for each call, and the whole output", () => {
    const quote = quoteOf(requestWith(null, tools), priced({ fees: { web_search_call: fee } }));
    expect(quote).toMatchObject({
      hold: 511n * 5n + 10n * 50n + 100_000n + 4n * 1000n,
      growth: null,
      toolCalls: 4,
      bounded: true,
    });
  });

  it("keeps its stated number of calls", () => {
    const quote = quoteOf(requestWith(null, { ...tools, callsMax: 1 }), priced({ fees: { web_search_call: fee } }));
    expect(quote).toMatchObject({ hold: 511n * 2n + 50n + 100_000n + 1000n, toolCalls: null, bounded: true });
  });

  it("has no bound if its tool has no fee and its tier no rates", () => {
    const quote = quoteOf(requestWith("priority", tools), priced({}));
    expect(quote).toMatchObject({
      hold: 100_511n,
      bounded: false,
      unboundedFields: ["service_tier", "tools"],
      toolCalls: null,
    });
    // A policy may let the request pass, and its stream may not show all output.
    expect(quote.growth).toBeNull();
  });

  it("uses the prices of all named models for its bounds", () => {
    const asked = { ...requestWith("priority", tools), fields: { ...request().fields, models: ["other", "new"] } };
    const other = model({ id: "other", price: pinned({ serviceTiers, fees: { web_search_call: fee } }) });
    const quote = quoteOf(asked, { models: [model({ price: pinned({ serviceTiers }) }), other], toolCalls: 3 });
    expect(quote).toMatchObject({ bounded: false, unboundedFields: ["tools"], toolCalls: 3 });
  });
});

describe("a prompt", () => {
  const counting = (asked: ModelRequest, changes: Partial<CatalogueModel> = {}) => {
    const { pricer, counted } = pricerOf({ models: [model(changes)] });
    const pricing = pricer.quote(asked, noon);
    if (!pricing.ok) throw new Error("refused");
    return { pricer, quote: pricing.quote, counted };
  };
  const chat = { ...noChat, texts: ["abcde"], messages: 2, tools: [{ type: "function" }, { type: "function" }] };
  const ofChat: ModelRequest["prompt"] = { text: () => ({ kind: "chat", chat }), bytesOutside: () => 20 };
  const ofTexts: ModelRequest["prompt"] = {
    text: () => ({ kind: "plain", texts: ["abcde"], tokens: 7 }),
    bytesOutside: () => 20,
  };

  it.each<[string, ModelRequest, Partial<CatalogueModel>, number]>([
    ["its texts", request(), {}, 10],
    ["texts, stated tokens, and the bytes next to them", request({ prompt: ofTexts }), {}, 5 + 7 + 20],
    [
      "texts, stated tokens, and the bytes next to them at more than a token each",
      request({ prompt: ofTexts }),
      { tokensPerByte: 1500 as Permille },
      5 + 7 + 30,
    ],
    [
      "a chat with its template, and its tools as bytes",
      request({ prompt: ofChat }),
      {},
      // The text around the tools counts once. The counter counts 100 for a tool.
      5 + 6 + 100 + 2 * 5 + 20,
    ],
    ["the catalogue's bound of its images", request({ size: { imageParts: 2 } }), { imagePartTokens: 30 }, 10 + 60],
    ["at most its bound", request({ size: { textBytes: 1, messages: 0 } }), {}, 4],
    [
      "at most its bound, including the bytes around it",
      request({ prompt: ofTexts, size: { textBytes: 1, messages: 0 } }),
      {},
      4,
    ],
  ])("is counted as %s", async (_, asked, changes, expected) => {
    const { pricer, quote, counted } = counting(asked, changes);
    expect(await pricer.countPrompt(quote, body)).toBe(expected);
    expect(counted).toMatchObject([{ encoding: "cl100k_base" }]);
  });

  it.each<[string, ModelRequest, Partial<CatalogueModel>]>([
    ["whose model is billed by seconds", request(), { unit: "second" }],
    ["with a field that hides tokens", request({ size: { unboundedFields: ["documents"] } }), {}],
    ["with a file that the catalogue does not bound", request({ size: { fileParts: 1 } }), {}],
    ["of an unknown model", request({ model: "new" }), {}],
  ])("%s cannot be counted", async (_, asked, changes) => {
    const { pricer, quote, counted } = counting(asked, changes);
    expect(await pricer.countPrompt(quote, body)).toBeUndefined();
    expect(await pricer.tighten(quote, body, 10n ** 9n)).toBeUndefined();
    expect(counted).toEqual([]);
  });

  it("is not counted if the counter is busy", async () => {
    const busy = new Pricer({
      catalogue: () => catalogueOf([model()]),
      tokens: characterCounter(9),
      unpriced: "record",
      sliceTokens: 64,
      toolCalls: 0,
      fitTokensMin: null,
    });
    const pricing = busy.quote(request(), noon);
    if (!pricing.ok) throw new Error("refused");
    expect(await busy.countPrompt(pricing.quote, body)).toBeUndefined();
    expect(await busy.tighten(pricing.quote, body, 10n ** 9n)).toBeUndefined();
  });

  it("of a model without a price is not counted for a hold", async () => {
    const { pricer, quote, counted } = counting(request(), { price: null });
    expect(await pricer.tighten(quote, body, 10n ** 9n)).toBeUndefined();
    expect(counted).toEqual([]);
    expect(await pricer.countPrompt(quote, body)).toBe(10);
  });

  // 100 for each token of output, 1 for each of the prompt and of the 40 bytes that a maximum adds.
  it.each<[string, ModelRequest, bigint, number | undefined, number | null, boolean]>([
    ["after its prompt is counted", request(), 50_050n, undefined, 500, true],
    ["after its prompt is counted, for one pico-USD less", request(), 50_049n, undefined, 499, true],
    ["by a known count", request(), 50_060n, 20, 500, false],
    ["for each of its choices", request({ size: { choices: 2 } }), 50_050n, undefined, 250, true],
    ["at the model's maximum", request(), 10n ** 9n, undefined, 1000, false],
    ["of 0 if not even the output fits", request(), 99n, undefined, 0, false],
    [
      "of an unknown amount if a field hides tokens",
      request({ size: { unboundedFields: ["x"] } }),
      50_050n,
      undefined,
      null,
      false,
    ],
  ])("leaves an affordable output %s", async (_, asked, room, known, expected, isCounted) => {
    const { pricer, quote, counted } = counting(asked);
    expect(await pricer.affordable(quote, body, room, known)).toBe(expected);
    expect(counted).toHaveLength(isCounted ? 1 : 0);
  });

  it("leaves an affordable output by its bytes if it cannot be counted or names several models", async () => {
    const { pricer, quote } = counting(request(), { tokenizerIsPublic: false, unit: "character" });
    expect(await pricer.affordable(quote, body, 50_550n)).toBe(499);
    expect(await pricer.affordable(quote, body, 50_551n)).toBe(500);
    const two = pricerOf({ models: [model(), model({ id: "other" })] });
    const both = two.pricer.quote(naming({ models: ["other"] }), noon);
    if (!both.ok) throw new Error("refused");
    expect(await two.pricer.affordable(both.quote, body, 50_551n, 10)).toBe(500);
    expect(two.counted).toEqual([]);
  });

  it("that was counted lowers the hold, which still grows", async () => {
    const { pricer, quote } = counting(request());
    const tighter = await pricer.tighten(quote, body, 10n ** 9n);
    expect(tighter).toMatchObject({ hold: 10n + 100_000n, growth: { sliceTokens: 64, outputTokensMax: 1000 } });
    expect(tighter && firstHold(tighter)).toBe(10n + 6400n);
  });

  it.each([
    ["the output alone just fits", 6400n, 1],
    ["not even the output fits", 6399n, 0],
  ])("is counted for a remaining amount only if that can help: %s", async (_, room, times) => {
    const { pricer, quote, counted } = counting(request());
    const tighter = await pricer.tighten(quote, body, room);
    expect([tighter !== undefined, counted.length]).toEqual([times === 1, times]);
  });

  it("is not counted for several models, because their tokenizers differ", async () => {
    const { pricer, counted } = pricerOf({ models: [model(), model({ id: "other" })] });
    const pricing = pricer.quote(naming({ models: ["other"] }), noon);
    if (!pricing.ok) throw new Error("refused");
    expect(await pricer.tighten(pricing.quote, body, 10n ** 9n)).toBeUndefined();
    expect(counted).toEqual([]);
  });
});

describe("the price of a model", () => {
  const perRequest = model({ price: flat(5n) });

  it.each<[string, ModelRequest, CatalogueModel | undefined]>([
    ["one piece", request({ pieces: 1 }), perRequest],
    ["no pieces", request(), perRequest],
    ["pieces that are billed by tokens", request({ pieces: 3 }), model()],
    ["images, by a price for images", request({ pieces: 2 }), model({ imagesOnly: true })],
    ["a model without a price", request({ pieces: 3 }), model({ price: null })],
    ["an unknown model", request({ pieces: 3 }), undefined],
  ])("is unchanged for %s", (_, asked, given) => {
    expect(pricedFor(asked, given)).toBe(given);
  });

  it("per request is multiplied by the pieces, and has its own id", () => {
    const priced = pricedFor(request({ pieces: 3 }), perRequest);
    expect(priced?.price?.version.perRequest).toEqual({ charged: 15n, list: 15n });
    expect(priced?.price?.id).toBe(contentId(priced?.price?.canonical ?? ""));
    expect(priced?.price?.canonical).toBe(flat(15n).canonical);
  });

  it.each<[string, ModelRequest, CatalogueModel]>([
    ["for images only does not apply to other requests", request(), model({ imagesOnly: true })],
    ["does not apply to a path with an unknown cost", request({ isUnpriced: true, pieces: 1 }), perRequest],
  ])("%s", (_, asked, given) => {
    expect(pricedFor(asked, given)).toEqual({ ...given, price: null });
  });
});

describe("the maximum that fits a budget", () => {
  // 100 for each token of output, 1 for each of the 511 of the prompt and of the 40 bytes that a maximum adds.
  const fitOf = (asked: ModelRequest, room: bigint, setting: Setting = {}) => {
    const { pricer } = pricerOf({ fitTokensMin: 200, ...setting });
    const pricing = pricer.quote(asked, noon);
    if (!pricing.ok) throw new Error("refused");
    return pricer.fit(pricing.quote, room);
  };
  const enough = 4n * 30_551n;
  const reasoning = model({ reasons: true });

  it.each<[string, ModelRequest, bigint, Setting, number | null]>([
    ["is what a quarter of the remaining amount pays for", request(), enough, {}, 300],
    ["is one token less if the quarter is too small by a pico-USD", request(), enough - 1n, {}, 299],
    ["is at least a slice", request(), 0n, {}, 64],
    ["is the smallest useful one if a cut answer is worthless", request({ isCutWorthless: true }), 0n, {}, 200],
    ["is the smallest useful one for a model that reasons", request(), 0n, { models: [reasoning] }, 200],
    [
      "is the smallest useful one if one of several models reasons",
      naming({ models: ["other"] }),
      0n,
      { models: [model(), model({ id: "other", reasons: true })] },
      200,
    ],
    ["is a slice if that is more", request({ isCutWorthless: true }), 0n, { sliceTokens: 500 }, 500],
    ["is not written at the model's own maximum", request(), 4n * 100_551n, {}, null],
    ["is written just below the model's own maximum", request(), 4n * 100_551n - 1n, {}, 999],
    [
      "is not written at the smallest own maximum of several models",
      naming({ models: ["other"] }),
      enough,
      { models: [model(), model({ id: "other", outputTokensMax: 300 })] },
      null,
    ],
    ["is not written if the settings forbid it", request(), enough, { fitTokensMin: null }, null],
    [
      "is not written for audio",
      request({ classes: { prompt: ["input"], completion: ["output", "audio_output"] } }),
      enough,
      {},
      null,
    ],
    ["is not written for output that Farebox does not see", request({ isUnseen: true }), enough, {}, null],
    ["is not written if the client states a thinking budget", request({ hasThinkingBudget: true }), enough, {}, null],
    ["is not written for a predicted answer", request({ size: { predictedBytes: 10 } }), enough, {}, null],
    ["is not written for a field that hides tokens", request({ size: { unboundedFields: ["x"] } }), enough, {}, null],
    ["is not written for a field without a bound", request({ unboundedFields: ["x"] }), enough, {}, null],
    ["is not written for a model without a price", request(), enough, { models: [model({ price: null })] }, null],
    ["is not written for a price per request", request(), enough, { models: [model({ price: flat(5n) })] }, null],
    ["is not written for a request without output", request({ size: { outputMax: 0 } }), enough, {}, null],
  ])("%s", (_, asked, room, setting, expected) => {
    expect(fitOf(asked, room, setting)).toBe(expected);
  });
});

describe("the output that a remaining amount pays for", () => {
  const payable = async (asked: ModelRequest, setting: Setting = {}, room = 50_551n, counted?: number) => {
    const { pricer, counted: texts } = pricerOf(setting);
    const pricing = pricer.quote(asked, noon);
    if (!pricing.ok) throw new Error("refused");
    return { tokens: await pricer.affordable(pricing.quote, body, room, counted), counts: texts.length };
  };
  const two = [model(), model({ id: "other", price: flat(5n) })];

  it.each<[string, ModelRequest, Setting, number | null]>([
    ["is unknown for output that Farebox does not see", request({ isUnseen: true }), {}, null],
    ["is unknown for a request without output", request({ size: { outputMax: 0 } }), {}, null],
    ["is unknown for a field without a bound", request({ unboundedFields: ["x"] }), {}, null],
    ["is unknown for a price per request", request(), { models: [model({ price: flat(5n) })] }, null],
    ["is unknown if one of two prices is per request", naming({ models: ["other"] }), { models: two }, null],
  ])("%s", async (_, asked, setting, tokens) => {
    expect(await payable(asked, setting)).toEqual({ tokens, counts: 0 });
  });

  it("is stated for each choice, up to the model's maximum", async () => {
    expect(await payable(request({ size: { choices: 2 } }), {}, 10n ** 9n)).toEqual({ tokens: 1000, counts: 0 });
  });
});
