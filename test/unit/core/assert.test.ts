import { expect, it } from "vitest";
import { assertNever, invariant } from "../../../src/core/assert.ts";

it("a bug is named", () => {
  expect(() => assertNever({ kind: "new" } as never)).toThrow('unreachable: {"kind":"new"}');
  expect(() => invariant(false, "a hold is an amount")).toThrow("invariant broken: a hold is an amount");
  expect(() => invariant(true, "a hold is an amount")).not.toThrow();
});
