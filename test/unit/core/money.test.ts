import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  formatRate,
  formatUsd,
  parseRate,
  parseUsd,
  picoUsdMax,
  priceOf,
  subtract,
  sum,
  usd,
  usdNumber,
  type PicoUsd,
  type PicoUsdPerToken,
} from "../../../src/core/money.ts";

describe("money", () => {
  it.each([
    ["5", 5_000_000_000_000n],
    ["0.00125", 1_250_000_000n],
    ["0.000000000001", 1n],
    ["2.500", 2_500_000_000_000n],
    ["1.0000000000000", undefined],
    ["9223372.036854775807", picoUsdMax],
    ["9223372.036854775808", undefined],
  ])("reads %s USD as %s", (text, expected) => {
    expect(parseUsd(text)).toBe(expected);
  });

  it.each(["", "-1", "+1", "1e3", ".5", "1.", "1,5", " 1", "0x10", "١", "NaN", "1.0000000000001"])(
    "refuses %j",
    (text) => {
      expect(parseUsd(text)).toBeUndefined();
      expect(parseRate(text)).toBeUndefined();
      expect(() => usd(text)).toThrow(RangeError);
    },
  );

  it.each([
    ["0.075", 75_000n],
    ["0.15", 150_000n],
    ["18.75", 18_750_000n],
    ["0.000001", 1n],
    ["0.0000010", 1n],
    ["0.0000001", undefined],
  ])("reads a rate of %s per 1M tokens as %s", (text, expected) => {
    expect(parseRate(text)).toBe(expected);
  });

  it.each([
    [usd("22.5"), "22.50"],
    [usd("0.00125"), "0.00125"],
    [usd("0"), "0.00"],
    [subtract(usd("0"), usd("1")), "-1.00"],
    [subtract(usd("0"), usd("0.000000000001")), "-0.000000000001"],
  ])("formats %s", (amount, expected) => {
    expect(formatUsd(amount)).toBe(expected);
  });

  it("parses every amount and every rate that it formats", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: picoUsdMax }), fc.bigInt({ min: 0n, max: 10n ** 17n }), (amount, rate) => {
        expect(parseUsd(formatUsd(amount as PicoUsd))).toBe(amount);
        expect(parseRate(formatRate(rate as PicoUsdPerToken))).toBe(rate);
      }),
    );
  });

  it("multiplies without rounding and throws above 64 bits", () => {
    expect(priceOf(3, 150_001n as PicoUsdPerToken)).toBe(450_003n);
    expect(priceOf(1, picoUsdMax as bigint as PicoUsdPerToken)).toBe(picoUsdMax);
    expect(() => priceOf(2, picoUsdMax as bigint as PicoUsdPerToken)).toThrow(RangeError);
  });

  it("sums 0.1 and 0.2 exactly", () => {
    expect(formatUsd(sum([usd("0.1"), usd("0.2")]))).toBe("0.30");
    expect(usdNumber(usd("0.3"))).toBe(0.3);
  });
});
