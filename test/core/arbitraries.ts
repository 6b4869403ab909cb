import * as fc from "fast-check";
import type { PicoUsd, PicoUsdPerToken } from "../../src/core/money.ts";
import type { PriceTier, PriceVersion, Rates } from "../../src/core/price.ts";
import { tokenClasses, type TokenCounts } from "../../src/core/tokens.ts";

/** Prices of every shape: any order of rates among classes and tiers, both tier modes, flat ones, minimums. */

const rate = fc.bigInt({ min: 0n, max: 200_000_000n }).map((value) => value as PicoUsdPerToken);
const amount = fc.bigInt({ min: 0n, max: 1_000_000_000_000n }).map((value) => value as PicoUsd);

export const rates: fc.Arbitrary<Rates> = fc
  .tuple(...tokenClasses.map(() => rate))
  .map((values) => Object.fromEntries(tokenClasses.map((name, index) => [name, values[index]])) as unknown as Rates);

const tiers = fc
  .uniqueArray(fc.integer({ min: 1, max: 3000 }), { maxLength: 3 })
  .chain((starts) => fc.tuple(...[0, ...starts.toSorted((a, b) => a - b)].map(tierFrom)))
  .map((list) => list as unknown as PriceVersion["tiers"]);

function tierFrom(fromPromptTokens: number): fc.Arbitrary<PriceTier> {
  return fc.record({ fromPromptTokens: fc.constant(fromPromptTokens), charged: rates, list: rates });
}

export const prices: fc.Arbitrary<PriceVersion> = fc.record({
  model: fc.string(),
  group: fc.option(fc.string()),
  fraction: fc.constantFrom(null, "0.75", "1"),
  from: fc.constant("2026-01-01"),
  until: fc.constantFrom(null, "2026-06-01"),
  source: fc.string(),
  tierMode: fc.constantFrom("whole_request", "marginal"),
  tiers,
  perRequest: fc.option(fc.record({ charged: amount, list: amount }), { freq: 5 }),
  minimum: fc.record({ tokens: fc.oneof(fc.constant(0), fc.nat(5000)), usd: fc.oneof(fc.constant(0n as PicoUsd), amount) }),
});

const count = fc.oneof(fc.constant(0), fc.nat(1000));

export const tokenCounts: fc.Arbitrary<TokenCounts> = fc
  .tuple(...tokenClasses.map(() => count))
  .map((values) => Object.fromEntries(tokenClasses.map((name, index) => [name, values[index]])) as unknown as TokenCounts);
