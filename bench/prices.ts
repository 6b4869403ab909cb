import { usd, type PicoUsdPerToken } from "../src/core/money.ts";
import type { PriceVersion, Rates } from "../src/core/price.ts";
import { tokenClasses } from "../src/core/usage.ts";

/** Returns the price of a made-up model. Some models have tiers of either kind or a minimum charge, for the audit to cover. */
export function priceOf(index: number): PriceVersion {
  const rates = (factor: bigint): Rates =>
    Object.fromEntries(
      tokenClasses.map((name) => [
        name,
        (BigInt(index + 1) * (/output|reasoning/.test(name) ? 400_000n : 100_000n) * factor) as PicoUsdPerToken,
      ]),
    ) as unknown as Rates;
  const tier = (fromPromptTokens: number, factor: bigint) => ({
    fromPromptTokens,
    charged: rates(factor),
    list: rates(2n * factor),
  });
  return {
    model: `model-${index}`,
    group: `group-${index % 4}`,
    fraction: "0.5",
    from: "2025-01-01",
    until: null,
    source: "bench",
    tierMode: index % 6 === 1 ? "marginal" : "whole_request",
    tiers: index % 3 === 1 ? [tier(0, 1n), tier(4000, 2n)] : [tier(0, 1n)],
    perRequest: null,
    minimum: { tokens: index % 4 === 2 ? 100 : 0, usd: usd("0") },
  };
}
