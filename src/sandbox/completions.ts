import { isObject } from "../wire/json.ts";
import { textOf, tokensOf, type Answer, type Choice } from "./answer.ts";
import { count, marker, readBody, type ChatRequest, type Fields } from "./chat-request.ts";
import type { TextForm } from "./chat.ts";
import { systemFingerprint } from "./completion.ts";
import type { Scenario } from "./scenarios.ts";
import { interleaved, type StreamEvent } from "./stream-events.ts";
import { countTokens } from "./text.ts";

/** Form of `POST /v1/completions`, which continues a text. */
export const completionsForm: TextForm = { read, body, events };

/** Maximum number of output tokens for a request that states none. */
const defaultMaxTokens = 16;

function read(bytes: Buffer): ChatRequest | string {
  const parsed = readBody(bytes);
  if (typeof parsed === "string") return parsed;
  const { prompt, stream_options: options } = parsed;
  const prompts = Array.isArray(prompt) && !prompt.every((item) => typeof item === "number") ? prompt : [prompt];
  return {
    model: parsed.model,
    stream: parsed["stream"] === true,
    includeUsage: isObject(options) && options["include_usage"] === true,
    choices: prompts.length * (count(parsed["n"]) ?? 1),
    maxTokens: count(parsed["max_tokens"]) ?? defaultMaxTokens,
    json: false,
    logprobs: false,
    tool: undefined,
    promptTokens: prompts.reduce((sum: number, item) => sum + inputTokens(item), 0),
    scenario: marker(prompt),
  };
}

/** Counts the tokens of a text, or the items of a list of tokens. */
export function inputTokens(input: unknown): number {
  if (Array.isArray(input)) return input.length;
  return typeof input === "string" ? countTokens(input) : 0;
}

function head(answer: Answer): Fields {
  const { created, model } = answer;
  return {
    id: answer.id.replace("chatcmpl", "cmpl"),
    object: "text_completion",
    created,
    model,
    system_fingerprint: systemFingerprint,
  };
}

function body(answer: Answer): Fields {
  const choices = answer.choices.map((choice) => choiceOf(choice, textOf(choice), choice.finishReason));
  return { ...head(answer), choices, ...(answer.usage === undefined ? {} : { usage: answer.usage }) };
}

function choiceOf({ index }: Choice, text: string, finishReason: string | null): Fields {
  return { text, index, logprobs: null, finish_reason: finishReason };
}

function* events(answer: Answer, request: ChatRequest, scenario: Scenario): Generator<StreamEvent> {
  const chunk = (
    kind: StreamEvent["kind"],
    choices: readonly Fields[],
    tokens = 0,
    more: Fields = {},
  ): StreamEvent => ({
    kind,
    tokens,
    data: JSON.stringify({ ...head(answer), choices, ...more }),
  });
  for (const [choice, pieces] of interleaved(answer, scenario)) {
    yield chunk("delta", [choiceOf(choice, textOf({ pieces }), null)], tokensOf(pieces));
  }
  if ("no-finish" in scenario) return;
  for (const choice of answer.choices) yield chunk("finish", [choiceOf(choice, "", choice.finishReason)]);
  const isAsked = request.includeUsage || "usage-always" in scenario || "usage" in scenario;
  if (isAsked && answer.usage !== undefined) yield chunk("usage", [], 0, { usage: answer.usage });
  if (!("no-done" in scenario)) yield { kind: "done", data: "[DONE]", tokens: 0 };
}
