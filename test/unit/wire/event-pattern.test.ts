import * as fc from "fast-check";
import { expect, it, vi } from "vitest";
import { chatTranscript } from "../../../src/wire/chat-stream.ts";
import type { StreamAnswer } from "../../../src/wire/stream-output.ts";
import { runs } from "../../support/effort.ts";

const mark = "\u00a7";
const chunk = (delta: object, more: object = {}, ofChoice: object = {}) => ({
  id: "c",
  model: "m",
  choices: [{ index: 0, delta, finish_reason: null, ...ofChoice }],
  ...more,
});
const spent = { prompt_tokens: 3, completion_tokens: 5 };

/** Events with the place of a text, which decides everything, a part, or nothing of what an event reports. */
const events = [
  chunk({ content: mark }),
  chunk({ content: mark }, { usage: null }, { index: 1 }),
  chunk({ role: "assistant", content: mark }, { obfuscation: "content" }),
  chunk({ content: mark }, { choices: [{ index: 0, delta: { content: mark } }] }),
  chunk({ reasoning_content: mark, content: null }),
  // Copies of a text, which count once.
  chunk({ content: mark, reasoning_content: "a", reasoning: "a" }),
  chunk({ reasoning_content: mark, reasoning_details: [{ text: "a" }, { text: "b" }] }),
  chunk({ reasoning: mark, thinking: "ab" }),
  chunk({ tool_calls: [{ index: 0, function: { arguments: mark } }] }),
  chunk({ content: "a" }, {}, { message: { content: mark } }),
  chunk({}, {}, { message: { content: mark } }),
  chunk({}, {}, { text: mark }),
  chunk({ content: mark }, { unknown: "constant" }),
  chunk({ content: "a" }, { unknown: mark }),
  chunk({ content: "a", annotations: [{ type: "url_citation", url: mark }] }),
  chunk({ content: mark, annotations: [{ type: "url_citation" }] }),
  chunk({ content: mark }, { model: "expensive", service_tier: "priority" }),
  chunk({ content: "a" }, { model: mark }),
  chunk({ content: mark }, {}, { finish_reason: "stop" }),
  chunk({ content: "a" }, {}, { finish_reason: mark }),
  chunk({ content: mark }, { usage: spent }),
  chunk({ content: mark }, {}, { usage: spent }),
  chunk({ content: mark }, { error: { message: "no" } }),
  chunk({ content: mark }, {}, { finish_reason: "error" }),
  { error: { message: mark } },
  { choices: [], usage: spent, note: mark },
].map((event) => JSON.stringify(event));

/** The text as a gateway writes it. Some are other JSON in place of a text, and some are no JSON. */
const written = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom("a", "b", "ab", "c") },
  fc.string({ unit: "binary", maxLength: 4 }).map((text) => JSON.stringify(text).slice(1, -1)),
  fc.constantFrom("content", "assistant", "constant", "m", "stop", ":", ",", "", "\u00e4\u20ac"),
  fc.constantFrom("\\u0061", "\\n", '\\"', "\\\\", "\\", "\\ud800", "\\u00zz", '"', "\u0007"),
  fc.constantFrom('","usage":{"prompt_tokens":1,"completion_tokens":9},"x":"', '","x":"y', '"},"delta":{"content":"'),
);

const streams = fc.array(
  fc
    .tuple(fc.constantFrom(...events), fc.array(written, { minLength: 1, maxLength: 8 }))
    .map(([event, texts]) => texts.map((text) => event.replaceAll(mark, () => text))),
  { maxLength: 4 },
);

/** Reads a stream. Returns its content, and everything that is reported while it is read. */
function readAll(all: readonly string[]): { readonly answer: StreamAnswer; readonly reported: unknown[] } {
  const reported: unknown[] = [];
  const transcript = chatTranscript({
    text: (text, choice) => void reported.push([text, choice]),
    unknown: (bytes) => void reported.push(bytes),
    media: () => void reported.push("media"),
    usage: (usage) => void reported.push(usage),
    inFlight: () => undefined,
  });
  transcript.push(Buffer.from(all.map((data) => `data: ${data}\n\n`).join("")));
  return { answer: transcript.everything(), reported };
}

it("reads an event that differs only in its text as the parser reads it", () => {
  fc.assert(
    fc.property(streams, (all) => {
      const stream = all.flat();
      // White space in every second event has no meaning, but leaves no two events in a row with the same pattern.
      const parsed = stream.map((data, index) => (index % 2 === 0 && isJson(data) ? `${data} ` : data));
      expect(readAll(stream)).toEqual(readAll(parsed));
    }),
    { numRuns: runs(20_000) },
  );
});

function isJson(data: string): boolean {
  try {
    JSON.parse(data);
    return true;
  } catch {
    return false;
  }
}

it("parses only the first events of a stream whose events differ in their text", () => {
  const texts = Array.from({ length: 100 }, (_, index) => (index % 10 === 9 ? "\\n" : ` word${index}`));
  const stream = texts.map((text) => (events[0] ?? "").replace(mark, () => text));
  using parse = vi.spyOn(JSON, "parse");
  readAll(stream);
  expect(parse.mock.calls.filter(([data]) => data.startsWith("{"))).toHaveLength(2);
});
