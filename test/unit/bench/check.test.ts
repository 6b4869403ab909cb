import { describe, expect, it } from "vitest";
import { checkReference, meaningOf } from "../../../bench/check.ts";

const contentType = "text/event-stream; charset=utf-8";
const events = [
  'data: {"choices":[{"delta":{"content":"a"}}]}',
  'data: {"choices":[{"delta":{"content":"b"}}]}',
  'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}',
  'data: {"choices":[],"usage":{"completion_tokens":2}}',
  "data: [DONE]",
];
const check = (lines: readonly string[], status = 200, type = contentType) =>
  checkReference(
    { name: "stream", deltas: 2 },
    { status, contentType: type, body: Buffer.from(lines.map((line) => `${line}\n\n`).join("")) },
  );

describe("the check of the gateway's stream", () => {
  it("accepts a complete stream", () => {
    expect(() => check(events)).not.toThrow();
  });

  it.each([
    ["status 200", () => check(events, 500)],
    ["the content type text/event-stream", () => check(events, 200, "application/json")],
    ["2 deltas", () => check(events.slice(1))],
    ["only data events", () => check([...events.slice(0, 2), ": comment", ...events.slice(2)])],
    ["its usage in the last chunk", () => check(events.filter((line) => !line.includes("usage")))],
    ["[DONE] at its end", () => check([...events.slice(0, -1), "data: [done]"])],
  ])("requires %s", (what, attempt) => {
    expect(attempt).toThrow(what);
  });
});

describe("the meaning of an answer that a proxy rewrote", () => {
  const stream = (lines: readonly string[]) =>
    meaningOf({ deltas: 2 }, Buffer.from(lines.map((line) => `${line}\n\n`).join("")));

  it("is the same with additional fields and other spaces", () => {
    const rewritten = events.map((line) =>
      line.startsWith("data: {")
        ? `data: ${JSON.stringify({ ...(JSON.parse(line.slice(6)) as object), service_tier: null })}`
        : line,
    );
    expect(stream(rewritten)).toBe(stream(events));
    const plain = (text: string) => meaningOf({ deltas: null }, Buffer.from(text));
    expect(
      plain('{ "usage":{"completion_tokens":2,"prompt_tokens":1}, "choices":[{"message":{"content":"a"}}] }'),
    ).toBe(plain('{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}'));
  });

  it.each([
    ["a delta", events.slice(1)],
    ["its usage", events.filter((line) => !line.includes("usage"))],
    ["its end", events.slice(0, -1)],
    ["the same text", events.map((line) => line.replace('"b"', '"c"'))],
  ])("differs without %s", (_, lines) => {
    expect(stream(lines)).not.toBe(stream(events));
  });
});
