import { expect, it } from "vitest";
import { sources } from "../../../src/core/charge.ts";

it("an amount is known from one of four sources, the surest first", () => {
  expect(sources).toEqual(["reported", "counted", "partial", "assumed"]);
});
