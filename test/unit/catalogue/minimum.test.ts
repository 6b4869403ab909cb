import { describe, expect, it } from "vitest";
import { buildCatalogue } from "../../../src/catalogue/build.ts";
import { toolBoundOf, worstCase } from "../../../src/core/bounds.ts";
import { costOf, itemize } from "../../../src/core/cost.ts";
import { formatRate, formatUsd } from "../../../src/core/money.ts";
import type { PriceTier, PriceVersion } from "../../../src/core/price.ts";
import {
  completionClasses,
  completionTotal,
  promptClasses,
  promptTotal,
  tokenClasses,
} from "../../../src/core/usage.ts";
import { expectCatalogue, faultsOf, layer, today } from "../../support/example-catalogue.ts";
import { minimumCases, type MinimumCase } from "../../support/minimum-cases.ts";

type Files = Readonly<Record<string, string>>;

/** A place of price files that can state a minimum. */
interface Place {
  readonly where: string;
  /** Returns the files of each layer, the shipped ones first. `minimum` is a block of YAML. */
  readonly layers: (of: MinimumCase, minimum: string) => readonly Files[];
  /** Fault of a minimum of tokens for a flat price. */
  readonly fault: RegExp;
  /** True if the tokens are a fault also next to USD. */
  readonly isFaultNextToUsd?: true;
}

const withoutTokens = /"example" has no price of tokens, so that a minimum of tokens does not apply; write usd/;

const places: readonly Place[] = [
  {
    where: "price",
    layers: (of, minimum) => [shipped(of, minimum)],
    fault: /has no meaning next to per_request/,
    isFaultNextToUsd: true,
  },
  {
    where: "change",
    layers: (of, minimum) => [
      shipped(of),
      {
        "mine.yaml": `models: { example: { change: { from: 2026-01-01, source: "our contract", minimum: ${minimum} } } }\n`,
      },
    ],
    fault: withoutTokens,
  },
  {
    where: "change by pattern",
    layers: (of, minimum) => [
      shipped(of),
      {
        "mine.yaml": `models: { "exam*": { change: { from: 2026-01-01, source: "our contract", minimum: ${minimum} } } }\n`,
      },
    ],
    fault: withoutTokens,
  },
  {
    where: "group",
    layers: (of, minimum) => [shipped(of), { "mine.yaml": `groups: { half: { minimum: ${minimum} } }\n` }],
    fault: withoutTokens,
  },
  {
    where: "gateway",
    layers: (of, minimum) => [shipped(of), { "mine.yaml": `gateway: { minimum: ${minimum} }\n` }],
    fault: withoutTokens,
  },
  {
    where: "preset's gateway",
    layers: (of, minimum) => [shipped(of), { "preset.yaml": `gateway: { minimum: ${minimum} }\n` }, {}],
    fault: withoutTokens,
  },
];

/** Returns the shipped file: a model in a group of half the official price, with its own rates for each class. */
function shipped({ tiers, flat, fees }: MinimumCase, minimum: string | null = null): Files {
  const [first, ...higher] = tiers;
  const calls = Object.entries(fees ?? {}).map(
    ([call, { list, charged, inputTokens }]) =>
      `${call}: { usd: "${formatUsd(list)}", gateway: "${formatUsd(charged)}", input_tokens: ${inputTokens} }`,
  );
  const price = [
    "from: 2026-01-01",
    'source: "a list"',
    ...(flat === null
      ? [sides(first), `tiers: [${higher.map(higherTier).join(", ")}]`]
      : [`per_request: { official: "${formatUsd(flat.list)}", gateway: "${formatUsd(flat.charged)}" }`]),
    ...(calls.length === 0 ? [] : [`fees: { ${calls.join(", ")} }`]),
    ...(minimum === null ? [] : [`minimum: ${minimum}`]),
  ];
  return {
    "shipped.yaml": `groups: { half: { fraction: "0.5" } }
provider: example
models:
  example:
    group: half
    context_tokens: 1000000
    max_output_tokens: 100000
    prices: [{ ${price.join(", ")} }]
`,
  };
}

function sides({ list, charged }: PriceTier): string {
  const of = (rates: PriceTier["list"]) =>
    `{ ${tokenClasses.map((name) => `${name}: "${formatRate(rates[name])}"`).join(", ")} }`;
  return `official: ${of(list)}, gateway: ${of(charged)}`;
}

function higherTier(tier: PriceTier): string {
  return `{ from_prompt_tokens: ${tier.fromPromptTokens}, ${sides(tier)} }`;
}

function minimumBlock({ tokens, usd }: PriceVersion["minimum"]): string {
  const parts = [...(tokens === 0 ? [] : [`tokens: ${tokens}`]), ...(usd === 0n ? [] : [`usd: "${formatUsd(usd)}"`])];
  return `{ ${parts.join(", ")} }`;
}

/** Returns the largest amount that a request of this size with these calls can cost. */
function holdOf(price: PriceVersion, { tokens, calls }: MinimumCase): bigint {
  const bound = { promptTokens: promptTotal(tokens), outputTokens: completionTotal(tokens) };
  const worst = worstCase(price, bound, { prompt: promptClasses, completion: completionClasses });
  const count = Object.values(calls).reduce((sum, each) => sum + each, 0);
  if (count === 0) return worst;
  const tools = { calls: Object.keys(calls), fields: [], areShown: true, callsMax: count };
  const fees = toolBoundOf(tools, { price, obeysMaxToolCalls: true }, 0);
  if (!("calls" in fees)) throw new Error("the calls have no bound");
  return worst + BigInt(fees.calls) * fees.feePerCall;
}

describe.each(places)("a minimum of a $where", ({ layers, fault, isFaultNextToUsd }) => {
  it.each(minimumCases)("a cost $name", (of) => {
    const built = buildCatalogue(layers(of, minimumBlock(of.minimum)).map(layer));
    const hasOnlyTokens = of.minimum.usd === 0n;
    if (of.flat !== null && of.minimum.tokens > 0 && (hasOnlyTokens || isFaultNextToUsd)) {
      expect(faultsOf(built)).toEqual([expect.stringMatching(fault)]);
      return;
    }
    const price = expectCatalogue(built).find("example", today)?.price?.version;
    if (price === undefined) throw new Error("the model has no price");
    const billing = { serviceTier: null, calls: of.calls };
    const lines = itemize(price, of.tokens, billing);
    const total = (side: "cost" | "listCost") => lines.reduce((sum, line) => sum + line[side], 0n);
    expect(costOf(price, of.tokens, billing)).toEqual({
      charged: of.charged,
      list: of.list,
      minimumApplied: of.applied,
    });
    expect({ charged: total("cost"), list: total("listCost") }).toEqual({ charged: of.charged, list: of.list });
    expect(lines.some((line) => line.class === "minimum")).toBe(of.applied);
    if (of.lines !== undefined) expect(lines).toEqual(of.lines);
    expect(holdOf(price, of)).toBeGreaterThanOrEqual(of.charged);
  });
});
