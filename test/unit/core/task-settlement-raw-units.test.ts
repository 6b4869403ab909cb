import { describe, expect, it } from "vitest";
import { sumRawUnits, type RawUnits } from "../../../src/core/task-settlement.ts";

const row = (type: string, units: string, tasks = 1): RawUnits => ({ type, units, tasks });

describe("units that no price file values", () => {
  it.each<[string, RawUnits[], RawUnits[]]>([
    ["are empty without tasks", [], []],
    ["are the units of a single task", [row("seconds", "5")], [row("seconds", "5")]],
    ["count once for each task of a row", [row("seconds", "2.5", 3)], [row("seconds", "7.5", 3)]],
    [
      "add up by their type",
      [row("seconds", "1", 2), row("", "4"), row("seconds", "3")],
      [row("", "4"), row("seconds", "5", 3)],
    ],
    ["add up with fractions of different lengths", [row("a", "0.5"), row("a", "0.25", 2)], [row("a", "1", 3)]],
    ["keep the zeros inside a fraction", [row("a", "0.005"), row("a", "1")], [row("a", "1.005", 2)]],
    [
      "keep the fraction of each type",
      [row("a", "1.5"), row("b", "0.001"), row("c", "2")],
      [row("a", "1.5"), row("b", "0.001"), row("c", "2")],
    ],
    [
      "are sorted by the names of their types",
      [row("c", "1"), row("a", "1"), row("b", "1")],
      [row("a", "1"), row("b", "1"), row("c", "1")],
    ],
    // Floating point would make 0.30000000000000004 of these.
    ["are exact", [row("a", "0.1"), row("a", "0.2")], [row("a", "0.3", 2)]],
    // More digits than a plain decimal may have.
    [
      "keep all digits of a long sum",
      [row("a", "9".repeat(40)), row("a", "0.5")],
      [row("a", `${"9".repeat(40)}.5`, 2)],
    ],
  ])("%s", (_, rows, sums) => {
    expect(sumRawUnits(rows)).toStrictEqual(sums);
  });
});
