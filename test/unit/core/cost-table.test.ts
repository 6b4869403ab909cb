import { describe, expect, it } from "vitest";
import { worstCase } from "../../../src/core/bounds.ts";
import { costOf, costUnder, costWithinRange, decidingPrice, itemize, type Billing } from "../../../src/core/cost.ts";
import { picoUsdMax, type PicoUsd, type PicoUsdPerToken } from "../../../src/core/money.ts";
import { canonicalPrice, parseCanonicalPrice, type PriceVersion } from "../../../src/core/price.ts";
import { noTokens, tokenClasses, type TokenCounts } from "../../../src/core/usage.ts";
import { price as examplePrice } from "../../support/example-rates.ts";
import {
  exampleFees as fees,
  exampleFlat as flat,
  minimumCases,
  priceOfCase,
  tierByPosition as tier,
} from "../../support/minimum-cases.ts";

const pico = (amount: number | bigint) => BigInt(amount) as PicoUsd;
const price = (changes: Partial<PriceVersion> = {}) => examplePrice({ tiers: [tier(0, 1)], ...changes });
const tokens = (changes: Partial<TokenCounts>): TokenCounts => ({ ...noTokens, ...changes });

const tenOfEach = tokens(Object.fromEntries(tokenClasses.map((name) => [name, 10])));
const billing = (changes: Partial<Billing>): Billing => ({ serviceTier: null, calls: {}, ...changes });
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
      billing({ calls: { search_call: 2, file_call: 1, other: 9, toString: 1 } }),
      { charged: 1n + 10n + 11n, list: 2n + 14n + 13n, minimumApplied: false },
    ],
    [
      "adds fees to a flat price",
      price({ fees, perRequest: flat }),
      tenOfEach,
      billing({ calls: { search_call: 1 } }),
      { charged: 45n, list: 57n, minimumApplied: false },
    ],
    [
      "has no fee without calls",
      price({ fees }),
      noTokens,
      billing({ calls: { search_call: 0 } }),
      { charged: 0n, list: 0n, minimumApplied: false },
    ],
    [
      "has no fees if the price states none",
      price(),
      noTokens,
      billing({ calls: { search_call: 3 } }),
      { charged: 0n, list: 0n, minimumApplied: false },
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

describe("a minimum", () => {
  it.each(minimumCases)("a cost $name", (of) => {
    const how = billing({ calls: of.calls });
    const expected = { charged: of.charged, list: of.list, minimumApplied: of.applied };
    expect(costOf(priceOfCase(of), of.tokens, how)).toEqual(expected);
    const lines = itemize(priceOfCase(of), of.tokens, how);
    expect(lines.reduce((sum, line) => sum + line.cost, 0n)).toBe(of.charged);
    expect(lines.reduce((sum, line) => sum + line.listCost, 0n)).toBe(of.list);
    if (of.lines !== undefined) expect(lines).toEqual(of.lines);
  });
});

describe("the first token of a marginal tier", () => {
  const three: PriceVersion["tiers"] = [tier(0, 1), tier(100, 10), tier(200, 100)];
  const lines = (tierMode: PriceVersion["tierMode"], tiers: PriceVersion["tiers"], of: Partial<TokenCounts>) =>
    itemize(price({ tiers, tierMode }), tokens(of)).map((line) => [line.class, line.tokens, line.tierFrom]);

  it.each<[from: number, rule: "marginal" | "marginal_from", prompt: number, inTiers: readonly number[]]>([
    [100, "marginal_from", 99, [99]],
    [100, "marginal_from", 100, [99, 1]],
    [100, "marginal_from", 101, [99, 2]],
    [200, "marginal_from", 199, [99, 100]],
    [200, "marginal_from", 200, [99, 100, 1]],
    [200, "marginal_from", 201, [99, 100, 2]],
    [100, "marginal", 99, [99]],
    [100, "marginal", 100, [100]],
    [100, "marginal", 101, [100, 1]],
    [200, "marginal", 199, [100, 99]],
    [200, "marginal", 200, [100, 100]],
    [200, "marginal", 201, [100, 100, 1]],
  ])("from %i, with the rule %s: a prompt of %i tokens has %j in the tiers", (from, rule, prompt, inTiers) => {
    expect(three.some(({ fromPromptTokens }) => fromPromptTokens === from)).toBe(true);
    expect(lines(rule, three, { input: prompt })).toEqual(
      inTiers.map((count, index) => ["input", count, three[index]?.fromPromptTokens]),
    );
    const charged = inTiers.reduce((total, count, index) => total + count * 10 ** index, 0);
    const version = price({ tiers: three, tierMode: rule });
    expect(costOf(version, tokens({ input: prompt })).charged).toBe(pico(charged));
    const bound = { promptTokens: prompt, outputTokens: 0 };
    expect(worstCase(version, bound, { prompt: ["input"], completion: ["output"] })).toBe(pico(charged));
  });

  it("is at the same place for cached tokens, which come first, as for the others", () => {
    expect(lines("marginal_from", three, { cached_input: 100, input: 101 })).toEqual([
      ["cached_input", 99, 0],
      ["cached_input", 1, 100],
      ["input", 99, 100],
      ["input", 2, 200],
    ]);
    expect(lines("marginal", three, { cached_input: 100, input: 101 })).toEqual([
      ["cached_input", 100, 0],
      ["input", 100, 100],
      ["input", 1, 200],
    ]);
  });

  it("leaves no token below a tier from 1", () => {
    const tiers: PriceVersion["tiers"] = [tier(0, 1), tier(1, 10)];
    expect(lines("marginal_from", tiers, { input: 5, output: 1 })).toEqual([
      ["input", 5, 1],
      ["output", 1, 1],
    ]);
    expect(lines("marginal", tiers, { input: 5 })).toEqual([
      ["input", 1, 0],
      ["input", 4, 1],
    ]);
  });

  it("does not change for a price that an earlier version stored", () => {
    const stored =
      '{"model":"gpt-4o","group":"official","fraction":"1","from":"2026-01-01","until":null,"source":"a list",' +
      '"tierMode":"marginal","tiers":[' +
      '{"fromPromptTokens":0,"charged":["2000000","1000000","10000000"],"list":["2000000","1000000","10000000"]},' +
      '{"fromPromptTokens":101,"charged":["4000000","2000000","20000000"],"list":["4000000","2000000","20000000"]}],' +
      '"perRequest":null,"minimum":{"tokens":0,"usd":"0"},"classes":["input","cached_input","output"]}';
    const version = parseCanonicalPrice(stored);
    const amounts = [100, 101, 102].map((input) => costOf(version, tokens({ input, output: 100 })).charged);
    // 101 tokens at USD 2 per 1M, then at USD 4. The output already has the rate of the tier at 101.
    expect(amounts).toEqual([1_200_000_000n, 2_202_000_000n, 2_206_000_000n]);
    expect(JSON.parse(canonicalPrice(version)).tierMode).toBe("marginal");
  });
});

describe("the lines of a cost", () => {
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
      "the fee of a tool",
      price({ fees }),
      noTokens,
      billing({ calls: { search_call: 2 } }),
      [
        {
          class: "fee",
          tool: "search_call",
          tokens: 2,
          rate: null,
          cost: 10n,
          listRate: null,
          listCost: 14n,
          tierFrom: 0,
        },
      ],
    ],
    ["no fee without calls", price({ fees }), noTokens, billing({ calls: { search_call: 0 } }), []],
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
  const costly = price({ fees: { search_call: { charged: pico(100), list: pico(100), inputTokens: 1 } } });

  it("is the larger of both costs, and that of the requested model if they are equal", () => {
    const used = tokens({ input: 10 });
    expect(decidingPrice({ price: requestedPrice, servedPrice: null }, used)).toBe(requestedPrice);
    expect(decidingPrice({ price: requestedPrice, servedPrice: expensive }, used)).toBe(expensive);
    expect(decidingPrice({ price: expensive, servedPrice: requestedPrice }, used)).toBe(expensive);
    expect(decidingPrice({ price: requestedPrice, servedPrice: same }, used)).toBe(requestedPrice);
    expect(
      decidingPrice({ price: requestedPrice, servedPrice: costly }, used, billing({ calls: { search_call: 1 } })),
    ).toBe(costly);
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
      costUnder({ price: requestedPrice, servedPrice: null }, noTokens, billing({ calls: { search_call: 1 } })).charged,
    ).toBe(0n);
    expect(
      costUnder({ price: costly, servedPrice: null }, noTokens, billing({ calls: { search_call: 1 } })).charged,
    ).toBe(100n);
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
    const rate = { ...tier(0, 1).charged, input: picoUsdMax as bigint as PicoUsdPerToken };
    expect(
      costWithinRange(
        {
          price: price({ tiers: [{ fromPromptTokens: 0, charged: rate, list: tier(0, 1).charged }] }),
          servedPrice: null,
        },
        tokens({ input: 2 }),
      ),
    ).toBeNull();
  });

  it("includes the fees of tools", () => {
    expect(
      costWithinRange({ price: price({ fees }), servedPrice: null }, noTokens, billing({ calls: { file_call: 1 } })),
    ).toEqual({ charged: 11n, list: 13n, minimumApplied: false, formula: "tokens" });
  });

  it("does not hide a programming error", () => {
    const broken = { price: { ...price(), tiers: null } as unknown as PriceVersion, servedPrice: null };
    expect(() => costWithinRange(broken, noTokens)).toThrow(TypeError);
  });
});
