import { describe, expect, it } from "vitest";
import {
  changedLimits,
  noLimits,
  nothingUsed,
  sumOfUse,
  tightestLimit,
  type Limits,
  type LimitsChange,
  type LimitStatus,
} from "../../../src/core/limits.ts";
import { changedTeam, type Team, type TeamChange } from "../../../src/core/keys.ts";

const limits: Limits = { rpm: 1, tpm: 2, parallel: 3 };

it("no limits are null for each of the three", () => {
  expect(noLimits).toEqual({ rpm: null, tpm: null, parallel: null });
});

describe("a change of limits", () => {
  it.each<[LimitsChange | undefined, Partial<Limits>]>([
    [undefined, {}],
    [{}, {}],
    [{ rpm: undefined, tpm: undefined, parallel: undefined }, {}],
    [{ rpm: 9 }, { rpm: 9 }],
    [{ rpm: null }, { rpm: null }],
    [{ tpm: 9 }, { tpm: 9 }],
    [{ tpm: null }, { tpm: null }],
    [{ parallel: 9 }, { parallel: 9 }],
    [{ parallel: null }, { parallel: null }],
  ])("%j leaves the others", (change, expected) => {
    expect(changedLimits(limits, change)).toEqual({ ...limits, ...expected });
  });
});

describe("a change of a team", () => {
  const team: Team = { name: "red", models: ["a"], limits, outputCap: null, createdAt: 1 };
  it.each<[TeamChange, Partial<Team>]>([
    [{}, {}],
    [{ models: undefined, limits: undefined }, {}],
    [{ models: ["b"] }, { models: ["b"] }],
    [{ models: null }, { models: null }],
    [{ outputCap: 500 }, { outputCap: 500 }],
    [{ limits: { rpm: 7 } }, { limits: { rpm: 7, tpm: 2, parallel: 3 } }],
  ])("%j leaves the rest", (change, expected) => {
    expect(changedTeam(team, change)).toEqual({ ...team, ...expected });
  });
});

describe("the tightest standing", () => {
  const standing = (kind: LimitStatus["kind"], remaining: number, scope = "key:a"): LimitStatus => ({
    scope,
    kind,
    limit: 10,
    remaining,
    resetsInMs: null,
  });
  const all = [
    standing("rpm", 5),
    standing("tpm", 1),
    standing("rpm", 4, "team:red"),
    standing("rpm", 4, "team:blue"),
    standing("tpm", 2),
  ];

  it("of a kind has the least left, and is the first of equals", () => {
    expect(tightestLimit("rpm", all)).toBe(all[2]);
    expect(tightestLimit("tpm", all)).toBe(all[1]);
  });

  it("is missing where there is no such limit", () => {
    expect(tightestLimit("parallel", all)).toBeUndefined();
  });
});

it("uses add up separately", () => {
  const use = { requests: 1, tokens: 20, running: 300 };
  expect(sumOfUse(use, { requests: 4, tokens: 50, running: 600 })).toEqual({ requests: 5, tokens: 70, running: 900 });
  expect(sumOfUse(nothingUsed, use)).toEqual(use);
});
