import * as fc from "fast-check";
import { standardBilling } from "../../src/core/cost.ts";
import { doubts, tokenClasses, type Permille, type TokenCounts } from "../../src/core/usage.ts";
import type { PicoUsd, PicoUsdPerToken } from "../../src/core/money.ts";
import type { PriceTier, PriceVersion, Rates } from "../../src/core/price.ts";
import type { Outcome, Reserved } from "../../src/core/settlement.ts";

/* Prices of every shape: any class or tier may be the most expensive; both tier modes, flat prices, minimums. */

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

const extras = fc.constantFrom("none", "tiers", "fees", "both").chain((kind) =>
  fc.record({
    ...((kind === "tiers" || kind === "both") && { serviceTiers: fc.record({ flex: tiers, priority: tiers }) }),
    ...((kind === "fees" || kind === "both") && {
      fees: fc.record({ web_search_call: fc.record({ charged: amount, list: amount, inputTokens: fc.nat(20_000) }) }),
    }),
  }),
) as fc.Arbitrary<Pick<PriceVersion, "serviceTiers" | "fees">>;

export const prices: fc.Arbitrary<PriceVersion> = fc
  .tuple(
    extras,
    fc.record({
      model: fc.string(),
      group: fc.option(fc.string()),
      fraction: fc.constantFrom(null, "0.75", "1"),
      from: fc.constant("2026-01-01"),
      until: fc.constantFrom(null, "2026-06-01"),
      source: fc.string(),
      tierMode: fc.constantFrom("whole_request", "marginal", "marginal_from"),
      tiers,
      perRequest: fc.option(fc.record({ charged: amount, list: amount }), { freq: 5 }),
      minimum: fc.record({
        tokens: fc.oneof(fc.constant(0), fc.nat(5000)),
        usd: fc.oneof(fc.constant(0n as PicoUsd), amount),
      }),
    }),
  )
  .map(([more, price]) => ({ ...price, ...more }) as PriceVersion);

const count = fc.oneof(fc.constant(0), fc.nat(1000));

export const tokenCounts: fc.Arbitrary<TokenCounts> = fc
  .tuple(...tokenClasses.map(() => count))
  .map(
    (values) => Object.fromEntries(tokenClasses.map((name, index) => [name, values[index]])) as unknown as TokenCounts,
  );

const reason = fc.constantFrom("client_left", "timeout");
const permille = fc.integer({ min: 1000, max: 3000 }).map((value) => value as Permille);

const uncertain = {
  unknownTokens: fc.oneof(fc.constant(0), fc.nat(5000)),
  outputTokensMax: fc.constantFrom(4000, 16_000),
  doubts: fc.subarray([...doubts]),
  billing: fc.constantFrom(
    standardBilling,
    { serviceTier: "flex", calls: {} },
    { serviceTier: "none", calls: { web_search_call: 2, other_call: 1 } },
  ),
};

/** All outcomes of a request. */
export const outcomes: fc.Arbitrary<Outcome> = fc.oneof(
  fc.record({ kind: fc.constant("notSent" as const), reason }),
  fc.record({ kind: fc.constant("refusedByGateway" as const), status: fc.integer({ min: 400, max: 499 }) }),
  fc.record({
    kind: fc.constant("failedAtGateway" as const),
    status: fc.constantFrom(500, 502, 503),
    billed: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant("failedAtGateway" as const),
    status: fc.constant(200),
    billed: fc.constant(true),
    reason: fc.constant("gateway_error"),
  }),
  fc.record({ kind: fc.constant("reported" as const), tokens: tokenCounts, clamped: fc.boolean() }),
  fc.record({
    kind: fc.constant("counted" as const),
    tokens: tokenCounts,
    errorFactor: permille,
    hiddenTokens: fc.oneof(fc.constant(0), fc.nat(5000)),
    ...uncertain,
  }),
  fc.record({
    kind: fc.constant("cut" as const),
    promptTokens: fc.nat(5000),
    deliveredTokens: fc.nat(5000),
    errorFactor: permille,
    inFlightTokens: fc.nat(300),
    hiddenTokens: fc.oneof(fc.constant(0), fc.nat(5000)),
    ...uncertain,
    reason,
  }),
  fc.record({ kind: fc.constant("unknown" as const), reason }),
);

const holds = fc.bigInt({ min: 0n, max: 2_000_000_000_000n }).map((value) => value as PicoUsd);
export const anyReserved: fc.Arbitrary<Reserved> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ hold: holds, price: prices }) },
  { weight: 1, arbitrary: fc.constant<Reserved>({ hold: null, price: null }) },
);
