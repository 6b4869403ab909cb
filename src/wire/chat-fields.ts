import { RequestFields, type FieldMeaning } from "./request-fields.ts";

/** The top-level fields of a chat request that Farebox understands. This table is the one place for that. */
const meanings: Readonly<Record<string, FieldMeaning>> = {
  model: "priced",
  messages: "priced",
  stream: "priced",
  stream_options: "priced",
  max_tokens: "priced",
  max_completion_tokens: "priced",
  n: "priced",
  tools: "priced",
  modalities: "priced",
  service_tier: "priced",

  audio: "free",
  frequency_penalty: "free",
  function_call: "free",
  functions: "free",
  logit_bias: "free",
  logprobs: "free",
  metadata: "free",
  min_p: "free",
  parallel_tool_calls: "free",
  presence_penalty: "free",
  prompt_cache_key: "free",
  prompt_cache_retention: "free",
  reasoning_effort: "free",
  repetition_penalty: "free",
  response_format: "free",
  safety_identifier: "free",
  seed: "free",
  stop: "free",
  store: "free",
  temperature: "free",
  tool_choice: "free",
  top_k: "free",
  top_logprobs: "free",
  top_p: "free",
  user: "free",
  verbosity: "free",

  prediction: "context",

  best_of: "unbounded",
  plugins: "unbounded",
  web_search_options: "unbounded",
};

export const chatFields = new RequestFields(meanings);

/** Members of a message whose cost its text or its parts bound; any other, also in another letter case, is `context`. */
export const messageMembers: ReadonlySet<string> = new Set([
  "annotations",
  "audio",
  "cache_control",
  "content",
  "function_call",
  "id",
  "name",
  "partial",
  "prefix",
  "reasoning",
  "reasoning_content",
  "reasoning_details",
  "refusal",
  "role",
  "thinking_blocks",
  "tool_call_id",
  "tool_calls",
]);

/** Kinds of content parts that are understood, each with its members beside `type`; any other member is `context`. */
export const partMembers: Readonly<Record<string, readonly string[]>> = {
  text: ["text", "annotations", "cache_control"],
  refusal: ["refusal"],
  image_url: ["image_url", "cache_control"],
  input_audio: ["input_audio", "cache_control"],
  file: ["file", "cache_control"],
};
