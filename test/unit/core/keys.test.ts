import { describe, expect, it } from "vitest";
import {
  changedKey,
  isLive,
  keyStates,
  matchesPattern,
  mayUse,
  namePattern,
  stateOf,
  type Key,
  type KeyChange,
} from "../../../src/core/keys.ts";
import { noLimits } from "../../../src/core/limits.ts";

const key: Key = {
  id: "k1",
  name: "alice",
  team: "red",
  digest: "first",
  models: ["gpt-*"],
  limits: { rpm: 1, tpm: 2, parallel: 3 },
  outputCap: 500,
  createdAt: 10,
  expiresAt: 1000,
  revokedAt: null,
  rotatedAt: null,
  previous: null,
};

describe("a change of a key", () => {
  it.each<[string, KeyChange, Partial<Key>]>([
    ["of nothing", {}, {}],
    [
      "of nothing, said aloud",
      { team: undefined, models: undefined, limits: undefined, expiresAt: undefined, secret: undefined },
      {},
    ],
    ["of its team", { team: "blue" }, { team: "blue" }],
    ["of its team to none", { team: null }, { team: null }],
    ["of its models", { models: ["a"] }, { models: ["a"] }],
    ["of its models to all", { models: null }, { models: null }],
    ["of one limit", { limits: { tpm: 9 } }, { limits: { rpm: 1, tpm: 9, parallel: 3 } }],
    ["of its end", { expiresAt: 2000 }, { expiresAt: 2000 }],
    ["of its end to none", { expiresAt: null }, { expiresAt: null }],
    [
      "of its secret at once",
      { secret: { digest: "second", madeAt: 50, previousValidUntil: null } },
      { digest: "second", rotatedAt: 50, previous: null },
    ],
    [
      "of its secret with a time for both",
      { team: null, secret: { digest: "second", madeAt: 50, previousValidUntil: 70 } },
      {
        team: null,
        digest: "second",
        rotatedAt: 50,
        previous: { digest: "first", validUntil: 70 },
      },
    ],
  ])("%s leaves the rest", (_, change, expected) => {
    expect(changedKey(key, change)).toEqual({ ...key, ...expected });
  });
});

describe("a key", () => {
  it.each<[Partial<Key>, number, string]>([
    [{ expiresAt: null }, 0, "live"],
    [{ expiresAt: 1000 }, 999, "live"],
    [{ expiresAt: 1000 }, 1000, "expired"],
    [{ expiresAt: 1000 }, 1001, "expired"],
    [{ expiresAt: null, revokedAt: 5 }, 4, "revoked"],
    [{ expiresAt: 1000, revokedAt: 5 }, 2000, "revoked"],
  ])("%j is at %i %s", (changes, at, state) => {
    const changed = { ...key, ...changes };
    expect([stateOf(changed, at), isLive(changed, at)]).toEqual([state, state === "live"]);
    expect(keyStates).toContain(state);
  });

  it.each<[readonly string[] | null, readonly string[], boolean]>([
    [null, ["anything"], true],
    [[], ["gpt-4o"], false],
    [["gpt-4o"], ["gpt-4o"], true],
    [["gpt-4o"], ["alias", "gpt-4o"], true],
    [["a", "gpt-*"], ["gpt-4o"], true],
    [["a", "b*"], ["gpt-4o", "alias"], false],
  ])("that has the models %j may use %j: %s", (models, names, expected) => {
    expect(mayUse({ models }, ...names)).toBe(expected);
  });
});

describe("a pattern", () => {
  it.each<[string, readonly string[], readonly string[]]>([
    ["gpt-4o", ["gpt-4o"], ["gpt-4", "gpt-4o-mini", "1gpt-4o", ""]],
    ["", [""], ["a"]],
    ["*", ["", "a", "a*b"], []],
    ["gpt-*", ["gpt-", "gpt-4o"], ["gpt", "a-gpt-4o"]],
    ["*-mini", ["-mini", "gpt-mini"], ["mini", "gpt-mini-2"]],
    ["a*a", ["aa", "aba", "aaa"], ["a", "ab", "ba"]],
    ["ab*ba", ["abba", "ab1ba"], ["aba", "ab", "ba"]],
    ["a*b*c", ["abc", "a1b1c", "abbc", "abc1c"], ["ac", "acb", "bac", "ab1c1"]],
    ["*b*c*", ["bc", "aba1c", "b1c1"], ["cb", "b", "c"]],
    ["a*bc*c", ["abc1c", "a1bc1c"], ["abc", "ab1c"]],
    ["a*ab*b", ["aab1b"], ["aab", "abb", "ab"]],
    ["a**b", ["ab", "axb"], ["a", "b"]],
    ["a*12*12*b", ["a1212b", "a12-12-b"], ["a12b", "a121b"]],
  ])("%s fits its names and no others", (pattern, fits, others) => {
    expect(fits.filter((name) => !matchesPattern(pattern, name))).toEqual([]);
    expect(others.filter((name) => matchesPattern(pattern, name))).toEqual([]);
  });
});

it("a name has small letters, digits and three signs, and at most 63 characters", () => {
  const names = ["a", "7", "a.b_c-d", "a".repeat(63)];
  const others = ["", "A", "-a", ".a", "_a", "a b", "a/b", "ä", "a".repeat(64), "a\n", " a"];
  expect([...names, ...others].filter((name) => namePattern.test(name))).toEqual(names);
});

it("a new key has no limits unless some are stated", () => {
  expect(noLimits).toEqual({ rpm: null, tpm: null, parallel: null });
});
