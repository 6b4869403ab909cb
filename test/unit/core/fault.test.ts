import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  didYouMean,
  editDistance,
  formatFault,
  meantValue,
  messageOf,
  nearest,
  suggest,
  unknownFields,
} from "../../../src/core/fault.ts";

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
    ["outptu", "output", 1],
    ["ab", "ba", 1],
    ["alcie", "alice", 1],
    ["abc", "cab", 2],
    ["abc", "xyz", 3],
    ["ca", "abc", 3],
  ])("of %j and %j is %i", (a, b, distance) => {
    expect(editDistance(a, b)).toBe(distance);
  });

  it("is symmetric, and at most the length of the longer name", () => {
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

  it("is not matched to a short name that differs in half its letters", () => {
    expect(nearest("eve", ["dave", "bob"])).toEqual([]);
    expect(nearest("hafl", ["half", "dave"])).toEqual(["half"]);
  });

  it("is compared without regard to the case of either name", () => {
    expect(nearest("aB", ["Ab", "AB-long-name"])).toEqual(["Ab"]);
  });

  it("is matched to the nearest names first", () => {
    expect(nearest("prices", ["price", "priced", "pricing", "prices"])).toEqual(["prices", "price", "priced"]);
  });

  it("gets the nearest name as a suggestion, or the list of valid names", () => {
    expect(suggest("outptu", known)).toBe('did you mean "output"?');
    expect(suggest("zzzzzz", ["input", "output"])).toBe("valid names are input, output");
    expect(suggest("x", [])).toBe("no name is valid here");
  });

  it("gets a suggestion only if a known value is similar", () => {
    expect(didYouMean("Outptu", known)).toBe('; did you mean "output"?');
    expect(didYouMean("zzzzzz", known)).toBe("");
    expect(didYouMean(7, ["7"])).toBe("");
    expect(didYouMean("7", [7])).toBe("");
  });

  it.each([
    [
      "a value that is similar to an allowed one",
      { code: "invalid_value", input: "harp", values: ["hard", "soft"] },
      '; did you mean "hard"?',
    ],
    ["a value that is similar to none", { code: "invalid_value", input: "zzzzzz", values: ["hard", "soft"] }, ""],
    ["a value of another type", { code: "invalid_type", input: "harp", values: ["hard", "soft"] }, ""],
    ["an issue without allowed values", { code: "invalid_value", input: "harp" }, ""],
    ["an issue without a code", { input: "harp", values: ["hard", "soft"] }, ""],
  ])("of a choice has the suggestion of meantValue: %s", (_, issue, suggestion) => {
    expect(meantValue(issue)).toBe(suggestion);
  });

  it("of a field gets its own line in the message", () => {
    expect(unknownFields(["outptu", "zzzzzz"], ["output"])).toBe(
      'unknown field "outptu"; did you mean "output"?\nunknown field "zzzzzz"; valid names are output',
    );
  });

  it("of a field that belongs elsewhere, or that begins a known field, has advice", () => {
    expect(
      unknownFields(["toString", "rate", "min", "mi", 'minimum:"1"'], ["minimum"], {
        rate: "write it under `gateway`",
      }),
    ).toBe(
      [
        'unknown field "toString"; valid names are minimum',
        'unknown field "rate"; write it under `gateway`',
        'unknown field "min"; did you mean "minimum"?',
        'unknown field "mi"; valid names are minimum',
        'unknown field "minimum:\\"1\\""; write a space after "minimum:"',
      ].join("\n"),
    );
  });

  it("is reported with its file, line and column", () => {
    expect(formatFault({ file: "pricing/openai.yaml", line: 12, column: 7, message: "wrong" })).toBe(
      "pricing/openai.yaml:12:7: wrong",
    );
  });
});

it.each([
  [new Error("no room"), "no room"],
  ["thrown as text", "thrown as text"],
  [7, "7"],
])("the message of a thrown value is the error's message or the value as text: %s", (thrown, message) => {
  expect(messageOf(thrown)).toBe(message);
});
