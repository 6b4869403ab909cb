import * as fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { promptBound, type ModelLimits } from "../../../src/core/bounds.ts";
import { unchanged } from "../../../src/core/tokens.ts";
import { createTokenCounter } from "../../../src/tokens/token-counter.ts";
import { chatTextOf, readChatRequest } from "../../../src/wire/chat-request.ts";

const counter = createTokenCounter();
afterAll(() => counter[Symbol.asyncDispose]());

/** A model whose tokenizer is public; the context is large so that it bounds nothing. */
const model: ModelLimits = {
  contextTokens: 1e9,
  outputTokensMax: 1000,
  tokensPerByte: unchanged,
  imagePartTokens: 1445,
  audioPartTokens: null,
  filePartTokens: null,
};

const words = fc.oneof(
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.lorem({ maxCount: 20 }),
  fc.constantFrom(
    "",
    "<|endoftext|>",
    "漢字仮名交じり文",
    "👩‍👩‍👧‍👦🏳️‍🌈",
    "\u0000\u0001",
    " \n\t".repeat(30),
    "𒀀𒀁",
    "\ud800",
    "aA1!".repeat(20),
  ),
);
const part = fc.oneof(
  words.map((text) => ({ type: "text", text })),
  words.map((refusal) => ({ type: "refusal", refusal })),
);
const message = fc.record(
  {
    role: fc.oneof(fc.constantFrom("user", "system", "assistant", "tool"), words),
    content: fc.oneof(words, fc.array(part, { maxLength: 4 }), fc.constant(null)),
    name: words,
    tool_calls: fc.array(
      fc.record({
        id: fc.constant("1"),
        type: fc.constant("function"),
        function: fc.record({ name: words, arguments: words }),
      }),
      { maxLength: 2 },
    ),
  },
  { requiredKeys: ["role"] },
);
const property = fc.record(
  { type: fc.constantFrom("string", "number"), description: words, enum: fc.array(words, { maxLength: 4 }) },
  { requiredKeys: ["type"] },
);
const tool = fc.record({
  type: fc.constant("function"),
  function: fc.record(
    {
      name: words,
      description: words,
      parameters: fc.record({
        type: fc.constant("object"),
        properties: fc.dictionary(fc.string({ unit: "binary", maxLength: 8 }), property, {
          maxKeys: 4,
          noNullPrototype: true,
        }),
      }),
    },
    { requiredKeys: ["name"] },
  ),
});
const request = fc.record(
  {
    model: fc.constant("gpt-4o"),
    messages: fc.array(message, { minLength: 1, maxLength: 6 }),
    tools: fc.array(tool, { maxLength: 3 }),
  },
  { requiredKeys: ["model", "messages"] },
);

describe("the bound of a prompt", () => {
  it.each(["o200k_base", "cl100k_base"] as const)("is never below its count with %s", async (encoding) => {
    await fc.assert(
      fc.asyncProperty(request, fc.boolean(), async (body, escapes) => {
        const json = JSON.stringify(body);
        const bytes = Buffer.from(
          escapes
            ? json.replaceAll(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
            : json,
        );
        const read = readChatRequest(bytes);
        if (!read.ok) throw new Error(JSON.stringify(read.refusal));
        expect(read.request.size.unboundedFields).toEqual([]);
        const count = await counter.countChat(chatTextOf(bytes), encoding);
        if (!count.ok) throw new Error("busy");
        expect(promptBound(read.request.size, model)).toBeGreaterThanOrEqual(count.tokens);
      }),
      { numRuns: 400 },
    );
  });
});
