import { describe, expect, it } from "vitest";
import { outputCapMax, smallestCap } from "../../../src/core/bounds.ts";

describe("the smallest of several output caps", () => {
  it.each<[(number | null | undefined)[], number | null]>([
    [[], null],
    [[null], null],
    [[undefined, null], null],
    [[100], 100],
    [[null, 100, undefined], 100],
    [[100, 99, 101], 99],
    [[1, outputCapMax], 1],
  ])("of %j is %j", (caps, smallest) => {
    expect(smallestCap(...caps)).toBe(smallest);
  });
});

it("an output cap is at most 100 million tokens", () => {
  expect(outputCapMax).toBe(100_000_000);
});
