import { describe, expect, it } from "vitest";
import { withMediaTokens, type MediaClasses } from "../../../src/request/charged-usage.ts";
import type { PicoUsdPerToken } from "../../../src/core/money.ts";
import type { PriceVersion } from "../../../src/core/price.ts";
import { noTokens, type TokenCounts, type Usage } from "../../../src/core/usage.ts";
import { version } from "./examples.ts";

const [tier] = version().tiers;
const rate = (rates: Readonly<Partial<Record<keyof TokenCounts, bigint>>>): PriceVersion => ({
  ...version(),
  tiers: [{ ...tier, charged: { ...tier.charged, ...rates } as Record<keyof TokenCounts, PicoUsdPerToken> }],
});
const expensive = rate({
  input: 2n,
  audio_input: 30n,
  image_input: 10n,
  output: 5n,
  audio_output: 60n,
  image_output: 40n,
});
const usage = (tokens: Partial<TokenCounts>, more: Partial<Usage> = {}): Usage => ({
  tokens: { ...noTokens, ...tokens },
  clamped: false,
  ...more,
});
const classesOf = (prompt: MediaClasses["prompt"], completion: MediaClasses["completion"] = []): MediaClasses => ({
  prompt,
  completion,
});

describe("withMediaTokens", () => {
  it.each<[string, Usage, PriceVersion, MediaClasses, Partial<TokenCounts>]>([
    [
      "sound in the prompt",
      usage({ input: 9, output: 1 }),
      expensive,
      classesOf(["audio_input"]),
      { audio_input: 9, output: 1 },
    ],
    [
      "the more expensive of two kinds",
      usage({ input: 9, cached_input: 4 }),
      expensive,
      classesOf(["image_input", "audio_input"]),
      { audio_input: 9, cached_input: 4 },
    ],
    [
      "the more expensive of two kinds, named first",
      usage({ input: 9 }),
      expensive,
      classesOf(["audio_input", "image_input"]),
      { audio_input: 9 },
    ],
    [
      "the first of two kinds at one price",
      usage({ input: 9 }),
      rate({ input: 2n, audio_input: 10n, image_input: 10n }),
      classesOf(["image_input", "audio_input"]),
      { image_input: 9 },
    ],
    [
      "the one of two kinds that has no tokens",
      usage({ input: 9, audio_input: 3 }),
      expensive,
      classesOf(["image_input", "audio_input"]),
      { image_input: 9, audio_input: 3 },
    ],
    [
      "sound in the answer",
      usage({ input: 2, output: 9, reasoning: 3 }),
      expensive,
      classesOf([], ["audio_output"]),
      { input: 2, audio_output: 9, reasoning: 3 },
    ],
  ])("counts the text tokens of a usage as %s", (_, stated, price, media, tokens) => {
    expect(withMediaTokens(stated, price, media)).toStrictEqual({
      ...stated,
      tokens: { ...noTokens, ...tokens },
      doubts: ["usage_unknown_class"],
    });
  });

  it.each<[string, Usage, PriceVersion, MediaClasses]>([
    ["the request has neither sound nor images", usage({ input: 9, output: 9 }), expensive, classesOf([])],
    [
      "it states both kinds",
      usage({ input: 9, audio_input: 1, output: 9, audio_output: 1 }),
      expensive,
      classesOf(["audio_input"], ["audio_output"]),
    ],
    [
      "sound costs as much as text",
      usage({ input: 9 }),
      rate({ input: 2n, audio_input: 2n }),
      classesOf(["audio_input"]),
    ],
    ["sound costs less", usage({ input: 9 }), rate({ input: 2n, audio_input: 1n }), classesOf(["audio_input"])],
    ["no text is stated", usage({ cached_input: 9 }), expensive, classesOf(["audio_input"], ["audio_output"])],
    [
      "it states that the answer is text",
      usage({ output: 9 }, { wroteOnlyText: true }),
      expensive,
      classesOf([], ["audio_output"]),
    ],
  ])("returns a usage unchanged if %s", (_, stated, price, media) => {
    expect(withMediaTokens(stated, price, media)).toBe(stated);
  });
});
