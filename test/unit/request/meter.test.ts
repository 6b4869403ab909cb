import { describe, expect, it } from "vitest";
import { BodyBytes } from "../../../src/ports/exchange.ts";
import type { PriceVersion } from "../../../src/core/price.ts";
import type { Outcome } from "../../../src/core/settlement.ts";
import { noTokens, unchanged, type Permille, type TokenCounts, type Usage } from "../../../src/core/usage.ts";
import type { TokenCounter } from "../../../src/ports/token-counter.ts";
import type { Ending } from "../../../src/request/response.ts";
import { meterResponse, type Metered } from "../../../src/request/meter.ts";
import { manualClock, type ManualClock } from "../../support/manual-clock.ts";
import type { ModelRequest } from "../../../src/wire/model-request.ts";
import { characterCounter, flat, model, pinned, request, version } from "./examples.ts";
import type { AnswerOutput } from "../../../src/wire/model-answer.ts";
import { noChat } from "../../../src/wire/prompt-text.ts";

/** A body of ten tokens by `characterCounter`. */
const body = new BodyBytes([Buffer.from("0123456789")]);
const clock = manualClock();

const meteredWith = (changes: Partial<Metered> = {}): Metered => ({
  model: model(),
  body,
  request: request(),
  inFlightTokens: 0,
  billed: [{ servedPrice: null, billing: undefined }],
  runPrice: () => ({ isOther: false, price: null }),
  ...changes,
});
const meter = async (
  ending: Ending,
  metered: Metered = meteredWith(),
  tokens: TokenCounter = characterCounter(),
): Promise<Outcome> => meterResponse({ tokens, clock }, ending, metered);

type Whole = Extract<Ending, { kind: "whole" }>;
const whole = (changes: Partial<Whole> = {}): Whole => ({
  kind: "whole",
  usage: undefined,
  texts: ["abc"],
  ranMs: 1000,
  ...changes,
});
const cut = (changes: Partial<Whole> = {}): Ending => ({ ...whole(changes), kind: "cut", reason: "timeout" });

const plainCount = {
  kind: "counted",
  tokens: { ...noTokens, input: 10, output: 3 },
  errorFactor: unchanged,
  hiddenTokens: 0,
  outputTokensMax: 1000,
  doubts: [],
};
const plainCut = {
  kind: "cut",
  promptTokens: 10,
  deliveredTokens: 3,
  inFlightTokens: 0,
  reason: "timeout",
  errorFactor: unchanged,
  hiddenTokens: 0,
  outputTokensMax: 1000,
  doubts: [],
};

const usage: Usage = {
  tokens: { ...noTokens, input: 7, cache_write: 2, output: 5 },
  clamped: true,
  doubts: ["usage_contradicts"],
};
const reported = { kind: "reported", tokens: usage.tokens, clamped: true, doubts: ["usage_contradicts"] };

describe("a usage that does not cover the answer", () => {
  const stated: Usage = { tokens: { ...noTokens, cached_input: 7, output: 50 }, clamped: false };
  const soFar = (later: AnswerOutput, isFinal = false) => ({ soFar: { usage: stated, later, isFinal } });
  const uncountable = { unknownBytes: 10, sealedBytes: 400, hasMedia: false };

  it("is kept next to the count of the whole and of the later text", async () => {
    const outcome = await meter(cut(soFar({ texts: ["bc"] })));
    expect(outcome).toEqual({
      ...plainCut,
      stated: { tokens: stated.tokens, laterTokens: 2, laterUnknownTokens: 0 },
    });
  });

  it("does not cover later output that no tokenizer counts", async () => {
    const outcome = await meter(cut(soFar({ texts: [], uncountable })));
    expect(outcome).toMatchObject({ stated: { laterTokens: 0, laterUnknownTokens: 310 } });
    const reasoning = await meter(
      cut(soFar({ texts: [], uncountable })),
      meteredWith({ model: model({ reasons: true }) }),
    );
    expect(reasoning).toMatchObject({ stated: { laterUnknownTokens: 10 } });
  });

  it("covers hidden reasoning only if the answer was complete when the usage was stated", async () => {
    const reasons = meteredWith({ model: model({ reasons: true, tokensPerSecond: 100 }) });
    const hidden = async (isFinal: boolean) => {
      const outcome = await meter(whole(soFar({ texts: ["c"] }, isFinal)), reasons);
      return outcome.kind === "counted" ? [outcome.hiddenTokens, outcome.doubts] : [];
    };
    expect([await hidden(true), await hidden(false)]).toEqual([
      [0, ["usage_contradicts"]],
      [100, ["time_based"]],
    ]);
  });

  it("is the least that is charged, even beyond the hold, if the answer cannot be counted", async () => {
    const image = meteredWith({ request: request({ isUnseen: true }) });
    const outcome = await meter(cut(soFar({ texts: [] })), image);
    expect(outcome).toMatchObject({ kind: "unknown", reason: "timeout", statedTokens: stated.tokens });
  });

  it("counts output that was not read as the request's maximum", async () => {
    const outcome = await meter({ ...cut(), isUnread: true } as Ending);
    expect(outcome).toMatchObject({ deliveredTokens: 3, unknownTokens: 997, doubts: ["unknown_output"] });
  });
});

describe("a request that ended", () => {
  it("before it was sent keeps its outcome", async () => {
    expect(await meter({ kind: "notSent", reason: "client_left" })).toEqual({ kind: "notSent", reason: "client_left" });
  });

  it.each<[string, number, Metered, Outcome]>([
    ["of a refusal is not billed", 429, meteredWith(), { kind: "refusedByGateway", status: 429 }],
    ["of a failure is not billed", 500, meteredWith(), { kind: "failedAtGateway", status: 500, billed: false }],
    [
      "of a failure is billed if the catalogue states that",
      500,
      meteredWith({ model: model({ billsServerErrors: true }) }),
      { kind: "failedAtGateway", status: 500, billed: true },
    ],
    [
      "of a failure is not billed for an unknown model",
      500,
      meteredWith({ model: undefined }),
      { kind: "failedAtGateway", status: 500, billed: false },
    ],
  ])("with a status %s", async (_, status, metered, outcome) => {
    expect(await meter({ kind: "status", status }, metered)).toEqual(outcome);
  });

  it.each<[boolean, Outcome]>([
    [false, { kind: "refusedByGateway", status: 200, reason: "gateway_error" }],
    [true, { kind: "failedAtGateway", status: 200, billed: true, reason: "gateway_error" }],
  ])(
    "with an error instead of an answer is billed if the catalogue states that: %s",
    async (billsServerErrors, outcome) => {
      const error = { kind: "refused", status: null, reason: "gateway_error" } as const;
      expect(await meter({ kind: "error", error }, meteredWith({ model: model({ billsServerErrors }) }))).toEqual(
        outcome,
      );
    },
  );

  it.each<[string, Ending, Metered, object]>([
    ["without tokens if there was no output", { kind: "unknown", reason: "reset" }, meteredWith(), {}],
    [
      "with the tokens that its bytes can be",
      { kind: "unknown", reason: "reset", unreadBytes: 30 },
      meteredWith({ model: model({ tokensPerByte: 1500 as Permille }) }),
      { unknownTokens: 45 },
    ],
    [
      "with at most the tokens that the model writes",
      { kind: "unknown", reason: "reset", unreadBytes: 3000 },
      meteredWith({ request: request({ size: { choices: 2 } }) }),
      { unknownTokens: 2000 },
    ],
    [
      "without tokens for an unknown model",
      { kind: "unknown", reason: "reset", unreadBytes: 30 },
      meteredWith({ model: undefined }),
      {},
    ],
  ])("with an unread answer is unknown, %s", async (_, ending, metered, more) => {
    const doubts = "unknownTokens" in more ? { doubts: ["unknown_output"] } : {};
    expect(await meter(ending, metered)).toEqual({ kind: "unknown", reason: "reset", ...more, ...doubts });
  });
});

describe.each<[string, (changes?: Partial<Whole>) => Ending, object]>([
  ["whole", whole, plainCount],
  ["cut", cut, plainCut],
])("an answer that is %s", (kind, endingWith, plain) => {
  it("has the tokens of its usage", async () => {
    const tokens = characterCounter();
    expect(await meter(endingWith({ usage }), meteredWith(), tokens)).toEqual(reported);
    expect(tokens.counted).toEqual([]);
  });

  it("is counted if its usage has another unit", async () => {
    expect(await meter(endingWith({ usage: { ...usage, unit: "second" } }))).toEqual(plain);
  });

  it("has cache writes of no stated duration counted as one-hour writes if the request made such writes", async () => {
    const cached = request({ classes: { prompt: ["input", "cache_write_1h"], completion: ["output"] } });
    const unsplit = { tokens: usage.tokens, clamped: false, lacksCacheLifetime: true } as const;
    expect(await meter(endingWith({ usage: unsplit }), meteredWith({ request: cached }))).toMatchObject({
      tokens: { cache_write: 0, cache_write_1h: 2 },
      doubts: ["usage_unknown_class"],
    });
  });

  it("is counted without a usage, with the tokenizer's error", async () => {
    const tokens = characterCounter();
    const metered = meteredWith({ model: model({ errorFactor: 1200 as Permille, contextTokens: 9 }) });
    const prompt =
      kind === "whole" ? { tokens: { ...noTokens, input: 9, output: 5 } } : { promptTokens: 9, deliveredTokens: 5 };
    expect(await meter(endingWith({ texts: ["ab", "", "cde"] }), metered, tokens)).toEqual({
      ...plain,
      ...prompt,
      errorFactor: 1200,
    });
    expect(tokens.counted.map(({ texts, encoding, atMost }) => [texts[0], encoding, atMost])).toEqual([
      ["0123456789", "cl100k_base", 9],
      ["ab", "cl100k_base", undefined],
      ["", "cl100k_base", undefined],
      ["cde", "cl100k_base", undefined],
    ]);
  });

  it("of an unknown model is counted with the most common tokenizer", async () => {
    const tokens = characterCounter();
    const { outputTokensMax: _, ...unbounded } = plain as typeof plainCount;
    const metered = meteredWith({ model: undefined, request: request({ size: { imageParts: 1 } }) });
    expect(await meter(endingWith(), metered, tokens)).toStrictEqual({ ...unbounded, doubts: ["image_bound"] });
    expect(tokens.counted.map(({ encoding, atMost }) => [encoding, atMost])).toEqual([
      ["o200k_base", 10_000_000],
      ["o200k_base", undefined],
    ]);
  });

  it("counts tokens that the prompt states directly, up to the model's context", async () => {
    const stated: ModelRequest["prompt"] = {
      text: () => ({ kind: "plain", texts: ["abcde"], tokens: 7 }),
      bytesOutside: () => 0,
    };
    const counts = async (contextTokens: number) => {
      const tokens = characterCounter();
      const metered = meteredWith({ model: model({ contextTokens }), request: request({ prompt: stated }) });
      const outcome = await meter(endingWith(), metered, tokens);
      const prompt = "promptTokens" in outcome ? outcome.promptTokens : "tokens" in outcome && outcome.tokens.input;
      return [prompt, tokens.counted[0]?.atMost];
    };
    expect(await counts(100)).toEqual([12, 93]);
    expect(await counts(10)).toEqual([10, 3]);
    expect(await counts(5)).toEqual([5, 0]);
  });

  it("of a model without a price is counted like any other", async () => {
    expect(await meter(endingWith(), meteredWith({ model: model({ price: null }) }))).toEqual(plain);
  });

  it("counts the images of its prompt by the catalogue's bound, with a doubt", async () => {
    const metered = meteredWith({
      model: model({ imagePartTokens: 30 }),
      request: request({ size: { imageParts: 2 } }),
    });
    const prompt = kind === "whole" ? { tokens: { ...noTokens, input: 70, output: 3 } } : { promptTokens: 70 };
    expect(await meter(endingWith(), metered)).toEqual({
      ...plain,
      ...prompt,
      mediaTokens: 60,
      doubts: ["image_bound"],
    });
  });

  it("counts images of known size by the model's rule, without a doubt and without a tokenizer's error", async () => {
    const sized = { size: { width: 1, height: 1 }, detail: "auto" };
    const chat = { ...noChat, texts: ["0123456789"], images: [sized, { ...sized, size: null }] };
    const prompt = { text: () => ({ kind: "chat" as const, chat }), bytesOutside: () => 0 };
    const rule = { kind: "tiles", base: 2, tile: 5 } as const;
    const known = model({ imagePartTokens: 30, imageRule: rule, errorFactor: 1200 as Permille });
    const posted = (input: number) =>
      kind === "whole" ? { tokens: { ...noTokens, input, output: 3 } } : { promptTokens: input };
    const one = meteredWith({ model: known, request: request({ prompt, size: { imageParts: 1 } }) });
    expect(await meter(endingWith(), one)).toEqual({
      ...plain,
      ...posted(17),
      errorFactor: 1200,
      mediaTokens: 7,
      doubts: [],
    });
    const two = meteredWith({ model: known, request: request({ prompt, size: { imageParts: 2 } }) });
    expect(await meter(endingWith(), two)).toMatchObject({ ...posted(47), mediaTokens: 37, doubts: ["image_bound"] });
  });

  it.each<[string, Metered, object]>([
    [
      "files that the catalogue does not bound",
      meteredWith({ request: request({ size: { fileParts: 1 } }) }),
      { reason: "not_counted", doubts: ["image_bound"] },
    ],
    [
      "sound",
      meteredWith({ request: request({ isUnseen: true }) }),
      { reason: kind === "whole" ? "no_usage" : "timeout", doubts: ["image_bound"] },
    ],
    [
      "sound of a model that is billed by seconds",
      meteredWith({ model: model({ unit: "second" }) }),
      { reason: kind === "whole" ? "no_usage" : "timeout", doubts: [] },
    ],
    [
      "the output of a path with an unknown cost",
      meteredWith({ request: request({ isUnseen: true, isUnpriced: true }) }),
      { reason: kind === "whole" ? "no_usage" : "timeout", doubts: [] },
    ],
  ])("cannot be counted if it has %s", async (_, metered, expected) => {
    const tokens = characterCounter();
    expect(await meter(endingWith(), metered, tokens)).toEqual({ kind: "unknown", ...expected });
    expect(tokens.counted).toEqual([]);
  });

  it("has a doubt for sound or files in the prompt", async () => {
    for (const size of [{ audioParts: 1 }, { fileParts: 1 }]) {
      const metered = meteredWith({
        model: model({ audioPartTokens: 1, filePartTokens: 1 }),
        request: request({ size }),
      });
      expect(await meter(endingWith(), metered)).toMatchObject({ doubts: ["image_bound"] });
    }
  });

  it("at a price per request has no doubt, whatever the output", async () => {
    const metered = meteredWith({
      model: model({ price: flat(5n), imagePartTokens: 30, reasons: true, tokensPerSecond: 1 }),
      request: request({ size: { imageParts: 1 } }),
    });
    const answered = await meter(
      endingWith({ uncountable: { unknownBytes: 9, sealedBytes: 9, hasMedia: true } }),
      metered,
    );
    expect(answered).toMatchObject({ doubts: [], hiddenTokens: 1 });
    expect(answered).not.toHaveProperty("unknownTokens");
    expect(answered).not.toHaveProperty("hasMedia");
  });

  it("includes the possible hidden reasoning by the model's speed, rounded up for each choice", async () => {
    const metered = meteredWith({
      model: model({ reasons: true, tokensPerSecond: 7 }),
      request: request({ size: { choices: 3 } }),
    });
    expect(await meter(endingWith({ ranMs: 101 }), metered)).toEqual({
      ...plain,
      hiddenTokens: 3,
      outputTokensMax: 3000,
      doubts: ["time_based"],
    });
    const shown = meteredWith({ model: model({ reasons: false, tokensPerSecond: 7 }) });
    expect(await meter(endingWith({ ranMs: 101 }), shown)).toEqual(plain);
  });

  it.each<[string, object, Metered, object]>([
    [
      "that is not known to be text",
      { unknownBytes: 40 },
      meteredWith({ model: model({ tokensPerByte: 1500 as Permille }) }),
      { unknownTokens: 60, doubts: ["unknown_output"] },
    ],
    [
      "of an unknown model",
      { unknownBytes: 40 },
      meteredWith({ model: undefined }),
      { unknownTokens: 40, outputTokensMax: undefined, doubts: ["unknown_output"] },
    ],
    [
      "that is encrypted, counted by its bytes",
      { unknownBytes: 1, sealedBytes: 5 },
      meteredWith(),
      { unknownTokens: 5, doubts: ["unknown_output"] },
    ],
    [
      "that is encrypted by a model with hidden reasoning, within its hidden tokens",
      { unknownBytes: 1, sealedBytes: 5 },
      meteredWith({ model: model({ reasons: true }) }),
      {
        unknownTokens: 1,
        doubts: ["unknown_output"],
      },
    ],
    [
      "that its request predicted and that may be rejected",
      {},
      meteredWith({
        request: request({ size: { predictedBytes: 4, choices: 2 } }),
        model: model({ tokensPerByte: 1500 as Permille }),
      }),
      { unknownTokens: 12, outputTokensMax: 2000, doubts: ["unknown_output"] },
    ],
    ["that is an image", { hasMedia: true }, meteredWith(), { hasMedia: true, doubts: ["image_bound"] }],
    [
      "that is unknown, hidden reasoning and an image",
      { unknownBytes: 1, hasMedia: true },
      meteredWith({ model: model({ reasons: true, tokensPerSecond: 1 }) }),
      {
        unknownTokens: 1,
        hasMedia: true,
        hiddenTokens: 1,
        doubts: ["unknown_output", "time_based", "image_bound"],
      },
    ],
    ["that is all text", {}, meteredWith(), {}],
  ])("has output %s", async (_, uncountable, metered, more) => {
    expect(
      await meter(
        endingWith({ uncountable: { unknownBytes: 0, sealedBytes: 0, hasMedia: false, ...uncountable } }),
        metered,
      ),
    ).toEqual({ ...plain, ...more });
  });

  const pauses = [50, 200, 1000, 5000, 20_000];
  /** Advances the clock by each pause, and checks that none is a millisecond shorter. */
  const waitOut = async (time: ManualClock, passing: readonly number[]) => {
    for (const pause of passing) {
      while (time.waiting === 0) await new Promise(setImmediate);
      time.advance(pause - 1);
      expect(time.waiting).toBe(1);
      time.advance(1);
    }
  };

  it.each([1, 5])("is counted once the counter is free, after %i busy tries", async (busy) => {
    const time = manualClock();
    const outcome = meterResponse({ tokens: characterCounter(busy), clock: time }, endingWith(), meteredWith());
    await waitOut(time, pauses.slice(0, busy));
    expect(await outcome).toEqual(plain);
  });

  it.each(["prompt", "answer"])("is not counted if the counter stays busy for its %s", async (part) => {
    const time = manualClock();
    const free = characterCounter();
    const busy = async () => ({ ok: false, reason: "busy" }) as const;
    const tokens = part === "prompt" ? { ...free, countTexts: busy } : { ...free, countText: busy };
    const outcome = meterResponse({ tokens, clock: time }, endingWith(), meteredWith());
    await waitOut(time, pauses);
    expect(await outcome).toEqual({ kind: "unknown", reason: "not_counted", doubts: [] });
  });
});

it("an answer is not counted if one of its texts cannot be counted", async () => {
  const time = manualClock();
  const free = characterCounter();
  const tokens: TokenCounter = {
    ...free,
    countText: async (text, ...more) =>
      text === "busy" ? { ok: false, reason: "busy" } : free.countText(text, ...more),
  };
  const outcome = meterResponse({ tokens, clock: time }, whole({ texts: ["busy", "abc"] }), meteredWith());
  for (const pause of [50, 200, 1000, 5000, 20_000]) {
    while (time.waiting === 0) await new Promise(setImmediate);
    time.advance(pause);
  }
  expect(await outcome).toEqual({ kind: "unknown", reason: "not_counted", doubts: [] });
});

describe("a whole answer", () => {
  it("of a model that is billed by characters has the characters of its request", async () => {
    const spoken = meteredWith({
      model: model({ unit: "character" }),
      request: request({ characters: 42, isUnseen: true }),
    });
    expect(await meter(whole(), spoken)).toEqual({
      kind: "counted",
      tokens: { ...noTokens, input: 42 },
      errorFactor: unchanged,
      hiddenTokens: 0,
    });
    const usageInCharacters = { tokens: { ...noTokens, input: 41 }, unit: "character", clamped: false } as const;
    expect(await meter(whole({ usage: usageInCharacters }), spoken)).toEqual({
      kind: "reported",
      tokens: usageInCharacters.tokens,
      clamped: false,
    });
    expect(await meter(whole(), meteredWith({ model: model({ unit: "character" }) }))).toMatchObject({
      kind: "unknown",
      reason: "no_usage",
    });
    expect(await meter(whole(), meteredWith({ request: request({ characters: 42 }) }))).toEqual(plainCount);
  });

  it("that Farebox does not see is priced by its request", async () => {
    const tokens = characterCounter();
    const drawn = meteredWith({ model: model({ price: flat(5n) }), request: request({ isUnseen: true }) });
    expect(await meter(whole(), drawn, tokens)).toEqual({
      kind: "counted",
      tokens: noTokens,
      errorFactor: unchanged,
      hiddenTokens: 0,
    });
    expect(tokens.counted).toEqual([]);
  });
});

it("a cut answer includes the output in flight", async () => {
  expect(await meter(cut(), meteredWith({ inFlightTokens: 9 }))).toEqual({ ...plainCut, inFlightTokens: 9 });
});

describe("cache writes in a usage", () => {
  const [tier] = version().tiers;
  const withoutHour = model({
    price: pinned({
      tiers: [{ ...tier, charged: { ...tier.charged, cache_write: 2n, cache_write_1h: 2n } as typeof tier.charged }],
    }),
  });
  const written = (changes: Partial<Usage["tokens"]>): Usage => ({
    tokens: { ...noTokens, ...changes },
    clamped: false,
  });

  it.each<[string, Usage, Metered, object]>([
    [
      "of one hour have a doubt at a price without a one-hour rate",
      written({ cache_write_1h: 1 }),
      meteredWith({ model: withoutHour }),
      { doubts: ["usage_unknown_class"] },
    ],
    ["of the usual time have no doubt", written({ cache_write: 1 }), meteredWith({ model: withoutHour }), {}],
    ["of one hour have no doubt at a price with a one-hour rate", written({ cache_write_1h: 1 }), meteredWith(), {}],
    [
      "of one hour have no doubt without a price",
      written({ cache_write_1h: 1 }),
      meteredWith({ model: model({ price: null }) }),
      {},
    ],
    [
      "of one hour have no doubt for an unknown model",
      written({ cache_write_1h: 1 }),
      meteredWith({ model: undefined }),
      {},
    ],
  ])("%s", async (_, stated, metered, more) => {
    expect(await meter(whole({ usage: stated }), metered)).toStrictEqual({
      kind: "reported",
      tokens: stated.tokens,
      clamped: false,
      ...more,
    });
  });
});

it("an answer with a known outcome keeps it", async () => {
  const outcome: Outcome = { kind: "unknown", reason: "r" };
  expect(await meter({ kind: "judged", outcome })).toBe(outcome);
});

it("an answer without usage has a doubt if its prompt has sound", async () => {
  const asked = meteredWith({ model: model({ unit: "second" }), request: request({ size: { audioParts: 1 } }) });
  expect(await meter(whole(), asked)).toEqual({ kind: "unknown", reason: "no_usage", doubts: ["image_bound"] });
});

it("a chat with an unknown model is counted in the chat form", async () => {
  const forms: unknown[] = [];
  const counter: TokenCounter = {
    ...characterCounter(),
    async countChat(_chat, encoding, atMost, form) {
      forms.push([encoding, atMost, form]);
      return { ok: true, tokens: 7 };
    },
  };
  const prompt: ModelRequest["prompt"] = {
    text: () => ({ kind: "chat", chat: { ...noChat, texts: ["a"], messages: 1 } }),
    bytesOutside: () => 0,
  };
  expect(await meter(whole(), meteredWith({ model: undefined, request: request({ prompt }) }), counter)).toMatchObject({
    tokens: { input: 7 },
  });
  expect(forms).toEqual([["o200k_base", 10_000_000, "chat"]]);
});

describe("a usage that states only text", () => {
  const [tier] = version().tiers;
  const rates = {
    ...tier.charged,
    image_input: 20n,
    audio_input: 30n,
    reasoning: 500n,
    image_output: 200n,
    audio_output: 300n,
  };
  const media = { tiers: [{ ...tier, charged: rates }] } as unknown as Partial<PriceVersion>;
  const priced = model({ price: pinned(media) });
  const text = { ...noTokens, input: 7, output: 5 };
  const parts = (size: Partial<ModelRequest["size"]>) => request({ size });
  const requestWith = (...completion: ModelRequest["classes"]["completion"]) =>
    request({ classes: { prompt: ["input"], completion } });

  it.each<[string, Partial<Metered>, Partial<TokenCounts>]>([
    ["sound that was sent", { request: parts({ audioParts: 1 }) }, { input: 0, audio_input: 7 }],
    ["images that were sent", { request: parts({ imageParts: 2 }) }, { input: 0, image_input: 7 }],
    [
      "the more expensive one of sound and images that were sent",
      { request: parts({ imageParts: 1, audioParts: 1 }) },
      { input: 0, audio_input: 7 },
    ],
    ["sound that was requested", { request: requestWith("output", "audio_output") }, { output: 0, audio_output: 5 }],
    ["images that were requested", { request: requestWith("output", "image_output") }, { output: 0, image_output: 5 }],
  ])("is counted as %s", async (_, changes, tokens) => {
    expect(
      await meter(whole({ usage: { tokens: text, clamped: false } }), meteredWith({ model: priced, ...changes })),
    ).toEqual({
      kind: "reported",
      tokens: { ...text, ...tokens },
      clamped: false,
      doubts: ["usage_unknown_class"],
    });
  });

  const withSound = parts({ audioParts: 1 });
  it.each<[string, Partial<Metered>]>([
    ["neither images nor sound were sent or requested", {}],
    ["reasoning was requested, which is text", { request: requestWith("output", "reasoning") }],
    [
      "the price is per request",
      { request: withSound, model: model({ price: pinned({ ...media, perRequest: flat(9n).version.perRequest }) }) },
    ],
    ["the model has no price", { request: withSound, model: model({ price: null }) }],
    ["the model is not known", { request: withSound, model: undefined }],
  ])("is unchanged if %s", async (_, changes) => {
    expect(
      await meter(whole({ usage: { tokens: text, clamped: false } }), meteredWith({ model: priced, ...changes })),
    ).toEqual({
      kind: "reported",
      tokens: text,
      clamped: false,
    });
  });
});
