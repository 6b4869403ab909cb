import { describe, expect, it } from "vitest";
import type { Outcome } from "../../../src/core/settlement.ts";
import { noTokens, unchanged, type Permille, type Usage } from "../../../src/core/usage.ts";
import type { TokenCounter } from "../../../src/ports/token-counter.ts";
import type { Ending } from "../../../src/request/response.ts";
import { meterResponse, type Metered } from "../../../src/request/meter.ts";
import { manualClock, type ManualClock } from "../../support/manual-clock.ts";
import { characterCounter, flat, model, pinned, request, version } from "./examples.ts";
import { noChat } from "../../../src/wire/prompt-text.ts";

/** Ten tokens by `characterCounter`. */
const body = Buffer.from("0123456789");
const clock = manualClock();

const of = (changes: Partial<Metered> = {}): Metered => ({
  model: model(),
  body,
  request: request(),
  inFlightTokens: 0,
  ...changes,
});
const meter = (ending: Ending, metered: Metered = of(), tokens = characterCounter()): Promise<Outcome> =>
  meterResponse({ tokens, clock }, ending, metered);

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

describe("a request that ended", () => {
  it("before it was sent is what it is", async () => {
    expect(await meter({ kind: "notSent", reason: "client_left" })).toEqual({ kind: "notSent", reason: "client_left" });
  });

  it.each<[number, Metered, Outcome]>([
    [429, of(), { kind: "refusedByGateway", status: 429 }],
    [500, of(), { kind: "failedAtGateway", status: 500, billed: false }],
    [500, of({ model: model({ billsServerErrors: true }) }), { kind: "failedAtGateway", status: 500, billed: true }],
    [500, of({ model: undefined }), { kind: "failedAtGateway", status: 500, billed: false }],
  ])("with a status is billed as the catalogue says: %i", async (status, metered, outcome) => {
    expect(await meter({ kind: "status", status }, metered)).toEqual(outcome);
  });

  it.each<[string, Ending, Metered, object]>([
    ["nothing came of it", { kind: "unknown", reason: "reset" }, of(), {}],
    [
      "its bytes can be that many tokens",
      { kind: "unknown", reason: "reset", unreadBytes: 30 },
      of({ model: model({ tokensPerByte: 1500 as Permille }) }),
      { unknownTokens: 45 },
    ],
    [
      "no more than the model writes",
      { kind: "unknown", reason: "reset", unreadBytes: 3000 },
      of({ request: request({ size: { choices: 2 } }) }),
      { unknownTokens: 2000 },
    ],
    ["the model is not known", { kind: "unknown", reason: "reset", unreadBytes: 30 }, of({ model: undefined }), {}],
  ])("unread is unknown: %s", async (_, ending, metered, more) => {
    const doubts = "unknownTokens" in more ? { doubts: ["unknown_output"] } : {};
    expect(await meter(ending, metered)).toEqual({ kind: "unknown", reason: "reset", ...more, ...doubts });
  });
});

describe.each<[string, (changes?: Partial<Whole>) => Ending, object]>([
  ["whole", whole, plainCount],
  ["cut", cut, plainCut],
])("an answer that is %s", (kind, ended, plain) => {
  it("is what its usage says", async () => {
    const tokens = characterCounter();
    expect(await meter(ended({ usage }), of(), tokens)).toEqual(reported);
    expect(tokens.asked).toEqual([]);
  });

  it("is counted where its usage counts in another unit", async () => {
    expect(await meter(ended({ usage: { ...usage, unit: "second" } }))).toEqual(plain);
  });

  it("has its cache writes for an hour where the request wrote for one", async () => {
    const cached = request({ classes: { prompt: ["input", "cache_write_1h"], completion: ["output"] } });
    const unsplit = { tokens: usage.tokens, clamped: false, writesAreUnsplit: true } as const;
    expect(await meter(ended({ usage: unsplit }), of({ request: cached }))).toMatchObject({
      tokens: { cache_write: 0, cache_write_1h: 2 },
      doubts: ["usage_unknown_class"],
    });
  });

  it("is counted where it has none, with the tokenizer's own error", async () => {
    const tokens = characterCounter();
    const metered = of({ model: model({ errorFactor: 1200 as Permille, contextTokens: 9 }) });
    const prompt =
      kind === "whole" ? { tokens: { ...noTokens, input: 9, output: 5 } } : { promptTokens: 9, deliveredTokens: 5 };
    expect(await meter(ended({ texts: ["ab", "", "cde"] }), metered, tokens)).toEqual({
      ...plain,
      ...prompt,
      errorFactor: 1200,
    });
    expect(tokens.asked.map(({ texts, encoding, atMost }) => [texts[0], encoding, atMost])).toEqual([
      ["0123456789", "cl100k_base", 9],
      ["ab", "cl100k_base", undefined],
      ["", "cl100k_base", undefined],
      ["cde", "cl100k_base", undefined],
    ]);
  });

  it("of a model that no one knows is counted with the most common tokenizer", async () => {
    const tokens = characterCounter();
    const { outputTokensMax: _, ...unbounded } = plain as typeof plainCount;
    const metered = of({ model: undefined, request: request({ size: { imageParts: 1 } }) });
    expect(await meter(ended(), metered, tokens)).toStrictEqual({ ...unbounded, doubts: ["image_bound"] });
    expect(tokens.asked.map(({ encoding, atMost }) => [encoding, atMost])).toEqual([
      ["o200k_base", 10_000_000],
      ["o200k_base", undefined],
    ]);
  });

  it("of a model without a price is counted as any other", async () => {
    expect(await meter(ended(), of({ model: model({ price: null }) }))).toEqual(plain);
  });

  it("counts the images of its prompt by the catalogue's bound, which is in doubt", async () => {
    const metered = of({ model: model({ imagePartTokens: 30 }), request: request({ size: { imageParts: 2 } }) });
    const prompt = kind === "whole" ? { tokens: { ...noTokens, input: 70, output: 3 } } : { promptTokens: 70 };
    expect(await meter(ended(), metered)).toEqual({
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
    const one = of({ model: known, request: request({ prompt, size: { imageParts: 1 } }) });
    expect(await meter(ended(), one)).toEqual({
      ...plain,
      ...posted(17),
      errorFactor: 1200,
      mediaTokens: 7,
      doubts: [],
    });
    const two = of({ model: known, request: request({ prompt, size: { imageParts: 2 } }) });
    expect(await meter(ended(), two)).toMatchObject({ ...posted(47), mediaTokens: 37, doubts: ["image_bound"] });
  });

  it.each<[string, Metered, object]>([
    [
      "files that the catalogue does not bound",
      of({ request: request({ size: { fileParts: 1 } }) }),
      { reason: "not_counted", doubts: ["image_bound"] },
    ],
    [
      "sound",
      of({ request: request({ isUnseen: true }) }),
      { reason: kind === "whole" ? "no_usage" : "timeout", doubts: ["image_bound"] },
    ],
    [
      "sound of a model that is billed by seconds",
      of({ model: model({ unit: "second" }) }),
      { reason: kind === "whole" ? "no_usage" : "timeout", doubts: [] },
    ],
    [
      "what a path makes whose cost is not known",
      of({ request: request({ isUnseen: true, isUnpriced: true }) }),
      { reason: kind === "whole" ? "no_usage" : "timeout", doubts: [] },
    ],
  ])("cannot be counted where it has %s", async (_, metered, expected) => {
    const tokens = characterCounter();
    expect(await meter(ended(), metered, tokens)).toEqual({ kind: "unknown", ...expected });
    expect(tokens.asked).toEqual([]);
  });

  it("in doubt by sound in the prompt, or by files", async () => {
    for (const size of [{ audioParts: 1 }, { fileParts: 1 }]) {
      const metered = of({ model: model({ audioPartTokens: 1, filePartTokens: 1 }), request: request({ size }) });
      expect(await meter(ended(), metered)).toMatchObject({ doubts: ["image_bound"] });
    }
  });

  it("at a price of requests is exact whatever was written", async () => {
    const metered = of({
      model: model({ price: flat(5n), imagePartTokens: 30, reasons: true, tokensPerSecond: 1 }),
      request: request({ size: { imageParts: 1 } }),
    });
    const answered = await meter(ended({ uncountable: { unknownBytes: 9, sealedBytes: 9, hasMedia: true } }), metered);
    expect(answered).toMatchObject({ doubts: [], hiddenTokens: 1 });
    expect(answered).not.toHaveProperty("unknownTokens");
    expect(answered).not.toHaveProperty("hasMedia");
  });

  it("has what its model may have reasoned unseen, by its speed, rounded up, for each choice", async () => {
    const metered = of({
      model: model({ reasons: true, tokensPerSecond: 7 }),
      request: request({ size: { choices: 3 } }),
    });
    expect(await meter(ended({ ranMs: 101 }), metered)).toEqual({
      ...plain,
      hiddenTokens: 3,
      outputTokensMax: 3000,
      doubts: ["time_based"],
    });
    const shown = of({ model: model({ reasons: false, tokensPerSecond: 7 }) });
    expect(await meter(ended({ ranMs: 101 }), shown)).toEqual(plain);
  });

  it.each<[string, object, Metered, object]>([
    [
      "that is not known to be text",
      { unknownBytes: 40 },
      of({ model: model({ tokensPerByte: 1500 as Permille }) }),
      { unknownTokens: 60, doubts: ["unknown_output"] },
    ],
    [
      "of a model that no one knows",
      { unknownBytes: 40 },
      of({ model: undefined }),
      { unknownTokens: 40, outputTokensMax: undefined, doubts: ["unknown_output"] },
    ],
    [
      "that is encrypted: base64 of at least as many bytes",
      { unknownBytes: 1, sealedBytes: 5 },
      of(),
      { unknownTokens: 5, doubts: ["unknown_output"] },
    ],
    [
      "that a model encrypts which reasons unseen: its hidden tokens",
      { unknownBytes: 1, sealedBytes: 5 },
      of({ model: model({ reasons: true }) }),
      {
        unknownTokens: 1,
        doubts: ["unknown_output"],
      },
    ],
    [
      "that its request predicted, and that may not have come true",
      {},
      of({
        request: request({ size: { predictedBytes: 4, choices: 2 } }),
        model: model({ tokensPerByte: 1500 as Permille }),
      }),
      { unknownTokens: 12, outputTokensMax: 2000, doubts: ["unknown_output"] },
    ],
    ["that is an image", { hasMedia: true }, of(), { hasMedia: true, doubts: ["image_bound"] }],
    [
      "in all of these ways",
      { unknownBytes: 1, hasMedia: true },
      of({ model: model({ reasons: true, tokensPerSecond: 1 }) }),
      {
        unknownTokens: 1,
        hasMedia: true,
        hiddenTokens: 1,
        doubts: ["unknown_output", "time_based", "image_bound"],
      },
    ],
    ["in none of these ways", {}, of(), {}],
  ])("has output %s", async (_, uncountable, metered, more) => {
    expect(
      await meter(
        ended({ uncountable: { unknownBytes: 0, sealedBytes: 0, hasMedia: false, ...uncountable } }),
        metered,
      ),
    ).toEqual({ ...plain, ...more });
  });

  const pauses = [50, 200, 1000, 5000, 20_000];
  /** Lets each pause pass in its turn, and not a millisecond less. */
  const waitOut = async (time: ManualClock, passing: readonly number[]) => {
    for (const pause of passing) {
      while (time.waiting === 0) await new Promise(setImmediate);
      time.advance(pause - 1);
      expect(time.waiting).toBe(1);
      time.advance(1);
    }
  };

  it.each([1, 5])("is counted once the counter is free, after %i tries", async (busy) => {
    const time = manualClock();
    const outcome = meterResponse({ tokens: characterCounter(busy), clock: time }, ended(), of());
    await waitOut(time, pauses.slice(0, busy));
    expect(await outcome).toEqual(plain);
  });

  it.each(["prompt", "answer"])("is not counted where the counter stays busy for its %s", async (part) => {
    const time = manualClock();
    const free = characterCounter();
    const busy = async () => ({ ok: false, reason: "busy" }) as const;
    const tokens = part === "prompt" ? { ...free, countTexts: busy } : { ...free, countText: busy };
    const outcome = meterResponse({ tokens, clock: time }, ended(), of());
    await waitOut(time, pauses);
    expect(await outcome).toEqual({ kind: "unknown", reason: "not_counted", doubts: [] });
  });
});

it("an answer is not counted where one of its texts is not, whatever comes after", async () => {
  const time = manualClock();
  const free = characterCounter();
  const tokens: TokenCounter = {
    ...free,
    countText: async (text, ...more) =>
      text === "busy" ? { ok: false, reason: "busy" } : free.countText(text, ...more),
  };
  const outcome = meterResponse({ tokens, clock: time }, whole({ texts: ["busy", "abc"] }), of());
  for (const pause of [50, 200, 1000, 5000, 20_000]) {
    while (time.waiting === 0) await new Promise(setImmediate);
    time.advance(pause);
  }
  expect(await outcome).toEqual({ kind: "unknown", reason: "not_counted", doubts: [] });
});

describe("a whole answer", () => {
  it("of a model that is billed by characters is the characters of its request", async () => {
    const spoken = of({ model: model({ unit: "character" }), request: request({ characters: 42, isUnseen: true }) });
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
    expect(await meter(whole(), of({ model: model({ unit: "character" }) }))).toMatchObject({
      kind: "unknown",
      reason: "no_usage",
    });
    expect(await meter(whole(), of({ request: request({ characters: 42 }) }))).toEqual(plainCount);
  });

  it("that no one sees has the price of its request", async () => {
    const tokens = characterCounter();
    const drawn = of({ model: model({ price: flat(5n) }), request: request({ isUnseen: true }) });
    expect(await meter(whole(), drawn, tokens)).toEqual({
      kind: "counted",
      tokens: noTokens,
      errorFactor: unchanged,
      hiddenTokens: 0,
    });
    expect(tokens.asked).toEqual([]);
  });
});

it("a cut answer has what was under way", async () => {
  expect(await meter(cut(), of({ inFlightTokens: 9 }))).toEqual({ ...plainCut, inFlightTokens: 9 });
});

describe("cache writes that a usage does not split", () => {
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
      "an hour's at a price without a rate for it",
      written({ cache_write_1h: 1 }),
      of({ model: withoutHour }),
      { doubts: ["usage_unknown_class"] },
    ],
    ["none of an hour", written({ cache_write: 1 }), of({ model: withoutHour }), {}],
    ["an hour's at a price with a rate for it", written({ cache_write_1h: 1 }), of(), {}],
    ["an hour's without a price", written({ cache_write_1h: 1 }), of({ model: model({ price: null }) }), {}],
    ["an hour's of a model that no one knows", written({ cache_write_1h: 1 }), of({ model: undefined }), {}],
  ])("are in doubt or not: %s", async (_, stated, metered, more) => {
    expect(await meter(whole({ usage: stated }), metered)).toStrictEqual({
      kind: "reported",
      tokens: stated.tokens,
      clamped: false,
      ...more,
    });
  });
});
