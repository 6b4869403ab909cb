import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Beginning, type BeginningRules } from "../../../src/request/beginning.ts";
import type { ResponseEnding } from "../../../src/request/response.ts";
import { readFirst } from "../../../src/wire/usage-refusal.ts";
import { runs } from "../../support/effort.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { cutAt, cuts } from "../wire/streams.ts";

const withheld: ResponseEnding = { kind: "status", status: 500 };

/** Reads an answer with rules that withhold every error, and records what the client gets. */
function reading(rules: Partial<BeginningRules> = {}, ranMs = 0) {
  const clock = manualClock();
  const got = { begun: 0, bytes: "", isLast: false, ending: null as ResponseEnding | null };
  const beginning = new Beginning({
    rules: {
      heldMs: 2_000,
      judge(first, { isHeld, isWhole }) {
        const { kind } = readFirst(first, isWhole);
        if (kind === "open") return "open";
        return kind === "refusal" && isHeld ? withheld : "pass";
      },
      ...rules,
    },
    clock,
    ranMs: () => ranMs + clock.monotonic(),
    begin: () => void got.begun++,
    pass(bytes, isLast) {
      got.bytes += bytes.toString();
      got.isLast = isLast;
    },
    withhold(ending) {
      expect(got.ending).toBeNull();
      got.ending = ending;
    },
    fault(error) {
      throw error;
    },
  });
  return { clock, got, beginning, feed: (text: string, isLast = false) => beginning.chunk(Buffer.from(text), isLast) };
}

const output = 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n';
const error = 'data: {"error":{"message":"no"}}\n\n';
const waiting = [": wait\n\n", "data: ping\n\n", 'data: {"choices":[],"prompt_filter_results":[]}\n\n', "\n"];

describe("the beginning of an answer", () => {
  it("is passed on unchanged with everything after it, unless it is an error, however it is split", () => {
    const part = fc.constantFrom(output, error, ...waiting, "data: [DONE]\n\n");
    fc.assert(
      fc.property(fc.array(part, { maxLength: 6 }), cuts, fc.boolean(), (parts, places, isHeld) => {
        const stream = parts.join("");
        const { beginning, got } = reading(isHeld ? {} : { heldMs: 0 });
        for (const chunk of cutAt(Buffer.from(stream), places)) if (got.ending === null) beginning.chunk(chunk, false);
        if (got.ending === null) beginning.end();
        const isError = isHeld && parts.find((each) => each === output || each === error) === error;
        expect(got).toMatchObject(
          isError ? { begun: 0, bytes: "", ending: withheld } : { begun: 1, bytes: stream, ending: null },
        );
      }),
      { numRuns: runs(2_000) },
    );
  });

  it("is held until its first output, and no longer than that", () => {
    const { feed, got, clock } = reading();
    for (const part of waiting) feed(part);
    feed(output.slice(0, 20));
    expect(got).toMatchObject({ begun: 0, bytes: "" });
    feed(output.slice(20), true);
    expect(got).toMatchObject({ begun: 1, bytes: waiting.join("") + output, isLast: true });
    expect(clock.waiting, "no timer is left").toBe(0);
    feed(error);
    expect(got).toMatchObject({ ending: null, bytes: waiting.join("") + output + error });
  });

  it.each([
    [0, 2_000],
    [1_500, 500],
  ])("is held for two seconds since the request was sent, %i ms ago", (ranMs, leftMs) => {
    const { feed, got, clock } = reading({}, ranMs);
    feed(": wait\n\n");
    clock.advance(leftMs - 1);
    expect(got.begun).toBe(0);
    clock.advance(1);
    expect(got).toMatchObject({ begun: 1, bytes: ": wait\n\n" });
    feed(error);
    expect(got).toMatchObject({ ending: null, bytes: `: wait\n\n${error}` });
  });

  it("begins at once after these two seconds", () => {
    const { feed, got, clock } = reading({}, 2_000);
    expect(got.begun).toBe(1);
    feed(error);
    expect(got).toMatchObject({ begun: 1, bytes: error, ending: null });
    expect(clock.waiting).toBe(0);
  });

  it("is held up to 64 KiB", () => {
    const { feed, got } = reading();
    const line = `: ${"x".repeat(1021)}\n`;
    for (let count = 0; count < 64; count++) feed(line);
    expect(got.begun).toBe(0);
    feed("\n");
    expect(got).toMatchObject({ begun: 1, bytes: `${line.repeat(64)}\n` });
  });

  it("is passed on if the answer breaks off", () => {
    const { feed, got, beginning, clock } = reading();
    feed(output.slice(0, 20));
    beginning.release();
    expect(got).toMatchObject({ begun: 1, bytes: output.slice(0, 20), ending: null });
    expect(clock.waiting).toBe(0);
  });

  it.each([
    ['\ufeff{"error":"no"}', true],
    [' \n[{"error":"no"}]', true],
    ['data: {"error":"no"}', true],
    ['{"choices":[{"message":{"content":"a"}}]}', false],
    ['{"error":null}', false],
    ['{"code":10001,"message":"no"}', true],
    ['data: {"choices":null,"message":"no"}\n\n', true],
    ['data: {"choices":[],"message":"no"}\n\n', false],
    ['{"choices":[{"message":{"content":""},"finish_reason":"stop"}],"detail":"no"}', false],
    ["", false],
    ["Internal error", false],
  ])("that ends after %j is withheld: %s", (answer, isWithheld) => {
    const { feed, beginning, clock } = reading();
    feed(answer);
    expect(beginning.end()).toBe(isWithheld);
    expect(clock.waiting).toBe(0);
  });
});

describe("the first JSON of an answer", () => {
  it.each([
    '{"choices":[],"usage":{"prompt_tokens":9000,"completion_tokens":0}}',
    '{"type":"message_start","message":{"usage":{"input_tokens":9000}}}',
    '{"response":"500 words"}',
    '{"type":"content_block_delta","delta":{"text":"a"}}',
    '{"type":"response.output_text.delta","delta":"a"}',
    '{"choices":[],"text":"a"}',
    '{"output":{"text":"a"}}',
    '{"message":{"role":"assistant","content":"a"}}',
    '{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}',
    '{"choices":[{"message":{"content":""},"finish_reason":"stop"}],"code":10000}',
  ])("is an answer, which may be billed: %s", (text) => {
    expect(readFirst(JSON.parse(text) as object)).toEqual({ kind: "answer" });
    const { feed, got } = reading();
    feed(`data: ${text}\n\n`);
    feed(error);
    expect(got, "nothing after it is withheld").toMatchObject({ begun: 1, ending: null });
  });

  it.each([
    '{"token":{"id":7,"text":"a"}}',
    '{"word":"a"}',
    '[{"word":"a"}]',
    '{"error":{"message":"no","usage":{"prompt_tokens":1000}}}',
    '{"error":{"message":"no"},"response":"a"}',
    '{"error":{"message":"no","code":401}}',
  ])("is neither an answer nor a refusal: %s", (text) => {
    expect(readFirst(JSON.parse(text) as object)).toEqual({ kind: "other" });
  });

  it.each([
    "{}",
    "[]",
    '{"type":"ping"}',
    '{"type":"status","status":"processing","message":"Searching the web","data":null}',
    '{"choices":null,"status":"queued","message":"waiting"}',
    '{"choices":null,"message":"waiting"}',
    '{"choices":[],"message":"processing"}',
    '{"code":10001,"message":"waiting"}',
    '{"event":"message","code":100,"data":null}',
    '{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":0}}',
    '{"choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"severity":"safe"}}}]}',
  ])("does not decide: %s", (text) => {
    expect(readFirst(JSON.parse(text) as object)).toEqual({ kind: "open" });
  });
});
