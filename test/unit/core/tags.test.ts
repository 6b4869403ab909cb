import { expect, it } from "vitest";
import { isTagName, tagsMax, tagValueBytesMax } from "../../../src/core/tags.ts";

it("a tag's name is as that of a key", () => {
  const names = ["a", "7", "app", "a.b_c-d", "a".repeat(63)];
  const others = ["", "A", "-a", ".a", "a b", "ä", "a".repeat(64), "a=b", " a"];
  expect([...names, ...others].filter(isTagName)).toEqual(names);
  expect([tagsMax, tagValueBytesMax]).toEqual([8, 128]);
});
