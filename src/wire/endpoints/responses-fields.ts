import { RequestFields } from "../request-fields.ts";

/** The top-level fields of a request of the Responses API. This table is the one place for that. */
export const responsesFields = new RequestFields({
  model: "priced",
  input: "priced",
  stream: "priced",
  max_output_tokens: "priced",
  tools: "priced",
  service_tier: "priced",
  background: "priced",

  include: "free",
  instructions: "free",
  max_tool_calls: "free",
  metadata: "free",
  parallel_tool_calls: "free",
  prompt_cache_key: "free",
  prompt_cache_options: "free",
  prompt_cache_retention: "free",
  reasoning: "free",
  safety_identifier: "free",
  store: "free",
  stream_options: "free",
  temperature: "free",
  text: "free",
  tool_choice: "free",
  top_logprobs: "free",
  top_p: "free",
  truncation: "free",
  user: "free",

  // What the gateway has stored becomes a part of the prompt.
  conversation: "context",
  previous_response_id: "context",

  // A stored prompt can bring a model's tools with it.
  prompt: "unbounded",
});

/** Kinds of items of the input that their own text or parts bound, each with its members beside `type`. */
export const itemMembers: Readonly<Record<string, readonly string[]>> = {
  message: ["content", "id", "phase", "role", "status"],
  function_call: ["arguments", "call_id", "id", "name", "status"],
  function_call_output: ["call_id", "id", "output", "status"],
  custom_tool_call: ["call_id", "id", "input", "name", "status"],
  custom_tool_call_output: ["call_id", "id", "output", "status"],
};

/** Kinds of content parts, each with its members beside `type`; what a part names by an id is not seen. */
export const partMembers: Readonly<Record<string, readonly string[]>> = {
  input_text: ["text"],
  output_text: ["text", "annotations", "logprobs"],
  refusal: ["refusal"],
  input_image: ["image_url", "detail"],
  input_audio: ["input_audio"],
  input_file: ["file_data", "filename"],
};
