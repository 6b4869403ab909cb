import { expect, it } from "vitest";
import { buildCatalogue } from "../../../src/catalogue/build.ts";
import { diffPrices } from "../../../src/reporting/prices-diff.ts";
import { priceHistoryJson, pricesJson, tierModeOf } from "../../../src/reporting/prices.ts";
import { price as examplePrice } from "../../support/example-rates.ts";
import { pricedModelSchema, priceHistorySchema } from "../../../src/reporting/shapes/prices.ts";

const at = Date.parse("2026-11-22T00:00:00Z");

const text = `groups: { half: { fraction: "0.50" } }
provider: example
models:
  big:
    group: half
    context_tokens: 1000000
    max_output_tokens: 1000
    prices:
      - from: 2026-01-01
        source: "a list"
        official: { input: "2.00", output: "8.00" }
        tiers: [{ from_prompt_tokens: 200001, official: { input: "4.00", output: "12.00" } }]
        service_tiers:
          batch: { official: { input: "1.00", output: "4.00" } }
          priority: { official: { input: "4.00", output: "16.00" }, tiers: [{ from_prompt_tokens: 200001, official: { input: "8.00", output: "24.00" } }] }
        fees: { web_search_call: { usd: "0.01", gateway: "0.008", input_tokens: 16000 } }
  flat:
    group: half
    context_tokens: 1000
    max_output_tokens: 1000
    prices: [{ from: 2026-01-01, source: "a list", per_request: { official: "0.25" } }]
`;

const built = buildCatalogue([[{ name: "prices.yaml", text }]]);
if (!built.ok) throw new Error(built.faults.map(({ message }) => message).join("\n"));
const { catalogue } = built;

it("the JSON of prices has service tiers, their prompt tiers and fees, and matches its schema", () => {
  const { models } = pricesJson(catalogue, at);
  const [big, flat] = models;
  expect(
    big?.price?.tiers.map(({ from_prompt_tokens, gateway_usd_per_million: { input } }) => [from_prompt_tokens, input]),
  ).toEqual([
    [0, "1.00"],
    [200_001, "2.00"],
  ]);
  expect(
    big?.price?.service_tiers.map(({ service_tier, tiers }) => [
      service_tier,
      ...tiers.map((tier) => [tier.gateway_usd_per_million.input, tier.official_usd_per_million.output]),
    ]),
  ).toEqual([
    ["priority", ["2.00", "16.00"], ["4.00", "24.00"]],
    ["batch", ["0.50", "4.00"]],
  ]);
  expect(big?.price?.fees).toEqual([
    { tool: "web_search_call", gateway_usd: "0.008", official_usd: "0.01", input_tokens: 16_000 },
  ]);
  expect(flat?.price).toMatchObject({
    service_tiers: [],
    fees: [],
    per_request_usd: { gateway: "0.125", official: "0.25" },
  });
  for (const model of models) expect(pricedModelSchema.parse(model)).toEqual(model);
  for (const history of catalogue.histories())
    expect(priceHistorySchema.parse(priceHistoryJson(history, at))).toBeDefined();
});

it("the tier mode of a price is shown as price files state it, with either rule for the first token of a tier", () => {
  const modes = ["whole_request", "marginal", "marginal_from"] as const;
  expect(modes.map((tierMode) => tierModeOf(examplePrice({ tierMode })))).toEqual([
    "whole_request",
    "marginal",
    "marginal",
  ]);
  const marginal = buildCatalogue([
    [
      {
        name: "prices.yaml",
        text: text.replace("        tiers: [{", "        tier_mode: marginal\n        tiers: [{"),
      },
    ],
  ]);
  if (!marginal.ok) throw new Error("the example has a fault");
  const shown = (of: typeof catalogue) => pricesJson(of, at).models.map(({ price }) => price?.tier_mode);
  expect([shown(catalogue), shown(marginal.catalogue)]).toEqual([
    ["whole_request", "whole_request"],
    ["marginal", "whole_request"],
  ]);
  const modeOf = (changes: readonly { field: string }[]) => changes.filter(({ field }) => field === "tier_mode");
  expect(modeOf(diffPrices(catalogue, marginal.catalogue).changes)).toMatchObject([
    { before: "whole_request", after: "marginal" },
  ]);
});
