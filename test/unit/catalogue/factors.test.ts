import { beforeAll, describe, expect, it } from "vitest";
import { buildCatalogue } from "../../../src/catalogue/build.ts";
import type { LoadedCatalogue } from "../../../src/catalogue/catalogue.ts";
import { explainChanges, explainPrice } from "../../../src/catalogue/explain.ts";
import { loadCatalogue } from "../../../src/catalogue/load.ts";
import { costOf } from "../../../src/core/cost.ts";
import { formatRate, formatUsd } from "../../../src/core/money.ts";
import { canonicalPrice, inServiceTier, parseCanonicalPrice, type PriceVersion } from "../../../src/core/price.ts";
import { noTokens, tokenClasses, type TokenClass } from "../../../src/core/usage.ts";
import { catalogueOf, expectCatalogue, faults, layer, pricing } from "../../support/example-catalogue.ts";

const factors = '{ speed: { fast: { input: "2", cached_input: "1", output: "3" } }, inference_geo: { us: "1.1" } }';
const shipped = `groups: { half: { fraction: "0.5" }, third: { fraction: "0.333333" } }
provider: example
models:
  big:
    group: half
    context_tokens: 1000
    max_output_tokens: 100
    prices:
      - from: 2026-01-01
        source: "a list"
        official: { input: "2", cached_input: "1", cache_write: "3", output: "10" }
        tiers: [{ from_prompt_tokens: 200, official: { input: "4", cache_write: "6", output: "20" } }]
        service_tiers: { batch: { official: { input: "1", output: "5" }, gateway: { output: "2" } } }
        fees: { web_search_call: { usd: "0.01", input_tokens: 5 } }
        factors: ${factors}
  plain:
    group: half
    context_tokens: 1000
    max_output_tokens: 100
    prices: [{ from: 2026-01-01, source: "a list", official: { input: "3", output: "15" } }]
  flat:
    group: half
    context_tokens: 1000
    max_output_tokens: 100
    prices: [{ from: 2026-01-01, source: "a list", per_request: { official: "0.04" } }]
`;
const dated = 'from: 2026-07-01, source: "our contract"';

function priceOf(model: string, ...mine: readonly string[]): PriceVersion {
  const files = Object.fromEntries(mine.map((text, index) => [`mine-${index}.yaml`, text]));
  const price = catalogueOf({ "shipped.yaml": shipped }, files).find(model, Date.parse("2026-08-01"))?.price;
  if (price == null) throw new Error("the model has no price");
  return price.version;
}

function changeOf(models: string, change: string): string {
  return `models: { "${models}": { change: { ${change} } } }\n`;
}

const shown = ["input", "cached_input", "cache_write", "cache_write_1h", "output", "reasoning"] as const;

/** Returns the rates of a variant in the tier of a prompt. */
function ratesOf(price: PriceVersion, variant: string | null, side: "charged" | "list" = "charged", tier = 0) {
  const rates = inServiceTier(price, variant).tiers[tier]?.[side];
  return shown.map((name) => rates && formatRate(rates[name])).join(" ");
}

describe("factors multiply", () => {
  it.each<[string | null, "charged" | "list", number, string]>([
    [null, "list", 0, "2.00 1.00 3.00 3.00 10.00 10.00"],
    [null, "charged", 0, "1.00 1.00 1.50 1.50 5.00 5.00"],
    // Classes without a factor have that of their parent: cache writes that of input.
    ["fast", "list", 0, "4.00 1.00 6.00 6.00 30.00 30.00"],
    // Cached input is charged as input, so also with the factor of input.
    ["fast", "charged", 0, "2.00 2.00 3.00 3.00 15.00 15.00"],
    ["us", "list", 0, "2.20 1.10 3.30 3.30 11.00 11.00"],
    ["us", "charged", 0, "1.10 1.10 1.65 1.65 5.50 5.50"],
    ["fast+us", "list", 0, "4.40 1.10 6.60 6.60 33.00 33.00"],
    ["fast+us", "charged", 0, "2.20 2.20 3.30 3.30 16.50 16.50"],
    // In this tier, cached input has no official rate.
    [null, "list", 1, "4.00 4.00 6.00 6.00 20.00 20.00"],
    ["fast+us", "list", 1, "8.80 8.80 13.20 13.20 66.00 66.00"],
    ["fast+us", "charged", 1, "4.40 4.40 6.60 6.60 33.00 33.00"],
    ["batch", "charged", 0, "0.50 0.50 0.50 0.50 2.00 2.00"],
    ["batch+us", "charged", 0, "0.55 0.55 0.55 0.55 2.20 2.20"],
    ["batch+fast", "charged", 0, "1.00 1.00 1.00 1.00 6.00 6.00"],
    ["batch+fast+us", "charged", 0, "1.10 1.10 1.10 1.10 6.60 6.60"],
    // Unknown parts do not hide the known ones.
    ["priority+us", "charged", 0, "1.10 1.10 1.65 1.65 5.50 5.50"],
    ["speed:turbo", "charged", 0, "1.00 1.00 1.50 1.50 5.00 5.00"],
  ])("the rates of %s (%s, tier %i): %s", (variant, side, tier, rates) => {
    expect(ratesOf(priceOf("big"), variant, side, tier)).toBe(rates);
  });

  it("all rates of all tiers, and no fee", () => {
    const price = priceOf("big");
    expect(Object.keys(price.serviceTiers ?? {})).toEqual([
      "batch",
      "fast",
      "us",
      "fast+us",
      "batch+fast",
      "batch+us",
      "batch+fast+us",
    ]);
    const tokens = { ...noTokens, input: 100, cached_input: 99, output: 10 };
    const cost = (serviceTier: string | null) =>
      formatUsd(costOf(price, tokens, { serviceTier, calls: { web_search_call: 2 } }).charged);
    // 199 tokens at 1 and 10 at 5, or 1.1 times that, plus two searches at 0.005.
    expect([cost(null), cost("us")]).toEqual(["0.010249", "0.0102739"]);
    const long = costOf(price, { ...tokens, input: 101 }, { serviceTier: "us", calls: {} });
    expect([formatUsd(long.charged), formatUsd(long.list)]).toEqual(["0.00055", "0.0011"]);
  });

  it("the gateway's own rates, shares and amounts for cached tokens", () => {
    const own = `gateway: { cached_input: official }
${changeOf("big", `${dated}, gateway: { output: "7" }, cache_write: "0.40"`)}`;
    expect(ratesOf(priceOf("big", own), null)).toBe("1.00 0.50 0.40 0.40 7.00 7.00");
    expect(ratesOf(priceOf("big", own), "fast")).toBe("2.00 0.50 0.80 0.80 21.00 21.00");
    expect(ratesOf(priceOf("big", own), "batch+us")).toBe("0.55 0.55 0.44 0.44 2.20 2.20");
  });

  it("a rate that is not exact rounds up, and only once", () => {
    const price = priceOf("big", changeOf("big", `${dated}, group: third`));
    expect(ratesOf(price, null)).toBe("0.666666 0.666666 0.999999 0.999999 3.33333 3.33333");
    // 0.666666 x 2 x 1.1 = 1.4666652; 0.999999 x 2 x 1.1 = 2.1999978; 3.33333 x 3 x 1.1 = 10.999989
    expect(ratesOf(price, "fast+us")).toBe("1.466666 1.466666 2.199998 2.199998 10.999989 10.999989");
  });
});

describe("a change", () => {
  it("of a rate also changes the variants, and keeps the factors", () => {
    const price = priceOf("big", changeOf("big", `${dated}, official: { input: "3" }, gateway: { output: "8" }`));
    expect(ratesOf(price, null)).toBe("1.50 1.50 1.50 1.50 8.00 8.00");
    expect(ratesOf(price, "fast+us")).toBe("3.30 3.30 3.30 3.30 26.40 26.40");
    expect(ratesOf(price, "batch+us")).toBe("0.55 0.55 0.55 0.55 2.20 2.20");
    expect(price.factors).toEqual({
      "speed.fast": "input 2, cached_input 1, output 3",
      "inference_geo.us": "1.1",
    });
  });

  it("of one factor replaces it as a whole and keeps the others", () => {
    const price = priceOf("big", changeOf("b*", `${dated}, factors: { speed: { fast: "1.5" } }`));
    expect(ratesOf(price, "fast", "list")).toBe("3.00 1.50 4.50 4.50 15.00 15.00");
    expect(ratesOf(price, "us", "list")).toBe(ratesOf(priceOf("big"), "us", "list"));
    expect(price.source).toBe("our contract; otherwise a list");
  });

  it("adds factors to a model without any, also to a service tier that it adds", () => {
    const tier = 'service_tiers: { flex: { official: { input: "1", output: "5" } } }';
    const price = priceOf("plain", changeOf("plain", `${dated}, factors: { inference_geo: { us: "1.2" } }, ${tier}`));
    expect(ratesOf(price, "us", "list")).toBe("3.60 3.60 3.60 3.60 18.00 18.00");
    expect(ratesOf(price, "flex+us", "list")).toBe("1.20 1.20 1.20 1.20 6.00 6.00");
  });

  it("is explained with the place of each factor, and does not say that the rates of variants stay the same", () => {
    const mine = changeOf("big", `${dated},\n factors: { inference_geo: { us: "1.2" } }, gateway: { input: "3" }`);
    const loaded = buildCatalogue([layer({ "shipped.yaml": shipped }), layer({ "mine.yaml": mine })]);
    if (!loaded.ok) throw new Error("the files have faults");
    expect(explainPrice(loaded, "big", Date.parse("2026-08-01"))?.inForce?.factors).toEqual([
      {
        field: "speed",
        value: "fast",
        factors: "input 2, cached_input 1, output 3",
        place: { file: "shipped.yaml", line: 15 },
      },
      { field: "inference_geo", value: "us", factors: "1.2", place: { file: "mine.yaml", line: 2 } },
    ]);
    expect(explainChanges(loaded, Date.parse("2026-08-01"))[0]?.standardOnly).toEqual(["big"]);
    const whole = `${dated}, gateway: { input: "3" }, service_tiers: { batch: { gateway: { input: "1" } } }`;
    const stated = `${whole}, tiers: [{ from_prompt_tokens: 200, gateway: { input: "6" } }]`;
    const complete = buildCatalogue([
      layer({ "shipped.yaml": shipped }),
      layer({ "mine.yaml": changeOf("big", stated) }),
    ]);
    if (!complete.ok) throw new Error("the files have faults");
    expect(explainChanges(complete, Date.parse("2026-08-01"))[0]?.standardOnly).toEqual([]);
  });
});

describe("faults of factors:", () => {
  const inPrice = (text: string) => ({ "shipped.yaml": shipped.replace(factors, text) });
  it.each<[what: string, files: Readonly<Record<string, string>>[], messages: string[]]>([
    [
      "an unknown term",
      [inPrice('{ sped: { fast: "2" } }')],
      ['shipped.yaml:15:20: unknown field "sped"; did you mean "speed"?'],
    ],
    [
      "an unknown value",
      [inPrice('{ inference_geo: { eu: "2" } }')],
      ['shipped.yaml:15:37: unknown field "eu"; valid names are us'],
    ],
    [
      "a factor of 0",
      [inPrice('{ speed: { fast: "0" } }')],
      [expect.stringMatching(/^shipped.yaml:15:\d+: .*a factor above 0/) as unknown as string],
    ],
    [
      "factors without output",
      [inPrice('{ speed: { fast: { input: "2" } } }')],
      [
        expect.stringMatching(
          /^shipped.yaml:15:\d+: .*a block of factors by class with input and output$/,
        ) as unknown as string,
      ],
    ],
    [
      "factors of a price per request",
      [
        {
          "shipped.yaml": shipped.replace(
            'per_request: { official: "0.04" }',
            `per_request: { official: "0.04" }, factors: { inference_geo: { us: "2" } }`,
          ),
        },
      ],
      ['shipped.yaml:25:87: has no meaning next to per_request; leave "factors" out'],
    ],
    [
      "a change of factors of a price per request",
      [{ "shipped.yaml": shipped }, { "mine.yaml": changeOf("flat", `${dated}, factors: { speed: { fast: "2" } }`) }],
      ['mine.yaml:1:73: "flat" has a price per request; write per_request'],
    ],
    [
      "factors of a group",
      [{ "shipped.yaml": shipped }, { "mine.yaml": 'groups: { half: { factors: { speed: { fast: "2" } } } }\n' }],
      [
        expect.stringContaining(
          "write it in a change of a model, or of all that a pattern matches",
        ) as unknown as string,
      ],
    ],
    [
      "a factor that two changes state from the same day",
      [
        { "shipped.yaml": shipped },
        {
          "a.yaml": changeOf("big", `${dated}, factors: { speed: { fast: "2" } }`),
          "b.yaml": changeOf("big", `${dated}, factors: { speed: { fast: { input: "2", output: "2" } } }`),
        },
      ],
      [
        'b.yaml:1:92: factors.speed.fast of "big" is already changed from the same day in a.yaml, line 1; keep one of them',
      ],
    ],
    [
      "factors without a day",
      [{ "shipped.yaml": shipped }, { "mine.yaml": changeOf("big", 'source: "x", factors: { speed: { fast: "2" } }') }],
      [expect.stringContaining('"from" is missing') as unknown as string],
    ],
  ])("%s", (_, files, messages) => {
    expect(faults(...files)).toEqual(messages);
  });
});

it("a price with factors is the same after it is stored, and one without keeps its text", () => {
  const [big, plain] = [priceOf("big"), priceOf("plain")];
  expect(parseCanonicalPrice(canonicalPrice(big))).toEqual(big);
  expect(canonicalPrice(plain)).not.toContain("factors");
  expect(plain).not.toHaveProperty("serviceTiers");
});

describe("the shipped prices", () => {
  const day = Date.parse("2026-11-29");
  const catalogues = new Map<string, LoadedCatalogue>();
  beforeAll(async () => {
    const official = new URL("presets/official.yaml", pricing);
    catalogues.set("piapi", expectCatalogue(await loadCatalogue({ shipped: pricing })));
    catalogues.set("official", expectCatalogue(await loadCatalogue({ shipped: pricing, preset: official })));
  });

  it("have factors for every Claude model, and for no other", () => {
    const all = catalogues.get("piapi")?.list(day) ?? [];
    const having = all.filter(({ price }) => price?.version.factors !== undefined).map(({ id }) => id);
    expect(having).toEqual(all.filter(({ provider }) => provider === "anthropic").map(({ id }) => id));
    expect(having.length).toBeGreaterThan(20);
  });

  it.each<[preset: string, model: string, variant: string | null, rates: string]>([
    ["official", "claude-opus-5-5", null, "4.00 0.20 5.00 8.00 20.00 20.00"],
    ["official", "claude-opus-5-5", "fast", "8.00 0.20 10.00 16.00 40.00 40.00"],
    ["official", "claude-opus-5-5", "us", "4.40 0.22 5.50 8.80 22.00 22.00"],
    ["official", "claude-opus-5-5", "fast+us", "8.80 0.22 11.00 17.60 44.00 44.00"],
    ["official", "claude-opus-5-5", "batch+us", "2.20 0.11 2.75 4.40 11.00 11.00"],
    ["piapi", "claude-opus-5-5", "fast", "8.00 8.00 10.00 16.00 40.00 40.00"],
    ["piapi", "claude-sonnet-4-6", "us", "2.475 2.475 3.09375 4.95 12.375 12.375"],
    ["official", "claude-opus-4-7", "fast", "30.00 3.00 37.50 60.00 150.00 150.00"],
  ])("in the preset %s charge %s, %s: %s", (preset, model, variant, rates) => {
    const price = catalogues.get(preset)?.find(model, day)?.price;
    expect(price && ratesOf(price.version, variant)).toBe(rates);
  });

  it.each(["piapi", "official"])("multiply without rounding in the preset %s", (preset) => {
    const exact = (rate: bigint, tenths: bigint) => (rate * tenths) % 10n;
    for (const { id, price } of catalogues.get(preset)?.list(day) ?? []) {
      if (price?.version.factors === undefined) continue;
      for (const side of ["charged", "list"] as const) {
        const remainders = (variant: string) =>
          inServiceTier(price.version, variant).tiers.flatMap((tier) =>
            tokenClasses.map((name: TokenClass) => exact(tier[side][name], 11n)),
          );
        expect(new Set([...remainders("batch"), ...remainders("fast")]), id).toEqual(new Set([0n]));
      }
    }
  });
});
