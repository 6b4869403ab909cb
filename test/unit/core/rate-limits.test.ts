import { describe, expect, it } from "vitest";
import {
  changedRateLimits,
  noRateLimits,
  nothingUsed,
  sumOfUse,
  tightestRateLimit,
  type RateLimits,
  type RateLimitsChange,
  type RateLimitStatus,
} from "../../../src/core/rate-limits.ts";
import { changedTeam, type Team, type TeamChange } from "../../../src/core/keys.ts";

const limits: RateLimits = { rpm: 1, tpm: 2, parallel: 3 };

it("noRateLimits is null for each of the three limits", () => {
  expect(noRateLimits).toEqual({ rpm: null, tpm: null, parallel: null });
});

describe("a change of limits", () => {
  it.each<[RateLimitsChange | undefined, Partial<RateLimits>]>([
    [undefined, {}],
    [{}, {}],
    [{ rpm: undefined, tpm: undefined, parallel: undefined }, {}],
    [{ rpm: 9 }, { rpm: 9 }],
    [{ rpm: null }, { rpm: null }],
    [{ tpm: 9 }, { tpm: 9 }],
    [{ tpm: null }, { tpm: null }],
    [{ parallel: 9 }, { parallel: 9 }],
    [{ parallel: null }, { parallel: null }],
  ])("to %j leaves the other limits unchanged", (change, expected) => {
    expect(changedRateLimits(limits, change)).toEqual({ ...limits, ...expected });
  });
});

describe("a change of a team", () => {
  const team: Team = { name: "red", models: ["a"], limits, outputCap: null, hostedTools: null, createdAt: 1 };
  it.each<[TeamChange, Partial<Team>]>([
    [{}, {}],
    [{ models: undefined, limits: undefined }, {}],
    [{ models: ["b"] }, { models: ["b"] }],
    [{ models: null }, { models: null }],
    [{ outputCap: 500 }, { outputCap: 500 }],
    [{ hostedTools: "remove" }, { hostedTools: "remove" }],
    [{ hostedTools: null }, { hostedTools: null }],
    [{ limits: { rpm: 7 } }, { limits: { rpm: 7, tpm: 2, parallel: 3 } }],
  ])("to %j leaves the rest unchanged", (change, expected) => {
    expect(changedTeam(team, change)).toEqual({ ...team, ...expected });
  });
});

describe("the tightest limit", () => {
  const limitStatus = (kind: RateLimitStatus["kind"], remaining: number, scope = "key:a"): RateLimitStatus => ({
    scope,
    kind,
    limit: 10,
    remaining,
    resetsInMs: null,
  });
  const all = [
    limitStatus("rpm", 5),
    limitStatus("tpm", 1),
    limitStatus("rpm", 4, "team:red"),
    limitStatus("rpm", 4, "team:blue"),
    limitStatus("tpm", 2),
  ];

  it("of a kind has the least remaining, and is the first of equals", () => {
    expect(tightestRateLimit("rpm", all)).toBe(all[2]);
    expect(tightestRateLimit("tpm", all)).toBe(all[1]);
  });

  it("is undefined if no limit has the kind", () => {
    expect(tightestRateLimit("parallel", all)).toBeUndefined();
  });
});

it("requests, tokens and running requests add up separately", () => {
  const use = { requests: 1, tokens: 20, running: 300 };
  expect(sumOfUse(use, { requests: 4, tokens: 50, running: 600 })).toEqual({ requests: 5, tokens: 70, running: 900 });
  expect(sumOfUse(nothingUsed, use)).toEqual(use);
});
