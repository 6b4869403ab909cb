import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { mediaTranscript } from "../../../src/wire/endpoints/images.ts";
import { JsonOutline } from "../../../src/wire/json-outline.ts";
import { cutAt, cuts, everyByte } from "./streams.ts";
import { runs } from "../../support/effort.ts";

function outlineOf(chunks: readonly Buffer[], lines = false): string {
  const pieces: Buffer[] = [];
  const outline = new JsonOutline((piece) => pieces.push(Buffer.from(piece)), { lines });
  for (const chunk of chunks) outline.push(chunk);
  return Buffer.concat(pieces).toString();
}

/** Returns the expected outline of a value, without long strings and the content of values nested deeper than three. */
function expected(value: unknown, depth = 1): unknown {
  if (typeof value === "string") return Buffer.byteLength(JSON.stringify(value)) - 2 > 1024 ? "…" : value;
  if (Array.isArray(value))
    return depth > 3 ? value.slice(0, 1).map(() => "…") : value.map((item) => expected(item, depth + 1));
  if (typeof value !== "object" || value === null) return value;
  return depth > 3
    ? Object.fromEntries(Object.keys(value).length > 0 ? [["…", "…"]] : [])
    : Object.fromEntries(
        Object.entries(value).map(([name, item]) => [expected(name, depth), expected(item, depth + 1)]),
      );
}

const text = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.constantFrom('"', "\\", '\\"]}', "x".repeat(2000), '\\"'.repeat(600), "é".repeat(513)),
);
const json = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 6 },
    text,
    fc.integer(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(
      fc.string().filter((name) => name !== "__proto__"),
      tie("value"),
      { maxKeys: 4 },
    ),
  ),
})).value;

describe("the outline of a JSON text", () => {
  it("is the text without long strings and deeply nested values, for any cuts", () => {
    fc.assert(
      fc.property(json, fc.constantFrom("", "\t", "  "), cuts, (value, indent, places) => {
        const bytes = Buffer.from(JSON.stringify(value, null, indent));
        const outline = outlineOf([bytes]);
        expect(JSON.parse(outline)).toEqual(expected(value));
        expect(outlineOf(cutAt(bytes, places))).toBe(outline);
        expect(outlineOf(everyByte(bytes))).toBe(outline);
      }),
      { numRuns: runs(500) },
    );
  });

  it("restarts with each line of a stream of events, also after an unfinished line", () => {
    const events = [
      "event: a\n",
      'data: {"b64":"x\n',
      'data: {"a":[[{"b":"c\\\n',
      `data: {"b64":"${"x".repeat(5000)}","usage":{"a":1}}\n\n`,
    ];
    const bytes = Buffer.from(events.join(""));
    expect(outlineOf([bytes], true)).toContain('data: {"b64":"…","usage":{"a":1}}\n\n');
    expect(outlineOf(everyByte(bytes), true)).toBe(outlineOf([bytes], true));
  });

  it("takes time in proportion to its bytes, also for a line that has only strings", () => {
    const strings = Buffer.from(`data: [${'"",'.repeat(300_000)}0]\n\n`);
    expect(outlineOf([strings], true)).toBe(strings.toString());
    const transcript = mediaTranscript(["image_generation.completed"]);
    transcript.push(strings);
    transcript.push(
      Buffer.from(
        'data: {"type":"image_generation.completed","usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}\n\n',
      ),
    );
    expect(transcript.end()).toMatchObject({ finished: true, usage: { tokens: { input: 1, output: 2 } } });
  });

  it("keeps nothing of the content of a long string", () => {
    const written: number[] = [];
    const outline = new JsonOutline((piece) => written.push(piece.length));
    outline.push(Buffer.from('{"data":[{"b64_json":"'));
    for (let count = 0; count < 500; count++) outline.push(Buffer.alloc(65_536, 0x41));
    outline.push(Buffer.from('"}]}'));
    expect(written.reduce((sum, length) => sum + length, 0)).toBeLessThan(40);
  });
});
