import * as fc from "fast-check";
import { expect, it } from "vitest";
import { formatScope, parseScope, scopesWeighingOn, weighsOn, type Caller, type Scope } from "../../../src/core/budget.ts";

const name = fc.constantFrom("a", "b", "c");
const team = fc.option(name, { nil: null });
const scope: fc.Arbitrary<Scope> = fc.oneof(
  fc.constant<Scope>({ kind: "all" }),
  name.map((each): Scope => ({ kind: "team", team: each })),
  name.map((each): Scope => ({ kind: "key", key: each })),
  team.map((each): Scope => ({ kind: "eachKey", team: each })),
);
const caller: fc.Arbitrary<Caller> = fc.record({ key: fc.oneof(name, fc.constant("")), team });

it("the scopes that weigh on a caller are those of which the rule says so", () => {
  fc.assert(
    fc.property(scope, caller, (each, who) => {
      expect(scopesWeighingOn(who).includes(formatScope(each))).toBe(weighsOn(each, who));
    }),
    { numRuns: 500 },
  );
});

it("a scope is read as it was written", () => {
  fc.assert(
    fc.property(scope, (each) => {
      expect(parseScope(formatScope(each))).toEqual(each);
    }),
  );
});
