import { expect, it } from "vitest";
import { storedCharsMax, storedText } from "../../../src/wire/json.ts";

it.each([
  ["", ""],
  ["a", "a"],
  ["a".repeat(256), "a".repeat(256)],
  ["a".repeat(257), "a".repeat(256)],
  ["\uD83D", "\uD83D"],
  [`${"a".repeat(255)}\uD83D`, `${"a".repeat(255)}\uD83D`],
  [`${"a".repeat(255)}😀`, "a".repeat(255)],
  [`${"a".repeat(254)}😀`, `${"a".repeat(254)}😀`],
  [`${"a".repeat(254)}😀b`, `${"a".repeat(254)}😀`],
  [`😀${"a".repeat(255)}`, `😀${"a".repeat(254)}`],
])("a text is stored up to 256 characters, without half a surrogate pair (case %#)", (text, stored) => {
  expect(storedText(text)).toBe(stored);
  expect(storedCharsMax).toBe(256);
});
