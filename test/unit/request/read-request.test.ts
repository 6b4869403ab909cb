import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BodyBytes } from "../../../src/ports/exchange.ts";
import { readTogether } from "../../../src/request/read-request.ts";
import { endpoints } from "../../../src/wire/endpoints/endpoints.ts";
import { readChatRequest } from "../../../src/wire/endpoints/chat-completions.ts";
import { runs } from "../../support/effort.ts";

const long = 'She said "no", 漢 and \\ '.repeat(60);

/** Bodies that every endpoint reads in its own way: accepted, refused and damaged ones. */
const bodies: readonly Buffer[] = [
  ...[
    `{"model":"gpt-4o","messages":[{"role":"user","content":${JSON.stringify(long)}}],"max_tokens":5,"stream":true}`,
    `{"mod\\u0065l":"gpt-4o","model":"other","messages":[{"role":"user","content":"é\\ud83d 😀"}]}`,
    `{"model":"gpt-4o","models":["a","b"],"input":${JSON.stringify([long, "x"])},"prompt":"p","unknown":{"model":"o3"}}`,
    `{"model":"tts-1","input":"Hello","voice":"alloy","prompt":"a cat","n":2,"size":"1024x1024"}`,
    '\ufeff{"model":"gpt-4o"}',
    ' \n{"model" : "gpt-4o" ,\t"messages":[ {"role":"user","content":"a"} ] } ',
    '{"model":"gpt-4o","messages":[',
    `${"[".repeat(3000)}${"]".repeat(3000)}`,
    "",
  ].map((text) => Buffer.from(text)),
  Buffer.from('{"model":"gpt-4o","messages":[{"role":"user","content":"\xff\xc3"}]}', "latin1"),
];

function cut(bytes: Buffer, at: readonly number[]): BodyBytes {
  const cuts = [0, ...at.toSorted((a, b) => a - b), bytes.length];
  return new BodyBytes(cuts.slice(1).map((end, index) => Buffer.from(bytes.subarray(cuts[index], end))));
}

/** Returns what an endpoint read, without its functions. */
function shown(read: unknown): string {
  return JSON.stringify(read);
}

describe("a body in pieces", () => {
  it("is read by each endpoint like one piece, for any cut", () => {
    for (const { readRequest } of endpoints)
      for (const bytes of bodies) {
        const whole = shown(readRequest(bytes));
        for (let at = 0; at <= bytes.length; at += bytes.length > 2000 ? 37 : 1)
          expect(shown(readTogether(cut(bytes, [at]), readRequest))).toBe(whole);
      }
  });

  it("is read like one piece if it is cut several times", () => {
    fc.assert(
      fc.property(fc.constantFrom(...bodies), fc.array(fc.nat(3000), { maxLength: 9 }), (bytes, at) => {
        const body = cut(
          bytes,
          at.map((each) => Math.min(each, bytes.length)),
        );
        expect(shown(readTogether(body, readChatRequest))).toBe(shown(readChatRequest(bytes)));
      }),
      { numRuns: runs(200) },
    );
  });

  it("keeps the result of its read when the next body is read", () => {
    for (const { readRequest } of endpoints)
      for (const bytes of bodies) {
        const read = readTogether(cut(bytes, [1]), readRequest);
        const before = shown(read);
        readTogether(new BodyBytes([Buffer.alloc(5000, "x"), Buffer.alloc(5000, "y")]), () => undefined);
        expect(shown(read)).toBe(before);
      }
  });

  it("is read whole if it is larger than the copy buffer", () => {
    const body = new BodyBytes([Buffer.alloc(400_000, "a"), Buffer.alloc(400_000, "b")]);
    expect(readTogether(body, (bytes) => [bytes.length, bytes.indexOf("b")])).toEqual([800_000, 400_000]);
  });
});

describe("the bytes of a body", () => {
  it("are joined once", () => {
    const body = new BodyBytes([Buffer.from("ab"), Buffer.from("c")]);
    expect([body.length, body.pieces.length]).toEqual([3, 2]);
    expect(body.whole.toString()).toBe("abc");
    expect(body.whole).toBe(body.whole);
    expect(body.pieces).toEqual([Buffer.from("abc")]);
  });

  it("may be empty", () => {
    expect(new BodyBytes([]).whole).toHaveLength(0);
  });

  it("are not copied if they are one piece", () => {
    const bytes = Buffer.from("abc");
    expect(new BodyBytes([bytes]).whole).toBe(bytes);
  });
});
