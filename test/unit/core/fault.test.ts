import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { editDistance, formatFault, nearest, suggest, unknownFields } from "../../../src/core/fault.ts";

describe("the distance of two names", () => {
  it.each([
    ["", "", 0],
    ["", "abc", 3],
    ["abc", "", 3],
    ["abc", "abc", 0],
    ["abc", "abd", 1],
    ["abc", "ab", 1],
    ["ab", "abc", 1],
    ["abc", "bc", 1],
    ["kitten", "sitting", 3],
    ["outptu", "output", 2],
    ["abc", "xyz", 3],
    ["ca", "abc", 3],
  ])("%j and %j is %i", (a, b, distance) => {
    expect(editDistance(a, b)).toBe(distance);
  });

  it("is the same both ways, and at most one for each letter", () => {
    const word = fc.string({ maxLength: 8 });
    fc.assert(
      fc.property(word, word, (a, b) => {
        const distance = editDistance(a, b);
        expect(distance).toBe(editDistance(b, a));
        expect(distance).toBeGreaterThanOrEqual(Math.abs(a.length - b.length));
        expect(distance).toBeLessThanOrEqual(Math.max(a.length, b.length));
      }),
    );
  });
});

describe("a mistyped name", () => {
  const known = ["input", "output", "minimum", "ab", "abc"];
  it.each<[string, string[]]>([
    ["outptu", ["output"]],
    ["OUTPUT", ["output"]],
    ["input1", ["input"]],
    ["abx", ["ab", "abc"]],
    ["abcd", ["abc"]],
    ["xbx", []],
    ["minimum123", ["minimum"]],
    ["minimum1234", []],
    ["", []],
  ])("%j may mean %j", (given, names) => {
    expect(nearest(given, known)).toEqual(names);
  });

  it("compares without regard to case, the known name's too", () => {
    expect(nearest("aB", ["Ab", "AB-long-name"])).toEqual(["Ab"]);
  });

  it("has the nearest of several first", () => {
    expect(nearest("prices", ["price", "pricing", "prices"])).toEqual(["prices", "price", "pricing"]);
  });

  it("is answered with the nearest, or with what is known", () => {
    expect(suggest("outptu", known)).toBe('did you mean "output"?');
    expect(suggest("zzzzzz", ["input", "output"])).toBe("known are input, output");
    expect(suggest("x", [])).toBe("none is known here");
  });

  it("has a line for each field", () => {
    expect(unknownFields(["outptu", "zzzzzz"], ["output"])).toBe(
      'unknown field "outptu"; did you mean "output"?\nunknown field "zzzzzz"; known are output',
    );
  });

  it("is shown with its position", () => {
    expect(formatFault({ file: "pricing/openai.yaml", line: 12, column: 7, message: "wrong" })).toBe(
      "pricing/openai.yaml:12:7: wrong",
    );
  });
});
