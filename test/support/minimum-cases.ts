import type { Billing, CostItem } from "../../src/core/cost.ts";
import { noMoney, usd, type PicoUsd, type PicoUsdPerToken } from "../../src/core/money.ts";
import type { PriceTier, PriceVersion, Rates, ToolFee } from "../../src/core/price.ts";
import { noTokens, tokenClasses, type TokenCounts } from "../../src/core/usage.ts";
import { price, rates } from "./example-rates.ts";

/** A request at a boundary of a minimum charge: what its price states, what it used, and what it costs. */
export interface MinimumCase {
  /** Completes a sentence that begins with "a cost". */
  readonly name: string;
  readonly tiers: PriceVersion["tiers"];
  readonly flat: PriceVersion["perRequest"];
  readonly fees: Readonly<Record<string, ToolFee>> | null;
  readonly minimum: PriceVersion["minimum"];
  readonly tokens: TokenCounts;
  readonly calls: Billing["calls"];
  readonly charged: PicoUsd;
  readonly list: PicoUsd;
  readonly applied: boolean;
  /** All lines of the itemized cost; absent if their sums are enough. */
  readonly lines?: readonly CostItem[];
}

const pico = (amount: number | bigint) => BigInt(amount) as PicoUsd;
const rate = (amount: number) => BigInt(amount) as PicoUsdPerToken;
/** Rates that differ by class: the position of the class in the list, from 1, times `times`. */
const byPosition = (times: number) =>
  Object.fromEntries(tokenClasses.map((name, index) => [name, rate((index + 1) * times)])) as unknown as Rates;

/** Returns a tier whose rates differ by class, for twice the official price. */
export const tierByPosition = (fromPromptTokens: number, times: number): PriceTier => ({
  fromPromptTokens,
  charged: byPosition(times),
  list: byPosition(2 * times),
});

export const exampleFees = {
  search_call: { charged: pico(5), list: pico(7), inputTokens: 1 },
  file_call: { charged: pico(11), list: pico(13), inputTokens: 1 },
} as const;
export const exampleFlat = { charged: pico(40), list: pico(50) };

const plain = {
  tiers: [tierByPosition(0, 1)],
  flat: null,
  fees: null,
  tokens: noTokens,
  calls: {},
} as const satisfies Partial<MinimumCase>;
const used = (changes: Partial<TokenCounts>): TokenCounts => ({ ...noTokens, ...changes });
const fiveTokens = used({ input: 3, output: 2 });
const freeTiers = [
  { fromPromptTokens: 0, charged: rates({ input: "0", output: "0" }), list: rates({ input: "0", output: "0" }) },
] as const;
const flat = { ...plain, tiers: freeTiers, flat: exampleFlat };
const inUsd = { ...plain, tiers: price().tiers };
const inUsdFlat = { ...flat, flat: { charged: usd("0.04"), list: usd("0.05") } };
const line = { tierFrom: 0, listRate: null, rate: null };

export const minimumCases: readonly MinimumCase[] = [
  {
    ...plain,
    name: "is raised to a minimum of tokens, at the output rate",
    minimum: { tokens: 10, usd: noMoney },
    tokens: fiveTokens,
    charged: pico(3 + 14 + 5 * 7),
    list: pico(34),
    applied: true,
  },
  {
    ...plain,
    name: "is not raised at the minimum of tokens",
    minimum: { tokens: 5, usd: noMoney },
    tokens: fiveTokens,
    charged: pico(17),
    list: pico(34),
    applied: false,
  },
  {
    ...plain,
    name: "is not raised above the minimum of tokens",
    minimum: { tokens: 4, usd: noMoney },
    tokens: fiveTokens,
    charged: pico(17),
    list: pico(34),
    applied: false,
  },
  {
    ...plain,
    name: "is raised at the rate of the tier that its prompt reaches",
    tiers: [tierByPosition(0, 1), tierByPosition(2, 10)],
    minimum: { tokens: 3, usd: noMoney },
    tokens: used({ input: 2 }),
    charged: pico(20 + 70),
    list: pico(40),
    applied: true,
  },
  {
    ...plain,
    name: "is raised to a minimum in USD",
    minimum: { tokens: 0, usd: pico(20) },
    tokens: fiveTokens,
    charged: pico(20),
    list: pico(34),
    applied: true,
  },
  {
    ...plain,
    name: "is not raised at the minimum in USD",
    minimum: { tokens: 0, usd: pico(17) },
    tokens: fiveTokens,
    charged: pico(17),
    list: pico(34),
    applied: false,
  },
  {
    ...plain,
    name: "is raised to the minimum of tokens first, then to the minimum in USD",
    minimum: { tokens: 6, usd: pico(30) },
    tokens: fiveTokens,
    charged: pico(30),
    list: pico(34),
    applied: true,
  },
  {
    ...flat,
    name: "has no minimum of tokens with a flat price",
    minimum: { tokens: 10, usd: noMoney },
    charged: pico(40),
    list: pico(50),
    applied: false,
  },
  {
    ...flat,
    name: "is raised to a minimum in USD with a flat price",
    minimum: { tokens: 10, usd: pico(45) },
    charged: pico(45),
    list: pico(50),
    applied: true,
  },
  {
    ...plain,
    name: "is raised before fees are added",
    fees: exampleFees,
    minimum: { tokens: 0, usd: pico(20) },
    tokens: used({ input: 1 }),
    calls: { search_call: 1 },
    charged: pico(25),
    list: pico(9),
    applied: true,
  },
  {
    ...flat,
    name: "has the lines of a flat price, a minimum and a fee",
    fees: exampleFees,
    minimum: { tokens: 0, usd: pico(45) },
    tokens: Object.fromEntries(tokenClasses.map((name) => [name, 10])) as unknown as TokenCounts,
    calls: { search_call: 2 },
    charged: pico(55),
    list: pico(64),
    applied: true,
    lines: [
      { ...line, class: "request", tokens: 0, cost: pico(40), listCost: pico(50) },
      { ...line, class: "minimum", tokens: 0, cost: pico(5), listCost: noMoney },
      { ...line, class: "fee", tool: "search_call", tokens: 2, cost: pico(10), listCost: pico(14) },
    ],
  },
  {
    ...plain,
    name: "has the lines of both minimums",
    minimum: { tokens: 3, usd: pico(20) },
    tokens: used({ input: 1 }),
    charged: pico(20),
    list: pico(2),
    applied: true,
    lines: [
      { class: "input", tokens: 1, rate: rate(1), cost: pico(1), listRate: rate(2), listCost: pico(2), tierFrom: 0 },
      { ...line, class: "minimum", tokens: 2, rate: rate(7), cost: pico(14), listCost: noMoney },
      { ...line, class: "minimum", tokens: 0, cost: pico(5), listCost: noMoney },
    ],
  },
  {
    ...inUsd,
    name: "has the missing tokens of a larger minimum at the output rate",
    minimum: { tokens: 1000, usd: noMoney },
    tokens: used({ input: 100, output: 100 }),
    charged: usd("0.004625"),
    list: usd("0.00125"),
    applied: true,
  },
  {
    ...inUsd,
    name: "is raised from one token to a minimum in USD",
    minimum: { tokens: 0, usd: usd("0.005") },
    tokens: used({ output: 1 }),
    charged: usd("0.005"),
    list: usd("0.00001"),
    applied: true,
  },
  {
    ...inUsd,
    name: "is equal to a minimum in USD that did not raise it",
    minimum: { tokens: 0, usd: usd("0.005") },
    tokens: used({ output: 1000 }),
    charged: usd("0.005"),
    list: usd("0.01"),
    applied: false,
  },
  {
    ...inUsdFlat,
    name: "has no minimum of 500 tokens with a flat price",
    minimum: { tokens: 500, usd: noMoney },
    charged: usd("0.04"),
    list: usd("0.05"),
    applied: false,
  },
];

/** Returns the price of a case, as the resolver would return it. */
export function priceOfCase({ tiers, flat: perRequest, fees, minimum }: MinimumCase): PriceVersion {
  return price({ tiers, perRequest, minimum, ...(fees !== null && { fees }) });
}
