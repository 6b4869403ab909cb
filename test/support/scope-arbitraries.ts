import * as fc from "fast-check";
import { dimensions, formatScope, readScope, type Caller, type Condition, type Scope } from "../../src/core/scope.ts";

/** Values that the encoding, JSON, patterns or SQL could misinterpret. */
const awkward = ["a b", "50%", "%20", "_", "x*", "[a]", "?", "é", '"', "\\", "'"];
const names = ["session", "feature", "env.a-b"];

const valueOf = fc.constantFrom("u1", "run_one", "run_two", "1", "null", ...awkward);
const modelOf = fc.constantFrom("gpt-5", "gpt-5-mini", "GPT-5", "gpt", "xy", ...awkward);
const patternOf = fc.constantFrom("gpt-5", "gpt-5*", "*", "*-mini", "g*5*", "[a]*", "?*", "_*", "%*", "\\*", "x*");
const members = fc.dictionary(fc.constantFrom(...names), valueOf, { maxKeys: 3 });

/** Caller whose values are all known. */
export type KnownCaller = { readonly [Name in keyof Caller]-?: Exclude<Caller[Name], undefined> };

/** Callers whose values are all known. */
export const callers: fc.Arbitrary<KnownCaller> = fc.record({
  key: fc.constantFrom("", "k-alice", "k-bob", "k%20b"),
  team: fc.constantFrom(null, "red", "blue"),
  labels: members,
  user: fc.option(valueOf, { freq: 3 }),
  tags: members,
  models: fc.uniqueArray(modelOf, { minLength: 1, maxLength: 3 }),
});

const condition: fc.Arbitrary<Condition> = fc.constantFrom(...dimensions).chain((dimension) => {
  const name = dimension === "tag" || dimension === "label" ? fc.constantFrom(...names) : fc.constant("");
  const stated = {
    team: fc.constantFrom("red", "blue"),
    key: fc.constantFrom("k-alice", "k-bob", "k%20b"),
    label: valueOf,
    model: patternOf,
    user: valueOf,
    tag: valueOf,
  }[dimension];
  const value: fc.Arbitrary<string | null> =
    dimension === "team" || dimension === "label" ? stated : fc.option(stated, { freq: 2 });
  return fc.record({ dimension: fc.constant(dimension), name, value });
});

/** Scopes of every form. */
export const scopes: fc.Arbitrary<Scope> = fc
  .uniqueArray(condition, { maxLength: 3, selector: ({ dimension, name }) => `${dimension} ${name}` })
  .map((conditions) =>
    conditions.length === 0 ? "all" : conditions.map((each) => formatScope({ conditions: [each] })).join(" "),
  )
  .map(readScope)
  .filter((read) => read.ok)
  .map(({ scope }) => scope);
