import type { AIMessageChunk, UsageMetadata } from "@langchain/core/messages";
import { concat } from "@langchain/core/utils/stream";
import { ChatOpenAI } from "@langchain/openai";
import { expect } from "vitest";
import { describeSdk, weatherTool, type SdkClient, type CallParams } from "./support/sdk-contract.ts";
import { proxyOfFile, type Endpoint } from "./support/watched-proxy.ts";

function modelAt({ baseURL, apiKey }: Endpoint, { outputTokensMax, tool }: CallParams) {
  const model = new ChatOpenAI({
    model: "gpt-4o",
    apiKey,
    maxTokens: outputTokensMax,
    maxRetries: 1,
    configuration: { baseURL },
  });
  return tool === true
    ? model.bindTools([{ type: "function", function: weatherTool }], { tool_choice: "required" })
    : model;
}

function answerOf({ text, usage_metadata, tool_calls: calls = [] }: AIMessageChunk) {
  // An untyped chunk loses the type of the usage.
  const usage = usage_metadata as UsageMetadata | undefined;
  return {
    text,
    usage: usage === undefined ? undefined : { input: usage.input_tokens, output: usage.output_tokens },
    tools: calls.map(({ name, args }) => ({ name, input: args as unknown })),
  };
}

const langchain: SdkClient = {
  name: "@langchain/openai",
  asksForUsage: true,
  async plain(at, params) {
    return answerOf(await modelAt(at, params).invoke(params.prompt));
  },
  async streamed(at, params, received) {
    let whole: AIMessageChunk | undefined;
    for await (const chunk of await modelAt(at, params).stream(params.prompt)) {
      received(chunk.text);
      whole = whole === undefined ? chunk : concat(whole, chunk);
    }
    if (whole === undefined) throw new Error("an empty stream");
    return answerOf(whole);
  },
  sees: {
    wrongKey: { type: Error, like: { status: 401, code: "invalid_api_key", lc_error_code: "MODEL_AUTHENTICATION" } },
    exhausted: {
      type: Error,
      like: { status: 402, code: "budget_exceeded", message: expect.stringMatching(/^402 The budget of key poor/) },
    },
    cut: {
      type: Error,
      like: { code: "gateway_stream_broken", message: "The gateway broke off in the middle of the stream." },
    },
    brokenOff: { type: Error, like: { status: 502, code: "gateway_unreachable" } },
  },
};

describeSdk(langchain, await proxyOfFile());
