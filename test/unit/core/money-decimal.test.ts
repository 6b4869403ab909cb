import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compareDecimals, divideUp, plainDecimal, scaledDecimal } from "../../../src/core/money.ts";

describe("a plain decimal", () => {
  it.each<[string, string | undefined]>([
    ["0", "0"],
    ["00", "0"],
    ["7", "7"],
    ["007", "7"],
    ["10", "10"],
    ["100.0", "100"],
    ["0.5", "0.5"],
    ["0.50", "0.5"],
    ["12.034", "12.034"],
    ["1e0", "1"],
    ["1e2", "100"],
    ["1E2", "100"],
    ["1e+2", "100"],
    ["1.5e1", "15"],
    ["1.25e1", "12.5"],
    ["1e-1", "0.1"],
    ["1e-3", "0.001"],
    ["12e-1", "1.2"],
    ["12e-2", "0.12"],
    ["1.2e-2", "0.012"],
    [" 1 ", "1"],
    ["0e5", "0"],
    ["0.0e-5", "0"],
    ["", undefined],
    ["-1", undefined],
    ["+1", undefined],
    [".5", undefined],
    ["5.", undefined],
    ["1e", undefined],
    ["e1", undefined],
    ["1e1000", undefined],
    ["1 2", undefined],
    ["x1", undefined],
    ["1x", undefined],
    ["9".repeat(40), "9".repeat(40)],
    ["9".repeat(41), undefined],
    [`0.${"1".repeat(38)}`, `0.${"1".repeat(38)}`],
    [`0.${"1".repeat(39)}`, undefined],
    ["1e39", `1${"0".repeat(39)}`],
    ["1e40", undefined],
    ["1e-38", `0.${"0".repeat(37)}1`],
    ["1e-41", undefined],
    ["0e39", "0"],
    ["0e40", undefined],
    ["0e-41", "0"],
    ["0e-42", undefined],
    [`${"0".repeat(39)}1`, "1"],
    [`${"0".repeat(40)}1`, undefined],
    [`1.${"0".repeat(78)}`, "1"],
    [`1.${"0".repeat(79)}`, undefined],
  ])("of %j is %j", (text, plain) => {
    expect(plainDecimal(text)).toBe(plain);
    if (plain === undefined) expect(() => scaledDecimal(text)).toThrow(new RangeError(`not a plain decimal: ${text}`));
  });

  it("is represented as its digits over a power of ten", () => {
    expect(scaledDecimal("12.50e1")).toEqual({ digits: 125n, scale: 1n });
    expect(scaledDecimal("0.012")).toEqual({ digits: 12n, scale: 1000n });
    expect(scaledDecimal("7")).toEqual({ digits: 7n, scale: 1n });
  });

  it("has the value of the number with an exponent", () => {
    fc.assert(
      fc.property(fc.nat(99_999), fc.integer({ min: -8, max: 8 }), (digits, exponent) => {
        expect(Number(plainDecimal(`${digits}e${exponent}`))).toBe(Number(`${digits}e${exponent}`));
      }),
    );
  });
});

it.each([
  [0n, 3n, 0n],
  [1n, 3n, 1n],
  [3n, 3n, 1n],
  [4n, 3n, 2n],
  [6n, 3n, 2n],
  [5n, 1n, 5n],
])("%i divided by %i, rounded up, is %i", (dividend, divisor, expected) => {
  expect(divideUp(dividend, divisor)).toBe(expected);
});

it.each([
  ["1", "2", -1],
  ["9", "10", -1],
  ["0", "0.1", -1],
  ["0.09", "0.1", -1],
  ["1.05", "1.5", -1],
  ["2", "2.0000000000000000000001", -1],
  ["9007199254740992", "9007199254740993", -1],
  ["0", "0", 0],
  ["1", "1.00", 0],
  ["0.5", "5e-1", 0],
  ["1e2", "100", 0],
])("%s compared with %s is %i, and the opposite in reverse", (one, other, expected) => {
  expect(compareDecimals(one, other)).toBe(expected);
  expect(compareDecimals(other, one)).toBe(expected === 0 ? 0 : -expected);
});
