import { expect, it } from "vitest";
import { doubts, formatDoubts, mergeDoubts, noDoubts, parseDoubts, type Doubt } from "../../../src/core/usage.ts";

it.each<[readonly (readonly Doubt[] | undefined)[], readonly Doubt[]]>([
  [[], []],
  [[undefined], []],
  [[[], undefined, []], []],
  [[["image_bound"]], ["image_bound"]],
  [
    [["image_bound", "unknown_output"], ["unknown_output"]],
    ["unknown_output", "image_bound"],
  ],
  [
    [undefined, ["service_tier"], [], ["served_model"]],
    ["served_model", "service_tier"],
  ],
])("doubts %j are merged without duplicates in a fixed order", (lists, merged) => {
  expect(mergeDoubts(...lists)).toEqual(merged);
  if (merged.length === 0) expect(mergeDoubts(...lists)).toBe(noDoubts);
});

it.each<[readonly Doubt[] | undefined, string | null]>([
  [undefined, null],
  [[], null],
  [["time_based"], "time_based"],
  [["image_bound", "time_based", "image_bound"], "time_based,image_bound"],
])("doubts %j are stored as %j", (list, text) => {
  expect(formatDoubts(list)).toBe(text);
  expect(parseDoubts(text)).toEqual(mergeDoubts(list));
});

it("a doubt of a later release is left out", () => {
  expect(parseDoubts("unknown_field,of_a_later_release,time_based")).toEqual(["unknown_field", "time_based"]);
  expect(parseDoubts(null)).toBe(noDoubts);
});

it("every doubt is stored and read back", () => {
  expect(parseDoubts(doubts.join(","))).toEqual(doubts);
  expect(doubts).toEqual([
    "unknown_output",
    "unknown_field",
    "served_model",
    "service_tier",
    "hosted_tool",
    "usage_contradicts",
    "usage_unknown_class",
    "task_consumption",
    "time_based",
    "image_bound",
  ]);
});
