import { expect, it } from "vitest";
import { assertNever, invariant } from "../../../src/core/assert.ts";

it("a broken invariant throws an error that describes it", () => {
  expect(() => assertNever({ kind: "new" } as never)).toThrow('unreachable: {"kind":"new"}');
  expect(() => invariant(false, "a hold is an amount")).toThrow("invariant broken: a hold is an amount");
  expect(() => invariant(true, "a hold is an amount")).not.toThrow();
});
