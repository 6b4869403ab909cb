import { describe, expect, it } from "vitest";
import {
  anyServiceTier,
  factorNames,
  factorValueOf,
  isRateTerm,
  knownVariant,
  serviceTierNames,
  serviceTierOf,
  standardRates,
  variantName,
  type FactorTerm,
  type RateTerms,
} from "../../../src/core/rate-variants.ts";

describe("a stated service tier", () => {
  it.each<[unknown, string | null]>([
    [undefined, null],
    [null, null],
    ["", null],
    ["default", null],
    ["standard", null],
    ["on_demand", null],
    ["standard_only", null],
    ["Default", null],
    ["auto", anyServiceTier],
    ["Priority", "priority"],
    ["fast", "priority"],
    ["Fast", "priority"],
    ["ultrafast", "ultrafast"],
    ["flex", "flex"],
    // The names of factors are no service tiers.
    ["us", "unknown"],
    ["a", "a"],
    ["a_b.c-9", "a_b.c-9"],
    ["a".repeat(64), "a".repeat(64)],
    ["a".repeat(65), "unknown"],
    ["9a", "unknown"],
    ["_a", "unknown"],
    ["a b", "unknown"],
    ["a\n", "unknown"],
    [" a", "unknown"],
    [7, "unknown"],
    [{}, "unknown"],
    [false, "unknown"],
  ])("%j is read as %j", (stated, name) => {
    expect(serviceTierOf(stated)).toBe(name);
  });
});

describe("a stated speed or region", () => {
  it.each<[FactorTerm, unknown, string | null]>([
    ["speed", undefined, null],
    ["speed", null, null],
    ["speed", "standard", null],
    ["speed", "Standard", null],
    ["speed", "fast", "fast"],
    ["speed", "FAST", "fast"],
    ["speed", "", "speed:unknown"],
    ["speed", "us", "speed:us"],
    ["speed", "global", "speed:global"],
    ["speed", "priority", "speed:priority"],
    ["speed", "turbo", "speed:turbo"],
    ["speed", 2, "speed:unknown"],
    ["speed", "fast+us", "speed:unknown"],
    ["inference_geo", "global", null],
    ["inference_geo", "not_available", null],
    ["inference_geo", "us", "us"],
    ["inference_geo", "US", "us"],
    ["inference_geo", "fast", "inference_geo:fast"],
    ["inference_geo", "standard", "inference_geo:standard"],
    ["inference_geo", "eu", "inference_geo:eu"],
    ["inference_geo", ["us"], "inference_geo:unknown"],
  ])("%s %j is read as %j", (term, stated, name) => {
    expect(factorValueOf(term, stated)).toBe(name);
  });
});

describe("the name of a variant", () => {
  it.each<[Partial<RateTerms>, string | null]>([
    [{}, null],
    [{ serviceTier: "batch" }, "batch"],
    [{ speed: "fast" }, "fast"],
    [{ inferenceGeo: "us" }, "us"],
    [{ inferenceGeo: "us", speed: "fast" }, "fast+us"],
    [{ inferenceGeo: "us", serviceTier: "batch" }, "batch+us"],
    [{ inferenceGeo: "us", speed: "fast", serviceTier: "priority" }, "priority+fast+us"],
  ])("of %j is %j", (terms, name) => {
    expect(variantName({ ...standardRates, ...terms })).toBe(name);
  });

  it("differs for all terms that a client can state", () => {
    const values = ["standard", "global", "fast", "us", "priority", "batch", "turbo", "speed:turbo", "a+b", 7];
    const names = new Map<string | null, string>();
    for (const tier of values)
      for (const speed of values)
        for (const geo of values) {
          const terms = {
            serviceTier: serviceTierOf(tier),
            speed: factorValueOf("speed", speed),
            inferenceGeo: factorValueOf("inference_geo", geo),
          };
          const name = variantName(terms);
          expect(names.get(name) ?? JSON.stringify(terms)).toBe(JSON.stringify(terms));
          names.set(name, JSON.stringify(terms));
        }
  });

  it("has no part with two meanings", () => {
    const parts = [...serviceTierNames, ...Object.values(factorNames).flat()];
    expect(new Set(parts).size).toBe(parts.length);
  });
});

it("a name with unknown parts stands for the known ones", () => {
  const known = new Set(["batch", "us", "batch+us"]);
  const names = ["batch", "batch+us", "priority+us", "batch+fast", "speed:turbo", "batch+speed:turbo+us"];
  expect(names.map((name) => knownVariant(name, (each) => known.has(each)))).toEqual([
    "batch",
    "batch+us",
    "us",
    "batch",
    null,
    "batch+us",
  ]);
});

it("the service tier, the speed and the region select rates", () => {
  expect(["service_tier", "speed", "inference_geo", "tools", undefined].map(isRateTerm)).toEqual([
    true,
    true,
    true,
    false,
    false,
  ]);
});
