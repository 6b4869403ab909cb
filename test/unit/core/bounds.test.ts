import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  outputBound,
  partTokens,
  predictedBound,
  promptBound,
  worstCase,
  type ModelLimits,
} from "../../../src/core/bounds.ts";
import { costOf } from "../../../src/core/cost.ts";
import { formatUsd, usd } from "../../../src/core/money.ts";
import {
  completionClasses,
  completionTotal,
  noTokens,
  promptClasses,
  promptTotal,
  unchanged,
  type Permille,
  type TokenCounts,
} from "../../../src/core/usage.ts";
import { prices } from "../../support/price-arbitraries.ts";
import { price, rates, tier } from "../../support/example-rates.ts";
import { runs } from "../../support/effort.ts";
import { requestSize } from "./examples.ts";

const model: ModelLimits = {
  contextTokens: 128_000,
  outputTokensMax: 16_384,
  tokensPerByte: unchanged,
  imagePartTokens: 1000,
  audioPartTokens: null,
  filePartTokens: null,
};

const size = requestSize({ textBytes: 500, messages: 2, tools: 1 });

const text = { prompt: ["input", "cached_input", "cache_write"], completion: ["output", "reasoning"] } as const;

describe("promptBound", () => {
  it("is the bytes times the factor plus the chat template", () => {
    expect(promptBound(size, model)).toBe(500 + 3 + 2 * 8 + 16);
    expect(promptBound(size, { ...model, tokensPerByte: 1500 as Permille })).toBe(750 + 3 + 2 * 8 + 16);
  });

  it("counts bounded parts by the catalogue, not by their bytes", () => {
    expect(promptBound({ ...size, imageParts: 3 }, model)).toBe(3535);
    expect(partTokens({ ...size, imageParts: 3 }, model)).toBe(3000);
  });

  it.each([{ audioParts: 1 }, { fileParts: 1 }, { unboundedFields: ["prediction"] }, { textBytes: 10_000_000 }])(
    "is the model's context for %j",
    (changes) => {
      expect(promptBound({ ...size, ...changes }, model)).toBe(128_000);
    },
  );
});

describe("outputBound", () => {
  it.each([
    [{ outputMax: 100 }, 100],
    [{ outputMax: 100, choices: 3 }, 300],
    [{ outputMax: null, choices: 2 }, 32_768],
    [{ outputMax: 1_000_000 }, 16_384],
  ])("of %j is %i", (changes, expected) => {
    expect(outputBound({ ...size, ...changes }, model)).toBe(expected);
  });
});

describe("worstCase", () => {
  it("prices every token at the most expensive class it can have", () => {
    const one = price({ tiers: [tier(0, rates({ input: "1", cache_write: "2", output: "3", reasoning: "4" }))] });
    expect(formatUsd(worstCase(one, { promptTokens: 1000, outputTokens: 1000 }, text))).toBe("0.006");
  });

  it("uses a lower tier that costs more than the tier the bound reaches", () => {
    const falling = price({
      tiers: [tier(0, rates({ input: "10", output: "1" })), tier(1001, rates({ input: "1", output: "1" }))],
    });
    expect(formatUsd(worstCase(falling, { promptTokens: 1001, outputTokens: 0 }, text))).toBe("0.01");
  });

  it("is at least the minimum", () => {
    const minimal = price({ minimum: { tokens: 0, usd: usd("0.005") } });
    expect(formatUsd(worstCase(minimal, { promptTokens: 1, outputTokens: 1 }, text))).toBe("0.005");
  });

  it("covers a minimum of tokens if a prompt class costs more than output", () => {
    const audio = price({
      tiers: [tier(0, rates({ input: "1", audio_input: "100", output: "10" }))],
      minimum: { tokens: 20, usd: usd("0") },
    });
    const bound = { promptTokens: 10, outputTokens: 0 };
    const worst = worstCase(audio, bound, { prompt: promptClasses, completion: completionClasses });
    expect(worst).toBeGreaterThanOrEqual(costOf(audio, { ...noTokens, audio_input: 10 }).charged);
  });

  it("is never below the cost of any tokens within the bound", () => {
    fc.assert(
      fc.property(
        prices,
        fc.nat(4000),
        fc.nat(4000),
        classes,
        shares,
        shares,
        (price, promptTokens, outputTokens, within, prompt, output) => {
          const tokens: TokenCounts = {
            ...noTokens,
            ...split(promptTokens, within.prompt, prompt),
            ...split(outputTokens, within.completion, output),
          };
          expect(promptTotal(tokens)).toBeLessThanOrEqual(promptTokens);
          expect(completionTotal(tokens)).toBeLessThanOrEqual(outputTokens);
          const worst = worstCase(price, { promptTokens, outputTokens }, within);
          expect(worst).toBeGreaterThanOrEqual(costOf(price, tokens).charged);
        },
      ),
      { numRuns: runs(3000) },
    );
  });

  it("never falls when the bound grows", () => {
    fc.assert(
      fc.property(prices, fc.nat(4000), fc.nat(4000), fc.nat(500), (price, promptTokens, outputTokens, more) => {
        const all = { prompt: promptClasses, completion: completionClasses };
        const smaller = worstCase(price, { promptTokens, outputTokens }, all);
        expect(
          worstCase(price, { promptTokens: promptTokens + more, outputTokens: outputTokens + more }, all),
        ).toBeGreaterThanOrEqual(smaller);
      }),
    );
  });
});

const classes = fc.record({
  prompt: fc.subarray([...promptClasses], { minLength: 1 }),
  completion: fc.subarray([...completionClasses], { minLength: 1 }),
});

/** Shares of a bound. Often one class has all of it, which costs the most. The last share is unused tokens. */
const shares = fc.oneof(
  fc.nat(4).map((only) => Array.from({ length: 6 }, (_, index) => (index === only ? 1 : 0))),
  fc.array(fc.nat(10), { minLength: 6, maxLength: 6 }),
);

function split(total: number, names: readonly string[], weights: readonly number[]): Record<string, number> {
  const used = [...weights.slice(0, names.length), weights[5] ?? 0];
  const whole = Math.max(
    used.reduce((sum, weight) => sum + weight, 0),
    1,
  );
  return Object.fromEntries(names.map((name, index) => [name, Math.floor((total * (used[index] ?? 0)) / whole)]));
}

it("the bound of a prediction assumes that each choice rejects all of it", () => {
  const twice = { ...model, tokensPerByte: 2000 as Permille };
  expect(predictedBound({ ...size, choices: 3, predictedBytes: 10 }, twice)).toBe(60);
  expect(predictedBound({ ...size, choices: 3 }, twice)).toBe(0);
});
