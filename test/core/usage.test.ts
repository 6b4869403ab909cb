import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { costOf } from "../../src/core/cost.ts";
import { noMoney, type PicoUsdPerToken } from "../../src/core/money.ts";
import type { PriceVersion, Rates } from "../../src/core/price.ts";
import { completionTotal, noTokens, promptTotal, scaleTokens, tokenClasses, unchanged, type Permille } from "../../src/core/tokens.ts";
import { decompose, type StatedUsage } from "../../src/core/usage.ts";

const nothing: StatedUsage = {
  prompt: 0,
  completion: undefined,
  total: undefined,
  cached: 0,
  cacheWrite: 0,
  audioInput: 0,
  imageInput: 0,
  reasoning: 0,
  audioOutput: 0,
  imageOutput: 0,
};

const count = fc.oneof(fc.constant(0), fc.nat(20));
const optional = fc.option(fc.nat(60), { nil: undefined });
const anyUsage: fc.Arbitrary<StatedUsage> = fc.record({
  prompt: count,
  completion: optional,
  total: optional,
  cached: count,
  cacheWrite: count,
  audioInput: count,
  imageInput: count,
  reasoning: count,
  audioOutput: count,
  imageOutput: count,
});

const promptParts = (usage: StatedUsage) => usage.cached + usage.cacheWrite + usage.audioInput + usage.imageInput;
const completionParts = (usage: StatedUsage) => usage.reasoning + usage.audioOutput + usage.imageOutput;

describe("decompose", () => {
  it("takes nested parts out of their wholes", () => {
    const usage = decompose({ ...nothing, prompt: 100, completion: 50, total: 150, cached: 30, reasoning: 20 });
    expect(usage).toEqual({
      tokens: { ...noTokens, input: 70, cached_input: 30, output: 30, reasoning: 20 },
      clamped: false,
    });
  });

  it("believes the total where the completion leaves reasoning out", () => {
    const { tokens } = decompose({ ...nothing, prompt: 10, completion: 5, total: 115, reasoning: 100 });
    expect(tokens).toEqual({ ...noTokens, input: 10, output: 5, reasoning: 100 });
  });

  it("reads cached tokens that exceed the prompt as plain input", () => {
    const usage = decompose({ ...nothing, prompt: 10, completion: 1, cached: 1000 });
    expect(usage).toEqual({ tokens: { ...noTokens, input: 1000, output: 1 }, clamped: true });
  });

  it("lets the prompt grow to hold cached and written tokens together", () => {
    const usage = decompose({ ...nothing, prompt: 10, completion: 1, cached: 500, cacheWrite: 1000 });
    expect(usage).toEqual({ tokens: { ...noTokens, input: 500, cache_write: 1000, output: 1 }, clamped: true });
  });

  it("has parts that add up to the whole, which is never less than was stated", () => {
    fc.assert(
      fc.property(anyUsage, (stated) => {
        const { tokens, clamped } = decompose(stated);
        const completion = Math.max(stated.completion ?? 0, (stated.total ?? 0) - stated.prompt);
        expect(promptTotal(tokens)).toBe(Math.max(stated.prompt, promptParts(stated)));
        expect(completionTotal(tokens)).toBe(Math.max(completion, completionParts(stated)));
        expect(clamped).toBe(promptParts(stated) > stated.prompt || completionParts(stated) > completion);
        for (const name of tokenClasses) expect(tokens[name]).toBeGreaterThanOrEqual(0);
      }),
    );
  });

  it("is never cheaper than the plain reading of each part", () => {
    const dearParts = fc.record({ input: fc.nat(50), discount: fc.nat(50), output: fc.nat(50), extra: fc.nat(50) });
    fc.assert(
      fc.property(anyUsage, dearParts, (stated, { input, discount, output, extra }) => {
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

/** Written, audio and image tokens cost `extra` more than their parent, which is what makes them the dear parts. */
function ratesOf(base: { input: number; cached_input: number; output: number }, extra: number): Rates {
  const of = (value: number) => BigInt(value) as PicoUsdPerToken;
  return {
    input: of(base.input),
    cached_input: of(base.cached_input),
    cache_write: of(base.input + extra),
    cache_write_1h: of(base.input + extra),
    audio_input: of(base.input + extra),
    image_input: of(base.input + extra),
    output: of(base.output),
    reasoning: of(base.output + extra),
    audio_output: of(base.output + extra),
    image_output: of(base.output + extra),
  };
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
