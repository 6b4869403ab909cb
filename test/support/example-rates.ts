import { noMoney, parseRate, type PicoUsdPerToken } from "../../src/core/money.ts";
import type { PriceTier, PriceVersion, Rates } from "../../src/core/price.ts";
import { statedClass, tokenClasses, type TokenClass } from "../../src/core/usage.ts";

/**
 * Returns a full set of rates from decimal strings, in USD per million tokens. Classes that are left out use their
 * parent's rate.
 */
export function rates(
  stated: { readonly input: string; readonly output: string } & Partial<Record<TokenClass, string>>,
): Rates {
  const of = (name: TokenClass) => parseRate(stated[statedClass(name, stated)] ?? "") as PicoUsdPerToken;
  return Object.fromEntries(tokenClasses.map((name) => [name, of(name)])) as unknown as Rates;
}

export function tier(fromPromptTokens: number, charged: Rates, list: Rates = charged): PriceTier {
  return { fromPromptTokens, charged, list };
}

/** Returns a price of USD 1.25 in and 5.00 out for official 2.50 and 10.00, unless stated otherwise. */
export function price(changes: Partial<PriceVersion> = {}): PriceVersion {
  return {
    model: "example",
    group: "half",
    fraction: "0.50",
    from: "2026-01-01",
    until: null,
    source: "an example",
    tierMode: "whole_request",
    tiers: [
      tier(0, rates({ input: "1.25", output: "5" }), rates({ input: "2.50", output: "10", cached_input: "1.25" })),
    ],
    perRequest: null,
    minimum: { tokens: 0, usd: noMoney },
    ...changes,
  };
}
