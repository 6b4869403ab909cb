import { describe, expect, it } from "vitest";
import { costOf, costUnder, costWithinRange, decidingPrice, itemize, type Billing } from "../../../src/core/cost.ts";
import { picoUsdMax, type PicoUsd, type PicoUsdPerToken } from "../../../src/core/money.ts";
import type { PriceTier, PriceVersion, Rates } from "../../../src/core/price.ts";
import { noTokens, tokenClasses, type TokenCounts } from "../../../src/core/usage.ts";
import { price as examplePrice } from "../../support/example-rates.ts";

const pico = (amount: number | bigint) => BigInt(amount) as PicoUsd;
/** Rates that differ by class: the position of the class in the list, from 1, times `times`. */
const rates = (times: number) =>
  Object.fromEntries(
    tokenClasses.map((name, index) => [name, BigInt((index + 1) * times) as PicoUsdPerToken]),
  ) as unknown as Rates;
const tier = (fromPromptTokens: number, times: number): PriceTier => ({
  fromPromptTokens,
  charged: rates(times),
  list: rates(2 * times),
});
const price = (changes: Partial<PriceVersion> = {}) => examplePrice({ tiers: [tier(0, 1)], ...changes });
const tokens = (changes: Partial<TokenCounts>): TokenCounts => ({ ...noTokens, ...changes });

const tenOfEach = tokens(Object.fromEntries(tokenClasses.map((name) => [name, 10])));
const billing = (changes: Partial<Billing>): Billing => ({ serviceTier: null, calls: {}, ...changes });
const fees = {
  search: { charged: pico(5), list: pico(7), inputTokens: 1 },
  file: { charged: pico(11), list: pico(13), inputTokens: 1 },
};
const flat = { charged: pico(40), list: pico(50) };
const two: PriceVersion["tiers"] = [tier(0, 1), tier(100, 10)];

describe("a cost", () => {
  it.each<[string, PriceVersion, TokenCounts, Billing, object]>([
    [
      "is the sum of all classes at their rates",
      price(),
      tenOfEach,
      billing({}),
      { charged: 550n, list: 1100n, minimumApplied: false },
    ],
    ["is zero without tokens", price(), noTokens, billing({}), { charged: 0n, list: 0n, minimumApplied: false }],
    [
      "uses the lower tier below the start of the upper tier",
      price({ tiers: two }),
      tokens({ input: 99, output: 1 }),
      billing({}),
      { charged: 99n + 7n, list: 2n * 106n, minimumApplied: false },
    ],
    [
      "uses the upper tier from its start, also for output",
      price({ tiers: two }),
      tokens({ input: 100, output: 1 }),
      billing({}),
      { charged: 1070n, list: 2140n, minimumApplied: false },
    ],
    [
      "chooses the tier by all prompt classes together",
      price({ tiers: two }),
      tokens({ input: 50, cached_input: 50 }),
      billing({}),
      { charged: 1500n, list: 3000n, minimumApplied: false },
    ],
    [
      "prices each part of the prompt in its marginal tier",
      price({ tiers: two, tierMode: "marginal" }),
      tokens({ input: 150, output: 1 }),
      billing({}),
      {
        charged: 100n + 500n + 70n,
        list: 2n * 670n,
        minimumApplied: false,
      },
    ],
    [
      "places cached tokens first in marginal tiers",
      price({ tiers: two, tierMode: "marginal" }),
      tokens({ input: 30, cached_input: 90 }),
      billing({}),
      {
        charged: 90n * 2n + 10n + 20n * 10n,
        list: 2n * (180n + 10n + 200n),
        minimumApplied: false,
      },
    ],
    [
      "places the prompt classes one after the other in marginal tiers",
      price({ tiers: two, tierMode: "marginal" }),
      tokens({ cached_input: 40, cache_write: 40, cache_write_1h: 40, image_input: 5, audio_input: 5, input: 5 }),
      billing({}),
      {
        charged: 40n * 2n + 40n * 3n + 20n * 4n + 10n * (20n * 4n + 5n * 6n + 5n * 5n + 5n),
        list: 2n * (80n + 120n + 80n + 10n * 140n),
        minimumApplied: false,
      },
    ],
    [
      "uses the rates of its service tier",
      price({ serviceTiers: { flex: [tier(0, 3)] } }),
      tenOfEach,
      billing({ serviceTier: "flex" }),
      { charged: 1650n, list: 3300n, minimumApplied: false },
    ],
    [
      "is flat for any tokens",
      price({ perRequest: flat }),
      tenOfEach,
      billing({}),
      { charged: 40n, list: 50n, minimumApplied: false },
    ],
    [
      "includes the fees of tools",
      price({ fees }),
      tokens({ input: 1 }),
      billing({ calls: { search: 2, file: 1, other: 9, toString: 1 } }),
      { charged: 1n + 10n + 11n, list: 2n + 14n + 13n, minimumApplied: false },
    ],
    [
      "adds fees to a flat price",
      price({ fees, perRequest: flat }),
      tenOfEach,
      billing({ calls: { search: 1 } }),
      { charged: 45n, list: 57n, minimumApplied: false },
    ],
    [
      "has no fee without calls",
      price({ fees }),
      noTokens,
      billing({ calls: { search: 0 } }),
      { charged: 0n, list: 0n, minimumApplied: false },
    ],
    [
      "has no fees if the price states none",
      price(),
      noTokens,
      billing({ calls: { search: 3 } }),
      { charged: 0n, list: 0n, minimumApplied: false },
    ],
    [
      "is raised to a minimum of tokens, at the output rate",
      price({ minimum: { tokens: 10, usd: pico(0) } }),
      tokens({ input: 3, output: 2 }),
      billing({}),
      {
        charged: 3n + 14n + 5n * 7n,
        list: 2n * 17n,
        minimumApplied: true,
      },
    ],
    [
      "is not raised at the minimum of tokens",
      price({ minimum: { tokens: 5, usd: pico(0) } }),
      tokens({ input: 3, output: 2 }),
      billing({}),
      { charged: 17n, list: 34n, minimumApplied: false },
    ],
    [
      "is not raised above the minimum of tokens",
      price({ minimum: { tokens: 4, usd: pico(0) } }),
      tokens({ input: 3, output: 2 }),
      billing({}),
      { charged: 17n, list: 34n, minimumApplied: false },
    ],
    [
      "is raised at the rate of the tier that its prompt reaches",
      price({ tiers: [tier(0, 1), tier(2, 10)], minimum: { tokens: 3, usd: pico(0) } }),
      tokens({ input: 2 }),
      billing({}),
      {
        charged: 20n + 70n,
        list: 40n,
        minimumApplied: true,
      },
    ],
    [
      "is raised to a minimum in USD",
      price({ minimum: { tokens: 0, usd: pico(20) } }),
      tokens({ input: 3, output: 2 }),
      billing({}),
      { charged: 20n, list: 34n, minimumApplied: true },
    ],
    [
      "is not raised at the minimum in USD",
      price({ minimum: { tokens: 0, usd: pico(17) } }),
      tokens({ input: 3, output: 2 }),
      billing({}),
      { charged: 17n, list: 34n, minimumApplied: false },
    ],
    [
      "is raised to the minimum of tokens first, then to the minimum in USD",
      price({ minimum: { tokens: 6, usd: pico(30) } }),
      tokens({ input: 3, output: 2 }),
      billing({}),
      { charged: 30n, list: 34n, minimumApplied: true },
    ],
    [
      "has no minimum of tokens with a flat price",
      price({ perRequest: flat, minimum: { tokens: 10, usd: pico(0) } }),
      noTokens,
      billing({}),
      { charged: 40n, list: 50n, minimumApplied: false },
    ],
    [
      "applies a minimum in USD to a flat price",
      price({ perRequest: flat, minimum: { tokens: 10, usd: pico(45) } }),
      noTokens,
      billing({}),
      { charged: 45n, list: 50n, minimumApplied: true },
    ],
    [
      "applies the minimum before it adds fees",
      price({ fees, minimum: { tokens: 0, usd: pico(20) } }),
      tokens({ input: 1 }),
      billing({ calls: { search: 1 } }),
      { charged: 25n, list: 9n, minimumApplied: true },
    ],
  ])("%s", (_, of, used, how, expected) => {
    expect(costOf(of, used, how)).toEqual(expected);
    const lines = itemize(of, used, how);
    const total = (side: "cost" | "listCost") => lines.reduce((sum, line) => sum + line[side], 0n);
    expect({ charged: total("cost"), list: total("listCost") }).toMatchObject({
      charged: (expected as { charged: bigint }).charged,
      list: (expected as { list: bigint }).list,
    });
  });
});

describe("the lines of a cost", () => {
  const line = { tierFrom: 0, listRate: null, rate: null };
  it.each<[string, PriceVersion, TokenCounts, Billing, readonly object[]]>([
    ["nothing without tokens", price(), noTokens, billing({}), []],
    [
      "tokens, those of the prompt first",
      price(),
      tokens({ reasoning: 2, input: 3, cached_input: 1 }),
      billing({}),
      [
        { class: "input", tokens: 3, rate: 1n, cost: 3n, listRate: 2n, listCost: 6n, tierFrom: 0 },
        { class: "cached_input", tokens: 1, rate: 2n, cost: 2n, listRate: 4n, listCost: 4n, tierFrom: 0 },
        { class: "reasoning", tokens: 2, rate: 8n, cost: 16n, listRate: 16n, listCost: 32n, tierFrom: 0 },
      ],
    ],
    [
      "marginal tiers",
      price({ tiers: two, tierMode: "marginal" }),
      tokens({ input: 101, output: 1 }),
      billing({}),
      [
        { class: "input", tokens: 100, rate: 1n, cost: 100n, listRate: 2n, listCost: 200n, tierFrom: 0 },
        { class: "input", tokens: 1, rate: 10n, cost: 10n, listRate: 20n, listCost: 20n, tierFrom: 100 },
        { class: "output", tokens: 1, rate: 70n, cost: 70n, listRate: 140n, listCost: 140n, tierFrom: 100 },
      ],
    ],
    [
      "a tier that is just full",
      price({ tiers: two, tierMode: "marginal" }),
      tokens({ input: 100 }),
      billing({}),
      [{ class: "input", tokens: 100, rate: 1n, cost: 100n, listRate: 2n, listCost: 200n, tierFrom: 0 }],
    ],
    [
      "a request with a minimum and a fee",
      price({ perRequest: flat, minimum: { tokens: 0, usd: pico(45) }, fees }),
      tenOfEach,
      billing({ calls: { search: 2 } }),
      [
        { ...line, class: "request", tokens: 0, cost: 40n, listCost: 50n },
        { ...line, class: "minimum", tokens: 0, cost: 5n, listCost: 0n },
        { ...line, class: "fee", tool: "search", tokens: 2, cost: 10n, listCost: 14n },
      ],
    ],
    [
      "both minimums",
      price({ minimum: { tokens: 3, usd: pico(20) } }),
      tokens({ input: 1 }),
      billing({}),
      [
        { class: "input", tokens: 1, rate: 1n, cost: 1n, listRate: 2n, listCost: 2n, tierFrom: 0 },
        { ...line, class: "minimum", tokens: 2, rate: 7n, cost: 14n, listCost: 0n },
        { ...line, class: "minimum", tokens: 0, cost: 5n, listCost: 0n },
      ],
    ],
    ["no fee without calls", price({ fees }), noTokens, billing({ calls: { search: 0 } }), []],
    [
      "a service tier",
      price({ serviceTiers: { flex: [tier(0, 3)] } }),
      tokens({ input: 1 }),
      billing({ serviceTier: "flex" }),
      [{ class: "input", tokens: 1, rate: 3n, cost: 3n, listRate: 6n, listCost: 6n, tierFrom: 0 }],
    ],
  ])("name %s", (_, of, used, how, expected) => {
    expect(itemize(of, used, how)).toEqual(expected);
  });
});

describe("the cost if another model answered", () => {
  const requestedPrice = price();
  const expensive = price({ tiers: [tier(0, 2)] });
  const same = price({ model: "other" });
  const costly = price({ fees: { search: { charged: pico(100), list: pico(100), inputTokens: 1 } } });

  it("is the larger of both costs, and that of the requested model if they are equal", () => {
    const used = tokens({ input: 10 });
    expect(decidingPrice({ price: requestedPrice, servedPrice: null }, used)).toBe(requestedPrice);
    expect(decidingPrice({ price: requestedPrice, servedPrice: expensive }, used)).toBe(expensive);
    expect(decidingPrice({ price: expensive, servedPrice: requestedPrice }, used)).toBe(expensive);
    expect(decidingPrice({ price: requestedPrice, servedPrice: same }, used)).toBe(requestedPrice);
    expect(decidingPrice({ price: requestedPrice, servedPrice: costly }, used, billing({ calls: { search: 1 } }))).toBe(
      costly,
    );
    expect(decidingPrice({ price: requestedPrice, servedPrice: costly }, used)).toBe(requestedPrice);
  });

  it("has the formula of the price that decides", () => {
    const priced = price({ perRequest: flat });
    expect(costUnder({ price: requestedPrice, servedPrice: null }, tokens({ input: 10 }))).toEqual({
      charged: 10n,
      list: 20n,
      minimumApplied: false,
      formula: "tokens",
    });
    expect(costUnder({ price: requestedPrice, servedPrice: priced }, tokens({ input: 10 }))).toEqual({
      charged: 40n,
      list: 50n,
      minimumApplied: false,
      formula: "per_request",
    });
    expect(
      costUnder({ price: requestedPrice, servedPrice: null }, noTokens, billing({ calls: { search: 1 } })).charged,
    ).toBe(0n);
    expect(costUnder({ price: costly, servedPrice: null }, noTokens, billing({ calls: { search: 1 } })).charged).toBe(
      100n,
    );
  });
});

describe("costWithinRange", () => {
  const worth = (charged: bigint, list: bigint) => ({
    price: price({ perRequest: { charged: pico(charged), list: pico(list) } }),
    servedPrice: null,
  });
  it("returns null if the cost or the list cost does not fit 64 bits", () => {
    expect(costWithinRange(worth(picoUsdMax, 1n), noTokens)?.charged).toBe(picoUsdMax);
    expect(costWithinRange(worth(1n, picoUsdMax), noTokens)?.list).toBe(picoUsdMax);
    expect(costWithinRange(worth(picoUsdMax + 1n, 1n), noTokens)).toBeNull();
    expect(costWithinRange(worth(1n, picoUsdMax + 1n), noTokens)).toBeNull();
    const rate = { ...rates(1), input: picoUsdMax as bigint as PicoUsdPerToken };
    expect(
      costWithinRange(
        { price: price({ tiers: [{ fromPromptTokens: 0, charged: rate, list: rates(1) }] }), servedPrice: null },
        tokens({ input: 2 }),
      ),
    ).toBeNull();
  });

  it("includes the fees of tools", () => {
    expect(
      costWithinRange({ price: price({ fees }), servedPrice: null }, noTokens, billing({ calls: { file: 1 } })),
    ).toEqual({ charged: 11n, list: 13n, minimumApplied: false, formula: "tokens" });
  });

  it("does not hide a programming error", () => {
    const broken = { price: { ...price(), tiers: null } as unknown as PriceVersion, servedPrice: null };
    expect(() => costWithinRange(broken, noTokens)).toThrow(TypeError);
  });
});
