import { expect, it } from "vitest";
import { csvOf, difference, exactMoney, money, percent } from "../../../src/dashboard/format.ts";

it("CSV cells are quoted, and formulas in them have no effect in a spreadsheet", () => {
  expect(
    csvOf([
      ["day", 'a "b", c'],
      ["2026-11-09", "=1+1"],
      ["-0.25", "－1+1"],
    ]),
  ).toBe('"day","a ""b"", c"\r\n"2026-11-09","\'=1+1"\r\n"-0.25","\'－1+1"\r\n');
});

it("negative figures have a minus sign", () => {
  expect([money("-1.5"), money("-0.0012"), exactMoney("-0.000001"), percent(-0.77)]).toEqual([
    "−$1.50",
    "−$0.0012",
    "−$0.000001",
    "−77%",
  ]);
});

it("subtracts amounts exactly, also negative ones", () => {
  expect([
    difference("5.00", "0.25"),
    difference("0.100000000001", "0.05", "0.05"),
    difference("1.00", "0.40", "0.60"),
    difference("0.10", "0.30"),
    difference("0.000000000001", "-0.05"),
    difference("-0.05"),
  ]).toEqual(["4.75", "0.000000000001", "0.00", "-0.20", "0.050000000001", "-0.05"]);
});
