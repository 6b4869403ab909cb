import { describe, expect, it } from "vitest";
import {
  add,
  formatRate,
  formatUsd,
  formatUsdOrNull,
  larger,
  noMoney,
  parseRate,
  parseSignedUsd,
  parseUsd,
  picoUsdMax,
  priceOf,
  smaller,
  stepsOf,
  subtract,
  sum,
  usd,
  usdNumber,
  type PicoUsd,
  type PicoUsdPerToken,
} from "../../../src/core/money.ts";

const pico = (amount: number | bigint) => BigInt(amount) as PicoUsd;

describe("an amount with a sign", () => {
  it.each<[string, bigint | undefined]>([
    ["2", usd("2")],
    ["+2", usd("2")],
    ["-2", -usd("2")],
    ["-0.05", -usd("0.05")],
    ["0", 0n],
    ["-0", 0n],
    ["", undefined],
    ["-", undefined],
    ["--2", undefined],
    ["+-2", undefined],
    ["2-", undefined],
    ["- 2", undefined],
    ["-9223372.036854775807", -picoUsdMax],
    ["-9223372.036854775808", undefined],
  ])("%j is parsed as %s", (text, amount) => {
    expect(parseSignedUsd(text)).toBe(amount);
  });
});

describe("an amount", () => {
  it("has at most twelve digits before and after its decimal point", () => {
    expect(parseUsd("123456789012.0")).toBeUndefined();
    expect(parseRate("123456789012")).toBe(123_456_789_012_000_000n);
    expect(parseRate("1234567890123")).toBeUndefined();
    expect(parseRate("1.000000000000")).toBe(1_000_000n);
    expect(parseRate("1.0000000000000")).toBeUndefined();
    expect(parseUsd("1.10")).toBe(1_100_000_000_000n);
    expect(parseUsd("0100")).toBe(usd("100"));
    expect(() => usd("a lot")).toThrow(new RangeError("not an amount of USD: a lot"));
  });

  it.each<[bigint, string, string]>([
    [0n, "0.00", "0.00"],
    [1n, "0.000000000001", "0.000001"],
    [-1n, "-0.000000000001", "-0.000001"],
    [1_230_000n, "0.00000123", "1.23"],
    [10n ** 12n, "1.00", "1000000.00"],
    [10n ** 11n, "0.10", "100000.00"],
    [-(10n ** 12n) - 1n, "-1.000000000001", "-1000000.000001"],
    [1_200_000_000_000n, "1.20", "1200000.00"],
  ])("%i is formatted exactly in USD and as a rate", (value, amount, rate) => {
    expect([formatUsd(value as PicoUsd), formatRate(value as PicoUsdPerToken)]).toEqual([amount, rate]);
  });

  it("is added, subtracted and compared", () => {
    const [a, b] = [pico(7), pico(3)];
    expect([
      add(a, b),
      subtract(a, b),
      subtract(b, a),
      larger(a, b),
      larger(b, a),
      smaller(a, b),
      smaller(b, a),
      larger(a, a),
      smaller(b, b),
    ]).toEqual([10n, 4n, -4n, 7n, 7n, 3n, 3n, 7n, 3n]);
    expect([sum([]), sum([a, b, a]), noMoney]).toEqual([0n, 17n, 0n]);
    expect(usdNumber(usd("1.5"))).toBe(1.5);
  });

  it.each<[part: number, whole: number, steps: number, expected: number]>([
    [0, 10, 5, 0],
    [1, 10, 5, 0],
    [2, 10, 5, 1],
    [9, 10, 5, 4],
    [10, 10, 5, 5],
    [11, 10, 5, 5],
    [-1, 10, 5, 0],
    [-10, 10, 5, 0],
    [5, 0, 5, 0],
    [5, -1, 5, 0],
    [1, 10, 100, 10],
    [1, 1, 5, 5],
  ])("of %i out of %i, on a bar of %i steps, fills %i", (part, whole, steps, expected) => {
    expect(stepsOf(pico(part), pico(whole), steps)).toBe(expected);
  });

  it("of tokens at a rate fits 64 bits or throws", () => {
    expect(priceOf(0, 5n as PicoUsdPerToken)).toBe(0n);
    expect(priceOf(3, 5n as PicoUsdPerToken)).toBe(15n);
    expect(priceOf(1, picoUsdMax as bigint as PicoUsdPerToken)).toBe(picoUsdMax);
    expect(() => priceOf(1, (picoUsdMax + 1n) as PicoUsdPerToken)).toThrow(new RangeError("amount beyond 64 bits"));
    expect(picoUsdMax).toBe(9_223_372_036_854_775_807n);
  });
});

it("an unknown amount is formatted as null", () => {
  expect([formatUsdOrNull(null), formatUsdOrNull(noMoney), formatUsdOrNull(usd("2.5"))]).toEqual([
    null,
    "0.00",
    "2.50",
  ]);
});
