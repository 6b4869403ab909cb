import { textOf, tokensOf } from "./answer.ts";
import type { Fields } from "./chat-request.ts";
import { messageHead, signatureOf, type AnswerBlock, type MessageAnswer } from "./message-answer.ts";
import type { Scenario } from "./scenarios.ts";
import { interleaved, type StreamEvent } from "./stream-events.ts";

/** Yields the events of an answer in order. With the scenario `endless`, the last text never ends. */
export function* messageEvents(message: MessageAnswer, scenario: Scenario): Generator<StreamEvent> {
  const { blocks, usage, startUsage, stopReason } = message;
  const withUsage = (reported: Fields | undefined) => (reported === undefined ? {} : { usage: reported });
  yield event("role", "message_start", { message: { ...messageHead(message), ...withUsage(startUsage) } });
  yield event("role", "ping", {});
  let index = 0;
  for (const block of blocks) {
    yield* blockEvents(message, block, index++, scenario);
    if (block.type !== "search") continue;
    const results = { type: "web_search_tool_result", tool_use_id: block.id, content: [block.results] };
    yield { ...event("role", "content_block_start", { index, content_block: results }), isSearch: true };
    yield event("role", "content_block_stop", { index: index++ });
  }
  if ("no-finish" in scenario) return;
  const delta = { stop_reason: stopReason, stop_sequence: null };
  yield event("finish", "message_delta", { delta, ...withUsage(usage) });
  if (!("no-done" in scenario)) yield event("done", "message_stop", {});
}

function event(kind: StreamEvent["kind"], type: string, fields: Fields, tokens = 0): StreamEvent {
  return { kind, name: type, tokens, data: JSON.stringify({ type, ...fields }) };
}

function* blockEvents(
  { answer }: MessageAnswer,
  block: AnswerBlock,
  index: number,
  scenario: Scenario,
): Generator<StreamEvent> {
  const delta = (fields: Fields, tokens: number) =>
    event("delta", "content_block_delta", { index, delta: fields }, tokens);
  yield event("role", "content_block_start", { index, content_block: emptyBlock(block) });
  const isShown = block.type !== "thinking" || block.isShown;
  if (isShown) {
    const { endless: _, ...ending } = scenario;
    const choice = { index: 0, pieces: block.pieces, tool: undefined, finishReason: "stop" } as const;
    const asked = block.type === "text" ? scenario : ending;
    for (const [, pieces] of interleaved({ ...answer, choices: [choice] }, asked))
      yield delta(deltaOf(block, textOf({ pieces })), tokensOf(pieces));
  }
  // Thinking that is not shown is billed with its signature.
  if (block.type === "thinking") {
    const fields = { type: "signature_delta", signature: signatureOf(block) };
    yield delta(fields, isShown ? 0 : tokensOf(block.pieces));
  }
  yield event("role", "content_block_stop", { index });
}

function emptyBlock(block: AnswerBlock): Fields {
  switch (block.type) {
    case "thinking":
      return { type: "thinking", thinking: "", signature: "" };
    case "text":
      return { type: "text", text: "" };
    case "tool_use":
      return { type: "tool_use", id: block.id, name: block.name, input: {} };
    case "search":
      return { type: "server_tool_use", id: block.id, name: "web_search", input: {} };
  }
}

function deltaOf(block: AnswerBlock, text: string): Fields {
  switch (block.type) {
    case "thinking":
      return { type: "thinking_delta", thinking: text };
    case "text":
      return { type: "text_delta", text };
    case "tool_use":
    case "search":
      return { type: "input_json_delta", partial_json: text };
  }
}
