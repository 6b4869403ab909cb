import { textOf, type Answer, type Choice } from "./answer.ts";
import type { ChatRequest, Fields } from "./chat-request.ts";
import type { Piece } from "./text.ts";

export const systemFingerprint = "fp_sandbox01";

/** Builds the answer as one chat.completion object. */
export function completionOf(answer: Answer, request: ChatRequest): Fields {
  return {
    id: answer.id,
    object: "chat.completion",
    created: answer.created,
    model: answer.model,
    choices: answer.choices.map((choice) => choiceOf(choice, request)),
    ...(answer.usage === undefined ? {} : { usage: answer.usage }),
    service_tier: "default",
    system_fingerprint: systemFingerprint,
    gateway: { node: "sandbox", attempt: 1 },
  };
}

function choiceOf(choice: Choice, request: ChatRequest): Fields {
  const text = textOf(choice);
  return {
    index: choice.index,
    message: {
      role: "assistant",
      ...(choice.tool === undefined ? { content: text } : { content: null, tool_calls: [toolCall(choice.tool, text)] }),
      refusal: null,
    },
    logprobs: request.logprobs ? { content: choice.pieces.map(logprobOf), refusal: null } : null,
    finish_reason: choice.finishReason,
  };
}

/** Builds a tool call as an answer of `/v1/chat/completions` contains it. */
export function toolCall(tool: NonNullable<Choice["tool"]>, text: string): Fields {
  const { id, name, isCustom } = tool;
  return isCustom
    ? { id, type: "custom", custom: { name, input: text } }
    : { id, type: "function", function: { name, arguments: text } };
}

/** Builds the part of a tool call that a delta adds. */
export function toolText({ isCustom }: NonNullable<Choice["tool"]>, text: string): Fields {
  return isCustom ? { custom: { input: text } } : { function: { arguments: text } };
}

/** Generates the log probability of one token. */
export function logprobOf(piece: Piece): Fields {
  return { token: piece.text, logprob: -0.125, bytes: [...Buffer.from(piece.text)], top_logprobs: [] };
}
