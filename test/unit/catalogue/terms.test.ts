import { globSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { worstCase } from "../../../src/core/bounds.ts";
import { costOf, standardBilling } from "../../../src/core/cost.ts";
import { mayBeFree } from "../../../src/core/price.ts";
import { completionClasses, noTokens, promptClasses } from "../../../src/core/usage.ts";
import { catalogueOf, faults, today } from "../../support/example-catalogue.ts";

const shipped = {
  "shipped.yaml": `groups: { half: { fraction: "0.5" } }
provider: example
models:
  free: { group: half, context_tokens: 10, max_output_tokens: 5, prices: [{ from: 2026-01-01, source: "a list", official: { input: "0", output: "0" } }] }
  tiered:
    group: half
    context_tokens: 1000
    max_output_tokens: 100
    prices:
      - from: 2026-01-01
        source: "a list"
        tier_mode: marginal
        official: { input: "2", output: "10" }
        tiers: [{ from_prompt_tokens: 5, official: { input: "4", output: "20" } }]
  voice: { unit: second, group: half, context_tokens: 10, max_output_tokens: 5, prices: [{ from: 2026-01-01, source: "a list", official: { input: "2", output: "10" } }] }
default: { group: half, context_tokens: 10, max_output_tokens: 5, prices: [{ from: 2026-01-01, source: "a list", official: { input: "20", output: "100" } }] }
`,
};

function priceOf(name: string, mine: string) {
  const price = catalogueOf(shipped, { "mine.yaml": mine }).find(name, today)?.price;
  if (price == null) throw new Error("the model has no price");
  return price.version;
}

const both =
  'gateway: { minimum: { tokens: 20, usd: "0.005" }, cached_input: official, fees: { web_search_call: { usd: "0.02", input_tokens: 3 } } }';

describe("terms of the gateway", () => {
  it("make a free model cost at least their minimum", () => {
    expect(mayBeFree(priceOf("free", ""))).toBe(true);
    expect(mayBeFree(priceOf("free", 'gateway: { minimum: { usd: "0.005" } }'))).toBe(false);
  });

  it("also apply to unknown models", () => {
    expect(priceOf("unheard-of", both)).toMatchObject({
      model: "default",
      minimum: { tokens: 20, usd: 5_000_000_000n },
      fees: { web_search_call: { charged: 10_000_000_000n } },
    });
  });

  it("apply no minimum of tokens to seconds, also if the file's defaults state the unit", () => {
    expect(priceOf("voice", both).minimum).toEqual({ tokens: 0, usd: 5_000_000_000n });
    const own = `${both}\nprovider: mine\ndefaults: { unit: second, context_tokens: 10, max_output_tokens: 5 }\nmodels: { own: { group: half, prices: [{ from: 2026-01-01, source: "x", official: { input: "2", output: "10" } }] } }`;
    expect(priceOf("own", own).minimum).toEqual({ tokens: 0, usd: 5_000_000_000n });
  });

  it("of tokens alone leave the minimum of a model without tokens, and are a fault if they apply to no model", () => {
    const own = (more: string) =>
      `${more}\nprovider: mine\nmodels: { own: { group: half, context_tokens: 1, max_output_tokens: 1, prices: [{ from: 2026-01-01, source: "x", per_request: { official: "1" } }] } }`;
    const withUsd = own("gateway: { minimum: { tokens: 20 } }").replace("{ official", '{ gateway: "1", official');
    expect(priceOf("own", withUsd).minimum).toEqual({ tokens: 0, usd: 0n });
    const preset = { "preset.yaml": 'gateway: { minimum: { usd: "0.3" } }' };
    const mine = { "mine.yaml": own("gateway: { minimum: { tokens: 20 } }") };
    expect(catalogueOf(shipped, preset, mine).find("own", today)?.price?.version.minimum.usd).toBe(300_000_000_000n);
    const cleared = { "mine.yaml": own("gateway: { minimum: { tokens: 0 } }") };
    expect(catalogueOf(shipped, preset, cleared).find("own", today)?.price?.version.minimum.usd).toBe(0n);
    expect(
      faults({ "a.yaml": `groups: { half: { fraction: "1" } }\n${own("gateway: { minimum: { tokens: 20 } }")}` }),
    ).toEqual(['a.yaml:2:31: "own" has no price of tokens, so that a minimum of tokens does not apply; write usd']);
  });

  it.each(["gateway", "group", "change"])("of a %s are covered by the hold of each request, in each tier", (place) => {
    const minimum = '{ tokens: 20, usd: "0.00004" }';
    const mine = {
      gateway: `gateway: { minimum: ${minimum}, cached_input: official }`,
      group: `groups: { half: { minimum: ${minimum}, cached_input: official } }`,
      change: `models: { tiered: { change: { from: 2026-02-01, source: "x", minimum: ${minimum}, cached_input: official } } }`,
    }[place];
    const price = priceOf("tiered", mine ?? "");
    expect(price.minimum).toEqual({ tokens: 20, usd: 40_000_000n });
    for (const input of [0, 3, 4, 5, 6, 15, 21]) {
      for (const output of [0, 1, 4, 5, 30]) {
        const tokens = { ...noTokens, input: Math.max(input - 2, 0), cached_input: Math.min(input, 2), output };
        const hold = worstCase(
          price,
          { promptTokens: input, outputTokens: output },
          { prompt: promptClasses, completion: completionClasses },
        );
        expect(hold).toBeGreaterThanOrEqual(costOf(price, tokens, standardBilling).charged);
      }
    }
  });
});

it("amounts of price files are read without floating point", () => {
  for (const file of globSync("src/catalogue/*.ts")) {
    const text = readFileSync(file, "utf8");
    expect(text, file).not.toMatch(/parseFloat|parseInt|toFixed/);
    for (const [call] of text.matchAll(/Number\([^)]*\)/g)) expect(call, file).toBe("Number(millionths / 1000n)");
  }
});
