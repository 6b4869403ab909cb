import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UsageChunkFilter } from "../../../src/wire/usage-chunk-filter.ts";
import { cutAt, cuts, everyByte, eventStreams } from "./streams.ts";
import { runs } from "../../support/effort.ts";

const usageChunk = '{"id":"x","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5}}';

/** Events that the filter keeps although they resemble the usage event. */
const lookalikes = [
  '{"choices":[],"usage":null}',
  '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3}}',
  '{"choices":[{"delta":{"content":"{\\"choices\\":[],\\"usage\\":{}}"}}]}',
  '{"choices":[],"prompt_filter_results":[{"usage":{}}]}',
  '{"usage":{"prompt_tokens":3}}',
  '{"choices":{},"usage":{}}',
  "[DONE]",
  '"usage"',
  '{"choices":[],"usage":{',
];

interface Block {
  readonly bytes: string;
  readonly isUsage: boolean;
}

const blocks = (end: string): fc.Arbitrary<Block> =>
  fc.oneof(
    fc.constant({ bytes: `data: ${usageChunk}${end}${end}`, isUsage: true }),
    fc.constant({ bytes: `data:${usageChunk}${end}${end}`, isUsage: true }),
    fc.constant({
      bytes: `: about to end${end}event: x${end}data: ${usageChunk.replace(",", `,${end}data: `)}${end}${end}`,
      isUsage: true,
    }),
    fc.constantFrom(...lookalikes).map((data) => ({ bytes: `data: ${data}${end}${end}`, isUsage: false })),
    fc
      .constantFrom(
        `: comment "usage"${end}${end}`,
        end,
        `data${end}${end}`,
        `data: ä€😀${end}data: "usage"${end}${end}`,
      )
      .map((bytes) => ({ bytes, isUsage: false })),
  );

const streams = fc.constantFrom("\n", "\r\n", "\r").chain((end) => fc.array(blocks(end), { maxLength: 12 }));

function filtered(chunks: readonly Buffer[]): string {
  const filter = new UsageChunkFilter();
  return Buffer.concat([...chunks.map((chunk) => filter.pass(chunk)), filter.rest()]).toString();
}

describe("UsageChunkFilter", () => {
  it("removes exactly the usage events, for any cuts of the stream", () => {
    fc.assert(
      fc.property(streams, cuts, (all, places) => {
        const stream = Buffer.from(all.map(({ bytes }) => bytes).join(""));
        const expected = all
          .filter(({ isUsage }) => !isUsage)
          .map(({ bytes }) => bytes)
          .join("");
        expect(filtered([stream])).toBe(expected);
        expect(filtered(cutAt(stream, places))).toBe(expected);
        expect(filtered(everyByte(stream))).toBe(expected);
      }),
      { numRuns: runs(300) },
    );
  });

  it("changes nothing in any other stream", () => {
    fc.assert(
      fc.property(eventStreams, cuts, (stream, places) => {
        expect(filtered(cutAt(stream, places))).toBe(stream.toString());
      }),
      { numRuns: runs(1000) },
    );
  });

  it("passes everything at once except the bytes of an incomplete event", () => {
    fc.assert(
      fc.property(eventStreams, cuts, (stream, places) => {
        const filter = new UsageChunkFilter();
        let received = "";
        let passed = "";
        for (const chunk of cutAt(stream, places)) {
          received += chunk.toString("latin1");
          passed += filter.pass(chunk).toString("latin1");
          expect(passed).toBe(received.slice(0, lastEventEnd(received)));
        }
      }),
      { numRuns: runs(1000) },
    );
  });

  it("removes a usage event at the end of a stream without the last blank line", () => {
    expect(filtered([Buffer.from(`data: a\n\ndata: ${usageChunk}`)])).toBe("data: a\n\n");
    expect(filtered([Buffer.from('data: a\n\ndata: {"choices":[],"us')])).toBe('data: a\n\ndata: {"choices":[],"us');
  });

  // Missing the end of the long event at a cut blank line would let the next usage chunk pass.
  it.each(["\n", "\r\n", "\r"])("finds the end of an event too long to wait for, with the line ends %j", (end) => {
    const long = `data: ${"x".repeat(70_000)}${end}${end}`;
    const stream = Buffer.from(`${long}data: ${usageChunk}${end}${end}data: [DONE]${end}${end}`);
    for (let cut = 69_990; cut < 70_020; cut++) {
      expect(filtered(cutAt(stream, [cut]))).toBe(`${long}data: [DONE]${end}${end}`);
    }
  });

  it("passes an event above 64 KiB on as it arrives", () => {
    const filter = new UsageChunkFilter();
    const piece = Buffer.alloc(16 * 1024, "x");
    const passed = Array.from({ length: 8 }, () => filter.pass(piece).length);
    expect(passed).toEqual([0, 0, 0, 0, 5, 1, 1, 1].map((pieces) => pieces * piece.length));
  });

  it("reads a long event's bytes once, not once for each chunk", () => {
    const filter = new UsageChunkFilter();
    const byte = Buffer.from("x");
    let passed = 0;
    for (let count = 0; count < 60_000; count++) passed += filter.pass(byte).length;
    expect(passed).toBe(0);
    expect(filter.rest()).toHaveLength(60_000);
  });
});

/** Returns the end of the last blank line. A CR at the very end counts as a line end. */
function lastEventEnd(text: string): number {
  let end = 0;
  let lineStart = 0;
  for (const match of text.matchAll(/\r\n|\n|\r/g)) {
    const after = match.index + match[0].length;
    if (match.index === lineStart) end = after;
    lineStart = after;
  }
  return end;
}
