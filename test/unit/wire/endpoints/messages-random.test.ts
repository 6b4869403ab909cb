import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readings } from "../../../../src/core/several-usages.ts";
import { completionTotal, promptTotal, type Usage } from "../../../../src/core/usage.ts";
import { messagesTranscript, readAnswer } from "../../../../src/wire/endpoints/messages-answer.ts";
import type { StreamAnswer } from "../../../../src/wire/stream-output.ts";
import { runs } from "../../../support/effort.ts";
import {
  event,
  messageAnswer,
  messageDelta,
  messageStart,
  messageStop,
  ping,
  startUsage,
  textBlock,
  textDelta,
} from "../../../support/messages-stream.ts";

/* Random streams of Anthropic's API, also cut: they never cost less than what they stated. */

type Stated = Partial<Record<string, unknown>>;

const count = fc.oneof(fc.nat(10), fc.nat(200_000));
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const split = fc.record({ ephemeral_5m_input_tokens: count, ephemeral_1h_input_tokens: count });
const counts = {
  input_tokens: maybe(fc.option(count)),
  cache_read_input_tokens: maybe(fc.option(count)),
  output_tokens: maybe(fc.option(count)),
};
const run = fc.record({
  type: fc.constantFrom("message", "compaction", "advisor_message", "wonder"),
  input_tokens: count,
  cache_read_input_tokens: maybe(count),
  output_tokens: maybe(count),
  model: maybe(fc.constantFrom("opus", "haiku")),
});
const noWrites: fc.Arbitrary<object> = fc.constant({});
const writes: fc.Arbitrary<object> = split.map((cache_creation) => ({
  cache_creation,
  cache_creation_input_tokens: cache_creation.ephemeral_5m_input_tokens + cache_creation.ephemeral_1h_input_tokens,
}));
const unsplit: fc.Arbitrary<object> = count.map((tokens) => ({ cache_creation_input_tokens: tokens }));
const usage: fc.Arbitrary<Stated> = fc
  .tuple(
    fc.record({ ...counts, iterations: maybe(fc.array(run, { maxLength: 4 })) }),
    fc.oneof(noWrites, writes, unsplit),
  )
  .map(([stated, written]) => ({ ...stated, ...written }));

/** Usage of a first event or a whole answer. Without the input tokens, a usage is not credible. */
const firstUsage: fc.Arbitrary<Stated> = fc
  .tuple(usage, count)
  .map(([stated, input_tokens]) => ({ ...stated, input_tokens }));

/** Event of a stream, with the usage that it states. */
interface StatedEvent {
  readonly text: string;
  readonly usage?: Stated;
}

const middle: fc.Arbitrary<StatedEvent> = fc.oneof(
  fc.string({ maxLength: 30 }).map((text) => ({ text: textDelta(text) })),
  fc.constantFrom(textBlock(["Hello", " you"]), ping, event("wonder", { text: "x" })).map((text) => ({ text })),
  usage.map((stated) => ({ text: messageDelta(stated, ""), usage: stated })),
);
const last: fc.Arbitrary<StatedEvent> = fc.oneof(
  usage.map((stated) => ({ text: messageDelta(stated) + messageStop, usage: stated })),
  fc
    .constantFrom("", messageStop, event("error", { error: { type: "api_error", message: "x" } }))
    .map((text) => ({ text })),
);
const stream: fc.Arbitrary<readonly StatedEvent[]> = fc
  .tuple(firstUsage, fc.array(middle, { maxLength: 6 }), last)
  .map(([start, between, end]) => [{ text: messageStart(start), usage: start }, ...between, end]);

/** Returns the largest number that any of the usages states under a name. */
function most(usages: readonly Stated[], name: string): number {
  return Math.max(0, ...usages.map((stated) => Number(stated[name] ?? 0)));
}

function read(bytes: Buffer): StreamAnswer {
  const transcript = messagesTranscript();
  transcript.push(bytes);
  return transcript.end();
}

/** Returns the usage that an answer is charged by, whole or as far as it was stated. */
function chargedBy({ usage: whole, soFar }: Pick<StreamAnswer, "usage" | "soFar">): Usage | undefined {
  return whole ?? soFar?.usage;
}

function expectCovers(charged: Usage | undefined, usages: readonly Stated[]): void {
  const prompt = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"].map((name) =>
    most(usages, name),
  );
  const output = Number(usages.findLast(({ output_tokens }) => output_tokens != null)?.["output_tokens"] ?? 0);
  const all = charged === undefined ? [] : readings(charged);
  const total = (of: (tokens: Usage["tokens"]) => number) => Math.max(0, ...all.map(({ tokens }) => of(tokens)));
  expect(total(promptTotal)).toBeGreaterThanOrEqual(prompt.reduce((sum, tokens) => sum + tokens, 0));
  expect(total(completionTotal)).toBeGreaterThanOrEqual(output);
  for (const { tokens } of all)
    for (const [name, value] of Object.entries(tokens))
      expect([name, Number.isSafeInteger(value) && value >= 0]).toEqual([name, true]);
}

describe("a random stream", () => {
  it("is charged for at least what it stated, also if it is cut after any event", () => {
    fc.assert(
      fc.property(stream, (events) => {
        for (let length = 1; length <= events.length; length++) {
          const sent: readonly StatedEvent[] = events.slice(0, length);
          const answer = read(Buffer.from(sent.map(({ text }) => text).join("")));
          expectCovers(
            chargedBy(answer),
            sent.flatMap(({ usage: stated }) => (stated === undefined ? [] : [stated])),
          );
        }
      }),
      { numRuns: runs(1000) },
    );
  });

  it("keeps the stated prompt if it is cut at any byte", () => {
    const start = messageStart();
    const iterations = [{ type: "message", input_tokens: 100, output_tokens: 60 }];
    const whole = [
      start,
      ping,
      textBlock(["Hello", " é"]),
      messageDelta({ ...startUsage, output_tokens: 60, iterations }),
      messageStop,
    ];
    const bytes = Buffer.from(whole.join(""));
    for (let length = start.length; length <= bytes.length; length++) {
      const charged = chargedBy(read(bytes.subarray(0, length)));
      expect([length, charged && promptTotal(charged.tokens)]).toEqual([length, 1130]);
    }
  });
});

describe("a random answer", () => {
  it("is charged for at least what it stated", () => {
    fc.assert(
      fc.property(firstUsage, (stated) => {
        const answer = readAnswer(Buffer.from(JSON.stringify(messageAnswer({ usage: stated }))));
        expectCovers(answer && chargedBy(answer), [stated]);
      }),
      { numRuns: runs(1000) },
    );
  });
});
