import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { chatTranscript, isUsageChunk } from "../../../src/wire/chat-stream.ts";
import type { StreamAnswer, StreamTranscript } from "../../../src/wire/stream-output.ts";
import { liveBufferBytes } from "../../support/memory.ts";
import { cutAt, cuts, everyByte } from "./streams.ts";
import { runs } from "../../support/effort.ts";

function chunk(choices: readonly object[], more: object = {}): string {
  return JSON.stringify({ id: "c", object: "chat.completion.chunk", model: "gpt-4o-x", choices, ...more });
}
const delta = (content: string, index = 0): object => ({ index, delta: { content }, finish_reason: null });
const finish = (index = 0): object => ({ index, delta: {}, finish_reason: "stop" });
const usage = (prompt: number, completion: number) => ({
  usage: { prompt_tokens: prompt, completion_tokens: completion },
});

function streamOf(...events: string[]): Buffer {
  return Buffer.from(events.map((data) => `data: ${data}\n\n`).join(""));
}

function transcriptOf(chunks: readonly Buffer[]): StreamTranscript {
  const transcript = chatTranscript();
  for (const piece of chunks) transcript.push(piece);
  return transcript;
}
const read = (chunks: readonly Buffer[]): StreamAnswer => transcriptOf(chunks).end();
const readAll = (chunks: readonly Buffer[]): StreamAnswer => transcriptOf(chunks).everything();
const figures = ({ usage, finished }: StreamAnswer) => ({
  input: usage?.tokens.input,
  output: usage?.tokens.output,
  finished,
});

const done = "[DONE]";

describe("a chat stream", () => {
  it("passes each text of each choice to a listener once its event is complete, and returns the same at the end", () => {
    const events = [
      chunk([delta("Hel")]),
      chunk([delta("a", 1)]),
      chunk([{ index: 1, delta: { reasoning_content: "hm" } }]),
      chunk([{ index: 0, delta: { tool_calls: [{ index: 0, function: { name: "f", arguments: "{}" } }] } }]),
      chunk([finish()]),
      done,
    ];
    const stream = streamOf(...events);
    for (const pieces of [[stream], everyByte(stream)]) {
      const heard: [string, number][] = [];
      const unexpected = () => expect.unreachable("it is all text");
      const transcript = chatTranscript({
        text: (text, choice) => heard.push([text, choice]),
        unknown: unexpected,
        media: unexpected,
        inFlight: (bytes) => expect(bytes).toBe(0),
      });
      for (const piece of pieces) transcript.push(piece);
      expect(heard).toEqual([
        ["Hel", 0],
        ["a", 1],
        ["hm", 1],
        ["f", 0],
        ["{}", 0],
      ]);
      expect(transcript.end()).toEqual(readAll([stream]));
    }
  });

  it("finds the usage in the extra chunk", () => {
    const stream = streamOf(
      chunk([delta("Hel")]),
      chunk([delta("lo")]),
      chunk([finish()]),
      chunk([], usage(7, 2)),
      done,
    );
    expect(read([stream])).toMatchObject({
      servedModel: "gpt-4o-x",
      finished: true,
      usage: { tokens: { input: 7, output: 2 } },
    });
    expect(readAll([stream]).texts).toEqual(["Hello"]);
  });

  it.each<[string, string[], object]>([
    [
      "usage in the last choice chunk",
      [chunk([delta("a")]), chunk([finish()], usage(7, 1)), done],
      { input: 7, output: 1, finished: true },
    ],
    [
      "usage in the extra chunk, no [DONE]",
      [chunk([delta("a")]), chunk([finish()]), chunk([], usage(7, 1))],
      { input: 7, output: 1, finished: true },
    ],
    [
      "usage after [DONE]",
      [chunk([delta("a")]), chunk([finish()]), done, chunk([], usage(7, 1))],
      { input: 7, output: 1, finished: true },
    ],
    [
      "cumulative usage in every chunk",
      [chunk([delta("a")], usage(7, 1)), chunk([delta("b")], usage(7, 2)), chunk([finish()], usage(7, 2)), done],
      { input: 7, output: 2, finished: true },
    ],
    [
      "cumulative usage, then cut",
      [chunk([delta("a")], usage(7, 1)), chunk([delta("b")], usage(7, 2))],
      { finished: false },
    ],
    [
      "usage null in every chunk",
      [chunk([delta("a")], { usage: null }), chunk([finish()], { usage: null }), done],
      { finished: true },
    ],
    ["an empty usage", [chunk([delta("a")]), chunk([finish()]), chunk([], { usage: {} }), done], { finished: true }],
    ["a negative usage", [chunk([delta("a")]), chunk([finish()]), chunk([], usage(7, -1)), done], { finished: true }],
    [
      "a fractional usage",
      [chunk([delta("a")]), chunk([finish()]), chunk([], usage(7, 1.5)), done],
      { finished: true },
    ],
    ["no usage", [chunk([delta("a")]), chunk([finish()]), done], { finished: true }],
    ["[DONE] alone at the end", [chunk([delta("a")]), done], { finished: true }],
    ["no end", [chunk([delta("a")])], { finished: false }],
    ["nothing", [], { finished: false }],
    ["an error event", [chunk([delta("a")]), '{"error":{"message":"x"}}'], { finished: false }],
    // The early usage would have been booked for the whole stream.
    [
      "an early usage chunk, then cut",
      [chunk([], usage(7, 1)), chunk([delta("a")]), chunk([delta("b")])],
      { finished: false },
    ],
    [
      "an early usage chunk, then a whole stream without one",
      [chunk([], usage(7, 1)), chunk([delta("a")]), chunk([finish()]), done],
      { finished: true },
    ],
    [
      "an early usage chunk and a late one",
      [chunk([], usage(7, 1)), chunk([delta("a")]), chunk([finish()]), chunk([], usage(7, 9)), done],
      { input: 7, output: 9, finished: true },
    ],
    [
      "a late usage that says nothing after an early one",
      [chunk([], usage(7, 1)), chunk([delta("a")]), chunk([finish()]), chunk([], { usage: {} }), done],
      { finished: true },
    ],
  ])("reads a stream with %s", (_, events, expected) => {
    const stream = streamOf(...events);
    const whole = { input: undefined, output: undefined, ...expected };
    expect(figures(read([stream]))).toEqual(whole);
    expect(figures(readAll([stream]))).toEqual(whole);
    expect(figures(read(everyByte(stream)))).toEqual(whole);
  });

  it("is not fooled by texts that look like usage or an end", () => {
    const said = 'data: [DONE]\n\n data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n"usage"';
    const stream = streamOf(chunk([delta(said)]));
    expect(read([stream])).toMatchObject({ usage: undefined, finished: false, texts: [said] });
  });

  it("collects each choice's words: text, refusal, reasoning, calls", () => {
    const stream = streamOf(
      chunk([delta("one", 0), delta("two", 1)]),
      chunk([
        { index: 1, delta: { refusal: " no" } },
        { index: 0, delta: { reasoning_content: " hm" } },
      ]),
      chunk([{ index: 0, delta: { tool_calls: [{ index: 0, function: { name: "f", arguments: '{"a"' } }] } }]),
      chunk([{ index: 0, delta: { tool_calls: [{ index: 0, function: { arguments: ":1}" } }] } }]),
      done,
    );
    expect(readAll([stream]).texts).toEqual(['one hmf{"a":1}', "two no"]);
  });

  it("survives whatever is no chunk", () => {
    const stream = streamOf(
      "{",
      "null",
      "7",
      "[]",
      '{"choices":7}',
      '{"choices":[null,{"delta":7}]}',
      '{"usage":[]}',
      done,
    );
    // The brace is no JSON: one byte that nothing explains.
    expect(read([stream])).toEqual({
      usage: undefined,
      servedModel: null,
      texts: [],
      uncountable: { unknownBytes: 1, sealedBytes: 0, hasMedia: false },
      finished: true,
    });
  });

  it("says the same however a stream is cut, and from its tail what it says from all of it", () => {
    fc.assert(
      fc.property(streams, cuts, (stream, places) => {
        const full = readAll([stream]);
        for (const chunks of [[stream], cutAt(stream, places), stream.length < 2000 ? everyByte(stream) : []]) {
          if (chunks.length === 0) continue;
          expect(readAll(chunks)).toEqual(full);
          const { texts, uncountable, ...tail } = read(chunks);
          const { texts: all, uncountable: beside, ...rest } = full;
          expect(tail).toEqual(rest);
          // What was written is left out only where a usage makes it needless.
          if (full.usage === undefined) expect([texts, uncountable]).toEqual([all, beside]);
        }
      }),
      { numRuns: runs(400) },
    );
  });

  it("says the same of streams beyond what it keeps raw", () => {
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 6 }),
        fc.integer({ min: 100, max: 400 }),
        fc.integer({ min: 1, max: 70_000 }),
        (last, many, step) => {
          const long = Array.from({ length: many }, (_, index) => chunk([delta(`${index} `.padEnd(1000, "é"))]));
          const stream = streamOf(...long, ...last);
          const places = Array.from({ length: Math.ceil(stream.length / step) }, (_, index) => index * step);
          const full = readAll([stream]);
          const answer = read(cutAt(stream, places.length > 5000 ? [] : places));
          expect({ ...answer, texts: [], uncountable: null }).toEqual({ ...full, texts: [], uncountable: null });
          if (answer.usage === undefined) expect(answer.texts).toEqual(full.texts);
        },
      ),
      { numRuns: runs(40) },
    );
  });

  it("keeps of a long stream what it said, not its bytes", () => {
    const transcript = chatTranscript();
    const padding = { system_fingerprint: "x".repeat(2000) };
    const before = liveBufferBytes();
    const bytes = streamOf(chunk([delta("a")], padding));
    for (let count = 0; count < 20_000; count++) transcript.push(bytes);
    expect(liveBufferBytes() - before).toBeLessThan(20_000_000);
    expect(transcript.everything()?.texts).toEqual(["a".repeat(20_000)]);
  });

  const megabyte = 1024 * 1024;
  const flood: [string, () => string[], number][] = [
    ["texts of 40 MB", () => Array.from({ length: 40 }, () => chunk([delta("x".repeat(megabyte))])), 40 * megabyte],
    [
      // A piece counts for 16 units beside its text, so the 16 MB end at the 986,896th.
      "1.1 million texts of a letter",
      () => Array.from({ length: 1100 }).fill(chunk(Array.from({ length: 1000 }, () => delta("a")))) as string[],
      1_100_000,
    ],
    ["two thousand choices", () => Array.from({ length: 2000 }, (_, index) => chunk([delta("ab", index)])), 4000],
    ["an event of 20 MB", () => [chunk([delta("x".repeat(20 * megabyte))])], 20 * megabyte],
    ["an event that is no JSON", () => ["{".repeat(100_000)], 100_000],
  ];
  it.each(flood)(
    "counts a flood by its bytes where it does not keep it, and by what the gateway reports of it: %s",
    (_, events, bytes) => {
      const transcript = chatTranscript();
      for (const one of events()) transcript.push(streamOf(one));
      const { texts, uncountable } = transcript.everything();
      const kept = texts.reduce((sum, text) => sum + text.length, 0);
      expect(kept).toBeLessThanOrEqual(16 * megabyte);
      expect(kept + (uncountable?.unknownBytes ?? 0)).toBeGreaterThanOrEqual(bytes);
      expect(kept + (uncountable?.unknownBytes ?? 0)).toBeLessThan(bytes + 1000);
      transcript.push(streamOf(chunk([finish()]), chunk([], usage(5, 6)), done));
      expect(figures(transcript.end())).toEqual({ input: 5, output: 6, finished: true });
    },
  );
});

const anyUsage = fc.oneof(
  fc.constant({}),
  fc.constantFrom<object[]>(
    { usage: null },
    { usage: {} },
    { usage: { prompt_tokens: -1, completion_tokens: 2 } },
    { usage: { prompt_tokens: 1.5, completion_tokens: 2 } },
    { usage: 7 },
  ),
  fc.tuple(fc.nat(50), fc.nat(50)).map(([prompt, completion]) => usage(prompt, completion)),
);
const anyChoice = fc.oneof(
  fc
    .tuple(fc.constantFrom("", "a", "ä€", '"usage"', "[DONE]"), fc.nat(2))
    .map(([content, index]) => delta(content, index)),
  fc.nat(2).map(finish),
);
const event = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.tuple(fc.array(anyChoice, { maxLength: 2 }), anyUsage).map(([choices, more]) => chunk(choices, more)),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      done,
      "{",
      "null",
      '{"error":{}}',
      '{"usage":{"prompt_tokens":1,"completion_tokens":1}}',
    ),
  },
);
const framing = fc.constantFrom("\n", "\r\n", "\r");
/** Half of them are longer than the tail that is looked at first. */
const streams = fc
  .tuple(fc.boolean(), fc.array(event, { maxLength: 10 }), framing, fc.constantFrom("", ": ping"), fc.boolean())
  .map(([isLong, events, end, comment, isOpen]) => {
    const start = isLong ? Array.from({ length: 10 }, () => chunk([delta("x".repeat(1000))])) : [];
    const text = [...start, ...events].map((data) => `${comment && comment + end}data: ${data}${end}${end}`).join("");
    return Buffer.from(isOpen ? text.slice(0, text.length - 2 * end.length) : text);
  });

describe("isUsageChunk", () => {
  it.each([
    ['{"choices":[],"usage":{"prompt_tokens":1}}', true],
    ['{"choices":[],"usage":{}}', true],
    ['{"choices":[],"usage":null}', false],
    ['{"choices":[{}],"usage":{}}', false],
    ['{"usage":{}}', false],
    ["[DONE]", false],
    ['{"usage"', false],
  ])("of %s: %s", (data, expected) => expect(isUsageChunk(data)).toBe(expected));
});
