import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { costOf, costUnder, itemize, standardBilling, type BilledRun } from "../../../src/core/cost.ts";
import { sum, type PicoUsd } from "../../../src/core/money.ts";
import type { PinnedPrice, PriceVersion } from "../../../src/core/price.ts";
import {
  billingOfRuns,
  formatRuns,
  mergeRuns,
  parseRuns,
  termsWithRuns,
  tokensOfRuns,
} from "../../../src/core/runs.ts";
import { settlementFor } from "../../../src/core/settlement.ts";
import { noTokens, promptTotal, type TokenCounts } from "../../../src/core/usage.ts";
import { price as examplePrice } from "../../support/example-rates.ts";
import { exampleFlat as flat, tierByPosition as tier } from "../../support/minimum-cases.ts";

const tokens = (changes: Partial<TokenCounts>): TokenCounts => ({ ...noTokens, ...changes });
const run = (changes: Partial<TokenCounts>, price: PinnedPrice | null = null): BilledRun => ({
  tokens: tokens(changes),
  promptTokens: promptTotal(tokens(changes)),
  price,
});
const tiered = examplePrice({ tiers: [tier(0, 1), tier(100, 5)] });
const marginal = examplePrice({ tiers: [tier(0, 1), tier(100, 5)], tierMode: "marginal_from" });
const plain = examplePrice({ tiers: [tier(0, 1)] });
const advisor = {
  id: "advisor's",
  canonical: "{}",
  version: examplePrice({ model: "advisor", tiers: [tier(0, 20), tier(100, 30)] }),
};
const inTier = (...prices: readonly PriceVersion[]) => [{ prices, serviceTier: null }];

/** Returns the sum of the costs of runs that are requests of their own. */
function separately(price: PriceVersion, runs: readonly BilledRun[]): PicoUsd {
  return sum(runs.map((each) => costOf(each.price?.version ?? price, each.tokens).charged));
}

/** Returns the cost of runs after they were merged and stored. */
function together(price: PriceVersion, runs: readonly BilledRun[], known: readonly PriceVersion[] = [price]): PicoUsd {
  const merged = mergeRuns(runs, inTier(...known)).runs;
  const stored =
    merged && termsWithRuns({ billing: standardBilling, runs: parseRuns(formatRuns(merged)) }, () => advisor.version);
  return costOf(price, tokensOfRuns(runs), stored ?? undefined).charged;
}

describe("runs of a model", () => {
  it("have the rates of their own tiers", () => {
    const runs = [run({ input: 60, output: 1 }), run({ input: 60, output: 2 }), run({ input: 100, output: 3 })];
    expect(mergeRuns(runs, inTier(tiered)).runs).toEqual([
      { tokens: tokens({ input: 120, output: 3 }), promptTokens: 60, price: null },
      { tokens: tokens({ input: 100, output: 3 }), promptTokens: 100, price: null },
    ]);
    expect(together(tiered, runs)).toBe(BigInt(120 + 3 * 7 + 5 * (100 + 3 * 7)));
    expect(costOf(tiered, tokensOfRuns(runs)).charged).toBe(BigInt(5 * (220 + 6 * 7)));
  });

  it.each<[string, readonly BilledRun[], PriceVersion]>([
    ["the price has one tier", [run({ input: 60 }), run({ input: 70 })], plain],
    ["their sum is in their tier", [run({ input: 60 }), run({ input: 39, output: 5 })], tiered],
    ["they are all in the highest tier", [run({ input: 100 }), run({ cached_input: 200, output: 5 })], tiered],
    ["there is a price per request", [run({ input: 60 }), run({ input: 70 })], examplePrice({ perRequest: flat })],
    ["there is only one", [run({ input: 150 })], marginal],
    ["there is none", [], tiered],
  ])("are not kept if %s", (_, runs, price) => {
    expect(mergeRuns(runs, inTier(price)).runs).toBeUndefined();
    expect(together(price, runs)).toBe(costOf(price, tokensOfRuns(runs)).charged);
  });

  it("of another model have its price, in its own tier, next to a price per request too", () => {
    const runs = [run({ input: 60 }), run({ input: 60 }), run({ input: 10 }, advisor), run({ input: 100 }, advisor)];
    const ofAdvisor = BigInt(20 * 10 + 30 * 100);
    expect(together(tiered, runs)).toBe(120n + ofAdvisor);
    expect(together(examplePrice({ perRequest: flat }), runs)).toBe(flat.charged + ofAdvisor);
    expect(together(plain, [run({ input: 10 }, advisor)])).toBe(200n);
  });

  it("are compared with the price of the model that answered as a whole", () => {
    const runs = [run({ input: 60 }), run({ input: 60 })];
    const billing = billingOfRuns(undefined, mergeRuns(runs, inTier(tiered, plain)).runs);
    const other = examplePrice({ tiers: [tier(0, 2)] });
    const cost = (price: PriceVersion, servedPrice: PriceVersion) =>
      costUnder({ price, servedPrice }, tokensOfRuns(runs), billing).charged;
    expect([cost(tiered, other), cost(other, tiered)]).toEqual([240n, 240n]);
  });

  it("have the rates of the service tier", () => {
    const served = examplePrice({ tiers: [tier(0, 1)], serviceTiers: { fast: [tier(0, 2), tier(100, 3)] } });
    const runs = [run({ input: 60 }), run({ input: 60 })];
    const merged = mergeRuns(runs, [{ prices: [served], serviceTier: "fast" }]).runs;
    const billing = { serviceTier: "fast", calls: {}, ...(merged && { runs: merged }) };
    expect(costOf(served, tokensOfRuns(runs), billing).charged).toBe(240n);
    expect(mergeRuns(runs, inTier(served)).runs).toBeUndefined();
  });

  it("pay the minimum and the fees once", () => {
    const fees = { search_call: { charged: 5n as PicoUsd, list: 7n as PicoUsd, inputTokens: 1 } };
    const least = { ...tiered, fees, minimum: { tokens: 0, usd: 1_000n as PicoUsd } };
    const runs = [run({ input: 60 }), run({ input: 60 })];
    const billing = { serviceTier: null, calls: { search_call: 2 }, runs: mergeRuns(runs, inTier(least)).runs ?? [] };
    expect(costOf(least, tokensOfRuns(runs), billing)).toMatchObject({ charged: 1_010n, minimumApplied: true });
    expect(itemize(least, tokensOfRuns(runs), billing).map((item) => [item.class, item.cost])).toEqual([
      ["input", 120n],
      ["minimum", 880n],
      ["fee", 10n],
    ]);
  });

  it("of a thousand attempts are stored as one for each tier", () => {
    const runs = Array.from({ length: 1_000 }, (_, index) => run({ input: index % 200, output: 1 }));
    expect(mergeRuns(runs, inTier(tiered))).toMatchObject({ runs: { length: 2 }, isRounded: false });
    expect(together(tiered, runs)).toBe(separately(tiered, runs));
  });

  it("of a thousand attempts in marginal tiers are rounded up, with a statement of it", () => {
    const runs = Array.from({ length: 1_000 }, () => run({ input: 150, output: 1 }));
    const merged = mergeRuns(runs, inTier(marginal));
    expect(merged.isRounded).toBe(true);
    expect(merged.runs?.length).toBeLessThanOrEqual(64);
    expect(tokensOfRuns(merged.runs ?? [])).toEqual(tokensOfRuns(runs));
    expect(together(marginal, runs)).toBeGreaterThan(separately(marginal, runs));
  });

  const anyRun = fc
    .record({
      input: fc.nat(150),
      cached_input: fc.nat(50),
      cache_write: fc.nat(50),
      output: fc.nat(50),
      isOwn: fc.boolean(),
    })
    .map(({ isOwn, ...counts }) => run(counts, isOwn ? advisor : null));

  it("cost as much as requests of their own, in any order, and as their items", () => {
    fc.assert(
      fc.property(fc.array(anyRun, { maxLength: 40 }), fc.constantFrom(tiered, marginal, plain), (runs, price) => {
        expect(together(price, runs, [tiered, marginal])).toBe(separately(price, runs));
        expect(together(price, runs)).toBe(separately(price, runs));
        const billing = billingOfRuns(undefined, mergeRuns(runs, inTier(price)).runs);
        const items = itemize(price, tokensOfRuns(runs), billing);
        const cost = costOf(price, tokensOfRuns(runs), billing);
        expect([sum(items.map((item) => item.cost)), sum(items.map((item) => item.listCost))]).toEqual([
          cost.charged,
          cost.list,
        ]);
      }),
    );
  });

  it("are settled with the other terms of the answer, and beyond the hold as overage", () => {
    const runs = [run({ input: 60 }), run({ input: 50 }, advisor)];
    const tokensOfAll = tokensOfRuns(runs);
    const settlement = settlementFor(
      { hold: 10n as PicoUsd, price: tiered },
      { kind: "reported", tokens: tokensOfAll, clamped: false, runs, billing: { serviceTier: "fast", calls: {} } },
    );
    expect(settlement).toMatchObject({
      cost: BigInt(60 + 20 * 50),
      tokens: tokensOfAll,
      billing: { serviceTier: "fast", calls: {}, runs },
    });
  });

  it("are parsed as they were stored", () => {
    const runs = [run({ input: 5, cache_write_1h: 2 }), { ...run({ output: 1 }, advisor), promptTokens: 3 }];
    expect(formatRuns(runs)).toBe(
      `[{"prompt":7,"tokens":{"input":5,"cache_write_1h":2}},{"model":"advisor","price":"advisor's","prompt":3,"tokens":{"output":1}}]`,
    );
    expect(parseRuns(formatRuns(runs))).toEqual([
      { tokens: tokens({ input: 5, cache_write_1h: 2 }), promptTokens: 7, model: null, priceId: null },
      { tokens: tokens({ output: 1 }), promptTokens: 3, model: "advisor", priceId: "advisor's" },
    ]);
    expect(parseRuns(null)).toEqual([]);
    expect(termsWithRuns({ billing: standardBilling, runs: parseRuns(formatRuns(runs)) }, () => null)).toBeNull();
  });
});
