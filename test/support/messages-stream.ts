/* Events and answers of Anthropic's Messages API, as its documentation shows them. */

/** Returns an event with its type in both places. */
export function event(type: string, more: object = {}): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
}

export const startUsage = {
  input_tokens: 100,
  cache_creation_input_tokens: 30,
  cache_read_input_tokens: 1000,
  cache_creation: { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 10 },
  output_tokens: 1,
  service_tier: "standard",
};

export const lastUsage = {
  input_tokens: 100,
  cache_creation_input_tokens: 30,
  cache_read_input_tokens: 1000,
  output_tokens: 60,
  output_tokens_details: { thinking_tokens: 20 },
};

export function messageStart(usage: object | null = startUsage, model = "opus"): string {
  const message = { id: "msg_1", type: "message", role: "assistant", model, content: [], stop_reason: null };
  return event("message_start", { message: { ...message, stop_sequence: null, usage } });
}

export function messageDelta(usage: object | null = lastUsage, stop = "end_turn"): string {
  return event("message_delta", { delta: { stop_reason: stop, stop_sequence: null }, ...(usage && { usage }) });
}

export function textDelta(text: string, index = 0): string {
  return event("content_block_delta", { index, delta: { type: "text_delta", text } });
}

/** Returns the events of a block whose text arrives in the given pieces. */
export function textBlock(pieces: readonly string[], index = 0): string {
  return [
    event("content_block_start", { index, content_block: { type: "text", text: "" } }),
    ...pieces.map((piece) => textDelta(piece, index)),
    event("content_block_stop", { index }),
  ].join("");
}

export const messageStop = event("message_stop");
export const ping = event("ping");

/** Returns a whole stream with one text. */
export function messageStream(pieces: readonly string[] = ["Hello", " there", "!"]): string {
  return messageStart() + ping + textBlock(pieces) + messageDelta() + messageStop;
}

/** Returns a whole answer. */
export function messageAnswer(more: object = {}): object {
  return {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "opus",
    content: [{ type: "text", text: "Hello there!" }],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: { ...startUsage, ...lastUsage },
    ...more,
  };
}
