import { describe, expect, it } from "vitest";
import {
  adminStateOf,
  changedKey,
  changedTeam,
  isLive,
  isRequirement,
  isTagValue,
  keyStates,
  matchesPattern,
  mayUse,
  modelPattern,
  type MeantModel,
  namePattern,
  stateOf,
  userModes,
  userPattern,
  type Key,
  type KeyChange,
  type Team,
} from "../../../src/core/keys.ts";
import { noRateLimits } from "../../../src/core/rate-limits.ts";

const key: Key = {
  id: "k1",
  name: "alice",
  team: "red",
  digest: "first",
  models: ["gpt-*"],
  limits: { rpm: 1, tpm: 2, parallel: 3 },
  outputCap: 500,
  hostedTools: "remove",
  labels: {},
  tags: {},
  user: null,
  requires: [],
  createdAt: 10,
  expiresAt: 1000,
  revokedAt: null,
  suspendedAt: null,
  rotatedAt: null,
  previous: null,
};

describe("a change of a key", () => {
  it.each<[string, KeyChange, Partial<Key>]>([
    ["of nothing", {}, {}],
    [
      "of nothing, with every field undefined",
      { team: undefined, models: undefined, limits: undefined, expiresAt: undefined, secret: undefined },
      {},
    ],
    ["of its team", { team: "blue" }, { team: "blue" }],
    ["of its team to none", { team: null }, { team: null }],
    ["of its models", { models: ["a"] }, { models: ["a"] }],
    ["of its models to all", { models: null }, { models: null }],
    ["of one limit", { limits: { tpm: 9 } }, { limits: { rpm: 1, tpm: 9, parallel: 3 } }],
    ["of its expiry", { expiresAt: 2000 }, { expiresAt: 2000 }],
    ["of its user", { user: "u" }, { user: "u" }],
    ["of its labels", { labels: { b: "2", a: "1" } }, { labels: { a: "1", b: "2" } }],
    ["of its tags", { tags: { a: "1", b: null } }, { tags: { a: "1" } }],
    ["of its requirements", { requires: ["user", "tag:a", "user"] }, { requires: ["tag:a", "user"] }],
    ["of its suspension", { suspendedAt: 7 }, { suspendedAt: 7 }],
    ["of its expiry to none", { expiresAt: null }, { expiresAt: null }],
    [
      "of its secret without an overlap",
      { secret: { digest: "second", madeAt: 50, previousValidUntil: null } },
      { digest: "second", rotatedAt: 50, previous: null },
    ],
    [
      "of its secret with an overlap",
      { team: null, secret: { digest: "second", madeAt: 50, previousValidUntil: 70 } },
      {
        team: null,
        digest: "second",
        rotatedAt: 50,
        previous: { digest: "first", validUntil: 70 },
      },
    ],
  ])("%s leaves the rest unchanged", (_, change, expected) => {
    expect(changedKey(key, change)).toEqual({ ...key, ...expected });
  });
});

const meant = (id: string, statedName = id): MeantModel => ({ id, statedName });

describe("a key", () => {
  it.each<[Partial<Key>, number, string]>([
    [{ expiresAt: null }, 0, "live"],
    [{ expiresAt: 1000 }, 999, "live"],
    [{ expiresAt: 1000 }, 1000, "expired"],
    [{ expiresAt: 1000 }, 1001, "expired"],
    [{ expiresAt: null, suspendedAt: 5 }, 4, "suspended"],
    [{ expiresAt: 1000, suspendedAt: 5 }, 999, "suspended"],
    [{ expiresAt: 1000, suspendedAt: 5 }, 1000, "expired"],
    [{ expiresAt: 1000, suspendedAt: 5, revokedAt: 6 }, 999, "revoked"],
    [{ expiresAt: null, revokedAt: 5 }, 4, "revoked"],
    [{ expiresAt: 1000, revokedAt: 5 }, 2000, "revoked"],
  ])("with %j, at %i, is %s", (changes, at, state) => {
    const changed = { ...key, ...changes };
    expect([stateOf(changed, at), isLive(changed, at)]).toEqual([state, state === "live" || state === "suspended"]);
    if (state !== "suspended") expect(adminStateOf(changed, at)).toBe(state);
    expect(keyStates).toContain(state);
  });

  it.each<[readonly string[] | null, string, MeantModel | null, boolean]>([
    [null, "anything", null, true],
    [[], "gpt-4o", null, false],
    [["gpt-4o"], "gpt-4o", null, true],
    [["gpt-4o"], "alias", meant("gpt-4o", "alias"), true],
    [["alias"], "alias", meant("gpt-4o", "alias"), true],
    [["Alias"], "x/ALIAS-latest", meant("gpt-4o", "alias"), true],
    [["a", "gpt-*"], "gpt-4o", meant("gpt-4o"), true],
    [["a", "b*"], "alias", meant("gpt-4o", "alias"), false],
    [["GPT-*"], "openai/Gpt-4o", meant("gpt-4o"), true],
    [["GPT-*"], "openai/Gpt-0", null, true],
    [["cheap-*"], "cheap-x/gpt-4o", meant("gpt-4o"), false],
    [["cheap-*"], "cheap-x/gpt-0", null, false],
    [["cheap-*"], "cheap-x\uff0fgpt-4o", meant("gpt-4o"), false],
    [["openai/*"], "OpenAI/gpt-4o", meant("gpt-4o"), true],
    [["openai/*"], "openai/gpt-0", null, true],
    [["openai/*"], "gpt-4o", meant("gpt-4o"), false],
    [["openai/*"], "azure/gpt-4o", meant("gpt-4o"), false],
    [["gpt-4o"], "azure/gpt-4o", meant("azure/gpt-4o"), false],
    [["azure*"], "AZURE/gpt-4o", meant("azure/gpt-4o"), true],
    [["team*"], "team/large", meant("gpt-4o", "team/large"), true],
    [["large"], "team/large", meant("gpt-4o", "team/large"), false],
    [["gpt-4o-2024*"], "x/gpt-4o-2024-11-20", meant("gpt-4o"), true],
    [["gpt-4o-2024*"], "gpt-4o", meant("gpt-4o"), false],
    [["通义-Ü"], "通义-ü", null, true],
  ])("with the models %j may use %j, which means %j: %s", (models, name, model, expected) => {
    expect(mayUse({ models }, name, model, () => false)).toBe(expected);
  });

  it.each<[readonly string[], string, MeantModel | null, boolean]>([
    [["foo"], "foo", meant("foo"), true],
    [["foo"], "Foo", meant("Foo"), false],
    [["foo", "Foo"], "Foo", meant("Foo"), true],
    [["FOO"], "Foo", meant("Foo"), true],
    [["fo*"], "Foo", meant("Foo"), true],
    [["foo"], "FOO", null, false],
    [["foo"], "x/foo", null, false],
    [["alias"], "x/ALIAS", meant("Foo", "alias"), true],
    [["foo"], "x/FOO-latest", meant("foo"), true],
  ])(
    "with the models foo, Foo and alias in the files, %j may use %j, which means %j: %s",
    (models, name, model, is) => {
      const isStated = (pattern: string) => ["foo", "Foo", "alias"].includes(pattern);
      expect(mayUse({ models }, name, model, isStated)).toBe(is);
    },
  );
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
  ])("%s matches its names and no others", (pattern, fits, others) => {
    expect(fits.filter((name) => !matchesPattern(pattern, name))).toEqual([]);
    expect(others.filter((name) => matchesPattern(pattern, name))).toEqual([]);
  });
});

it("a change of labels sets and removes only the labels that it names", () => {
  const labels = { env: "test", region: "eu", tier: "1" };
  const after = changedKey({ ...key, labels }, { labels: { env: "prod", region: null, other: null } });
  expect(after.labels).toEqual({ env: "prod", tier: "1" });
});

it.each([[["a", "b", "c"]], [["c", "b", "a"]], [["b", "c", "a"]], [["b", "a", "c"]], [["c", "a", "b"]]])(
  "labels that are set in the order %j are stored in the order of their names",
  (names) => {
    const labels = Object.fromEntries(names.map((name) => [name, ""]));
    expect(Object.keys(changedKey(key, { labels }).labels)).toStrictEqual(["a", "b", "c"]);
    expect(Object.keys(changedKey({ ...key, labels }, { labels: { d: "" } }).labels)).toStrictEqual([
      "a",
      "b",
      "c",
      "d",
    ]);
  },
);

it("a value of a tag or label has 1 to 128 characters, no comma and no blank at its ends", () => {
  const values = [
    "a",
    "a".repeat(128),
    "a b=c",
    "1%",
    "ä".repeat(128),
    "検索".repeat(64),
    "🦊".repeat(128),
    // A letter and its accent are two characters, because texts are not normalized.
    "e\u0301".repeat(64),
  ];
  const others = [
    "",
    " a",
    "a ",
    "a,b",
    "a\nb",
    "a".repeat(129),
    "ä".repeat(129),
    "🦊".repeat(129),
    "e\u0301".repeat(65),
    "a\u0085b",
    "a\u009bb",
    "\ud800",
  ];
  expect([...values, ...others].filter(isTagValue)).toEqual(values);
});

it("a user has 1 to 128 characters, none of them a control character", () => {
  const names = ["a", "a".repeat(128), "🦊".repeat(128), " a b, c ", "user@example.com"];
  const others = ["", "a".repeat(129), "a\u0007", "\u0007a", "a\nb", "a\n", "\u0085", "\ud800", "a\udfff"];
  expect([...names, ...others].filter((name) => userPattern.test(name))).toEqual(names);
  expect(userModes).toEqual(["plain", "hash", "off"]);
});

it("a requirement is user or tag: with a tag name", () => {
  const names = ["user", "tag:session", "tag:a.b"];
  expect([...names, "", "key", "tag:", "tag", "tag:A", "user:a", "session"].filter(isRequirement)).toEqual(names);
});

it("a name has lowercase letters, digits and three punctuation marks, and at most 63 characters", () => {
  const names = ["a", "7", "a.b_c-d", "a".repeat(63)];
  const others = ["", "A", "-a", ".a", "_a", "a b", "a/b", "ä", "a".repeat(64), "a\n", " a"];
  expect([...names, ...others].filter((name) => namePattern.test(name))).toEqual(names);
});

it("a pattern for models has visible characters except spaces and commas, and at most 200 of them", () => {
  const patterns = ["a", "gpt-4o*", "!~+-", "ä", "通义*", "a".repeat(200)];
  const others = [
    "",
    "a b",
    "a,b",
    " a",
    "a ",
    ",a",
    "a\n",
    "a\u007f",
    "a\u200bb",
    "a\u00a0b",
    "a\u3000b",
    "a".repeat(201),
  ];
  expect([...patterns, ...others].filter((text) => modelPattern.test(text))).toEqual(patterns);
});

it("a key has no limits by default", () => {
  expect(noRateLimits).toEqual({ rpm: null, tpm: null, parallel: null });
});

it("a change of a team keeps the fields that it omits", () => {
  const team: Team = {
    name: "red",
    models: ["a"],
    limits: { ...noRateLimits, rpm: 1 },
    outputCap: 5,
    hostedTools: null,
    createdAt: 1,
  };
  expect(changedTeam(team, { limits: { tpm: 2 } })).toEqual({ ...team, limits: { ...noRateLimits, rpm: 1, tpm: 2 } });
  expect(changedTeam(team, { models: null, outputCap: null })).toEqual({ ...team, models: null, outputCap: null });
});
