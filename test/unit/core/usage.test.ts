import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { costOf } from "../../../src/core/cost.ts";
import { noMoney, type PicoUsdPerToken } from "../../../src/core/money.ts";
import type { PriceVersion, Rates } from "../../../src/core/price.ts";
import { usagesIn } from "../../../src/core/several-usages.ts";
import {
  completionTotal,
  decompose,
  noTokens,
  promptTotal,
  scaleTokens,
  tokenClasses,
  unchanged,
  type Permille,
  type StatedUsage,
  type TokenCounts,
} from "../../../src/core/usage.ts";
import { runs } from "../../support/effort.ts";
import { noUsage } from "./examples.ts";

const count = fc.oneof(fc.constant(0), fc.nat(20));
const optional = fc.option(fc.nat(60), { nil: undefined });
const anyUsage: fc.Arbitrary<StatedUsage> = fc.record({
  prompt: count,
  completion: optional,
  total: optional,
  cache: fc.constantFrom("parts", "parts", "inside", "outside", "unclear"),
  cached: count,
  cacheWrite: count,
  cacheWrite1h: count,
  audioInput: count,
  imageInput: count,
  reasoning: count,
  audioOutput: count,
  imageOutput: count,
  promptContradicts: fc.oneof(fc.constant(false), fc.constant(false), fc.boolean()),
  completionContradicts: fc.oneof(fc.constant(false), fc.constant(false), fc.boolean()),
});
const plainUsage = anyUsage.map(
  (stated) => ({ ...stated, cache: "parts", promptContradicts: false, completionContradicts: false }) as const,
);

const cacheTokens = (usage: StatedUsage) => usage.cached + usage.cacheWrite + usage.cacheWrite1h;
const promptParts = (usage: StatedUsage) => cacheTokens(usage) + usage.audioInput + usage.imageInput;
const completionParts = (usage: StatedUsage) => usage.reasoning + usage.audioOutput + usage.imageOutput;

describe("decompose", () => {
  it("subtracts nested parts from their totals", () => {
    const usage = decompose({ ...noUsage, prompt: 100, completion: 50, total: 150, cached: 30, reasoning: 20 });
    expect(usage).toEqual({
      tokens: { ...noTokens, input: 70, cached_input: 30, output: 30, reasoning: 20 },
      clamped: false,
    });
  });

  it("uses the total if the completion omits reasoning", () => {
    const { tokens } = decompose({ ...noUsage, prompt: 10, completion: 5, total: 115, reasoning: 100 });
    expect(tokens).toEqual({ ...noTokens, input: 10, output: 5, reasoning: 100 });
  });

  it("counts cached tokens that exceed the prompt as additional input", () => {
    const usage = decompose({ ...noUsage, prompt: 10, completion: 1, cached: 1000 });
    expect(usage).toEqual({
      tokens: { ...noTokens, input: 1010, output: 1 },
      clamped: true,
      doubts: ["usage_contradicts"],
    });
  });

  it("counts cached and written tokens outside the prompt if together they exceed it", () => {
    const usage = decompose({ ...noUsage, prompt: 10, completion: 1, cached: 500, cacheWrite: 1000 });
    expect(usage).toEqual({
      tokens: { ...noTokens, input: 510, cache_write: 1000, output: 1 },
      clamped: true,
      doubts: ["usage_contradicts"],
    });
  });

  it("returns parts that add up to the total if they fit, and a doubt otherwise", () => {
    fc.assert(
      fc.property(anyUsage, (stated) => {
        const { tokens, clamped, doubts } = decompose(stated);
        for (const name of tokenClasses) expect(tokens[name]).toBeGreaterThanOrEqual(0);
        expect(promptTotal(tokens)).toBeGreaterThanOrEqual(Math.max(stated.prompt, promptParts(stated)));
        expect(completionTotal(tokens)).toBeGreaterThanOrEqual(
          Math.max(stated.completion ?? 0, completionParts(stated)),
        );
        if (clamped) expect(doubts).toEqual(["usage_contradicts"]);
        else expect([stated.prompt, stated.prompt + cacheTokens(stated)]).toContain(promptTotal(tokens));
      }),
    );
  });

  it("counts details that fit into their totals as stated", () => {
    fc.assert(
      fc.property(plainUsage, (stated) => {
        const completion = Math.max(stated.completion ?? 0, (stated.total ?? 0) - stated.prompt);
        fc.pre(promptParts(stated) <= stated.prompt && completionParts(stated) <= completion);
        const { cached, cacheWrite, cacheWrite1h, audioInput, imageInput, reasoning, audioOutput, imageOutput } =
          stated;
        const { tokens, clamped } = decompose(stated);
        expect(clamped).toBe(false);
        expect(tokens).toEqual({
          input: stated.prompt - promptParts(stated),
          cached_input: cached,
          cache_write: cacheWrite,
          cache_write_1h: cacheWrite1h,
          audio_input: audioInput,
          image_input: imageInput,
          output: completion - completionParts(stated),
          reasoning,
          audio_output: audioOutput,
          image_output: imageOutput,
        });
      }),
    );
  });

  describe.each<[string, Partial<StatedUsage>]>([
    ["prompt", { reasoning: 0, audioOutput: 0, imageOutput: 0, completionContradicts: false }],
    [
      "completion",
      { cached: 0, cacheWrite: 0, cacheWrite1h: 0, audioInput: 0, imageInput: 0, promptContradicts: false },
    ],
  ])("with contradictory members of the %s", (_, others) => {
    it("costs no less than any reading of them, whatever the price of writes, sound and images", () => {
      const rate = fc.nat(50);
      const anyRates = fc.record({
        input: rate,
        discount: rate,
        cache_write: rate,
        cache_write_1h: rate,
        audio_input: rate,
        image_input: rate,
        output: rate,
        reasoning: rate,
        audio_output: rate,
        image_output: rate,
      });
      fc.assert(
        fc.property(anyUsage, anyRates, (generated, { discount, ...rates }) => {
          const stated = { ...generated, ...others };
          const usage = decompose(stated);
          fc.pre(usage.clamped);
          const price = flat(bigRates({ ...rates, cached_input: Math.max(rates.input - discount, 0) }));
          const cost = costOf(price, usage.tokens).charged;
          for (const tokens of readingsOf(stated)) expect(cost).toBeGreaterThanOrEqual(costOf(price, tokens).charged);
        }),
        { numRuns: runs(1000) },
      );
    });
  });

  it("costs no less than the plain reading of each part", () => {
    const expensiveParts = fc.record({
      input: fc.nat(50),
      discount: fc.nat(50),
      output: fc.nat(50),
      extra: fc.nat(50),
    });
    fc.assert(
      fc.property(anyUsage, expensiveParts, (stated, { input, discount, output, extra }) => {
        const rates = ratesOf({ input, cached_input: Math.max(input - discount, 0), output }, extra);
        const plain =
          Math.max(stated.prompt - promptParts(stated), 0) * input +
          stated.cached * Math.max(input - discount, 0) +
          (promptParts(stated) - stated.cached) * (input + extra) +
          Math.max((stated.completion ?? 0) - completionParts(stated), 0) * output +
          completionParts(stated) * (output + extra);
        expect(costOf(flat(rates), decompose(stated).tokens).charged).toBeGreaterThanOrEqual(BigInt(plain));
      }),
    );
  });
});

describe("usagesIn", () => {
  const writes = {
    tokens: { ...noTokens, input: 1, cache_write: 20 },
    clamped: false,
    lacksCacheLifetime: true,
  } as const;
  it("counts unsplit cache writes as one-hour writes if the request asked for such writes", () => {
    expect(usagesIn("token", writes, ["input", "cache_write"])[0]?.tokens).toEqual(writes.tokens);
    const [long] = usagesIn("token", writes, ["input", "cache_write", "cache_write_1h"]);
    expect(long).toMatchObject({
      tokens: { input: 1, cache_write: 0, cache_write_1h: 20 },
      doubts: ["usage_unknown_class"],
    });
    const { lacksCacheLifetime: _, ...split } = writes;
    expect(usagesIn("token", split, ["cache_write_1h"])[0]?.tokens).toEqual(writes.tokens);
  });
});

describe("scaleTokens", () => {
  it("rounds up and leaves whole counts alone", () => {
    expect(scaleTokens(1, 1001 as Permille)).toBe(2);
    expect(scaleTokens(1000, 1250 as Permille)).toBe(1250);
    fc.assert(fc.property(fc.nat(), (tokens) => scaleTokens(tokens, unchanged) === tokens));
  });

  it("is the exact product, rounded up", () => {
    fc.assert(
      fc.property(fc.nat(100_000_000), fc.integer({ min: 1, max: 100_000 }), (tokens, factor) => {
        const exact = (BigInt(tokens) * BigInt(factor) + 999n) / 1000n;
        expect(BigInt(scaleTokens(tokens, factor as Permille))).toBe(exact);
      }),
    );
  });
});

/** Returns every reading of the members: caches in or outside the prompt, parts in or outside the completion. */
function readingsOf(stated: StatedUsage): TokenCounts[] {
  const { cached, cacheWrite, cacheWrite1h, audioInput, imageInput, reasoning, audioOutput, imageOutput } = stated;
  const parts = {
    cached_input: cached,
    cache_write: cacheWrite,
    cache_write_1h: cacheWrite1h,
    audio_input: audioInput,
    image_input: imageInput,
    reasoning,
    audio_output: audioOutput,
    image_output: imageOutput,
  };
  return [stated.prompt, stated.prompt + cacheTokens(stated)]
    .flatMap((prompt) => {
      const completion = Math.max(stated.completion ?? 0, (stated.total ?? 0) - prompt);
      return [completion - completionParts(stated), completion].map((output) => ({
        input: prompt - promptParts(stated),
        output,
        ...parts,
      }));
    })
    .filter(({ input, output }) => input >= 0 && output >= 0);
}

/** Returns rates at which written, audio, image and reasoning tokens cost `extra` more than their parent class. */
function ratesOf(base: { input: number; cached_input: number; output: number }, extra: number): Rates {
  const [input, output] = [base.input + extra, base.output + extra];
  return bigRates({
    ...base,
    cache_write: input,
    cache_write_1h: input,
    audio_input: input,
    image_input: input,
    reasoning: output,
    audio_output: output,
    image_output: output,
  });
}

function bigRates(rates: TokenCounts): Rates {
  return Object.fromEntries(
    tokenClasses.map((name) => [name, BigInt(rates[name]) as PicoUsdPerToken]),
  ) as unknown as Rates;
}

function flat(rates: Rates): PriceVersion {
  return {
    model: "m",
    group: null,
    fraction: null,
    from: "2026-01-01",
    until: null,
    source: "test",
    tierMode: "whole_request",
    tiers: [{ fromPromptTokens: 0, charged: rates, list: rates }],
    perRequest: null,
    minimum: { tokens: 0, usd: noMoney },
  };
}
