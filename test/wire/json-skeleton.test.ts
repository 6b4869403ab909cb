import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonSkeleton, lengthInFull } from "../../src/wire/json-skeleton.ts";
import { chatTextOf, readChatRequest } from "../../src/wire/chat-request.ts";

/** Texts around the length from which they are cut out, with all that is escaped in JSON or longer than a byte in UTF-8. */
const pieces = fc.array(fc.constantFrom("a", '"', "\\", "\n", "é", "漢", "😀", "{", "]", ",", ":", "\u2028"), { minLength: 1, maxLength: 8 });
const texts = fc.tuple(pieces, fc.oneof(fc.constant(1), fc.integer({ min: 100, max: 700 }))).map(([some, times]) => some.join("").repeat(times));
const values = fc.letrec((tie) => ({
  value: fc.oneof({ depthSize: "small" }, texts, fc.integer(), fc.constant(null), fc.array(tie("value"), { maxLength: 4 }), fc.dictionary(texts, tie("value"), { maxKeys: 4 })),
})).value;

/** What a skeleton must hold, made from the whole value: strings of more than 1,024 bytes of JSON become their length. */
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
  it("has the structure of the whole, and the length of each string that was cut out", () => {
    fc.assert(
      fc.property(values, fc.constantFrom(0, 1, 2), (value, indent) => {
        const skeleton = jsonSkeleton(Buffer.from(JSON.stringify(value, null, indent)));
        // Two long names of the same length become one: such an object is looked at for no name that is as long.
        fc.pre(!hasLongNames(value));
        expect(read(JSON.parse(skeleton.toString()))).toEqual(shortened(value));
      }),
      { numRuns: 300 },
    );
  });

  it("is the text itself where no string is long", () => {
    const bytes = Buffer.from('{"model":"gpt-4o"}');
    expect(jsonSkeleton(bytes)).toBe(bytes);
  });

  it("is short however long the text is", () => {
    const text = 'She said "no" \\ '.repeat(100_000);
    expect(jsonSkeleton(Buffer.from(JSON.stringify({ model: "m", text }))).length).toBeLessThan(1100);
  });
});

describe("a request with a long text", () => {
  const request = (content: unknown) => Buffer.from(JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content }] }));

  it("takes no text for a payload, whatever it looks like", () => {
    const forged = `${"x".repeat(1025)}999999999`;
    const bytes = request([{ type: "image_url", image_url: { url: forged } }]);
    const read = readChatRequest(bytes);
    expect(read.ok && read.request.size.textBytes).toBe(bytes.length - forged.length);
  });

  it("is refused where its structure is no JSON, before and behind the text", () => {
    const good = request("y".repeat(5000)).toString();
    for (const bad of [good.slice(0, -1), good.slice(0, -20), good.replace('"user"', "user"), `${good}}`]) {
      expect(readChatRequest(Buffer.from(bad))).toMatchObject({ ok: false, refusal: { code: "invalid_json" } });
    }
  });

  it("that is no JSON inside is the gateway's to refuse, and counts with all that it has", () => {
    const bytes = Buffer.from(request(`${"z ".repeat(2000)}END`).toString().replace("END", "\\x"));
    expect(readChatRequest(bytes).ok).toBe(true);
    expect(chatTextOf(bytes).texts.join("").length).toBeGreaterThanOrEqual(4000);
  });
});

function hasLongNames(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const names = Array.isArray(value) ? [] : Object.keys(value);
  return names.some((name) => name.length > 300) || Object.values(value).some(hasLongNames);
}
