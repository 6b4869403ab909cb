import { outside } from "./support/outside-guard.ts";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import {
  APICallError,
  generateText,
  jsonSchema,
  NoOutputGeneratedError,
  RetryError,
  streamText,
  tool,
  type LanguageModel,
  type ToolSet,
} from "ai";
import { describe, expect, it } from "vitest";
import { describeSdk, errorFrom, weatherTool, type SdkClient, type CallParams } from "./support/sdk-contract.ts";
import { proxyOfFile, refusedByFarebox, routeAsBilled, type Endpoint } from "./support/watched-proxy.ts";

const proxy = await proxyOfFile();

type ModelAt = (at: Endpoint, params: { readonly usage?: boolean }) => LanguageModel;

const compatible: ModelAt = (at, { usage = false }) =>
  createOpenAICompatible({ ...at, name: "farebox", includeUsage: usage })("gpt-4o");
const official: ModelAt = (at) => createOpenAI(at).chat("gpt-4o");

const tools: ToolSet = {
  weather: tool({
    description: weatherTool.description,
    inputSchema: jsonSchema<{ city: string }>(weatherTool.parameters as object),
  }),
};

function callOf(model: LanguageModel, params: CallParams) {
  return {
    model,
    prompt: params.prompt,
    maxOutputTokens: params.outputTokensMax,
    maxRetries: 1,
    ...(params.tool === true && { tools, toolChoice: "required" as const }),
  };
}

interface Usage {
  readonly inputTokens: number | undefined;
  readonly outputTokens: number | undefined;
}

function answerOf(
  text: string,
  { inputTokens, outputTokens }: Usage,
  calls: readonly { toolName: string; input: unknown }[],
) {
  return {
    text,
    usage:
      inputTokens === undefined || outputTokens === undefined
        ? undefined
        : { input: inputTokens, output: outputTokens },
    tools: calls.map(({ toolName, input }) => ({ name: toolName, input })),
  };
}

function sdkOf(name: string, modelAt: ModelAt, asksForUsage: boolean, refused: object): SdkClient {
  return {
    name,
    asksForUsage,
    async plain(at, params) {
      const { text, usage, toolCalls } = await generateText(callOf(modelAt(at, params), params));
      return answerOf(text, usage, toolCalls);
    },
    async streamed(at, params, received) {
      let reported: unknown;
      const result = streamText({
        ...callOf(modelAt(at, params), params),
        onError: ({ error }) => void (reported = error),
      });
      // The text stream ends without an exception; errors reach only onError.
      for await (const piece of result.textStream) received(piece);
      if (reported !== undefined) throw reported;
      return answerOf(await result.text, await result.usage, await result.toolCalls);
    },
    sees: {
      wrongKey: { type: APICallError, like: { statusCode: 401, data: { error: { code: "invalid_api_key" } } } },
      exhausted: {
        type: APICallError,
        like: {
          statusCode: 402,
          isRetryable: false,
          message: expect.stringContaining("The budget of key poor (key:poor, 0.000001 USD a day)"),
          ...refused,
        },
      },
      cut: {
        type: Error,
        like: {
          name: "AI_StreamProviderError",
          code: "gateway_stream_broken",
          message: "The gateway broke off in the middle of the stream.",
        },
      },
      brokenOff: {
        type: RetryError,
        like: { lastError: { statusCode: 502, data: { error: { code: "gateway_unreachable" } } } },
      },
    },
  };
}

const details = { data: { error: { code: "budget_exceeded" } } };
describeSdk(sdkOf("ai with @ai-sdk/openai-compatible", compatible, false, details), proxy);
describeSdk(sdkOf("ai with @ai-sdk/openai, .chat()", official, true, details), proxy);

describe("ai", () => {
  it("works with @ai-sdk/openai without .chat(), which uses /v1/responses: plain, streamed and cut", async () => {
    const model = createOpenAI(proxy.rich)("gpt-4o");
    const { text, usage } = await generateText({ model, prompt: "Say hello.", maxOutputTokens: 40 });
    expect(text).not.toBe("");
    const plain = routeAsBilled(await proxy.seen(), "/v1/responses");
    expect({ input: usage.inputTokens, output: usage.outputTokens }).toEqual({
      input: plain.tokens.input,
      output: plain.tokens.output,
    });

    const streamed = streamText({ model, prompt: "Say hello.", maxOutputTokens: 40 });
    let received = "";
    for await (const piece of streamed.textStream) received += piece;
    expect(received).not.toBe("");
    const charge = routeAsBilled(await proxy.seen(), "/v1/responses");
    expect((await streamed.usage).outputTokens).toBe(charge.tokens.output);

    proxy.gatewayWill("cut:5");
    let reported: unknown;
    const cut = streamText({ model, prompt: "Say hello.", onError: ({ error }) => void (reported = error) });
    for await (const _ of cut.textStream) continue;
    expect(JSON.stringify(reported)).toContain("gateway_stream_broken");
    expect((await proxy.seen()).charges).toMatchObject([
      { state: "posted", source: "partial", route: "/v1/responses" },
    ]);
  });

  it("shows a cut stream in its finish reason to a user who reads only the text", async () => {
    proxy.gatewayWill("cut:5");
    const result = streamText({ model: official(proxy.rich, {}), prompt: "Say hello.", onError: () => {} });
    let text = "";
    for await (const piece of result.textStream) text += piece;
    expect(text).not.toBe("");
    expect(await result.finishReason).toBe("error");
    expect((await proxy.seen()).charges).toMatchObject([{ state: "posted", source: "partial" }]);
  });

  it("has neither a finish reason nor text after a refusal", async () => {
    const result = streamText({ model: official(proxy.poor, {}), prompt: "Say hello.", onError: () => {} });
    for await (const _ of result.textStream) throw new Error("there was text");
    expect(await errorFrom(Promise.resolve(result.finishReason))).toBeInstanceOf(NoOutputGeneratedError);
    refusedByFarebox(await proxy.seen());
    expect(outside).toEqual([]);
  });
});
