import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readChatAnswer } from "../../../../src/wire/endpoints/chat-completions.ts";
import { runs } from "../../../support/effort.ts";

const read = (body: unknown) => readChatAnswer(Buffer.from(typeof body === "string" ? body : JSON.stringify(body)));

describe("readChatAnswer", () => {
  it("reads the usage and the served model, and the output only if there is no usage", () => {
    const body = {
      model: "gpt-4o-x",
      choices: [
        { message: { content: "a", refusal: "b", reasoning_content: "c", reasoning: "c" } },
        {
          message: {
            content: [{ type: "text", text: "d" }],
            tool_calls: [{ function: { name: "f", arguments: "{}" } }],
            function_call: { name: "g", arguments: "1" },
          },
        },
      ],
    };
    const answer = { servedModel: "gpt-4o-x", isAnswer: true };
    expect(read(body)).toEqual({ ...answer, texts: ["a", "b", "c", "d", "f", "{}", "g", "1"], usage: undefined });
    expect(read({ ...body, usage: { prompt_tokens: 1, completion_tokens: 2 } })).toMatchObject({
      ...answer,
      texts: [],
      usage: { tokens: { input: 1, output: 2 } },
    });
    // A usage in seconds does not count text.
    expect(read({ ...body, usage: { type: "duration", seconds: 2 } })).toMatchObject({
      texts: ["a", "b", "c", "d", "f", "{}", "g", "1"],
    });
  });

  it.each(["", "{", "null", "[]", "7", "<html>"])("finds no answer in %j", (body) => {
    expect(read(body)).toBeUndefined();
  });

  it("does not take an error page for an answer", () => {
    expect(read({ error: { message: "x" } })).toEqual({
      usage: undefined,
      servedModel: null,
      texts: [],
      isAnswer: false,
    });
  });

  it("never throws", () => {
    const shapes = fc.oneof(
      fc.json(),
      fc
        .record({
          choices: fc.array(fc.record({ message: fc.jsonValue() })),
          usage: fc.jsonValue(),
          model: fc.jsonValue(),
        })
        .map((body) => JSON.stringify(body)),
      fc.string(),
    );
    fc.assert(
      fc.property(shapes, (body) => void read(body)),
      { numRuns: runs(1000) },
    );
  });
});
