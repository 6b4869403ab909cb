import { expect, it } from "vitest";
import { serviceTierOf } from "../../../src/core/request-terms.ts";

it.each([
  ["fast", "priority"],
  ["Fast", "priority"],
  ["priority", "priority"],
  ["flex", "flex"],
  ["ultrafast", "ultrafast"],
  ["default", null],
  ["", null],
  [undefined, null],
  [7, "unknown"],
])("a service tier stated as %s is %s", (stated, name) => {
  expect(serviceTierOf(stated)).toBe(name);
});
