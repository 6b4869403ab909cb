import { describe, expect, it } from "vitest";
import {
  outputBound,
  partTokens,
  promptBound,
  worstCase,
  type ModelLimits,
  type RequestSize,
} from "../../../src/core/bounds.ts";
import type { PicoUsd, PicoUsdPerToken } from "../../../src/core/money.ts";
import type { PriceTier, PriceVersion, Rates } from "../../../src/core/price.ts";
import { tokenClasses, unchanged, type Permille, type TokenClass } from "../../../src/core/usage.ts";
import { price as examplePrice } from "../../support/example-rates.ts";
import { requestSize } from "./examples.ts";

const model: ModelLimits = {
  contextTokens: 1000,
  outputTokensMax: 100,
  tokensPerByte: unchanged,
  imagePartTokens: 10,
  audioPartTokens: 20,
  filePartTokens: 30,
};
const size = requestSize({ textBytes: 50 });

describe("the prompt bound", () => {
  it.each<[string, Partial<RequestSize>, Partial<ModelLimits>, number]>([
    ["the bytes plus the tokens that start the reply", {}, {}, 53],
    [
      "the bytes times the tokens per byte, plus those that start the reply",
      {},
      { tokensPerByte: 1100 as Permille },
      58,
    ],
    ["larger by the overhead of messages and tools", { messages: 2, tools: 3 }, {}, 53 + 16 + 48],
    ["larger by the tokens of parts", { imageParts: 1, audioParts: 2, fileParts: 3 }, {}, 53 + 10 + 40 + 90],
    ["larger by the tokens that start the reply for each prompt", { prompts: 3 }, {}, 59],
    ["exactly the context", { textBytes: 997 }, {}, 1000],
    ["no more than the context", { textBytes: 998 }, {}, 1000],
    ["the context if a field is not bounded", { unboundedFields: ["a"] }, {}, 1000],
    ["the context if a part is not bounded", { fileParts: 1 }, { filePartTokens: null }, 1000],
    ["the context of each prompt", { prompts: 3, textBytes: 100_000 }, {}, 3000],
    ["the context of each prompt if a field is not bounded", { prompts: 3, unboundedFields: ["a"] }, {}, 3000],
    [
      "the context of each prompt if a part is not bounded",
      { prompts: 2, audioParts: 1 },
      { audioPartTokens: null },
      2000,
    ],
  ])("is %s", (_, sizes, limits, expected) => {
    expect(promptBound({ ...size, ...sizes }, { ...model, ...limits })).toBe(expected);
  });

  it.each<[Partial<RequestSize>, Partial<ModelLimits>, number | null]>([
    [{}, { imagePartTokens: null, audioPartTokens: null, filePartTokens: null }, 0],
    [{ imageParts: 1 }, { imagePartTokens: null }, null],
    [{ audioParts: 1 }, { audioPartTokens: null }, null],
    [{ fileParts: 1, imageParts: 1 }, { filePartTokens: null }, null],
    [{ imageParts: 2, fileParts: 1 }, { audioPartTokens: null }, 50],
    [{ imageParts: 1, audioParts: 1 }, {}, 30],
  ])("counts the parts %j of the model %j as %j tokens", (sizes, limits, expected) => {
    expect(partTokens({ ...size, ...sizes }, { ...model, ...limits })).toBe(expected);
  });
});

it.each<[Partial<RequestSize>, number]>([
  [{}, 100],
  [{ outputMax: 99 }, 99],
  [{ outputMax: 101 }, 100],
  [{ outputMax: Infinity }, 100],
  [{ outputMax: 0 }, 0],
  [{ choices: 3 }, 300],
  [{ choices: 3, outputMax: 7 }, 21],
])("the output bound of %j is %i", (sizes, expected) => {
  expect(outputBound({ ...size, ...sizes }, model)).toBe(expected);
});

const pico = (amount: number) => BigInt(amount) as PicoUsd;
const rates = (input: number, output: number, more: Partial<Record<TokenClass, number>> = {}) =>
  Object.fromEntries(
    tokenClasses.map((name) => [
      name,
      BigInt(more[name] ?? (/output|reasoning/.test(name) ? output : input)) as PicoUsdPerToken,
    ]),
  ) as unknown as Rates;
const tier = (fromPromptTokens: number, ...of: Parameters<typeof rates>): PriceTier => ({
  fromPromptTokens,
  charged: rates(...of),
  list: rates(0, 0),
});
const price = (tiers: PriceVersion["tiers"], changes: Partial<PriceVersion> = {}) =>
  examplePrice({ tiers, ...changes });
const text = { prompt: ["input"], completion: ["output"] } as const;
const boundOf = (promptTokens: number, outputTokens: number) => ({ promptTokens, outputTokens });

describe("the worst case", () => {
  const falling: PriceVersion["tiers"] = [tier(0, 10, 1), tier(100, 1, 1)];
  const rising: PriceVersion["tiers"] = [tier(0, 1, 1), tier(100, 10, 10), tier(200, 100, 100)];
  const marginal = { tierMode: "marginal" } as const;
  it.each<
    [
      string,
      PriceVersion,
      ReturnType<typeof boundOf>,
      { prompt: readonly TokenClass[]; completion: readonly TokenClass[] },
      number,
    ]
  >([
    ["in one tier", price([tier(0, 2, 3)]), boundOf(10, 20), text, 80],
    [
      "at the most expensive classes",
      price([tier(0, 2, 3, { cache_write: 5, reasoning: 7 })]),
      boundOf(10, 20),
      { prompt: ["input", "cache_write"], completion: ["reasoning", "output"] },
      190,
    ],
    [
      "without classes that the tokens cannot have",
      price([tier(0, 2, 3, { cache_write: 5, reasoning: 7 })]),
      boundOf(10, 20),
      text,
      80,
    ],
    ["in the tier that the prompt reaches", price(rising), boundOf(150, 1), text, 1510],
    ["just below a tier", price(rising), boundOf(99, 1), text, 100],
    ["at the start of a tier", price(rising), boundOf(100, 1), text, 1010],
    ["in a lower tier that costs more, up to its top", price(falling), boundOf(150, 1), text, 991],
    ["in the upper tier if it costs more", price(falling), boundOf(2000, 1), text, 2001],
    [
      "with the output in the tier that costs more",
      price([tier(0, 1, 100), tier(100, 1, 1)]),
      boundOf(150, 10),
      text,
      99 + 1000,
    ],
    ["over marginal tiers", price(rising, marginal), boundOf(250, 1), text, 100 + 1000 + 5000 + 100],
    ["with one prompt token in a marginal tier", price(rising, marginal), boundOf(101, 1), text, 100 + 10 + 10],
    ["with a full marginal tier and the output in the next", price(rising, marginal), boundOf(100, 1), text, 100 + 10],
    [
      "over marginal tiers with falling rates",
      price([tier(0, 10, 10), tier(100, 1, 1)], marginal),
      boundOf(101, 10),
      text,
      990 + 100,
    ],
    [
      "over marginal tiers at the most expensive classes of each",
      price([tier(0, 1, 1, { cache_write: 4 }), tier(100, 3, 1, { cache_write: 2 })], marginal),
      boundOf(110, 0),
      { prompt: ["input", "cache_write"], completion: ["output"] },
      430,
    ],
    [
      "for a flat price",
      price([tier(0, 2, 3)], { perRequest: { charged: pico(40), list: pico(90) } }),
      boundOf(10, 20),
      text,
      40,
    ],
    [
      "for a flat price below its minimum",
      price([tier(0, 2, 3)], {
        perRequest: { charged: pico(40), list: pico(90) },
        minimum: { tokens: 1000, usd: pico(41) },
      }),
      boundOf(10, 20),
      text,
      41,
    ],
    [
      "below a minimum in USD",
      price([tier(0, 2, 3)], { minimum: { tokens: 0, usd: pico(81) } }),
      boundOf(10, 20),
      text,
      81,
    ],
    [
      "above a minimum in USD",
      price([tier(0, 2, 3)], { minimum: { tokens: 0, usd: pico(79) } }),
      boundOf(10, 20),
      text,
      80,
    ],
    [
      "below a minimum of tokens, at the output rate",
      price([tier(0, 2, 3)], { minimum: { tokens: 27, usd: pico(0) } }),
      boundOf(10, 20),
      text,
      81,
    ],
    [
      "below a minimum of tokens without completion classes",
      price([tier(0, 2, 3)], { minimum: { tokens: 30, usd: pico(0) } }),
      boundOf(10, 0),
      { prompt: ["input"], completion: [] },
      90,
    ],
    [
      "below a minimum of tokens, at a prompt rate above the output rate",
      price([tier(0, 5, 3)], { minimum: { tokens: 30, usd: pico(0) } }),
      boundOf(10, 0),
      text,
      150,
    ],
    [
      "below a minimum of tokens, at a completion rate above the output rate",
      price([tier(0, 2, 3, { reasoning: 6 })], { minimum: { tokens: 30, usd: pico(0) } }),
      boundOf(1, 0),
      { prompt: ["input"], completion: ["reasoning"] },
      180,
    ],
    [
      "below a minimum of tokens, in the most expensive tier the prompt reaches",
      price(rising, { minimum: { tokens: 1000, usd: pico(0) } }),
      boundOf(100, 0),
      text,
      10_000,
    ],
    [
      "below a minimum of tokens, without the tiers the prompt does not reach",
      price(rising, { minimum: { tokens: 1000, usd: pico(0) } }),
      boundOf(99, 0),
      text,
      1000,
    ],
    [
      "below a minimum of tokens, in a lower tier that costs more",
      price(falling, { minimum: { tokens: 1000, usd: pico(0) } }),
      boundOf(150, 0),
      text,
      10_000,
    ],
  ])("is computed %s", (_, version, bound, classes, expected) => {
    expect(worstCase(version, bound, classes)).toBe(pico(expected));
  });
});
