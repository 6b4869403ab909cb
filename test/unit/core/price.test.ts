import { describe, expect, it } from "vitest";
import { usd, type PicoUsd, type PicoUsdPerToken } from "../../../src/core/money.ts";
import {
  anyTaskType,
  canonicalPrice,
  ceilingPrice,
  firstTokenOf,
  inServiceTier,
  lacksHourRate,
  mayBeFree,
  parseCanonicalPrice,
  presets,
  tierFor,
  toolCallType,
  multiplyByPieces,
  type PriceVersion,
} from "../../../src/core/price.ts";
import { tokenClasses } from "../../../src/core/usage.ts";
import { price, rates, tier } from "../../support/example-rates.ts";

const pico = (amount: bigint) => amount as PicoUsd;
const fast: PriceVersion["tiers"] = [tier(0, rates({ input: "9", output: "9" }))];

describe("a price", () => {
  it("per request is multiplied by the pieces, but its minimum is not", () => {
    const flat = price({ perRequest: { charged: pico(5n), list: pico(7n) }, minimum: { tokens: 0, usd: usd("1") } });
    expect(multiplyByPieces(flat, 3)).toEqual({ ...flat, perRequest: { charged: 15n, list: 21n } });
    const counted = price();
    expect(multiplyByPieces(counted, 3)).toBe(counted);
  });

  it("uses the rates of a stated service tier, and its own for any other", () => {
    const tiered = price({ serviceTiers: { priority: fast } });
    expect(inServiceTier(tiered, "priority")).toEqual({ ...tiered, tiers: fast });
    for (const name of [null, "flex", "toString"]) expect(inServiceTier(tiered, name)).toBe(tiered);
    const plain = price();
    expect(inServiceTier(plain, "priority")).toBe(plain);
  });

  it.each<[input: bigint, write: bigint, hour: bigint, boolean]>([
    [10n, 12n, 12n, true],
    [10n, 12n, 11n, true],
    [10n, 12n, 13n, false],
    [10n, 10n, 10n, false],
    [10n, 9n, 9n, false],
    [10n, 11n, 0n, true],
  ])(
    "with rates of %i for input, %i for cache writes and %i for one-hour writes lacks a one-hour rate: %s",
    (input, write, hour, expected) => {
      const [cheap] = price().tiers;
      const charged = {
        ...cheap.charged,
        input: input as PicoUsdPerToken,
        cache_write: write as PicoUsdPerToken,
        cache_write_1h: hour as PicoUsdPerToken,
      };
      const plain = { ...cheap, charged: { ...cheap.charged, cache_write: cheap.charged.input } };
      expect(lacksHourRate(price({ tiers: [{ ...cheap, charged }] }))).toBe(expected);
      expect(lacksHourRate(price({ tiers: [plain, { ...cheap, charged }] }))).toBe(expected);
    },
  );

  it("uses the tier that a prompt reaches", () => {
    const tiers = [
      tier(0, rates({ input: "1", output: "1" })),
      tier(10, rates({ input: "2", output: "2" })),
      tier(20, rates({ input: "3", output: "3" })),
    ] as const;
    const tiered = price({ tiers });
    expect(
      [0, 9, 10, 19, 20, 1000].map((tokens) => tiers.indexOf(tierFor(tiered, tokens) as (typeof tiers)[0])),
    ).toEqual([0, 0, 1, 1, 2, 2]);
  });

  const free = [tier(0, rates({ input: "0", output: "9" }))] as const;
  const flat = (charged: bigint) => ({ charged: pico(charged), list: pico(7n) });
  const task = (charged: bigint) => ({ taskType: anyTaskType, per: "task", ...flat(charged) }) as const;
  const least = { tokens: 0, usd: pico(1n) };

  it.each<[what: string, mayBe: boolean, PriceVersion]>([
    ["rates", false, price()],
    ["free input", true, price({ tiers: free })],
    ["free input in a higher tier", true, price({ tiers: [...price().tiers, { ...free[0], fromPromptTokens: 100 }] })],
    ["free input in a service tier", true, price({ serviceTiers: { priority: fast, flex: free } })],
    ["a service tier", false, price({ serviceTiers: { priority: fast } })],
    ["free input and a minimum in USD", false, price({ tiers: free, minimum: least })],
    ["free input and a minimum of tokens", true, price({ tiers: free, minimum: { tokens: 9, usd: pico(0n) } })],
    ["a price per request", false, price({ tiers: free, perRequest: flat(1n) })],
    ["free requests", true, price({ perRequest: flat(0n) })],
    ["free requests and a minimum in USD", false, price({ perRequest: flat(0n), minimum: least })],
    ["a price per task", false, price({ tiers: free, task: task(1n) })],
    ["free tasks and a minimum in USD, which does not apply", true, price({ minimum: least, task: task(0n) })],
  ])("with %s may be free: %j", (_, expected, version) => {
    expect(mayBeFree(version)).toBe(expected);
  });

  it.each<[PriceVersion["tierMode"], fromPromptTokens: number, firstPosition: number]>([
    ["marginal_from", 200, 199],
    ["marginal_from", 1, 0],
    ["marginal_from", 0, 0],
    ["marginal", 200, 200],
    ["marginal", 0, 0],
  ])("in the mode %s, a tier from token %i begins at the position %i", (tierMode, from, position) => {
    expect(firstTokenOf(price({ tierMode }), tier(from, rates({ input: "1", output: "1" })))).toBe(position);
  });

  it.each([
    ["web_search_call", true],
    ["x2_call", true],
    [`${"x".repeat(59)}_call`, true],
    [`${"x".repeat(60)}_call`, false],
    ["2x_call", false],
    ["Web_call", false],
    ["a-b_call", false],
    [" x_call", false],
    ["x_calls", false],
    ["_call", false],
  ])("the text %j names a hosted tool: %j", (text, expected) => {
    expect(toolCallType.test(text)).toBe(expected);
  });

  it("has fixed names for presets", () => {
    expect(presets).toEqual(["piapi", "official"]);
  });

  it("has fixed names for the default ceiling, any task type and the service tiers", () => {
    expect([ceilingPrice, anyTaskType]).toEqual(["default", "*"]);
  });
});

describe("the stored text of a price", () => {
  const full = price({
    perRequest: { charged: pico(5n), list: pico(7n) },
    minimum: { tokens: 3, usd: pico(4n) },
    serviceTiers: { priority: fast, batch: fast },
    fees: {
      search: { charged: pico(1n), list: pico(2n), inputTokens: 3 },
      file: { charged: pico(4n), list: pico(5n), inputTokens: 6 },
    },
    task: { taskType: "video", per: "second", charged: pico(8n), list: pico(9n) },
  });
  const rate = (text: string) => BigInt(Number(text) * 1e6).toString();

  it("has every field in a fixed order, with amounts as decimal strings", () => {
    const nine = tokenClasses.map(() => rate("9"));
    expect(canonicalPrice({ ...full, tiers: fast })).toBe(
      JSON.stringify({
        model: "example",
        group: "half",
        fraction: "0.50",
        from: "2026-01-01",
        until: null,
        source: "an example",
        tierMode: "whole_request",
        tiers: [{ fromPromptTokens: 0, charged: nine, list: nine }],
        perRequest: { charged: "5", list: "7" },
        minimum: { tokens: 3, usd: "4" },
        classes: tokenClasses,
        serviceTiers: [
          ["batch", [{ fromPromptTokens: 0, charged: nine, list: nine }]],
          ["priority", [{ fromPromptTokens: 0, charged: nine, list: nine }]],
        ],
        fees: [
          ["file", { charged: "4", list: "5", inputTokens: 6 }],
          ["search", { charged: "1", list: "2", inputTokens: 3 }],
        ],
        task: { taskType: "video", per: "second", charged: "8", list: "9" },
      }),
    );
  });

  it("omits absent fields, so the id of an older price does not change", () => {
    expect(Object.keys(JSON.parse(canonicalPrice(price())))).toEqual([
      "model",
      "group",
      "fraction",
      "from",
      "until",
      "source",
      "tierMode",
      "tiers",
      "perRequest",
      "minimum",
      "classes",
    ]);
  });

  it("is parsed to the same price", () => {
    for (const each of [
      full,
      price(),
      price({ tierMode: "marginal", until: "2026-06-01" }),
      price({ tierMode: "marginal_from" }),
    ])
      expect(parseCanonicalPrice(canonicalPrice(each))).toStrictEqual(each);
  });

  it("gives a class of a later release the rate of its nearest known parent class", () => {
    const stored = JSON.parse(
      canonicalPrice(price({ tiers: [tier(0, rates({ input: "1", cache_write: "2", output: "3" }))] })),
    );
    const without = (...names: readonly string[]) => {
      const kept = tokenClasses.filter((name) => !names.includes(name));
      const of = (values: string[]) => kept.map((name) => values[tokenClasses.indexOf(name)]);
      const tiers = stored.tiers.map((each: { charged: string[]; list: string[] }) => ({
        ...each,
        charged: of(each.charged),
        list: of(each.list),
      }));
      return parseCanonicalPrice(JSON.stringify({ ...stored, tiers, classes: kept })).tiers[0].charged;
    };
    expect(without("cache_write_1h").cache_write_1h).toBe(2_000_000n);
    expect(without("cache_write_1h", "cache_write")).toMatchObject({
      cache_write_1h: 1_000_000n,
      cache_write: 1_000_000n,
    });
    expect(without("reasoning", "image_output")).toMatchObject({ reasoning: 3_000_000n, image_output: 3_000_000n });
    expect(without("input").input).toBe(0n);
  });
});
