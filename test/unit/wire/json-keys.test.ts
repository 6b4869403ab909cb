import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonMembers } from "../../../src/wire/json.ts";
import { runs } from "../../support/effort.ts";

/** Parses a value for a comparison. JSON.parse treats `__proto__` like any other name. */
const parsed = (bytes: Buffer): unknown => JSON.parse(bytes.toString());

function membersOf(text: string): [string, unknown][] {
  const bytes = Buffer.from(text);
  return jsonMembers(bytes).map(({ name, valueStart, valueEnd }) => [
    name,
    parsed(bytes.subarray(valueStart, valueEnd)),
  ]);
}

const space = fc.string({ unit: fc.constantFrom(" ", "\n", "\r", "\t"), maxLength: 3 });
const name = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.constantFrom("model", "__proto__", "", '"', "\\", "ключ", "\ud800"),
);
const value = fc.oneof(
  fc.json(),
  fc.json({ maxDepth: 8 }),
  fc.string({ unit: "binary" }).map((text) => JSON.stringify(text)),
);

/** Returns the text as JSON, with every character escaped if `escapes` is true. */
function written(text: string, escapes: boolean): string {
  if (!escapes) return JSON.stringify(text);
  const units = Array.from({ length: text.length }, (_, index) => text.charCodeAt(index).toString(16).padStart(4, "0"));
  return `"${units.map((unit) => `\\u${unit}`).join("")}"`;
}

describe("jsonMembers", () => {
  it("finds every member in order, also repeated ones, with the value that JSON.parse reads", () => {
    const member = fc.record({ name, value, escapes: fc.boolean(), spaces: fc.tuple(space, space, space, space) });
    fc.assert(
      fc.property(fc.array(member, { maxLength: 8 }), space, space, (members, before, after) => {
        const texts = members.map(
          ({ name, value, escapes, spaces: [a, b, c, d] }) => `${a}${written(name, escapes)}${b}:${c}${value}${d}`,
        );
        const text = `${before}{${members.length === 0 ? before : texts.join(",")}}${after}`;
        JSON.parse(text);
        const expected = members.map(({ name, value }) => [name, JSON.parse(Buffer.from(value).toString())]);
        expect(membersOf(text)).toEqual(expected.map(([key, inner]) => [key, inner]));
      }),
      { numRuns: runs(2000) },
    );
  });

  it("finds the keys of any JSON object, and none in other values", () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        const whole: unknown = JSON.parse(text);
        const isObject = typeof whole === "object" && whole !== null && !Array.isArray(whole);
        const found = new Map(membersOf(text));
        expect([...found.keys()].sort()).toEqual(isObject ? Object.keys(whole).sort() : []);
      }),
      { numRuns: runs(1000) },
    );
  });

  it("reads nesting of a hundred thousand levels", () => {
    const deep = "[".repeat(100_000) + "]".repeat(100_000);
    const text = Buffer.from(`{"a":${deep},"b":${'{"x":'.repeat(100_000)}1${"}".repeat(100_000)},"c":1}`);
    expect(() => JSON.parse(text.toString())).not.toThrow();
    const members = jsonMembers(text);
    expect(members.map(({ name }) => name)).toEqual(["a", "b", "c"]);
    expect(members[0]).toMatchObject({ valueStart: 5, valueEnd: 5 + deep.length });
  });

  it("ignores the contents of texts", () => {
    expect(membersOf('{"a":"}\\",\\"b\\":1","c\\\\":"\\\\","d":[{"e":"]}"}]}')).toEqual([
      ["a", '}","b":1'],
      ["c\\", "\\"],
      ["d", [{ e: "]}" }]],
    ]);
  });
});
