import { describe, expect, it } from "vitest";
import {
  completionClasses,
  completionTotal,
  noTokens,
  parentClass,
  promptClasses,
  promptTotal,
  scaleTokens,
  statedClass,
  tokenClasses,
  unchanged,
  units,
  type Permille,
  type TokenClass,
  type TokenCounts,
} from "../../../src/core/usage.ts";

const powers = Object.fromEntries(tokenClasses.map((name, index) => [name, 2 ** index])) as TokenCounts;
const totalOf = (names: readonly TokenClass[]) => names.reduce((total, name) => total + powers[name], 0);

describe("tokens", () => {
  it("have their classes in the order of stored price versions", () => {
    expect(promptClasses).toEqual([
      "input",
      "cached_input",
      "cache_write",
      "cache_write_1h",
      "audio_input",
      "image_input",
    ]);
    expect(completionClasses).toEqual(["output", "reasoning", "audio_output", "image_output"]);
    expect(tokenClasses).toEqual([...promptClasses, ...completionClasses]);
    expect(units).toEqual(["token", "second", "character"]);
    expect(Object.entries(noTokens)).toEqual(tokenClasses.map((name) => [name, 0]));
  });

  it("add up by prompt and completion", () => {
    expect([promptTotal(powers), completionTotal(powers)]).toEqual([
      totalOf(promptClasses),
      totalOf(completionClasses),
    ]);
    expect([promptTotal(noTokens), completionTotal(noTokens)]).toEqual([0, 0]);
  });

  it.each<[TokenClass, TokenClass | null]>([
    ["input", null],
    ["cached_input", "input"],
    ["cache_write", "input"],
    ["cache_write_1h", "cache_write"],
    ["audio_input", "input"],
    ["image_input", "input"],
    ["output", null],
    ["reasoning", "output"],
    ["audio_output", "output"],
    ["image_output", "output"],
  ])("of the class %s are priced as %s if a list has no rate for them", (name, parent) => {
    expect(parentClass[name]).toBe(parent);
    expect(statedClass(name, { [name]: 1 })).toBe(name);
    expect(statedClass(name, parent === null ? {} : { [parent]: 1 })).toBe(parent ?? name);
  });

  it("take the rate of the nearest class that a list states", () => {
    expect(statedClass("cache_write_1h", { input: 1 })).toBe("input");
    expect(statedClass("cache_write_1h", {})).toBe("input");
    expect(statedClass("cache_write_1h", { cache_write: 0, input: 1 })).toBe("cache_write");
  });

  it.each([
    [0, 1000, 0],
    [1, 1000, 1],
    [1000, 1250, 1250],
    [1, 1001, 2],
    [3, 1500, 5],
    [2, 1500, 3],
    [1, 1, 1],
  ])("%i times %i thousandths are %i", (tokens, factor, expected) => {
    expect(scaleTokens(tokens, factor as Permille)).toBe(expected);
    expect(scaleTokens(tokens, unchanged)).toBe(tokens);
  });
});
