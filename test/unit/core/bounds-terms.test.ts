import { describe, expect, it } from "vitest";
import type { PicoUsd } from "../../../src/core/money.ts";
import type { PriceVersion } from "../../../src/core/price.ts";
import { standardRates, type RateTerms } from "../../../src/core/rate-variants.ts";
import {
  hasVariant,
  plainTerms,
  promptWithCalls,
  toolBoundOf,
  unboundedTerms,
  variantsToHold,
  type HostedTools,
  type ToolBound,
} from "../../../src/core/bounds.ts";
import { price, rates, tier } from "../../support/example-rates.ts";

const tiers = (input: string): PriceVersion["tiers"] => [tier(0, rates({ input, output: input }))];
const serviceTiers = { priority: tiers("9"), flex: tiers("1"), batch: tiers("2") };
const plain = price();
const tiered = price({ serviceTiers });

const factored = price({
  serviceTiers: {
    ...serviceTiers,
    fast: tiers("10"),
    us: tiers("6"),
    "fast+us": tiers("11"),
    "priority+fast": tiers("18"),
    "priority+us": tiers("10"),
    "priority+fast+us": tiers("20"),
  },
});

describe("the variants by which a request may be billed", () => {
  it.each<[Partial<RateTerms>, readonly string[]]>([
    [{}, []],
    [{ serviceTier: "priority" }, ["priority"]],
    [{ serviceTier: "turbo" }, []],
    [{ serviceTier: "toString" }, []],
    [{ serviceTier: "auto" }, ["priority", "flex", "batch"]],
    [{ speed: "fast" }, ["fast"]],
    [{ speed: "speed:turbo", inferenceGeo: "us" }, ["us"]],
    [{ speed: "fast", inferenceGeo: "us" }, ["us", "fast", "fast+us"]],
    [
      { serviceTier: "priority", speed: "fast", inferenceGeo: "us" },
      ["us", "fast", "fast+us", "priority", "priority+us", "priority+fast", "priority+fast+us"],
    ],
    [{ serviceTier: "auto", speed: "fast" }, ["fast", "priority", "priority+fast", "flex", "batch"]],
    [{ serviceTier: "turbo", inferenceGeo: "us" }, ["us"]],
  ])("for %j are the standard rates and %j", (stated, names) => {
    const [standard, ...others] = variantsToHold(factored, { ...standardRates, ...stated });
    expect(standard).toBe(factored);
    expect(others.map((each) => each.tiers)).toEqual(names.map((name) => factored.serviceTiers?.[name as "flex"]));
    expect(variantsToHold(plain, { ...standardRates, ...stated })).toEqual([plain]);
  });

  it.each<[Partial<RateTerms>, PriceVersion, readonly string[]]>([
    [{}, plain, []],
    [{}, tiered, []],
    [{ serviceTier: "auto" }, plain, []],
    [{ serviceTier: "flex" }, plain, []],
    [{ serviceTier: "priority" }, plain, ["service_tier"]],
    [{ serviceTier: "priority" }, tiered, []],
    [{ serviceTier: "turbo" }, tiered, ["service_tier"]],
    [{ serviceTier: "toString" }, tiered, ["service_tier"]],
    [{ speed: "fast" }, tiered, ["speed"]],
    [{ speed: "fast" }, factored, []],
    [{ speed: "speed:turbo" }, factored, ["speed"]],
    [{ inferenceGeo: "us" }, tiered, ["inference_geo"]],
    [{ inferenceGeo: "us" }, factored, []],
    [{ serviceTier: "turbo", speed: "fast", inferenceGeo: "us" }, plain, ["service_tier", "speed", "inference_geo"]],
    [{ serviceTier: "flex", speed: "fast", inferenceGeo: "inference_geo:eu" }, factored, ["inference_geo"]],
  ])("for %j are unbounded only if one may cost more than the known rates (case %#)", (stated, version, expected) => {
    expect(unboundedTerms(version, { ...standardRates, ...stated })).toEqual(expected);
  });

  it("have known rates only where the price states them", () => {
    expect([null, "flex", "turbo", "auto"].map((name) => hasVariant(tiered, name))).toEqual([true, true, false, false]);
    expect([null, "flex"].map((name) => hasVariant(plain, name))).toEqual([true, false]);
  });
});

describe("the bound of hosted tools", () => {
  const pico = (amount: bigint) => amount as PicoUsd;
  const fees = {
    search: { charged: pico(5n), list: pico(6n), inputTokens: 100 },
    file: { charged: pico(7n), list: pico(8n), inputTokens: 40 },
  };
  const priced = { price: price({ fees }), obeysMaxToolCalls: true };
  const tools: HostedTools = {
    calls: ["search", "file"],
    fields: ["tools", "tool_choice"],
    areShown: true,
    callsMax: 3,
  };
  const bound: ToolBound = { calls: 3, isStated: true, feePerCall: pico(7n), inputTokensPerCall: 100 };

  it.each<[string, Partial<HostedTools>, number, ToolBound | readonly string[]]>([
    ["the maximum that the request states", {}, 4, bound],
    ["zero if the request allows no calls", { callsMax: 0 }, 4, { ...bound, calls: 0 }],
    ["the stated maximum up to 1000 calls", { callsMax: 1000 }, 4, { ...bound, calls: 1000 }],
    ["missing above 1000 calls", { callsMax: 1001 }, 4, ["max_tool_calls"]],
    ["missing for a malformed maximum", { callsMax: "malformed" }, 4, ["max_tool_calls"]],
    [
      "the default number of calls if the request states none",
      { callsMax: null },
      4,
      { ...bound, calls: 4, isStated: false },
    ],
    ["missing if the request states none and the default is zero", { callsMax: null }, 0, tools.fields],
    ["the stated maximum even if the default is zero", {}, 0, bound],
    ["missing if the request cannot state a maximum", { callsMax: undefined }, 4, tools.fields],
    ["the tokens of its only tool", { calls: ["file"], fields: ["tools"] }, 4, { ...bound, inputTokensPerCall: 40 }],
    ["missing for a tool without a fee", { calls: ["search", "other"] }, 4, ["tool_choice"]],
    ["missing for each tool without a fee", { calls: ["other", "another"] }, 4, tools.fields],
    [
      "missing for a tool named like a property of every object",
      { calls: ["toString"], fields: ["tools"] },
      4,
      ["tools"],
    ],
    ["the largest fee and the most tokens of its tools, in any order", { calls: ["file", "search"] }, 4, bound],
    ["free without tools", { calls: [], fields: [] }, 4, { ...bound, feePerCall: pico(0n), inputTokensPerCall: 0 }],
  ])("is %s", (_, changes, unstated, expected) => {
    expect(toolBoundOf({ ...tools, ...changes }, priced, unstated)).toEqual(expected);
  });

  it("is missing for a model that ignores max_tool_calls, and for a price without fees", () => {
    expect(toolBoundOf(tools, { ...priced, obeysMaxToolCalls: false }, 4)).toBe(tools.fields);
    expect(toolBoundOf(tools, { ...priced, price: plain }, 4)).toEqual(tools.fields);
  });

  it.each([
    [0, 100],
    [1, 100 * 2 + 10],
    [2, 100 * 3 + 10 + 20],
    [3, 100 * 4 + 10 + 20 + 30],
  ])("counts the prompt again after each of %i calls: %i tokens", (calls, expected) => {
    expect(promptWithCalls(100, { ...bound, calls, inputTokensPerCall: 10 }, 1000)).toBe(expected);
  });

  it("counts at most the whole context after each call", () => {
    const open = { ...bound, calls: 2, inputTokensPerCall: Infinity };
    expect(promptWithCalls(100, open, 1000)).toBe(3000);
    expect(promptWithCalls(100, { ...open, calls: 0 }, 1000)).toBe(100);
  });

  it("is known for tools that limit themselves, with or without a fee, whatever the model obeys", () => {
    const limited = { ...tools, calls: ["search", "fetch"], callsMax: 3, areLimited: true };
    const model = { ...priced, obeysMaxToolCalls: false };
    expect(toolBoundOf(limited, model, 0)).toEqual(["tool_choice"]);
    expect(toolBoundOf({ ...limited, freeCalls: { fetch: 70_000 } }, model, 0)).toMatchObject({
      calls: 3,
      inputTokensPerCall: 70_000,
    });
    expect(toolBoundOf({ ...limited, freeCalls: { fetch: 1 }, callsMax: undefined }, model, 0)).toBe(tools.fields);
  });

  it("is absent from plain terms", () => {
    expect(plainTerms).toEqual({ serviceTier: null, speed: null, inferenceGeo: null, hostedTools: null });
  });
});
