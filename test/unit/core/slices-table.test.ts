import { describe, expect, it } from "vitest";
import type { PicoUsd } from "../../../src/core/money.ts";
import {
  isWorstCase,
  mustPause,
  nextCover,
  nextStep,
  reserveTokens,
  tokensCovered,
  tokensInFlight,
  type Slices,
  type HoldProgress,
  type Step,
} from "../../../src/core/slices.ts";

const slices: Slices = { sliceTokens: 160, outputTokensMax: 1000 };
const at = (changes: Partial<HoldProgress>): HoldProgress => ({
  covered: 160,
  counted: 0,
  uncounted: 0,
  refused: false,
  ...changes,
});

describe("a hold that grows by slices of 160 tokens", () => {
  it.each<[string, Partial<HoldProgress>, Step, boolean]>([
    ["one token below half", { counted: 79 }, "wait", false],
    ["half", { counted: 80 }, "extend", false],
    ["one byte below half", { counted: 40, uncounted: 39 }, "wait", false],
    ["half by its bytes", { counted: 40, uncounted: 40 }, "count", false],
    ["half, with more than an eighth of a slice uncounted", { counted: 59, uncounted: 21 }, "count", false],
    ["half, with an eighth of a slice uncounted", { counted: 60, uncounted: 20 }, "extend", false],
    ["one byte below the reserve, with half of it uncounted", { counted: 59, uncounted: 60 }, "count", false],
    ["one token below the reserve", { counted: 119 }, "extend", false],
    ["the reserve", { counted: 120 }, "extend", true],
    ["one token below the reserve after a refused extension", { counted: 119, refused: true }, "wait", false],
    ["the reserve after a refused extension", { counted: 120, refused: true }, "extend", true],
    [
      "the reserve by its bytes after a refused extension",
      { counted: 111, uncounted: 9, refused: true },
      "count",
      true,
    ],
    [
      "the reserve with few uncounted bytes after a refused extension",
      { counted: 112, uncounted: 8, refused: true },
      "extend",
      true,
    ],
    ["one token below its worst case", { covered: 999, counted: 999 }, "extend", true],
    ["its worst case", { covered: 1000, counted: 2000 }, "wait", false],
  ])("decides its next step at %s", (_, changes, step, pauses) => {
    expect([nextStep(at(changes), slices), mustPause(at(changes), slices)]).toEqual([step, pauses]);
  });

  it("rounds half of an odd slice up, and counts closer to a small reserve", () => {
    const odd: Slices = { sliceTokens: 5, outputTokensMax: 1000 };
    expect([1, 2].map((counted) => nextStep(at({ covered: 5, counted }), odd))).toEqual(["wait", "extend"]);
    const small: Slices = { sliceTokens: 32, outputTokensMax: 1000 };
    expect(
      [21, 22].map((counted) => nextStep(at({ covered: 32, counted, uncounted: 24 - counted, refused: true }), small)),
    ).toEqual(["count", "extend"]);
    const large: Slices = { sliceTokens: 1600, outputTokensMax: 10_000 };
    expect(
      [1191, 1192].map((counted) =>
        nextStep(at({ covered: 1600, counted, uncounted: 1200 - counted, refused: true }), large),
      ),
    ).toEqual(["count", "extend"]);
  });

  it.each([
    [2, 1],
    [4, 1],
    [5, 2],
    [160, 40],
  ])("keeps a quarter of %i in reserve: %i", (sliceTokens, reserve) => {
    expect(reserveTokens({ ...slices, sliceTokens })).toBe(reserve);
  });

  it.each<[Partial<HoldProgress>, wanted: number, least: number]>([
    [{ counted: 80 }, 320, 201],
    [{ counted: 161 }, 321, 202],
    [{ counted: 100, uncounted: 61 }, 321, 202],
    [{ covered: 900 }, 1000, 941],
    [{ covered: 959 }, 1000, 1000],
    [{ covered: 990 }, 1000, 1000],
  ])("grows from %j to %i, or at least %i", (changes, wanted, least) => {
    expect(nextCover(at(changes), slices)).toEqual({ wanted, least });
  });

  it.each([
    [999, false],
    [1000, true],
    [1001, true],
  ])("that covers %i tokens is the worst case: %s", (covered, expected) => {
    expect(isWorstCase(at({ covered }), slices)).toBe(expected);
  });
});

it.each<[tokens: number, tookMs: number, unreadMs: number, expected: number]>([
  [10, 100, 50, 5],
  [10, 100, 51, 6],
  [10, 100, 400, 40],
  [10, 100, 401, 40],
  [10, 0, 1, 40],
  [0, 0, 1, 40],
  [0, 100, 50, 0],
  [10, 1, 4, 40],
  [10, 1, 3, 30],
])(
  "a rate of %i tokens in %i ms puts, after %i ms unread, %i tokens in flight",
  (tokens, tookMs, unreadMs, expected) => {
    expect(tokensInFlight({ tokens, tookMs }, unreadMs, slices)).toBe(expected);
  },
);

describe("the tokens that a hold covers", () => {
  const costAt = (tokens: number) => BigInt(10 + 3 * tokens) as PicoUsd;
  it.each<[hold: number, max: number, expected: number]>([
    [0, 100, 0],
    [9, 100, 0],
    [10, 100, 0],
    [12, 100, 0],
    [13, 100, 1],
    [15, 100, 1],
    [16, 100, 2],
    [160, 100, 50],
    [309, 100, 99],
    [310, 100, 100],
    [311, 100, 100],
    [13, 1, 1],
    [12, 1, 0],
  ])("for %i, of at most %i tokens, are %i", (hold, max, expected) => {
    expect(tokensCovered(BigInt(hold) as PicoUsd, costAt, max)).toBe(expected);
  });

  it("are all or none if the price does not rise", () => {
    expect(tokensCovered(5n as PicoUsd, () => 5n as PicoUsd, 100)).toBe(100);
    expect(tokensCovered(4n as PicoUsd, () => 5n as PicoUsd, 100)).toBe(0);
  });
});
