import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonBounds, jsonMembers, jsonSkeleton, lengthInFull } from "../../../src/wire/json.ts";
import { chatTextOf, readChatRequest } from "../../../src/wire/endpoints/chat-completions.ts";
import { runs } from "../../support/effort.ts";

/** Texts that a skeleton keeps or omits, with characters that JSON escapes or that have several bytes in UTF-8. */
const pieces = fc.array(fc.constantFrom("a", '"', "\\", "\n", "é", "漢", "😀", "{", "]", ",", ":", "\u2028"), {
  minLength: 1,
  maxLength: 8,
});
const texts = fc
  .tuple(pieces, fc.oneof(fc.constant(1), fc.integer({ min: 100, max: 700 })))
  .map(([some, times]) => some.join("").repeat(times));
const values = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    texts,
    fc.integer(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(texts, tie("value"), { maxKeys: 4 }),
  ),
})).value;

/** Returns the expected skeleton of a value. Strings of more than 1,024 bytes of JSON become their length. */
function shortened(value: unknown): unknown {
  if (typeof value === "string") {
    const length = Buffer.byteLength(JSON.stringify(value)) - 2;
    return length > 1024 ? { length } : value;
  }
  if (Array.isArray(value)) return value.map(shortened);
  if (typeof value !== "object" || value === null) return value;
  return Object.entries(value).map(([name, inner]) => [shortened(name), shortened(inner)]);
}

function read(value: unknown): unknown {
  if (typeof value === "string") return value.length > 1024 ? { length: lengthInFull(value) } : value;
  if (Array.isArray(value)) return value.map(read);
  if (typeof value !== "object" || value === null) return value;
  return Object.entries(value).map(([name, inner]) => [read(name), read(inner)]);
}

describe("a skeleton", () => {
  it("has the structure of the whole text, and the length of each omitted string", () => {
    fc.assert(
      fc.property(values, fc.constantFrom(0, 1, 2), (value, indent) => {
        const skeleton = skeletonOf(JSON.stringify(value, null, indent));
        // Two long names of the same length become one. Farebox searches no object for so long a name.
        fc.pre(!hasLongNames(value));
        expect(read(JSON.parse(skeleton.toString()))).toEqual(shortened(value));
      }),
      { numRuns: runs(300) },
    );
  });

  it("is the text itself if no string is long", () => {
    const bytes = Buffer.from('{"model":"gpt-4o"}');
    expect(jsonSkeleton(bytes)).toBe(bytes);
  });

  it("is short for a text of any length", () => {
    const text = 'She said "no" \\ '.repeat(100_000);
    expect(skeletonOf(JSON.stringify({ model: "m", text })).length).toBeLessThan(1100);
  });

  it("ends a string where JSON does, for any escapes", () => {
    const piece = fc.constantFrom(
      '"',
      "\\",
      "\n",
      "a",
      " ",
      "é",
      "x".repeat(15),
      "y".repeat(16),
      "z".repeat(17),
      '\\"',
    );
    const text = fc.array(piece, { maxLength: 60 }).map((pieces) => pieces.join(""));
    fc.assert(
      fc.property(text, text, (first, second) => {
        const bytes = Buffer.from(JSON.stringify({ [`x${first}`]: second, end: 1 }));
        expect(
          jsonMembers(bytes).map(({ name, valueStart, valueEnd }) => [
            name,
            JSON.parse(bytes.toString("utf8", valueStart, valueEnd)),
          ]),
        ).toEqual([
          [`x${first}`, second],
          ["end", 1],
        ]);
      }),
      { numRuns: runs(2000) },
    );
  });
});

describe("a body that is almost all structure", () => {
  const filled = (piece: string, bytes = 20_000_000) =>
    `{"model":"gpt-4o","messages":[${piece.repeat(Math.floor(bytes / piece.length))}1]}`;
  const names = (count: number) => Array.from({ length: count }, (_, index) => `"k${index}":1`).join(",");

  it.each<[string, string]>([
    ["empty lists", filled("[],")],
    ["empty objects", filled("{},")],
    ["numbers", filled("1,")],
    ["empty texts", filled('"",')],
    ["nesting", filled("[")],
    ["nested objects", filled('{"a":')],
    ["parts", filled('{"type":"text"},')],
    ["white space", filled(" ")],
    ["an unfinished text", '{"model":"'.padEnd(20_000_000, "a")],
    ["the names of one message", `{"model":"gpt-4o","messages":[{${names(300_000)}}]}`],
    ["too many names of its own", `{"model":"gpt-4o","messages":[1],${names(10_001)}}`],
    ["one repeated name", `{"model":"gpt-4o","messages":[1],${'"k":1,'.repeat(300_000)}"k":1}`],
  ])("is refused without being parsed if it consists of %s", (_, text) => {
    expect(readChatRequest(Buffer.from(text))).toMatchObject({
      ok: false,
      refusal: { code: "invalid_request", message: expect.stringContaining("more than 500000 JSON values") },
    });
  });

  it("is accepted up to the bounds", () => {
    const many = `{"model":"gpt-4o","messages":[${"1,".repeat(jsonBounds.values - 5)}1]}`;
    expect(readChatRequest(Buffer.from(many)).ok).toBe(true);
    expect(readChatRequest(Buffer.from(many.replace("[1,", "[1,1,1,"))).ok).toBe(false);
    expect(readChatRequest(Buffer.from(`{"model":"gpt-4o","messages":[1],${names(jsonBounds.names - 2)}}`)).ok).toBe(
      true,
    );
  });
});

describe("a request with a long text", () => {
  const request = (content: unknown) =>
    Buffer.from(JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content }] }));

  it("does not read a payload as the mark of an omitted string", () => {
    const forged = `${"x".repeat(1025)}999999999`;
    const bytes = request([{ type: "image_url", image_url: { url: forged } }]);
    const read = readChatRequest(bytes);
    expect(read.ok && read.request.size.textBytes).toBe(bytes.length - forged.length);
  });

  it("is refused if its structure is invalid JSON before or after the text", () => {
    const good = request("y".repeat(5000)).toString();
    for (const bad of [good.slice(0, -1), good.slice(0, -20), good.replace('"user"', "user"), `${good}}`]) {
      expect(readChatRequest(Buffer.from(bad))).toMatchObject({ ok: false, refusal: { code: "invalid_json" } });
    }
  });

  it("that is invalid JSON inside the text is accepted, and counts in full", () => {
    const bytes = Buffer.from(
      request(`${"z ".repeat(2000)}END`)
        .toString()
        .replace("END", "\\x"),
    );
    expect(readChatRequest(bytes).ok).toBe(true);
    expect(chatTextOf(bytes).texts.join("").length).toBeGreaterThanOrEqual(4000);
  });
});

/** Returns the skeleton of JSON within the bounds. */
function skeletonOf(text: string): Buffer {
  const skeleton = jsonSkeleton(Buffer.from(text));
  if (skeleton === undefined) throw new Error("beyond the bounds");
  return skeleton;
}

function hasLongNames(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const names = Array.isArray(value) ? [] : Object.keys(value);
  return names.some((name) => name.length > 300) || Object.values(value).some(hasLongNames);
}
