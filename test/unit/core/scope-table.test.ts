import { describe, expect, it } from "vitest";
import {
  anchorOf,
  anchorsOf,
  appliesTo,
  callerOf,
  conditionsOf,
  dimensions,
  eachKeyScope,
  eachMax,
  eachOf,
  everyRequest,
  formatScope,
  hasClientSubjects,
  hasSubjects,
  isByUserOrTag,
  isCountedFor,
  isEachKey,
  isOfSession,
  isRolledUp,
  keyOfScope,
  keyOfSubject,
  keyScope,
  limitsModel,
  limitsOneKey,
  limitsUnbounded,
  mayApplyTo,
  modelOfScope,
  modelOfSubject,
  namedScope,
  namedSubject,
  parseScope,
  readScope,
  readSubject,
  sessionOfScope,
  sessionScope,
  subjectOf,
  subjectsMaxDefault,
  subjectsOf,
  teamOfScope,
  teamScope,
  withKey,
  withoutUsers,
  type Caller,
  type Condition,
  type Dimension,
  type Scope,
} from "../../../src/core/scope.ts";

const condition = (dimension: Dimension, value: string | null, name = ""): Condition => ({ dimension, name, value });

function scopeOf(text: string): Scope {
  const read = readScope(text);
  if (!read.ok) throw new Error(`${text} ${read.fault}`);
  return read.scope;
}

const caller = (more: Partial<Caller> = {}): Caller => ({ key: "k", team: "t", ...more });

describe("a condition", () => {
  it.each<[string, readonly Condition[]]>([
    ["team:red", [condition("team", "red")]],
    ["key:alice", [condition("key", "alice")]],
    ["model:gpt-5*", [condition("model", "gpt-5*")]],
    ["user:u_1", [condition("user", "u_1")]],
    ["label:env=prod", [condition("label", "prod", "env")]],
    ["tag:app=web", [condition("tag", "web", "app")]],
    ["each-key", [condition("key", null)]],
    ["each-model", [condition("model", null)]],
    ["each-user", [condition("user", null)]],
    ["each-tag:app", [condition("tag", null, "app")]],
    ["each-key:red", [condition("team", "red"), condition("key", null)]],
    // A value may be any text, including words with a meaning elsewhere.
    ["user:a:b=c", [condition("user", "a:b=c")]],
    ["tag:app=a=b:c", [condition("tag", "a=b:c", "app")]],
    ["key:each-key", [condition("key", "each-key")]],
    ["user:team:red", [condition("user", "team:red")]],
    ["each-key:each-key", [condition("team", "each-key"), condition("key", null)]],
    ["team:x", [condition("team", "x")]],
    ["each-tag:x", [condition("tag", null, "x")]],
    // Spaces and percent signs are encoded.
    ["user:a%20b", [condition("user", "a b")]],
    ["user:50%25", [condition("user", "50%")]],
    ["user:%2520", [condition("user", "%20")]],
    ["user:%2541", [condition("user", "%41")]],
    ["tag:app=a%20b", [condition("tag", "a b", "app")]],
    ["each-key:a%20b", [condition("team", "a b"), condition("key", null)]],
  ])("%s is read", (text, conditions) => {
    expect(readScope(text)).toStrictEqual({ ok: true, scope: { conditions } });
    expect(parseScope(text)).toStrictEqual({ conditions });
  });

  it.each([
    "team",
    "team:",
    "key:",
    "label:",
    "label:env",
    "label:env=",
    "label:=prod",
    "label:ENV=prod",
    "tag:app",
    "tag:app=",
    "tag:=web",
    "tag:a%20b=web",
    "each",
    "each-",
    "each-key:",
    "each-model:gpt-5",
    "each-user:u",
    "each-team",
    "each-team:red",
    "each-label:env",
    "each-tag",
    "each-tag:",
    "each-tag:APP",
    "each-tag:app=web",
    "_team:red",
    "_each-key",
    "each-key_",
    "each-user_:u",
    "teams:red",
    "session:run_1",
    "user:a\u2028b",
    "all",
    "all:",
    "undefined",
  ])("is not parsed from %s", (word) => {
    const fault = `contains "${word}", which is not a condition`;
    expect(readScope(`key:a ${word}`)).toStrictEqual({ ok: false, fault });
    expect(parseScope(`key:a ${word}`)).toBeUndefined();
  });
});

it.each(["%41", "%", "%2", "%40x"])("a condition rejects the escape %s", (text) => {
  const escape = JSON.stringify(text.slice(0, 3));
  const fault = `contains ${escape}; write %20 for a space, %25 for a percent sign, and other characters as they are`;
  expect(readScope(`user:a${text}`)).toStrictEqual({ ok: false, fault });
});

describe("a scope", () => {
  it.each<[string, string]>([
    ["all", "all"],
    ["  all  ", "all"],
    ["key:a team:red", "team:red key:a"],
    ["each-key team:red", "team:red each-key"],
    ["each-user each-key", "each-key each-user"],
    ["each-model key:a", "key:a each-model"],
    ["each-key user:u", "user:u each-key"],
    ["tag:b=1 tag:a=2", "tag:a=2 tag:b=1"],
    ["tag:a=2 tag:b=1", "tag:a=2 tag:b=1"],
    ["tag:b=1 tag:c=3 tag:a=2", "tag:a=2 tag:b=1 tag:c=3"],
    ["label:b=1 label:a=2", "label:a=2 label:b=1"],
    ["each-tag:b each-tag:a", "each-tag:a each-tag:b"],
    ["tag:a=1 label:a=1", "label:a=1 tag:a=1"],
    ["tag:a=1 user:u model:m label:a=1 key:k team:t", "team:t key:k label:a=1 model:m user:u tag:a=1"],
    ["tag:b=1 each-tag:a", "tag:b=1 each-tag:a"],
    ["key:a\u00a0b", "key:a\u00a0b"],
  ])("%s is stored as %s", (text, stored) => {
    expect(formatScope(scopeOf(text))).toBe(stored);
    expect(scopeOf(stored)).toStrictEqual(scopeOf(text));
  });

  it.each<[string, string]>([
    ["", "must not be empty"],
    ["   ", "must not be empty"],
    ["all all", 'contains "all", which is not a condition'],
    ["key:a\tteam:b", "must not contain control characters"],
    ["key:a\n", "must not contain control characters"],
    ["key:a key:b", "must state key only once"],
    ["key:a key:a", "must state key only once"],
    ["team:a each-key:b", "must state team only once"],
    ["each-key key:a", "must state key only once"],
    ["each-key each-key", "must state key only once"],
    ["user:a tag:x=1 model:m model:n", "must state model only once"],
    ["label:x=1 label:x=2", "must state label:x only once"],
    ["tag:x=1 tag:y=1 tag:x=2", "must state tag:x only once"],
    ["tag:x=1 each-tag:x", "must state tag:x only once"],
    ["each-key each-model each-user", 'must have at most 2 conditions that start with "each-"'],
    ["each-tag:a each-tag:b each-tag:c", 'must have at most 2 conditions that start with "each-"'],
  ])("%j %s", (text, fault) => {
    expect(readScope(text)).toStrictEqual({ ok: false, fault });
    expect(parseScope(text)).toBeUndefined();
  });

  it("has at most two each-… conditions, six dimensions, and 10,000 subjects a day by default", () => {
    expect(eachMax).toBe(2);
    expect(dimensions).toStrictEqual(["team", "key", "label", "model", "user", "tag"]);
    expect(subjectsMaxDefault).toBe(10_000);
  });

  it.each<[Scope, string]>([
    [everyRequest, "all"],
    [keyScope("a"), "key:a"],
    [teamScope("red"), "team:red"],
    [eachKeyScope(), "each-key"],
    [eachKeyScope(null), "each-key"],
    [eachKeyScope("red"), "team:red each-key"],
    [sessionScope("a", "run_1"), "key:a tag:session=run_1"],
  ])("%j is %s", (scope, text) => {
    expect(scope).toStrictEqual(scopeOf(text));
  });
});

describe("a request", () => {
  it.each<[string, Partial<Caller>, applies: boolean, mayApply: boolean]>([
    ["all", { key: "", team: null }, true, true],
    ["team:t", {}, true, true],
    ["team:t", { team: "other" }, false, false],
    ["team:t", { team: null }, false, false],
    ["key:k", {}, true, true],
    ["key:k", { key: "other" }, false, false],
    ["key:k", { key: "" }, false, false],
    ["each-key", {}, true, true],
    ["each-key", { key: "" }, false, false],
    ["label:a=1", { labels: { a: "1" } }, true, true],
    ["label:a=1", { labels: { a: "2", b: "1" } }, false, false],
    ["label:a=1", { labels: {}, tags: { a: "1" } }, false, false],
    ["label:a=1", {}, false, false],
    ["label:constructor=1", { labels: {} }, false, false],
    ["model:m*", {}, false, true],
    ["model:m*", { models: [] }, false, true],
    ["model:m*", { models: ["n"] }, false, true],
    ["model:m*", { models: ["n", "m1"] }, true, true],
    ["model:m*", { models: ["m1", "n"] }, true, true],
    ["model:m", { models: ["m1"] }, false, true],
    ["each-model", {}, false, true],
    ["each-model", { models: [] }, false, true],
    ["each-model", { models: ["n"] }, true, true],
    ["user:u", {}, false, true],
    ["user:u", { user: null }, false, true],
    ["user:u", { user: "v" }, false, true],
    ["user:u", { user: "u" }, true, true],
    ["each-user", {}, false, true],
    ["each-user", { user: null }, true, true],
    ["each-user", { user: "v" }, true, true],
    ["tag:a=1", {}, false, true],
    ["tag:a=1", { tags: {} }, false, true],
    ["tag:a=1", { tags: { a: "2" } }, false, true],
    ["tag:a=1", { tags: { a: "1" } }, true, true],
    ["tag:a=1", { labels: { a: "1" }, tags: {} }, false, true],
    ["each-tag:a", {}, false, true],
    ["each-tag:a", { tags: {} }, true, true],
    ["each-tag:a", { tags: { a: "1" } }, true, true],
    ["each-tag:session", { tags: { session: "run_1" } }, true, true],
    ["each-tag:session", {}, false, true],
    // A session credential has its tag before a request states any.
    ["tag:session=run_1", { tags: { session: "run_1" } }, true, true],
    ["tag:session=run_1", { tags: { session: "run_2" } }, false, false],
    ["tag:session=run_1", {}, false, false],
    ["tag:session=mine", { tags: { session: "run_2" } }, false, true],
    ["tag:other=run_1", { tags: { other: "run_2" } }, false, true],
    // A request must meet every condition.
    ["key:k user:u", { user: "u" }, true, true],
    ["key:k user:u", { user: "v" }, false, true],
    ["key:j user:u", { user: "u" }, false, false],
    ["team:t each-key label:a=1", { labels: { a: "1" } }, true, true],
    ["team:t each-key label:a=1", { labels: { a: "2" } }, false, false],
  ])("is limited by the scope %s, with %j: %s; its caller may be limited: %s", (text, more, applies, mayApply) => {
    expect([appliesTo(scopeOf(text), caller(more)), mayApplyTo(scopeOf(text), caller(more))]).toStrictEqual([
      applies,
      mayApply,
    ]);
  });

  it.each<[string, Partial<Caller>, readonly string[]]>([
    ["all", {}, [""]],
    ["key:k user:u", { user: "u" }, [""]],
    ["each-key", {}, ["k"]],
    ["team:t each-key", { key: "a b%" }, ["a%20b%25"]],
    ["each-user", { user: "u" }, ["u"]],
    ["each-user", { user: null }, [""]],
    ["each-user", {}, [""]],
    ["each-user", { tags: { user: "x" } }, [""]],
    ["each-tag:a", { tags: { a: "1", b: "2" } }, ["1"]],
    ["each-tag:a", { tags: { b: "2" }, user: "u" }, [""]],
    ["each-tag:a", { labels: { a: "1" } }, [""]],
    ["each-model", { models: ["m", "n"] }, ["m", "n"]],
    ["each-model", {}, []],
    ["each-key each-user", { user: "u" }, ["k u"]],
    ["each-key each-user", { user: null }, ["k "]],
    ["each-model each-user", { models: ["m", "n"], user: "u v" }, ["m u%20v", "n u%20v"]],
    ["each-key each-model", { models: ["m", "n"] }, ["k m", "k n"]],
    ["each-tag:a each-tag:b", { tags: { a: "1", b: "2" } }, ["1 2"]],
    ["user:u each-key", { user: "u" }, ["k"]],
  ])("under the scope %s, with %j, has the subjects %j", (text, more, subjects) => {
    expect(subjectsOf(scopeOf(text), caller(more))).toStrictEqual(subjects);
  });

  it.each<[string, string, Partial<Caller>, boolean]>([
    ["all", "", {}, true],
    ["all", "k", {}, false],
    ["each-key", "k", {}, true],
    ["each-key", "other", {}, false],
    ["each-model", "n", { models: ["m", "n"] }, true],
    ["each-model", "o", { models: ["m", "n"] }, false],
    ["key:other each-model", "m", { models: ["m"] }, false],
    ["key:other", "", {}, false],
  ])("under the scope %s counts in the window of %j, with %j: %s", (text, subject, more, isCounted) => {
    expect(isCountedFor(scopeOf(text), subject, caller(more))).toBe(isCounted);
  });

  it.each<[Partial<Caller>, readonly string[]]>([
    [{ key: "", team: null }, [""]],
    [{ key: "", team: "t" }, ["", "team:t"]],
    [{ team: null }, ["", "key:k"]],
    [{}, ["", "team:t", "key:k"]],
    [{ user: null }, ["", "team:t", "key:k"]],
    [{ user: "u" }, ["", "team:t", "key:k", "user:u"]],
    [{ tags: {} }, ["", "team:t", "key:k"]],
    [{ tags: { session: "mine" } }, ["", "team:t", "key:k"]],
    [{ tags: { other: "run_1" } }, ["", "team:t", "key:k"]],
    [{ tags: { session: "run_1" } }, ["", "team:t", "key:k", "session:run_1"]],
    [{ user: "u", tags: { session: "run_1" } }, ["", "team:t", "key:k", "user:u", "session:run_1"]],
  ])("with %j finds its budgets under %j", (more, anchors) => {
    expect(anchorsOf(caller(more))).toStrictEqual(anchors);
  });

  it("has the team and labels of its key", () => {
    expect(callerOf({ id: "k", team: "t", labels: { a: "1" } })).toStrictEqual({
      key: "k",
      team: "t",
      labels: { a: "1" },
    });
  });
});

interface Facts {
  readonly anchor: string;
  readonly each?: readonly string[];
  readonly team?: string;
  readonly key?: string;
  readonly model?: string;
  readonly session?: string;
  /** Names of the predicates that are true. */
  readonly is?: readonly (keyof typeof predicates)[];
}

const predicates = { hasSubjects, hasClientSubjects, isEachKey, isByUserOrTag, isRolledUp, limitsOneKey, isOfSession };

describe("the properties of a scope", () => {
  it.each<[string, Facts]>([
    ["all", { anchor: "", is: ["isRolledUp"] }],
    ["team:t", { anchor: "team:t", team: "t", is: ["isRolledUp"] }],
    ["key:k", { anchor: "key:k", key: "k", is: ["isRolledUp", "limitsOneKey"] }],
    ["team:t key:k", { anchor: "key:k", team: "t", key: "k", is: ["isRolledUp", "limitsOneKey"] }],
    ["model:m*", { anchor: "", model: "m*", is: ["isRolledUp"] }],
    ["label:a=1", { anchor: "" }],
    ["user:u", { anchor: "user:u", is: ["isByUserOrTag"] }],
    ["team:t key:k user:u", { anchor: "user:u", team: "t", key: "k", is: ["isByUserOrTag", "limitsOneKey"] }],
    ["tag:a=1", { anchor: "", is: ["isByUserOrTag"] }],
    ["each-key", { anchor: "", each: ["key"], is: ["hasSubjects", "isEachKey", "isRolledUp", "limitsOneKey"] }],
    [
      "team:t each-key",
      { anchor: "team:t", team: "t", each: ["key"], is: ["hasSubjects", "isEachKey", "isRolledUp", "limitsOneKey"] },
    ],
    ["model:m each-key", { anchor: "", model: "m", each: ["key"], is: ["hasSubjects", "isRolledUp", "limitsOneKey"] }],
    ["each-model", { anchor: "", each: ["model"], is: ["hasSubjects", "hasClientSubjects", "isRolledUp"] }],
    ["each-user", { anchor: "", each: ["user"], is: ["hasSubjects", "hasClientSubjects", "isByUserOrTag"] }],
    ["each-tag:a", { anchor: "", each: ["tag:a"], is: ["hasSubjects", "hasClientSubjects", "isByUserOrTag"] }],
    [
      "key:k each-tag:session",
      {
        anchor: "key:k",
        key: "k",
        each: ["tag:session"],
        is: ["hasSubjects", "hasClientSubjects", "isByUserOrTag", "limitsOneKey"],
      },
    ],
    [
      "each-key each-tag:a",
      {
        anchor: "",
        each: ["key", "tag:a"],
        is: ["hasSubjects", "hasClientSubjects", "isByUserOrTag", "limitsOneKey"],
      },
    ],
    [
      "key:k tag:session=run_1",
      { anchor: "session:run_1", key: "k", session: "run_1", is: ["isByUserOrTag", "limitsOneKey", "isOfSession"] },
    ],
    ["key:k tag:session=mine", { anchor: "key:k", key: "k", is: ["isByUserOrTag", "limitsOneKey"] }],
    ["key:k label:session=run_1", { anchor: "key:k", key: "k", is: ["limitsOneKey"] }],
    ["key:k tag:other=run_1", { anchor: "key:k", key: "k", is: ["isByUserOrTag", "limitsOneKey"] }],
    ["tag:session=run_1", { anchor: "session:run_1", session: "run_1", is: ["isByUserOrTag"] }],
    ["team:t tag:session=run_1", { anchor: "session:run_1", team: "t", session: "run_1", is: ["isByUserOrTag"] }],
    [
      "team:t key:k tag:session=run_1",
      { anchor: "session:run_1", team: "t", key: "k", session: "run_1", is: ["isByUserOrTag", "limitsOneKey"] },
    ],
  ])("for %s are %j", (text, { anchor, each = [], team = null, key = null, model = null, session = null, is = [] }) => {
    const scope = scopeOf(text);
    expect({
      anchor: anchorOf(scope),
      each: eachOf(scope),
      team: teamOfScope(scope),
      key: keyOfScope(scope),
      model: modelOfScope(scope),
      session: sessionOfScope(scope),
      is: Object.entries(predicates).flatMap(([name, answer]) => (answer(scope) ? [name] : [])),
    }).toStrictEqual({
      anchor,
      each,
      team,
      key,
      model,
      session,
      is: Object.keys(predicates).filter((name) => is.includes(name as keyof typeof predicates)),
    });
  });

  it.each<[string, string, readonly string[]]>([
    ["all", "", []],
    ["key:k user:u", "", ["k", "u"]],
    ["each-key", "k", ["k"]],
    ["each-key", "a%20b", ["a b"]],
    ["each-user", "", [""]],
    ["user:u each-key", "k", ["u", "k"]],
    ["each-key each-user", "k u", ["k", "u"]],
    ["each-key each-user", "k ", ["k", ""]],
    ["each-key each-user", "k", ["k", ""]],
    ["team:t each-key each-tag:a", "k 1", ["t", "k", "1"]],
  ])("for %s with the subject %j include the values %j", (text, subject, values) => {
    const scope = scopeOf(text);
    expect(conditionsOf(scope, subject)).toStrictEqual(
      scope.conditions.map((each, index) => ({ ...each, value: values[index] })),
    );
  });

  it.each<[string, string, string]>([
    ["all", "new", "all"],
    ["key:old", "new", "key:new"],
    ["team:old key:old user:old", "new", "team:old key:new user:old"],
    ["each-key", "new", "each-key"],
    ["key:old each-user", "new", "key:new each-user"],
  ])("for %s with the key %s are those of %s", (text, key, expected) => {
    expect(withKey(scopeOf(text), key)).toStrictEqual(scopeOf(expected));
  });
});

describe("the key of a subject", () => {
  it.each<[string, string, string | null]>([
    ["all", "", null],
    ["key:k", "", null],
    ["each-user", "u", null],
    ["each-key", "k", "k"],
    ["each-key", "", null],
    ["each-key", "a%20b", "a b"],
    ["each-key each-user", "k u", "k"],
    ["each-key each-user", " u", null],
    ["team:t each-key each-tag:a", "k 1", "k"],
    ["user:u each-key", "k", "k"],
  ])("under %s, for the subject %j, is %j", (text, subject, key) => {
    expect(keyOfSubject(scopeOf(text), subject)).toBe(key);
  });
});

describe("the displayed form", () => {
  const nameOf = (id: string) => ({ k1: "alice", k2: "bob b", none: null })[id];

  it.each<[string, string]>([
    ["all", "all"],
    ["key:k1", "key:alice"],
    ["key:k2", "key:bob%20b"],
    ["key:none", "key:none"],
    ["key:other", "key:other"],
    ["team:k1", "team:k1"],
    ["team:t key:k1 user:k1", "team:t key:alice user:k1"],
    ["each-key", "each-key"],
    ["each-key:red", "each-key:red"],
    ["each-key:a%20b", "each-key:a%20b"],
    ["team:red each-user", "team:red each-user"],
    ["team:red model:m each-key", "team:red model:m each-key"],
  ])("of %s is %s", (text, shown) => {
    expect(namedScope(scopeOf(text), nameOf)).toBe(shown);
  });

  it.each<[string, string, string | null]>([
    ["all", "", null],
    ["key:k1", "", null],
    ["each-key", "k1", "key=alice"],
    ["each-key", "k2", "key=bob%20b"],
    ["each-key", "none", "key=none"],
    ["each-key", "other", "key=other"],
    ["each-key", "", "no key"],
    ["each-user", "k1", "user=k1"],
    ["each-user", "", "no user"],
    ["each-tag:session", "", "no tag:session"],
    ["each-tag:session", "a%20b%25", "tag:session=a%20b%25"],
    ["each-key each-user", "k1 k1", "key=alice user=k1"],
    ["each-key each-user", "k1 ", "key=alice no user"],
    ["each-key each-user", "k1", "key=alice no user"],
  ])("under %s, for the subject %j, is %j", (text, subject, shown) => {
    expect(namedSubject(scopeOf(text), subject, nameOf)).toBe(shown);
  });

  it.each<[string, string, readonly string[] | undefined]>([
    ["each-user", "u", ["u"]],
    ["each-user", "a%20b", ["a b"]],
    ["each-user", "user=u", ["u"]],
    ["each-user", " user=u ", ["u"]],
    ["each-user", "user=", [""]],
    ["each-user", "=u", undefined],
    ["each-user", "u=", undefined],
    ["each-user", "no user", [""]],
    ["each-user", "no users", undefined],
    ["each-user", "x no user", undefined],
    ["each-user", "a b", undefined],
    ["each-user", " u", undefined],
    ["each-user", "u ", undefined],
    ["each-user", "", undefined],
    ["each-user", "user=a user=b", undefined],
    ["each-tag:a", "tag:a=1=2", ["1=2"]],
    ["each-key each-user", "k", undefined],
    ["each-key each-user", "key=k", undefined],
    ["each-key each-user", "key=k user=u", ["k", "u"]],
    ["each-key each-user", "key=k   user=u", ["k", "u"]],
    ["each-key each-user", "no key user=u", ["", "u"]],
    ["each-key each-user", "no key no user", ["", ""]],
    ["each-key each-user", "user=u key=k", undefined],
    ["each-key each-user", "key=a%20b user=u", ["a b", "u"]],
    ["all", "", []],
    ["all", "k", undefined],
  ])("of a subject of %s, %j, is parsed as %j", (text, given, values) => {
    expect(readSubject(scopeOf(text), given)).toStrictEqual(values);
  });

  it("of the values of a subject escapes their separator", () => {
    expect(subjectOf([])).toBe("");
    expect(subjectOf(["k"])).toBe("k");
    expect(subjectOf(["a b", "", "50%  "])).toBe("a%20b  50%25%20%20");
  });
});

describe("a request without a bounded cost", () => {
  const from = caller({ user: "u", models: ["gpt-4o"] });
  it.each<[string, known: boolean, unknown: boolean]>([
    ["all", true, true],
    ["key:k", true, true],
    ["key:other", false, false],
    ["model:gpt-4o", true, true],
    ["model:gpt-5*", false, true],
    ["key:k model:gpt-5*", false, true],
    ["key:other model:gpt-5*", false, false],
    ["key:other model:gpt-4o", false, false],
    ["each-key each-model", true, true],
    ["user:u", true, true],
    ["user:v model:gpt-4o", false, false],
  ])("is limited by %s: %s if its model is known, %s otherwise", (text, known, unknown) => {
    expect(limitsUnbounded(scopeOf(text), from, false)).toBe(known);
    expect(limitsUnbounded(scopeOf(text), from, true)).toBe(unknown);
  });
});

describe("the model conditions", () => {
  it.each<[string, readonly string[], boolean]>([
    ["model:gpt-4o", ["gpt-4o"], true],
    ["model:gpt-4*", ["claude", "gpt-4o"], true],
    ["model:gpt-4o", ["gpt-4o-mini"], false],
    ["model:gpt-4o", [], false],
    ["each-model", ["anything"], true],
    ["each-model", [], false],
    ["key:k model:gpt-4o", ["gpt-4o"], true],
    ["key:gpt-4o", ["gpt-4o"], false],
    ["each-key", ["gpt-4o"], false],
    ["all", ["gpt-4o"], false],
  ])("of the scope %s limit one of the models %j: %s", (text, models, limits) => {
    expect(limitsModel(scopeOf(text), models)).toBe(limits);
  });

  it.each<[string, string, string | null]>([
    ["each-model", "gpt-4o", "gpt-4o"],
    ["each-key each-model", "k gpt-4o", "gpt-4o"],
    ["each-model each-user", "gpt-4o u", "gpt-4o"],
    ["each-model", "a%20b", "a b"],
    ["each-key", "k", null],
    ["model:gpt-4o", "", null],
    ["model:gpt-4o each-user", "u", null],
  ])("of the scope %s give the subject %j the model %j", (text, subject, model) => {
    expect(modelOfSubject(scopeOf(text), subject)).toBe(model);
  });
});

it.each([
  ["user:jane", "user:…"],
  ["key:k user:jane tag:app=web", "key:k user:… tag:app=web"],
  ["each-user", "each-user"],
  ["key:jane each-user", "key:jane each-user"],
  ["team:jane tag:user=jane", "team:jane tag:user=jane"],
  ["all", "all"],
])("the scope %s is logged as %s", (text, shown) => {
  expect(formatScope(withoutUsers(scopeOf(text)))).toBe(shown);
});
