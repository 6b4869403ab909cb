import OpenAI, { APIError, AuthenticationError, InternalServerError } from "openai";
import { expect } from "vitest";
import { describeSdk, weatherTool, type SdkClient, type Wish } from "./support/sdk-contract.ts";
import type { Endpoint } from "./support/watched-proxy.ts";

const clientAt = (at: Endpoint) => new OpenAI({ ...at, maxRetries: 1, organization: null, project: null, logLevel: "off" });

function bodyOf({ prompt, outputTokensMax, tool }: Wish) {
  return {
    model: "gpt-4o",
    messages: [{ role: "user", content: prompt }],
    max_tokens: outputTokensMax,
    ...(tool === true && { tools: [{ type: "function", function: weatherTool as unknown as OpenAI.FunctionDefinition }], tool_choice: "required" }),
  } satisfies OpenAI.Chat.ChatCompletionCreateParams;
}

function answerOf({ choices: [choice], usage }: OpenAI.Chat.ChatCompletion) {
  return {
    text: choice?.message.content ?? "",
    usage: usage == null ? undefined : { input: usage.prompt_tokens, output: usage.completion_tokens },
    tools: (choice?.message.tool_calls ?? []).flatMap((call) =>
      call.type === "function" ? [{ name: call.function.name, input: JSON.parse(call.function.arguments) as unknown }] : [],
    ),
  };
}

const openai: SdkClient = {
  name: "openai",
  asksForUsage: false,
  async plain(at, wish) {
    return answerOf(await clientAt(at).chat.completions.create(bodyOf(wish)));
  },
  async streamed(at, wish, received) {
    const usage = wish.usage === true && { stream_options: { include_usage: true } };
    const runner = clientAt(at).chat.completions.stream({ ...bodyOf(wish), ...usage });
    runner.on("content", (piece) => received(piece));
    return answerOf(await runner.finalChatCompletion());
  },
  sees: {
    wrongKey: { type: AuthenticationError, like: { status: 401, code: "invalid_api_key", message: expect.stringContaining("not a Farebox key") } },
    exhausted: {
      type: APIError,
      like: { status: 402, code: "budget_exceeded", type: "insufficient_quota", error: { metadata: { scope: "key:poor", period: "1d" } } },
    },
    cut: { type: APIError, like: { status: undefined, code: "gateway_stream_broken", message: "The gateway broke off in the middle of the stream." } },
    brokenOff: { type: InternalServerError, like: { status: 502, code: "gateway_unreachable" } },
  },
};

describeSdk(openai);
