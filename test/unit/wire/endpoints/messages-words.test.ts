import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { textsOfChat, type ChatText } from "../../../../src/core/prompt-text.ts";
import { wordsIn } from "../../../../src/core/words.ts";
import { readMessagesRequest } from "../../../../src/wire/endpoints/messages.ts";
import { messagesPrompt } from "../../../../src/wire/endpoints/messages-prompt.ts";
import { runs } from "../../../support/effort.ts";

/* The words of a prompt replace their bytes in a bound, so each must be in the body, and only once. */

const bytesOf = (body: object) => Buffer.from(JSON.stringify({ model: "opus", max_tokens: 100, ...body }));
const assistantBlock = (block: object) => ({ role: "assistant", content: [block] });

function chatIn(body: object): ChatText {
  const text = messagesPrompt.text(bytesOf(body));
  if (text.kind !== "chat") throw new Error(text.kind);
  return text.chat;
}

function expectWordsWithin(body: object): void {
  const read = readMessagesRequest(bytesOf(body));
  if (read.ok) expect(wordsIn(textsOfChat(chatIn(body))).bytes).toBeLessThanOrEqual(read.request.size.textBytes);
}

/** Stands for a text in a generated message. */
const textMark = "mark of a text";
const someText = fc.constant(textMark);
const some = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const source = fc.record(
  {
    type: fc.constantFrom("text", "base64", "url", "content", "wonder"),
    data: someText,
    url: someText,
    content: someText,
  },
  { requiredKeys: ["type"] },
);
const { content, message } = fc.letrec<{ content: unknown; block: object; message: object }>((tie) => ({
  content: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    someText,
    fc.array(tie("block"), { maxLength: 3 }),
    tie("block"),
  ),
  block: fc.record(
    {
      type: fc.constantFrom(
        ..."text image document search_result thinking redacted_thinking tool_use tool_result tool_reference".split(
          " ",
        ),
        ..."server_tool_use web_search_tool_result web_fetch_result compaction advisor_result wonder".split(" "),
      ),
      text: some(someText),
      thinking: some(someText),
      signature: some(someText),
      data: some(someText),
      name: some(someText),
      title: some(someText),
      input: some(fc.record({ path: someText })),
      citations: some(fc.array(fc.record({ cited_text: someText }), { maxLength: 2 })),
      tool_use_id: some(someText),
      tool_references: some(
        fc.array(fc.record({ type: fc.constant("tool_reference"), tool_name: someText }), { maxLength: 2 }),
      ),
      wonder: some(someText),
      source: some(fc.oneof(source, someText, fc.record({ type: fc.constant("content"), content: tie("content") }))),
      content: some(tie("content")),
    },
    { requiredKeys: ["type"] },
  ),
  message: fc.record({
    role: fc.constantFrom("user", "assistant", "system"),
    content: tie("content"),
    wonder: some(someText),
  }),
}));

describe("the prompt's words", () => {
  /** Text that occurs only once in a body. */
  const unique = (index: number) => `q${[...String(index)].map((digit) => "abcdefghij"[Number(digit)]).join("")}z`;

  /** Replaces each text of a generated value by a unique one of the same meaning. Returns their number. */
  const numbered = (value: unknown, next: { index: number }): unknown => {
    if (value === textMark) return ` ${unique(next.index++)} `;
    if (Array.isArray(value)) return value.map((each) => numbered(each, next));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, numbered(each, next)]));
  };

  it("are in the body once each, and have at most the bytes that bound its texts", () => {
    fc.assert(
      fc.property(fc.array(message, { minLength: 1, maxLength: 4 }), content, (messages, system) => {
        const next = { index: 0 };
        const body = numbered({ system, messages }, next) as object;
        const joined = textsOfChat(chatIn(body)).join("\n");
        const counts = Array.from({ length: next.index }, (_, index) => joined.split(` ${unique(index)} `).length - 1);
        expect(counts.filter((count) => count > 1)).toEqual([]);
        expectWordsWithin(body);
      }),
      { numRuns: runs(500) },
    );
  });

  it("have at most the bytes that bound the texts, whatever the values are", () => {
    const any = fc.jsonValue({ maxDepth: 4 });
    const odd = fc.record({ role: fc.constantFrom("user", "assistant", 1), content: fc.oneof(any, fc.array(any)) });
    const letters = fc.string({ unit: fc.constantFrom("a", "e", "u", "\\", '"', "\u0001", "é"), maxLength: 40 });
    fc.assert(
      fc.property(fc.array(fc.oneof(odd, message), { minLength: 1 }), letters, any, (messages, filler, system) => {
        const text = JSON.stringify({ messages, system }).replaceAll(JSON.stringify(textMark), JSON.stringify(filler));
        expectWordsWithin(JSON.parse(text) as object);
      }),
      { numRuns: runs(1000) },
    );
  });

  it("are none in images and files, whose tokens the price files bound", () => {
    const data = "abcd".repeat(500);
    const pdf = { type: "document", title: "one", source: { type: "base64", media_type: "application/pdf", data } };
    const png = { type: "image", source: { type: "base64", media_type: "image/png", data } };
    for (const block of [
      pdf,
      png,
      { type: "document", source: { type: "content", content: [png, { type: "text", text: "two" }] } },
      { type: "web_fetch_tool_result", content: { type: "web_fetch_result", url: "u", content: pdf } },
      { type: "wonder_result", content: [png, pdf] },
    ]) {
      const body = { messages: [assistantBlock(block)] };
      expect(textsOfChat(chatIn(body)).join(" ")).not.toContain("abcd");
      expectWordsWithin(body);
    }
  });
});
