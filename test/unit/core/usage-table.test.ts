import { describe, expect, it } from "vitest";
import { usagesIn } from "../../../src/core/several-usages.ts";
import {
  decompose,
  noTokens,
  withDoubts,
  type StatedUsage,
  type TokenCounts,
  type Usage,
} from "../../../src/core/usage.ts";
import { noUsage } from "./examples.ts";

const plain = (tokens: Partial<TokenCounts>): Usage => ({ tokens: { ...noTokens, ...tokens }, clamped: false });
const inDoubt = (tokens: Partial<TokenCounts>): Usage => ({ ...plain(tokens), doubts: ["usage_contradicts"] });
const clamped = (tokens: Partial<TokenCounts>): Usage => ({ ...inDoubt(tokens), clamped: true });

describe("decompose", () => {
  const parts = {
    cached: 1,
    cacheWrite: 2,
    cacheWrite1h: 3,
    audioInput: 4,
    imageInput: 5,
    reasoning: 6,
    audioOutput: 7,
    imageOutput: 8,
  };
  const partTokens = {
    cached_input: 1,
    cache_write: 2,
    cache_write_1h: 3,
    audio_input: 4,
    image_input: 5,
    reasoning: 6,
    audio_output: 7,
    image_output: 8,
  };
  it.each<[string, Partial<StatedUsage>, Usage]>([
    ["without parts", { prompt: 10, completion: 5 }, plain({ input: 10, output: 5 })],
    ["without a completion", { prompt: 10 }, plain({ input: 10 })],
    ["with every part", { prompt: 100, completion: 50, ...parts }, plain({ ...partTokens, input: 85, output: 29 })],
    ["that consists only of parts", { prompt: 15, completion: 21, ...parts }, plain(partTokens)],
    [
      "whose total is more than prompt and completion",
      { prompt: 10, completion: 5, total: 18 },
      plain({ input: 10, output: 8 }),
    ],
    [
      "whose total equals prompt and completion",
      { prompt: 10, completion: 5, total: 15 },
      plain({ input: 10, output: 5 }),
    ],
    [
      "whose total is less than prompt and completion",
      { prompt: 10, completion: 5, total: 14 },
      inDoubt({ input: 10, output: 5 }),
    ],
    ["whose total equals the prompt", { prompt: 10, total: 10 }, plain({ input: 10 })],
    ["whose total is less than the prompt", { prompt: 10, total: 9 }, inDoubt({ input: 10 })],
    ["whose completion appears only in its total", { prompt: 10, total: 14 }, plain({ input: 10, output: 4 })],
    [
      "with more reasoning than completion",
      { prompt: 10, completion: 5, reasoning: 6 },
      clamped({ input: 10, output: 5, reasoning: 6 }),
    ],
    [
      "whose completion members differ",
      { prompt: 10, completion: 5, reasoning: 1, completionContradicts: true },
      clamped({ input: 10, output: 5, reasoning: 1 }),
    ],
    [
      "whose prompt members differ",
      { prompt: 10, completion: 5, cached: 4, promptContradicts: true },
      clamped({ input: 14, output: 5 }),
    ],
    [
      "whose prompt members differ, with sound",
      { prompt: 10, completion: 5, cached: 4, audioInput: 3, promptContradicts: true },
      clamped({ input: 11, output: 5, audio_input: 3 }),
    ],
    [
      "with as much sound and images as prompt",
      { prompt: 10, audioInput: 6, imageInput: 4 },
      plain({ audio_input: 6, image_input: 4 }),
    ],
    [
      "with more sound and images than prompt",
      { prompt: 10, audioInput: 7, imageInput: 4 },
      clamped({ input: 10, audio_input: 7, image_input: 4 }),
    ],
    [
      "whose prompt members differ and are all sound",
      { prompt: 10, audioInput: 10, promptContradicts: true },
      clamped({ audio_input: 10 }),
    ],
    [
      "with more cached and sound than prompt",
      { prompt: 10, cached: 6, audioInput: 5 },
      clamped({ input: 11, audio_input: 5 }),
    ],
    ["with more cached than prompt", { prompt: 10, completion: 1, cached: 11 }, clamped({ input: 21, output: 1 })],
    [
      "with as much cached as prompt",
      { prompt: 10, completion: 1, cached: 10 },
      plain({ cached_input: 10, output: 1 }),
    ],
    [
      "with more cached than prompt, and a total that includes both",
      { prompt: 10, completion: 1, total: 22, cached: 11 },
      plain({ input: 10, cached_input: 11, output: 1 }),
    ],
    [
      "with more cached than prompt, and a total without a completion",
      { prompt: 10, total: 21, cached: 11 },
      clamped({ input: 21, output: 11 }),
    ],
    [
      "with more cached than prompt, and another total",
      { prompt: 10, completion: 1, total: 21, cached: 11 },
      clamped({ input: 21, output: 11 }),
    ],
  ])("splits a usage %s", (_, stated, usage) => {
    expect(decompose({ ...noUsage, ...stated })).toStrictEqual(usage);
  });

  const at = { prompt: 100, cached: 30, cacheWrite: 10 };
  const inside = (output: number, more: Partial<TokenCounts> = {}) =>
    plain({ input: 60, cached_input: 30, cache_write: 10, output, ...more });
  const outside = (output: number, more: Partial<TokenCounts> = {}) =>
    plain({ input: 100, cached_input: 30, cache_write: 10, output, ...more });
  const unclear = (output: number, more: Partial<TokenCounts> = {}) =>
    clamped({ input: 130, cache_write: 10, output, ...more });
  it.each<[string, Partial<StatedUsage>, Usage]>([
    ["inside, where it usually is", { cache: "inside", completion: 5 }, inside(5)],
    ["inside, by its total", { cache: "inside", completion: 5, total: 105 }, inside(5)],
    ["outside, by its total, although inside is usual", { cache: "inside", completion: 5, total: 145 }, outside(5)],
    ["nowhere, for a total that fits neither", { cache: "inside", completion: 5, total: 104 }, unclear(5)],
    ["inside, if the total includes hidden reasoning", { cache: "inside", completion: 5, total: 106 }, inside(6)],
    [
      "inside, if the total includes almost as much hidden reasoning as cache",
      { cache: "inside", completion: 5, total: 144 },
      inside(44),
    ],
    ["nowhere, for a total above every reading", { cache: "inside", completion: 5, total: 146 }, unclear(46)],
    [
      "outside, if it does not fit inside",
      { cache: "inside", prompt: 39, completion: 5 },
      plain({ input: 39, cached_input: 30, cache_write: 10, output: 5 }),
    ],
    [
      "inside, if it just fits",
      { cache: "inside", prompt: 40, completion: 5 },
      plain({ cached_input: 30, cache_write: 10, output: 5 }),
    ],
    ["outside, where it usually is", { cache: "outside", completion: 5 }, outside(5)],
    ["outside, by its total as usual", { cache: "outside", completion: 5, total: 145 }, outside(5)],
    ["inside, by its total, although outside is usual", { cache: "outside", completion: 5, total: 105 }, inside(5)],
    [
      "nowhere, if outside is usual and the total includes hidden tokens",
      { cache: "outside", completion: 5, total: 110 },
      unclear(10),
    ],
    [
      "inside, by its total with the reasoning",
      { cache: "outside", completion: 5, reasoning: 7, total: 112 },
      inside(5, { reasoning: 7 }),
    ],
    [
      "outside, by its total with the reasoning",
      { cache: "inside", completion: 5, reasoning: 7, total: 152 },
      outside(5, { reasoning: 7 }),
    ],
    ["nowhere, without a total", { cache: "unclear", completion: 5 }, unclear(5)],
    ["inside, by its total alone", { cache: "unclear", completion: 5, total: 105 }, inside(5)],
    ["outside, by its total alone", { cache: "unclear", completion: 5, total: 145 }, outside(5)],
    ["nowhere, by a total that includes hidden tokens", { cache: "unclear", completion: 5, total: 110 }, unclear(10)],
    [
      "inside, by a total that is too small for outside, without a completion",
      { cache: "outside", total: 139 },
      inside(39),
    ],
    ["inside, by a total that is just the prompt, without a completion", { cache: "outside", total: 100 }, inside(0)],
    ["as usual, by a total that fits both, without a completion", { cache: "outside", total: 140 }, outside(0)],
    ["as usual inside, by a total that fits both, without a completion", { cache: "inside", total: 140 }, inside(40)],
    [
      "nowhere, by a total that fits both, without a completion or a usual place",
      { cache: "unclear", total: 140 },
      unclear(40),
    ],
    ["nowhere, by a total that fits neither, without a completion", { cache: "inside", total: 99 }, unclear(0)],
    [
      "nowhere, by a total that fits both, with reasoning as large as the cache",
      { cache: "inside", completion: 5, reasoning: 40, total: 145 },
      unclear(45, { reasoning: 40, output: 5 }),
    ],
  ])("places the cache %s", (_, stated, usage) => {
    expect(decompose({ ...noUsage, ...at, ...stated })).toStrictEqual(usage);
  });
});

describe("doubts of a usage", () => {
  it("change only if there are doubts to add", () => {
    const usage = plain({ input: 1 });
    expect(withDoubts(usage, [])).toBe(usage);
    expect(withDoubts(usage, ["time_based"])).toStrictEqual({ ...usage, doubts: ["time_based"] });
  });
});

describe("a usage in the unit of its model", () => {
  const unsplit: Usage = { ...plain({ input: 1, cache_write: 20, cache_write_1h: 3 }), lacksCacheLifetime: true };
  const hours = ["input", "cache_write_1h"] as const;
  it.each<[string, Parameters<typeof usagesIn>, Usage | undefined]>([
    ["is undefined without a usage", ["token", undefined, hours], undefined],
    ["is unchanged for a unit of tokens", ["token", plain({ input: 1 }), hours], plain({ input: 1 })],
    [
      "is undefined if it counts seconds instead of tokens",
      ["token", { ...plain({}), unit: "second" }, hours],
      undefined,
    ],
    ["is undefined if it counts tokens instead of seconds", ["second", plain({ input: 1 }), hours], undefined],
    [
      "is unchanged for a unit of seconds",
      ["second", { ...plain({}), unit: "second" }, hours],
      { ...plain({}), unit: "second" },
    ],
    [
      "keeps its cache writes if the request made no one-hour writes",
      ["token", unsplit, ["input", "cache_write"]],
      unsplit,
    ],
    [
      "counts all cache writes as one-hour writes if the request may have made some",
      ["token", unsplit, hours],
      {
        ...unsplit,
        tokens: { ...noTokens, input: 1, cache_write_1h: 23 },
        doubts: ["usage_unknown_class"],
      },
    ],
    ["keeps cache writes that are split", ["token", plain({ cache_write: 20 }), hours], plain({ cache_write: 20 })],
  ])("%s", (_, given, usage) => {
    expect(usagesIn(...given)).toStrictEqual(usage === undefined ? [] : [usage]);
  });
});
