import * as fc from "fast-check";
import { expect, it } from "vitest";
import {
  anchorOf,
  anchorsOf,
  appliesTo,
  conditionsOf,
  dimensions,
  eachMax,
  eachOf,
  everyRequest,
  formatScope,
  hasSubjects,
  limitsOneKey,
  mayApplyTo,
  namedScope,
  namedSubject,
  parseScope,
  readScope,
  readSubject,
  subjectOf,
  subjectsOf,
  type Caller,
  type Condition,
  type Scope,
} from "../../../src/core/scope.ts";
import { runs } from "../../support/effort.ts";

/** Few values, so that requests often meet conditions. Some need encoding. */
const value = fc.constantFrom("a", "b", "a b", "50%", "%20", "run_1");
const named = (dimension: "label" | "tag") =>
  fc.record({ dimension: fc.constant(dimension), name: fc.constantFrom("x", "session") });
const place = fc.oneof(
  fc.constantFrom("team" as const, "key" as const, "model" as const, "user" as const).map((dimension) => ({
    dimension,
    name: "",
  })),
  named("label"),
  named("tag"),
);
const conditions: fc.Arbitrary<readonly Condition[]> = fc
  .uniqueArray(fc.tuple(place, fc.option(value, { nil: null })), {
    selector: ([{ dimension, name }]) => `${dimension} ${name}`,
    maxLength: 4,
  })
  .map((all) =>
    all.map(([at, each]) => ({
      ...at,
      value: at.dimension === "team" || at.dimension === "label" ? (each ?? "a") : each,
    })),
  )
  .filter((all) => all.filter((each) => each.value === null).length <= eachMax);
const scope: fc.Arbitrary<Scope> = conditions.map((all) => {
  const text = all.length === 0 ? "all" : all.map((each) => formatScope({ conditions: [each] })).join(" ");
  const read = readScope(text);
  if (!read.ok) throw new Error(`${text} ${read.fault}`);
  return read.scope;
});
const values = fc.dictionary(fc.constantFrom("x", "session"), value, { noNullPrototype: true });
const caller: fc.Arbitrary<Caller> = fc.record({
  key: fc.oneof(value, fc.constant("")),
  team: fc.option(value, { nil: null }),
  labels: values,
  user: fc.option(value, { nil: null }),
  tags: values,
  models: fc.uniqueArray(value, { minLength: 1, maxLength: 3 }),
});

it("a scope is stored in the same form for any order of its conditions", () => {
  fc.assert(
    fc.property(scope, fc.func(fc.nat()), (each, keyOf) => {
      const text = formatScope(each);
      const shuffled = text.split(" ").sort((a, b) => keyOf(a) - keyOf(b));
      expect(readScope(shuffled.join("  "))).toEqual({ ok: true, scope: each });
      const order = each.conditions.map((one) => (one.value === null ? 10 : 0) + dimensions.indexOf(one.dimension));
      expect(order).toEqual(order.toSorted((a, b) => a - b));
    }),
    { numRuns: runs(500) },
  );
});

it("a request meets the conditions of each of its windows", () => {
  fc.assert(
    fc.property(scope, caller, (each, who) => {
      fc.pre(appliesTo(each, who));
      const subjects = subjectsOf(each, who);
      expect(subjects.length).toBe(eachOf(each).includes("model") ? who.models?.length : 1);
      expect(new Set(subjects).size).toBe(subjects.length);
      for (const subject of subjects) {
        const met = conditionsOf(each, subject).filter(({ value: stated }) => stated !== "");
        expect(appliesTo({ conditions: met }, who)).toBe(true);
        if (!hasSubjects(each)) expect(subject).toBe("");
      }
      expect(mayApplyTo(each, who)).toBe(true);
      expect(anchorsOf(who)).toContain(anchorOf(each));
    }),
    { numRuns: runs(1000) },
  );
});

it.each([
  ["key:alice tag:session=run_1", "session:run_1"],
  ["key:alice user:u_1", "user:u_1"],
  ["team:red user:u_1 each-model", "user:u_1"],
  ["team:red key:alice", "key:alice"],
  ["team:red each-user", "team:red"],
  ["label:env=prod each-user", ""],
])(
  "requests find the budget of %s under the anchor %j, its most specific team, key, user or session",
  (text, anchor) => {
    expect(anchorOf(parseScope(text) ?? everyRequest)).toBe(anchor);
  },
);

it("two requests share a window only if they agree on every `each-…`", () => {
  fc.assert(
    fc.property(scope, caller, caller, (each, a, b) => {
      fc.pre(appliesTo(each, a) && appliesTo(each, b) && !eachOf(each).includes("model"));
      const isShared = String(subjectsOf(each, a)) === String(subjectsOf(each, b));
      const valueIn = (who: Caller, name: string) =>
        ({
          key: who.key,
          user: who.user ?? "",
          "tag:x": who.tags?.["x"] ?? "",
          "tag:session": who.tags?.["session"] ?? "",
        })[name];
      expect(isShared).toBe(eachOf(each).every((name) => valueIn(a, name) === valueIn(b, name)));
      if (isShared && limitsOneKey(each)) expect(a.key).toBe(b.key);
    }),
    { numRuns: runs(1000) },
  );
});

it.each<[string, Partial<Caller>, boolean, boolean]>([
  ["all", {}, true, true],
  ["model:gpt-5*", {}, false, true],
  ["model:gpt-5*", { models: ["gpt-4o"] }, false, true],
  ["model:gpt-5*", { models: ["gpt-4o", "gpt-5-mini"] }, true, true],
  ["each-model", {}, false, true],
  ["each-model", { models: [] }, false, true],
  ["each-user", {}, false, true],
  ["each-user", { user: null }, true, true],
  ["user:u", { user: null }, false, true],
  ["each-tag:x", {}, false, true],
  ["each-tag:x", { tags: {} }, true, true],
  ["tag:x=1", { tags: { x: "2" } }, false, true],
  ["tag:session=run_1", { tags: { session: "run_2" } }, false, false],
  ["tag:session=mine", {}, false, true],
  ["label:env=prod", { labels: { env: "prod" } }, true, true],
  ["label:env=prod", { labels: { env: "test" } }, false, false],
  ["label:env=prod", {}, false, false],
  ["label:toString=prod", { labels: {} }, false, false],
  ["key:k", { key: "" }, false, false],
  ["each-key", { key: "" }, false, false],
  ["team:t", { team: null }, false, false],
])("%s applies to %j: %s, and may apply to the caller: %s", (text, who, applies, mayApply) => {
  const read = readScope(text);
  if (!read.ok) return expect(text).toBe("label:toString=prod");
  const request = { key: "k", team: "t", ...who };
  expect([appliesTo(read.scope, request), mayApplyTo(read.scope, request)]).toEqual([applies, mayApply]);
});

it.each([
  ["", "must not be empty"],
  ["team", 'contains "team", which is not a condition'],
  ["all key:a", 'contains "all", which is not a condition'],
  ["key:a\u0007", "must not contain control characters"],
  ["key:a each-key", "must state key only once"],
  ["tag:x=1 each-tag:x", "must state tag:x only once"],
  ["each-key each-user each-model", 'must have at most 2 conditions that start with "each-"'],
])("the scope %j %s", (text, fault) => {
  expect(readScope(text)).toEqual({ ok: false, fault });
});

it.each([
  ["key:k1 model:gpt*", "", "key:alice model:gpt*", null],
  ["team:red each-key", "k1", "each-key:red", "key=alice"],
  ["each-key each-tag:x", "k1 a%20b", "each-key each-tag:x", "key=alice tag:x=a%20b"],
  ["each-model each-user", "gpt-5 k1", "each-model each-user", "model=gpt-5 user=k1"],
  ["each-key", "gone", "each-key", "key=gone"],
  ["team:red each-user", "", "team:red each-user", "no user"],
  ["each-key each-user", "k1 ", "each-key each-user", "key=alice no user"],
])("%s with the subject %j is shown as %s and %j", (text, subject, shownScope, shownSubject) => {
  const read = readScope(text);
  const nameOf = (id: string) => (id === "k1" ? "alice" : undefined);
  if (!read.ok) throw new Error(read.fault);
  expect([namedScope(read.scope, nameOf), namedSubject(read.scope, subject, nameOf)]).toEqual([
    shownScope,
    shownSubject,
  ]);
  const values = readSubject(read.scope, namedSubject(read.scope, subject, (id) => id) ?? "");
  if (shownSubject !== null) expect(subjectOf(values ?? ["?"])).toBe(subject);
});

it.each([
  ["each-user", "u_42", ["u_42"]],
  ["each-user", "a%20b", ["a b"]],
  ["each-user", "user=a=b", ["a=b"]],
  ["each-user", "key=a", undefined],
  ["each-user", "", undefined],
  ["each-user", "a b", undefined],
  ["each-user", "no user", [""]],
  ["each-key each-user", "a", undefined],
  ["each-key each-user", "key=a user=b", ["a", "b"]],
  ["each-key each-user", "key=a no user", ["a", ""]],
  ["each-key each-user", "key=a no users", undefined],
  ["each-key each-user", "user=b key=a", undefined],
  ["each-key each-user", "key=a user=b user=c", undefined],
])("a subject of %s, %j, is parsed as %j", (text, subject, values) => {
  const read = readScope(text);
  if (!read.ok) throw new Error(read.fault);
  expect(readSubject(read.scope, subject)).toEqual(values);
});
