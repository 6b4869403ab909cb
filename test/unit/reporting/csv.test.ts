import { expect, it } from "vitest";
import { csvOf } from "../../../src/reporting/csv.ts";

it.each([
  ["plain", "plain"],
  [null, ""],
  [12, "12"],
  ["-1.50", "-1.50"],
  ["=SUM(A1)", "'=SUM(A1)"],
  ["+1+1", "'+1+1"],
  ["-1+1", "'-1+1"],
  ["@cmd", "'@cmd"],
  [" =1", "' =1"],
  ["＝SUM(A1)", "'＝SUM(A1)"],
  ["＠cmd", "'＠cmd"],
  ["\t=1", "'\t=1"],
  ['say "hi", then', '"say ""hi"", then"'],
  ["=1,2", `"'=1,2"`],
  ["two\nlines", '"two\nlines"'],
])("the cell %j is written as %s", (cell, expected) => {
  expect(csvOf([[cell]])).toBe(`${expected}\r\n`);
});
