import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { withMembersHidden } from "../../../src/wire/json-edit.ts";
import { valueAt } from "../../../src/wire/json.ts";

const isSecret = (name: string) => name.includes("secret");

function hiddenIn(text: string): string {
  return withMembersHidden(Buffer.from(text), isSecret, "<hidden>").toString();
}

/** Hides the secret members of a parsed value. A comparison of parsed values ignores the spaces of the JSON text. */
function reference(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reference);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, isSecret(name) ? "<hidden>" : reference(inner)]),
  );
}

describe("withMembersHidden", () => {
  it.each([
    ['{"secret":"x","plain":"secret"}', '{"secret":"<hidden>","plain":"secret"}'],
    ['{ "a" : [ {"secret" : {"b":[1,"}"]} , "n" : 1.50 } ] }', '{ "a" : [ {"secret" : "<hidden>" , "n" : 1.50 } ] }'],
    ['{"secr\\u0065t":null}', '{"secr\\u0065t":"<hidden>"}'],
    ['{"secret":1,"secret":12345678901234567890}', '{"secret":"<hidden>","secret":"<hidden>"}'],
    ['["secret",":"]', '["secret",":"]'],
    ['{"text":"\\"secret\\":1"}', '{"text":"\\"secret\\":1"}'],
  ])("hides the secret members of %s", (text, expected) => expect(hiddenIn(text)).toBe(expected));

  it("hides the same members as a search of the parsed value, and returns the same bytes if none is hidden", () => {
    const name = fc.constantFrom("secret", "my_secret_name", "plain", '"', "");
    const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
      tree: fc.oneof(
        { depthSize: "small" },
        fc.jsonValue({ maxDepth: 1 }),
        fc.string(),
        fc.array(tie("tree")),
        fc.dictionary(name, tie("tree")),
      ),
    }));
    fc.assert(
      fc.property(tree, fc.constantFrom(undefined, 1), (value, indent) => {
        const bytes = Buffer.from(JSON.stringify(value, null, indent));
        const result = withMembersHidden(bytes, isSecret, "<hidden>");
        expect(JSON.stringify(JSON.parse(result.toString()))).toBe(
          JSON.stringify(reference(JSON.parse(bytes.toString()))),
        );
        if (!bytes.includes('secret":') && !bytes.includes('name":')) expect(result).toBe(bytes);
      }),
    );
  });

  it("takes time in proportion to the length, also for deep nesting", () => {
    const depth = 300_000;
    const text = `${'{"a":['.repeat(depth)}{"secret":1}${"]}".repeat(depth)}`;
    expect(hiddenIn(text)).toBe(text.replace(":1", ':"<hidden>"'));
  });
});

describe("valueAt", () => {
  it.each([
    ['{"a":{"b":1.50}}', ["a", "b"], "1.50"],
    ['{"a":1,"a":{"b":"x"}}', ["a", "b"], '"x"'],
    ['{"a":[1]}', ["a", "b"], undefined],
    ["[]", ["a"], undefined],
    ['{"a":null}', ["a"], "null"],
  ])("looks in %s for the value at %j", (text, path, expected) => {
    const bytes = Buffer.from(text);
    const place = valueAt(bytes, path);
    expect(place && bytes.toString("utf8", place.valueStart, place.valueEnd)).toBe(expected);
  });
});
