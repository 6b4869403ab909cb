import { expect, it } from "vitest";
import { readRetry } from "../../../src/wire/headers.ts";

it.each([
  ["0", 0],
  ["1", 1],
  ["2", 2],
  ["1000", 1000],
  // Any other value counts as a first try.
  [undefined, 0],
  ["", 0],
  ["1001", 0],
  ["99999999999999999999", 0],
  ["-1", 0],
  ["+1", 0],
  ["1.5", 0],
  ["1e2", 0],
  ["0x1", 0],
  [" 1", 0],
  ["1, 2", 0],
  ["true", 0],
])("x-stainless-retry-count: %j is %d", (header, retry) => {
  expect(readRetry(header)).toBe(retry);
});
