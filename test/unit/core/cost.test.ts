import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { costOf, itemize, standardBilling } from "../../../src/core/cost.ts";
import { formatUsd, sum, usd, type PicoUsdPerToken } from "../../../src/core/money.ts";
import { canonicalPrice, parseCanonicalPrice, tierFor } from "../../../src/core/price.ts";
import { noTokens } from "../../../src/core/usage.ts";
import { prices, tokenCounts } from "../../support/price-arbitraries.ts";
import { price, rates, tier } from "../../support/example-rates.ts";

const million = 1_000_000;
const cheapThenExpensive = [
  tier(0, rates({ input: "1", output: "2" })),
  tier(200_001, rates({ input: "3", output: "4" })),
] as const;

describe("costOf", () => {
  it("multiplies tokens by the charged rates and the list rates", () => {
    const cost = costOf(price(), { ...noTokens, input: million, cached_input: million, output: million });
    expect(formatUsd(cost.charged)).toBe("7.50");
    expect(formatUsd(cost.list)).toBe("13.75");
    expect(cost.minimumApplied).toBe(false);
  });

  it("prices the whole request by the tier that its prompt reaches", () => {
    const tiered = price({ tiers: cheapThenExpensive });
    const at = (input: number) => formatUsd(costOf(tiered, { ...noTokens, input, output: million }).charged);
    expect(at(200_000)).toBe("2.20");
    expect(at(200_001)).toBe("4.600003");
  });

  it("counts cached tokens towards the tier", () => {
    const tiered = price({ tiers: cheapThenExpensive });
    const cost = costOf(tiered, { ...noTokens, input: 1, cached_input: 200_000, output: 0 });
    expect(formatUsd(cost.charged)).toBe("0.600003");
  });

  it("prices each part of the prompt by its own tier if tiers are marginal", () => {
    const tiered = price({ tiers: cheapThenExpensive, tierMode: "marginal" });
    const cost = costOf(tiered, { ...noTokens, input: 300_000, output: million });
    // The second tier starts at 200,001, so the first tier prices 200,001 tokens.
    expect(formatUsd(cost.charged)).toBe("4.499998");
  });

  it("charges a flat price for any tokens", () => {
    const flat = price({ perRequest: { charged: usd("0.04"), list: usd("0.05") } });
    expect(costOf(flat, { ...noTokens, input: 9, output: 9 })).toEqual({
      charged: usd("0.04"),
      list: usd("0.05"),
      minimumApplied: false,
    });
  });

  it("is the sum of its items", () => {
    fc.assert(
      fc.property(prices, tokenCounts, (price, tokens) => {
        const cost = costOf(price, tokens);
        const items = itemize(price, tokens);
        expect(sum(items.map((item) => item.cost))).toBe(cost.charged);
        expect(sum(items.map((item) => item.listCost))).toBe(cost.list);
        expect(items.some((item) => item.class === "minimum")).toBe(cost.minimumApplied);
        for (const { tokens: count, ...item } of items) {
          if (item.rate !== null) expect(item.cost).toBe(BigInt(count) * item.rate);
          if (item.listRate !== null) expect(item.listCost).toBe(BigInt(count) * item.listRate);
        }
      }),
    );
  });

  it("is the same in both tier modes if all tiers cost the same", () => {
    fc.assert(
      fc.property(prices, tokenCounts, (any, tokens) => {
        const same = any.tiers.map((each) => ({ ...any.tiers[0], fromPromptTokens: each.fromPromptTokens }));
        const tiers = same as unknown as typeof any.tiers;
        const one = costOf({ ...any, tiers, tierMode: "whole_request" }, tokens);
        for (const tierMode of ["marginal", "marginal_from"] as const)
          expect(costOf({ ...any, tiers, tierMode }, tokens)).toEqual(one);
        expect(costOf({ ...any, tiers: [any.tiers[0]] }, tokens)).toEqual(one);
      }),
    );
  });
});

describe("itemize", () => {
  it("returns a line for each tier that prices a part, and one for each kind of minimum", () => {
    const [first] = price().tiers;
    const expensive = {
      ...first,
      fromPromptTokens: 100,
      charged: { ...first.charged, output: 8_000_000n as PicoUsdPerToken },
    };
    const tiered = price({ tiers: [first, expensive], tierMode: "marginal", minimum: { tokens: 1000, usd: usd("1") } });
    const lines = itemize(tiered, { ...noTokens, input: 150, output: 10 });
    expect(lines.map((line) => [line.class, line.tokens, line.tierFrom, line.rate === null])).toEqual([
      ["input", 100, 0, false],
      ["input", 50, 100, false],
      ["output", 10, 100, false],
      ["minimum", 840, 100, false],
      ["minimum", 0, 100, true],
    ]);
  });
});

describe("canonicalPrice", () => {
  it("is parsed to the same price, and formatted to the same text again", () => {
    fc.assert(
      fc.property(prices, (price) => {
        const text = canonicalPrice(price);
        expect(parseCanonicalPrice(text)).toEqual(price);
        expect(canonicalPrice(parseCanonicalPrice(text))).toBe(text);
      }),
    );
  });

  it("does not depend on the order of a price's fields", () => {
    const one = price();
    const other = Object.fromEntries(Object.entries(one).toReversed()) as unknown as typeof one;
    expect(canonicalPrice(other)).toBe(canonicalPrice(one));
  });

  it("is parsed with the parent's rate for a class that is missing in an older text", () => {
    const stored = JSON.parse(canonicalPrice(price()));
    const index = stored.classes.indexOf("audio_output");
    stored.classes.splice(index, 1);
    for (const tier of stored.tiers) {
      tier.charged.splice(index, 1);
      tier.list.splice(index, 1);
    }
    expect(parseCanonicalPrice(JSON.stringify(stored))).toEqual(price());
  });
});

describe("tierFor", () => {
  it("changes at the first prompt size of a tier", () => {
    const tiered = price({ tiers: cheapThenExpensive });
    expect(tierFor(tiered, 0)).toBe(cheapThenExpensive[0]);
    expect(tierFor(tiered, 200_000)).toBe(cheapThenExpensive[0]);
    expect(tierFor(tiered, 200_001)).toBe(cheapThenExpensive[1]);
  });
});

it("standard billing has no service tier and no calls", () => {
  expect(standardBilling).toStrictEqual({ serviceTier: null, calls: {} });
});
