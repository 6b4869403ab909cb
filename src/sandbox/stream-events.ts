import { textOf, tokensOf, type Answer, type Choice } from "./answer.ts";
import type { ChatRequest, Fields } from "./chat-request.ts";
import { logprobOf, systemFingerprint, toolCall, toolText } from "./completion.ts";
import { randomFrom, digest } from "./random.ts";
import { numberOf, type Scenario } from "./scenarios.ts";
import { prose, type Piece } from "./text.ts";

/** One event of a stream, before it is framed. */
export interface StreamEvent {
  readonly kind: "role" | "delta" | "finish" | "usage" | "done";
  /** Type of the event; undefined if events have no type. */
  readonly name?: string;
  /** JSON, or the text [DONE]. */
  readonly data: string;
  /** Number of visible tokens in the event. */
  readonly tokens: number;
  /** True if the event contains the results of a web search. */
  readonly isSearch?: boolean;
}

/** Yields the events of an answer in order. With the scenario `endless`, the events never end. */
export function* streamEvents(answer: Answer, request: ChatRequest, scenario: Scenario): Generator<StreamEvent> {
  const chunk = chunkWriter(answer, request, scenario);
  for (const choice of answer.choices) yield chunk("role", choice.index, openingDelta(choice));
  for (const [choice, pieces] of interleaved(answer, scenario)) {
    const text = textOf({ pieces });
    const delta =
      choice.tool === undefined ? { content: text } : { tool_calls: [{ index: 0, ...toolText(choice.tool, text) }] };
    const logprobs = request.logprobs ? { content: pieces.map(logprobOf), refusal: null } : null;
    yield chunk("delta", choice.index, delta, { logprobs }, tokensOf(pieces));
  }
  if ("no-finish" in scenario) return;
  const usage = answer.usage;
  const lastIndex = answer.choices.length - 1;
  const hasUnaskedUsage = !request.includeUsage && "empty-usage" in scenario;
  for (const choice of answer.choices) {
    const extraFields = choice.index === lastIndex && ("usage-last" in scenario || hasUnaskedUsage) ? { usage } : {};
    yield chunk("finish", choice.index, {}, { finish_reason: choice.finishReason }, 0, extraFields);
  }
  const hasUsageChunk = request.includeUsage || "usage-always" in scenario || "usage" in scenario;
  if (hasUsageChunk && usage !== undefined && !("usage-last" in scenario))
    yield chunk("usage", null, {}, {}, 0, { usage });
  if (!("no-done" in scenario)) yield { kind: "done", data: "[DONE]", tokens: 0 };
}

function openingDelta(choice: Choice): Fields {
  if (choice.tool === undefined) return { role: "assistant", content: "", refusal: null };
  return { role: "assistant", content: null, tool_calls: [{ index: 0, ...toolCall(choice.tool, "") }] };
}

type ChunkWriter = (
  kind: StreamEvent["kind"],
  index: number | null,
  delta: Fields,
  ofChoice?: Fields,
  tokens?: number,
  ofChunk?: Fields,
) => StreamEvent;

/** Returns a function that builds chunks with a common id. A chunk without a choice has `choices: []`. */
function chunkWriter(answer: Answer, request: ChatRequest, scenario: Scenario): ChunkWriter {
  const head = {
    id: answer.id,
    object: "chat.completion.chunk",
    created: answer.created,
    model: answer.model,
    service_tier: "default",
    system_fingerprint: systemFingerprint,
  };
  const noUsageYet = request.includeUsage && !("no-usage" in scenario) ? { usage: null } : {};
  return (kind, index, delta, ofChoice = {}, tokens = 0, ofChunk = {}) => {
    const choices = index === null ? [] : [{ index, delta, logprobs: null, finish_reason: null, ...ofChoice }];
    return { kind, tokens, data: JSON.stringify({ ...head, choices, ...noUsageYet, ...ofChunk }) };
  };
}

/** Yields pieces of each choice in turn, as gateways do. */
export function* interleaved(answer: Answer, scenario: Scenario): Generator<readonly [Choice, readonly Piece[]]> {
  const size = Math.max(numberOf(scenario, "group") ?? ("big" in scenario ? 64 : 1), 1);
  const longest = Math.max(...answer.choices.map((choice) => choice.pieces.length));
  for (let from = 0; from < longest; from += size) {
    for (const choice of answer.choices) {
      const pieces = choice.pieces.slice(from, from + size);
      if (pieces.length > 0) yield [choice, pieces];
    }
  }
  const [first] = answer.choices;
  if (!("endless" in scenario) || first === undefined) return;
  const words = prose(randomFrom(digest(answer.id)));
  for (;;) yield [first, [words.next().value]];
}

/** Formats one event as `data:` lines and an empty line. The scenario may change the form. */
export function frame(event: StreamEvent, scenario: Scenario): string {
  const lines = "multiline-data" in scenario && event.kind !== "done" ? spread(event.data) : [event.data];
  const name = event.name === undefined ? "" : `event: ${event.name}\n`;
  const text = `${name}${lines.map((line) => `data: ${line}`).join("\n")}\n\n`;
  const whole = "comments" in scenario ? `: keep-alive\n\n\n${text}` : text;
  return "crlf" in scenario ? whole.replaceAll("\n", "\r\n") : whole;
}

/** Splits JSON into lines. Line breaks are allowed between its tokens, but not inside strings. */
function spread(json: string): string[] {
  return JSON.stringify(JSON.parse(json), null, 1).split("\n");
}
