import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { chatTranscript } from "../../../src/wire/chat-stream.ts";
import { responsesTranscript } from "../../../src/wire/endpoints/responses-answer.ts";
import type { StreamAnswer } from "../../../src/wire/stream-output.ts";
import type { StreamTranscript } from "../../../src/wire/stream-transcript.ts";
import { size } from "../../support/effort.ts";
import { cutAt } from "./streams.ts";

/** Returns a value that is absent in most cases. */
const rarely = <T>(arbitrary: fc.Arbitrary<T>, nil: T): fc.Arbitrary<T> =>
  fc.oneof({ weight: 9, arbitrary: fc.constant(nil) }, { weight: 1, arbitrary });

const count = fc.constantFrom<unknown>(0, 1, 7, 1000, 5000, -1, 1.5, "7", null);
const plainUsage = fc.record(
  {
    prompt_tokens: count,
    completion_tokens: count,
    total_tokens: fc.constantFrom(0, 8, 6000),
    prompt_tokens_details: fc.record({ cached_tokens: fc.constantFrom(0, 5, 900) }),
    server_tool_use: fc.record({ web_search_requests: fc.nat(2) }),
    service_tier: fc.constantFrom("default", "priority"),
  },
  { requiredKeys: ["prompt_tokens", "completion_tokens"] },
);
const geminiUsage = fc.record({
  promptTokenCount: fc.nat(9),
  candidatesTokenCount: fc.nat(9),
  totalTokenCount: fc.nat(30),
});
/** Members that state usage, in the places where gateways state it. */
const usageMembers: fc.Arbitrary<object> = fc.oneof(
  plainUsage.map((usage) => ({ usage })),
  fc.constantFrom<object[]>({ usage: null }, { usage: {} }, { usage: 7 }),
  geminiUsage.map((usage) => ({ usageMetadata: usage })),
  geminiUsage.map((usage) => ({ usage_metadata: usage })),
  plainUsage.map((usage) => ({ x_groq: { usage } })),
  plainUsage.map((usage) => ({ meta: { usage } })),
);
/** Members of any event that decide its charge, or only look like it. */
const decisive: fc.Arbitrary<object> = fc.oneof(
  fc.constantFrom("m", "expensive", "", "a\u0001").map((model) => ({ model })),
  fc.constantFrom("default", "priority", "auto", null, 7).map((tier) => ({ service_tier: tier })),
  fc.constantFrom<object[]>(
    { error: null },
    { error: { message: "no" } },
    { error: "no" },
    { success: false },
    { code: 500, message: "no" },
    { metadata: { model: "other" } },
    { note: "usage" },
    { note: '"usage": 5, "model": "x"' },
    { choices: null },
    { delta_unknown: "x" },
  ),
);
const text = fc.constantFrom(
  "a",
  "b",
  "usage",
  '"model":"x"',
  "ä€\u2028",
  "_call",
  "web_search_call",
  "\\u0075",
  "[DONE]",
  "",
);

const chatChoice = fc.oneof(
  fc.record({
    index: fc.nat(1),
    delta: text.map((content) => ({ content })),
    finish_reason: fc.constantFrom(null, "", "null"),
  }),
  fc.record({ index: fc.nat(1), delta: fc.constant({}), finish_reason: fc.constantFrom("stop", "error", null) }),
  fc.record({ index: fc.nat(1), delta: text.map((url) => ({ annotations: [{ type: "url_citation", url }] })) }),
  fc.record({ index: fc.nat(1), message: text.map((content) => ({ content })) }),
  fc.record({ index: fc.nat(1), delta: text.map((name) => ({ tool_calls: [{ index: 0, function: { name } }] })) }),
  fc.tuple(fc.nat(1), plainUsage).map(([index, usage]) => ({ index, delta: {}, usage })),
  fc.tuple(fc.nat(1), plainUsage).map(([index, usage]) => ({ index, delta: { content: "a", usage } })),
);
const chatEvent: fc.Arbitrary<object> = fc
  .tuple(
    fc.constant({ id: "c", model: "m" }),
    fc.array(chatChoice, { maxLength: 2 }),
    rarely(usageMembers, {}),
    rarely(decisive, {}),
  )
  .map(([head, choices, usage, more]) => ({ ...head, choices, ...usage, ...more }));

const item = fc.oneof(
  text.map((content) => ({ type: "message", id: "i1", content: [{ type: "output_text", text: content }] })),
  fc
    .constantFrom("web_search_call", "file_search_call", "function_call", "local_shell_call", "mcp_call")
    .map((type) => ({
      type,
      id: `${type}1`,
    })),
  fc.constant({ type: "web_search_call", id: "w", action: { type: "open_page" } }),
);
const responseObject = fc
  .tuple(fc.array(item, { maxLength: 3 }), rarely(usageMembers, { usage: null }), rarely(decisive, {}))
  .map(([output, usage, more]) => ({ id: "r", model: "m", output, ...usage, ...more }));
const responsesEvent: fc.Arbitrary<object> = fc
  .tuple(
    fc.oneof(
      fc.tuple(text, fc.nat(1)).map(([delta, index]) => ({
        type: "response.output_text.delta",
        item_id: `i${index}`,
        output_index: index,
        delta,
      })),
      text.map((whole) => ({ type: "response.output_text.done", item_id: "i1", output_index: 0, text: whole })),
      fc
        .tuple(fc.constantFrom("added", "done"), fc.nat(2), item)
        .map(([end, index, value]) => ({ type: `response.output_item.${end}`, output_index: index, item: value })),
      fc
        .tuple(
          fc.constantFrom("created", "in_progress", "completed", "incomplete", "failed", "cancelled"),
          responseObject,
        )
        .map(([end, response]) => ({ type: `response.${end}`, response })),
      fc.constant({ type: "error", message: "no", code: "server_error" }),
    ),
    rarely(fc.oneof(usageMembers, decisive), {}),
  )
  .map(([event, more]) => ({ ...event, ...more }));

/** Events that no endpoint sends: heartbeats, errors, and JSON of another kind. */
const strayEvent = fc.constantFrom("[DONE]", "ping", "keep-alive", "{", "null", "7", '"a"', "[]", "{}", ": PROCESSING");

/** Usual ends of a stream, which state everything. */
const chatEnd = [
  '{"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
  '{"model":"m","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":7}}',
  "[DONE]",
];
const responsesEnd = [
  '{"type":"response.completed","response":{"model":"m","output":[{"type":"message","id":"i1","content":[]}],"usage":{"input_tokens":7,"output_tokens":7}}}',
];

/** The same ends without tokens of output. */
const withoutOutput = (end: readonly string[]) =>
  end.map((data) => data.replace(/"(completion|output)_tokens":7/, '"$1_tokens":0'));

/** Writes an event as JSON, with spaces as Python writes them or with a member whose name is escaped. */
const written = (event: fc.Arbitrary<object>): fc.Arbitrary<string> =>
  fc.tuple(event, fc.nat(12)).map(([value, way]) => {
    const json = JSON.stringify(value);
    if (way === 0) return json.replaceAll('"usage"', '"\\u0075sage"').replaceAll('"model"', '"mod\\u0065l"');
    if (way === 1) return json.replaceAll('":', '": ').replaceAll(',"', ', "');
    if (way === 2) return json.replaceAll('"usage":', '"usage"\ndata: :\ndata:');
    return json;
  });

function streamOf(event: fc.Arbitrary<object>, end: readonly string[]): fc.Arbitrary<Buffer> {
  const one = fc.oneof({ weight: 9, arbitrary: written(event) }, { weight: 1, arbitrary: strayEvent });
  return fc
    .record({
      events: fc.array(one, { maxLength: 12 }),
      end: fc.constantFrom(end, end, end, withoutOutput(end), []),
      markAt: rarely(fc.nat(12), -1),
      after: rarely(fc.array(one, { maxLength: 2 }), []),
      lineEnd: fc.constantFrom("\n", "\n", "\r\n", "\r"),
      mark: rarely(fc.constant("\ufeff"), ""),
      comment: rarely(fc.constantFrom(": ping", "event: x", "odd line"), ""),
      isOpen: rarely(fc.constant(true), false),
    })
    .map(({ events, end: last, markAt, after, lineEnd, mark, comment, isOpen }) => {
      const all = [...events, ...last, ...after];
      const lines = all.map(
        (data, index) =>
          `${index === markAt ? "\ufeff" : ""}${comment && comment + lineEnd}data: ${data}${lineEnd}${lineEnd}`,
      );
      const whole = (mark + lines.join(""))
        .replaceAll("\n", lineEnd === "\n" ? "\n" : lineEnd)
        .replaceAll("\r\r", "\r");
      return Buffer.from(isOpen ? whole.slice(0, -2 * lineEnd.length) : whole);
    });
}

function readBy(create: () => StreamTranscript, pieces: readonly Buffer[], end: "end" | "everything"): StreamAnswer {
  const transcript = create();
  for (const piece of pieces) transcript.push(piece);
  return transcript[end]();
}

describe.each([
  ["chat", chatTranscript, streamOf(chatEvent, chatEnd)],
  ["Responses", responsesTranscript, streamOf(responsesEvent, responsesEnd)],
] as const)("the end of a %s stream", (_, create, streams) => {
  it("states what the whole stream states", () => {
    let shortcuts = 0;
    let all = 0;
    fc.assert(
      fc.property(streams, fc.array(fc.nat(2000), { maxLength: 3 }), (stream, places) => {
        const { texts, uncountable, ...full } = readBy(() => create(), [stream], "everything");
        const short = readBy(() => create(), cutAt(stream, places), "end");
        const { texts: shortTexts, uncountable: shortUncountable, ...rest } = short;
        expect(rest).toEqual(full);
        const isWhole = full.usage === undefined || shortTexts.length > 0;
        if (isWhole) expect([shortTexts, shortUncountable]).toEqual([texts, uncountable]);
        all++;
        if (texts.length > 0 && shortTexts.length === 0) shortcuts++;
      }),
      { numRuns: size(100_000, 3_000) },
    );
    // Otherwise the property would compare the full reader with itself.
    expect(shortcuts / all).toBeGreaterThan(0.01);
  });

  it("completes a stream by its tail only if the whole stream is complete", () => {
    let completed = 0;
    let all = 0;
    fc.assert(
      fc.property(streams, fc.array(fc.nat(2000), { maxLength: 3 }), (stream, places) => {
        const transcript = create();
        const [first, ...rest] = cutAt(stream, places);
        if (first !== undefined) transcript.push(first);
        if (rest.length > 1) transcript.read();
        for (const piece of rest) transcript.push(piece);
        const { isComplete } = transcript.tail();
        const { finished } = transcript.everything();
        if (isComplete) expect(finished).toBe(true);
        all += finished ? 1 : 0;
        completed += isComplete ? 1 : 0;
      }),
      { numRuns: size(50_000, 1_500) },
    );
    expect(completed / all).toBeGreaterThan(0.1);
  });
});
