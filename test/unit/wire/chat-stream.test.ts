import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { chatTranscript } from "../../../src/wire/chat-stream.ts";
import type { StreamAnswer } from "../../../src/wire/stream-output.ts";
import type { StreamTranscript } from "../../../src/wire/stream-transcript.ts";
import { collectGarbage, CountedBuffers } from "../../support/kept-buffers.ts";
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
  it("is not finished by an empty finish_reason, which some gateways state in every chunk", () => {
    const open = chunk([{ index: 0, delta: { content: "Hi" }, finish_reason: "" }], usage(100, 1));
    const cut = [streamOf(open)];
    for (const answer of [read(cut), readAll(cut)])
      expect(answer).toMatchObject({ usage: undefined, finished: false, texts: ["Hi"] });
    const whole = [streamOf(open, chunk([finish()], usage(100, 2)), done)];
    for (const answer of [read(whole), readAll(whole)])
      expect(figures(answer)).toEqual({ input: 100, output: 2, finished: true });
  });

  it("passes each text to a listener when its event is complete, and returns the same texts at the end", () => {
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
      const received: [string, number][] = [];
      const unexpected = () => expect.unreachable("it is all text");
      const transcript = chatTranscript({
        text: (text, choice) => received.push([text, choice]),
        unknown: unexpected,
        media: unexpected,
        usage: unexpected,
        inFlight: (bytes) => expect(bytes).toBe(0),
      });
      for (const piece of pieces) {
        transcript.push(piece);
        transcript.read();
      }
      expect(transcript.unreadBytes).toBe(0);
      expect(received).toEqual([
        ["Hel", 0],
        ["a", 1],
        ["hm", 1],
        ["f", 0],
        ["{}", 0],
      ]);
      expect(transcript.end()).toEqual(readAll([stream]));
    }
  });

  it("has the usage of the extra chunk", () => {
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
    ["an error event", [chunk([delta("a")]), '{"error":{"message":"x"}}'], { finished: true }],
    // The early usage must not count for the whole stream.
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
      "an empty late usage after an early one",
      [chunk([], usage(7, 1)), chunk([delta("a")]), chunk([finish()]), chunk([], { usage: {} }), done],
      { finished: true },
    ],
  ])("is read with %s", (_, events, expected) => {
    const stream = streamOf(...events);
    const whole = { input: undefined, output: undefined, ...expected };
    expect(figures(read([stream]))).toEqual(whole);
    expect(figures(readAll([stream]))).toEqual(whole);
    expect(figures(read(everyByte(stream)))).toEqual(whole);
  });

  const ofChoice = (index: number, prompt: number, completion: number) => ({
    ...finish(index),
    ...usage(prompt, completion),
  });
  const inDelta = (index: number, prompt: number, completion: number) => ({
    index,
    delta: usage(prompt, completion),
    finish_reason: "stop",
  });
  it.each<[string, string[], number | undefined, string[] | undefined]>([
    [
      "one after the other",
      [chunk([delta("a")]), chunk([ofChoice(0, 10, 500)]), chunk([delta("b", 1)]), chunk([ofChoice(1, 10, 500)]), done],
      1000,
      ["usage_contradicts"],
    ],
    [
      "after the texts of both",
      [chunk([delta("a")]), chunk([delta("b", 1)]), chunk([ofChoice(0, 10, 500)]), chunk([ofChoice(1, 10, 500)]), done],
      1000,
      ["usage_contradicts"],
    ],
    [
      "in their deltas",
      [chunk([delta("a")]), chunk([delta("b", 1)]), chunk([inDelta(0, 10, 500)]), chunk([inDelta(1, 10, 500)]), done],
      1000,
      ["usage_contradicts"],
    ],
    [
      "so far, and then of the whole",
      [
        chunk([delta("a")]),
        chunk([ofChoice(0, 10, 1)]),
        chunk([ofChoice(0, 10, 500)]),
        chunk([ofChoice(1, 10, 500)]),
        done,
      ],
      1000,
      ["usage_contradicts"],
    ],
    [
      "and of the whole answer",
      [
        chunk([delta("a")]),
        chunk([ofChoice(0, 10, 50)]),
        chunk([delta("b", 1)]),
        chunk([ofChoice(1, 10, 50)]),
        chunk([], usage(10, 100)),
        done,
      ],
      100,
      undefined,
    ],
    [
      "only of the first",
      [chunk([delta("b", 1)]), chunk([finish(1)]), chunk([delta("a")]), chunk([ofChoice(0, 10, 50)]), done],
      undefined,
      undefined,
    ],
    [
      "only of the first, in a tail without text",
      [chunk([delta("b", 1)]), chunk([delta("a")]), chunk([finish(1)]), chunk([]), chunk([ofChoice(0, 10, 50)]), done],
      undefined,
      undefined,
    ],
    [
      "of the first before its last text",
      [chunk([ofChoice(0, 10, 50)]), chunk([delta("a")]), chunk([delta("b", 1)]), chunk([ofChoice(1, 10, 50)]), done],
      undefined,
      undefined,
    ],
    [
      "of the first before a sound of its own",
      [
        chunk([ofChoice(0, 10, 50)]),
        chunk([{ index: 0, delta: { audio: { data: "AAAA" } } }]),
        chunk([delta("b", 1)]),
        chunk([ofChoice(1, 10, 50)]),
        done,
      ],
      undefined,
      undefined,
    ],
  ])("adds the usages that its choices state %s", (_, events, output, doubts) => {
    const stream = streamOf(...events);
    for (const answer of [read([stream]), readAll([stream]), read(everyByte(stream))]) {
      expect(answer.usage?.tokens.output).toBe(output);
      expect(answer.usage?.tokens.input).toBe(output && 10);
      expect(answer.usage?.doubts).toEqual(doubts);
    }
  });

  it.each<[string, string[], object, object | undefined]>([
    [
      "the prompt first and the output last",
      [
        chunk([delta("")], { usage: { input_tokens: 9000, output_tokens: 1 } }),
        chunk([delta("a")]),
        chunk([finish()], { usage: { output_tokens: 500 } }),
      ],
      { usage: { tokens: { input: 9000, output: 500 } } },
      undefined,
    ],
    [
      "0 for the other side",
      [chunk([delta("")], usage(9000, 0)), chunk([delta("a")]), chunk([finish()], usage(0, 500))],
      { usage: { tokens: { input: 9000, output: 500 } } },
      undefined,
    ],
    [
      "the output alone",
      [chunk([delta("a")]), chunk([finish()], { usage: { output_tokens: 500 } })],
      { usage: undefined },
      { usage: { tokens: { input: 0, output: 500 }, unstated: "prompt" }, later: { texts: [] }, isFinal: true },
    ],
    [
      "the prompt alone",
      [chunk([delta("a")], { usage: { prompt_tokens: 9000 } })],
      { usage: undefined, texts: ["a"] },
      {
        usage: { tokens: { input: 9000, output: 0 }, unstated: "completion" },
        later: { texts: ["a"] },
        isFinal: false,
      },
    ],
    [
      "the prompt alone, without output",
      [chunk([finish()], { usage: { prompt_tokens: 9000 } })],
      { usage: undefined },
      { usage: { tokens: { input: 9000, output: 0 } }, isFinal: false },
    ],
    [
      "the prompt alone after more output",
      [chunk([delta("a")], usage(9, 5)), chunk([delta("b")]), chunk([finish()], usage(9, 0))],
      { usage: undefined },
      { usage: { tokens: { input: 9, output: 5 } }, later: { texts: ["b"] }, isFinal: false },
    ],
  ])("has a usage that states %s", (_, events, expected, soFar) => {
    for (const answer of [read([streamOf(...events)]), readAll([streamOf(...events)])]) {
      expect(answer).toMatchObject(expected);
      if (soFar === undefined) expect(answer.usage).not.toHaveProperty("doubts");
      else expect(answer.soFar).toMatchObject(soFar);
    }
  });

  it.each<[string, boolean, string[]]>([
    ["an unknown constant", true, [chunk([delta("")], { system: "x" }), chunk([finish()], { system: "x" })]],
    ["no member", true, [chunk([delta("")]), chunk([finish()])]],
    ["an unknown member that changes", false, [chunk([], { said: "x" }), chunk([finish()], { said: "y" })]],
    ["a long unknown member", false, [chunk([finish()], { said: "x".repeat(300) })]],
    ["an unknown member of a choice", false, [chunk([{ index: 0, delta: { said: "x" }, finish_reason: "stop" }])]],
    ["an unknown member of a message", false, [chunk([{ index: 0, message: { said: "x" }, finish_reason: "stop" }])]],
    ["a sound", false, [chunk([{ index: 0, delta: { audio: { data: "AAAA" } }, finish_reason: "stop" }])]],
    ["text", false, [chunk([delta("a")]), chunk([finish()])]],
  ])("has a usage without output next to %s: %s", (_, isBelieved, events) => {
    const stream = streamOf(...events, chunk([], usage(9, 0)), done);
    for (const answer of [read([stream]), readAll([stream])]) expect(answer.usage !== undefined).toBe(isBelieved);
  });

  it("counts the text of a choice next to the usage of another", () => {
    const stream = streamOf(chunk([delta("a")]), chunk([delta("b", 1)]), chunk([ofChoice(0, 10, 500)]));
    expect(read([stream])).toMatchObject({
      usage: undefined,
      soFar: { usage: { tokens: { input: 10, output: 500 } }, later: { texts: ["b"] } },
    });
  });

  it("ignores texts that look like usage or an end", () => {
    const content =
      'data: [DONE]\n\n data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n"usage"';
    const stream = streamOf(chunk([delta(content)]));
    expect(read([stream])).toMatchObject({ usage: undefined, finished: false, texts: [content] });
  });

  it("collects text, refusal, reasoning and calls for each choice", () => {
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

  it("skips events that are not chunks", () => {
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
    // The brace is not JSON and counts as one unknown byte.
    expect(read([stream])).toEqual({
      usage: undefined,
      servedModel: null,
      texts: [],
      uncountable: { unknownBytes: 1, sealedBytes: 0, hasMedia: false },
      finished: true,
    });
  });

  it("has the same content for any cuts, whether only its tail or all of it is read", () => {
    fc.assert(
      fc.property(streams, cuts, (stream, places) => {
        const full = readAll([stream]);
        for (const chunks of [[stream], cutAt(stream, places), stream.length < 2000 ? everyByte(stream) : []]) {
          if (chunks.length === 0) continue;
          expect(readAll(chunks)).toEqual(full);
          const { texts, uncountable, ...tail } = read(chunks);
          const { texts: allTexts, uncountable: allUncountable, ...rest } = full;
          expect(tail).toEqual(rest);
          // The output is omitted only if there is a usage.
          if (full.usage === undefined) expect([texts, uncountable]).toEqual([allTexts, allUncountable]);
        }
      }),
      { numRuns: runs(400) },
    );
  });

  it("has the same content for any cuts if it is longer than the transcript's raw buffer", () => {
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

  it("keeps the output of a long stream, not its bytes", async () => {
    const transcript = chatTranscript();
    const padding = { system_fingerprint: "x".repeat(2000) };
    const bytes = streamOf(chunk([delta("a")], padding));
    const buffers = new CountedBuffers();
    for (let count = 0; count < 2_000; count++) transcript.push(buffers.copy(bytes));
    // Small pieces are copied, so only the latest one is kept.
    expect(await buffers.kept()).toBeLessThanOrEqual(1);
    expect(transcript.keptBytes).toBeLessThanOrEqual(256 * 1024 + 32 * 1024);
    expect(transcript.everything()?.texts).toEqual(["a".repeat(2_000)]);
  });

  const megabyte = 1024 * 1024;
  const flood: [string, () => string[], number][] = [
    ["texts of 40 MB", () => Array.from({ length: 40 }, () => chunk([delta("x".repeat(megabyte))])), 40 * megabyte],
    [
      // A piece counts 16 units in addition to its text, so the 16 MB are full at the 986,896th.
      "1.1 million texts of a letter",
      () => Array.from({ length: 1100 }).fill(chunk(Array.from({ length: 1000 }, () => delta("a")))) as string[],
      1_100_000,
    ],
    ["two thousand choices", () => Array.from({ length: 2000 }, (_, index) => chunk([delta("ab", index)])), 4000],
    ["an event of 20 MB", () => [chunk([delta("x".repeat(20 * megabyte))])], 20 * megabyte],
    ["an event that is not JSON", () => ["{".repeat(100_000)], 100_000],
  ];
  it.each(flood)(
    "counts the bytes of output that is not kept as text, until the gateway reports a usage: %s",
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
/** Half of the streams are longer than the tail that is read first. */
const streams = fc
  .tuple(fc.boolean(), fc.array(event, { maxLength: 10 }), framing, fc.constantFrom("", ": ping"), fc.boolean())
  .map(([isLong, events, end, comment, isOpen]) => {
    const start = isLong ? Array.from({ length: 10 }, () => chunk([delta("x".repeat(1000))])) : [];
    const text = [...start, ...events].map((data) => `${comment && comment + end}data: ${data}${end}${end}`).join("");
    return Buffer.from(isOpen ? text.slice(0, text.length - 2 * end.length) : text);
  });

describe("the tail of a chat stream", () => {
  const usage = '{"model":"m","service_tier":"default","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5}}';
  const calls = '"server_tool_use":{"web_search_requests":3}';
  const transcriptOf = (...events: readonly string[]) => {
    const transcript = chatTranscript();
    const output = '{"model":"m","choices":[{"index":0,"delta":{"content":"a"}}]}';
    const all = [output, ...events, "[DONE]"].map((event) => `data: ${event}\n\n`).join("");
    transcript.push(Buffer.from(all));
    return transcript;
  };

  it.each([
    [
      "calls before the last usage",
      `{"model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5,${calls}}}`,
      usage,
    ],
    ["calls after the usage", usage, `{"model":"m","choices":[],"usage":{${calls}}}`],
    [
      "a service tier between the usage and the end",
      usage,
      '{"choices":[],"service_tier":"priority"}',
      '{"choices":[]}',
    ],
    ["another model after the usage", usage, '{"choices":[],"model":"expensive"}'],
  ])("states the same as the whole stream: %s", (_what, ...events) => {
    const { toolCalls, serviceTier, servedModel } = transcriptOf(...events).everything();
    expect(transcriptOf(...events).end()).toMatchObject({ toolCalls, serviceTier, servedModel });
  });

  it("has the usage of the whole stream if it has unreadable lines", () => {
    const events = [`${usage}\n\n${"output in an unknown field ".repeat(400)}`];
    expect(transcriptOf(...events).end().usage).toEqual(transcriptOf(...events).everything().usage);
  });
});

describe("the memory of a stream that is read", () => {
  const piece = (index: number) => `a text of some length ${String(index).padStart(8)}`;
  let whole = "";
  it.each([
    ["in long events", (text: string) => chunk([delta(text)], { created: "x".repeat(8_000) })],
    [
      "in events that repeat the whole text",
      (text: string) => chunk([{ index: 0, message: { content: (whole += text) } }]),
    ],
  ])("is close to the size of its text, %s", (_what, eventOf) => {
    const transcript = chatTranscript();
    const before = usedMemory();
    for (let index = 0; index < 2_000; index++) transcript.push(streamOf(eventOf(piece(index))));
    transcript.read();
    expect(usedMemory() - before).toBeLessThan(4_000_000);
    expect(transcript.everything().texts).toEqual([Array.from({ length: 2_000 }, (_, index) => piece(index)).join("")]);
  });

  function usedMemory(): number {
    collectGarbage();
    return process.memoryUsage().heapUsed;
  }
});
