import * as fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { promptBound, type ModelLimits } from "../../../src/core/bounds.ts";
import { unchanged } from "../../../src/core/usage.ts";
import { createTokenCounter } from "../../../src/platform/tokens/token-counter.ts";
import { readChatRequest } from "../../../src/wire/endpoints/chat-completions.ts";
import { readResponsesRequest } from "../../../src/wire/endpoints/responses.ts";
import { runs } from "../../support/effort.ts";

const counter = createTokenCounter();
afterAll(() => counter[Symbol.asyncDispose]());

/** A model with a public tokenizer, and a context too large to bound anything. */
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
const call = fc.record({
  id: fc.constant("1"),
  type: fc.constant("function"),
  function: fc.record({ name: words, arguments: words }),
});
const message = fc.record(
  {
    role: fc.oneof(fc.constantFrom("user", "system", "assistant", "tool", "function"), words),
    content: fc.oneof(words, fc.array(part, { maxLength: 4 }), fc.constant(null)),
    name: words,
    tool_calls: fc.array(call, { maxLength: 3 }),
    function_call: call.map((each) => each.function),
  },
  { requiredKeys: ["role"] },
);
/** Parallel calls and their results, which the model receives escaped. */
const turn = fc
  .tuple(fc.array(call, { minLength: 2, maxLength: 3 }), words, fc.boolean())
  .map(([calls, text, isLong]) => [
    { role: "assistant", tool_calls: calls },
    ...calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: isLong ? text.repeat(40) : text })),
  ]);
const { schema } = fc.letrec<{ schema: unknown; object: unknown }>((tie) => ({
  object: fc.record(
    {
      type: fc.constant("object"),
      title: words,
      description: words,
      properties: fc.dictionary(fc.string({ unit: "binary", maxLength: 8 }), tie("schema"), {
        maxKeys: 3,
        noNullPrototype: true,
      }),
      required: fc.array(words, { maxLength: 2 }),
      additionalProperties: fc.boolean(),
      $defs: fc.dictionary(fc.constantFrom("a", "b"), tie("schema"), { maxKeys: 2, noNullPrototype: true }),
    },
    { requiredKeys: ["type"] },
  ),
  schema: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.record(
      {
        type: fc.constantFrom("string", "number", "integer", "boolean"),
        description: words,
        title: words,
        default: fc.oneof(words, fc.double(), fc.boolean()),
        enum: fc.array(words, { maxLength: 4 }),
      },
      { requiredKeys: ["type"] },
    ),
    fc.constantFrom({ $ref: "#/$defs/a" }, { $ref: "#/$defs/b" }, {}),
    fc.record({ type: fc.constant("array"), items: tie("schema"), description: words }),
    fc.record({ anyOf: fc.array(tie("schema"), { maxLength: 3 }) }),
    tie("object"),
  ),
}));
const definition = fc.record(
  { name: words, description: words, parameters: schema, strict: fc.boolean() },
  { requiredKeys: ["name"] },
);
const chosen = fc.oneof(
  fc.constantFrom("none", "auto", "required"),
  words.map((name) => ({ type: "function", function: { name } })),
);
const format = fc
  .record({ name: words, description: words, schema, strict: fc.boolean() }, { requiredKeys: ["name"] })
  .map((json_schema) => ({ type: "json_schema", json_schema }));
const request = fc.record(
  {
    model: fc.constant("gpt-4o"),
    messages: fc
      .array(fc.oneof({ weight: 3, arbitrary: message.map((each) => [each]) }, { weight: 1, arbitrary: turn }), {
        minLength: 1,
        maxLength: 6,
      })
      .map((each) => each.flat()),
    tools: fc.array(
      definition.map((each) => ({ type: "function", function: each })),
      { maxLength: 3 },
    ),
    functions: fc.array(definition, { maxLength: 2 }),
    tool_choice: chosen,
    parallel_tool_calls: fc.boolean(),
    response_format: format,
  },
  { requiredKeys: ["model", "messages"] },
);
const item = fc.oneof(
  fc.record({ type: fc.constant("message"), role: words, content: words }),
  fc.record({ type: fc.constant("function_call"), call_id: fc.constant("1"), name: words, arguments: words }),
  fc.record({ type: fc.constant("function_call_output"), call_id: fc.constant("1"), output: words }),
);
const responsesRequest = fc.record(
  {
    model: fc.constant("gpt-4o"),
    input: fc.oneof(words, fc.array(item, { maxLength: 6 })),
    instructions: words,
    tools: fc.array(
      definition.map((each) => ({ type: "function", ...each })),
      { maxLength: 3 },
    ),
    tool_choice: words.map((name) => ({ type: "function", name })),
    parallel_tool_calls: fc.boolean(),
    text: format.map(({ type, json_schema }) => ({ format: { type, ...json_schema } })),
  },
  { requiredKeys: ["model", "input"] },
);

describe("the bound of a prompt", () => {
  const endpoints = {
    chat: { requests: request, read: readChatRequest },
    responses: { requests: responsesRequest, read: readResponsesRequest },
  };
  const cases = (["o200k_base", "cl100k_base"] as const).flatMap((encoding) =>
    (["chat", "harmony"] as const).flatMap((form) =>
      (["chat", "responses"] as const).map((endpoint) => ({ encoding, form, endpoint })),
    ),
  );

  it.each(cases)(
    "is never below the prompt's count with $encoding in the form $form at $endpoint",
    async ({ encoding, form, endpoint }) => {
      const { requests, read: readRequest } = endpoints[endpoint];
      await fc.assert(
        fc.asyncProperty(requests, fc.boolean(), async (body, escapes) => {
          const json = JSON.stringify(body);
          const bytes = Buffer.from(
            escapes
              ? json.replaceAll(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
              : json,
          );
          const read = readRequest(bytes);
          if (!read.ok) throw new Error(JSON.stringify(read.refusal));
          expect(read.request.size.unboundedFields).toEqual([]);
          const prompt = read.request.prompt.text(bytes);
          if (prompt.kind !== "chat") throw new Error("no chat");
          const count = await counter.countChat(prompt.chat, encoding, undefined, form);
          if (!count.ok) throw new Error("busy");
          expect(promptBound(read.request.size, model)).toBeGreaterThanOrEqual(count.tokens);
        }),
        { numRuns: runs(300) },
      );
    },
  );
});
