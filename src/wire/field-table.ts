import { RequestFields, type Expensive, type FieldMeaning, type Kinds } from "./findings.ts";
import type { Places } from "./json.ts";

/**
 * Lists all request fields that Farebox knows, for all endpoints, with their meanings. The tables of headers and query
 * parameters are at the end.
 */

export type Fields = Readonly<Record<string, FieldMeaning>>;

export function expensive(why: string, more: Omit<Expensive, "expensive"> = {}): Expensive {
  return { expensive: why, ...more };
}

/** Returns a table in which all names have the same meaning. White space separates the names. */
export function all(meaning: FieldMeaning, names: string): Fields {
  return Object.fromEntries(
    names
      .split(/\s+/)
      .filter((name) => name !== "")
      .map((name) => [name, meaning]),
  );
}

export const free = (names: string) => all("free", names);
const context = (names: string) => all("context", names);
const members = (fields: Fields, otherwise?: FieldMeaning): FieldMeaning => ({
  members: new RequestFields(fields),
  ...(otherwise !== undefined && { otherwise }),
});

/** Members of `cache_control`, which marks a part of the prompt for a cache. */
export const cacheControl = members({ type: "free", ttl: "cache_lifetime" });
const cacheTtl = expensive("a cache that is kept for longer may cost more", { unless: ["30m"] });
const cacheBreakpoint = members({ mode: "free", ttl: cacheTtl });
const cacheOptions = members({ ...free("mode comparison_response_id prewarm"), ttl: cacheTtl });

/** Fields that choose the model or request more work from the gateway. Every JSON request may have them. */
export const routing: Fields = {
  ...all(
    "models",
    "models fallbacks context_window_fallbacks context_window_fallback_dict content_policy_fallbacks preset",
  ),
  route: expensive("it can choose another model", { unless: ["fallback", "sort"] }),
  provider: expensive("it chooses the provider, and providers have different prices"),
  plugins: expensive("plugins have additional fees", { isTool: true }),
  speed: expensive("a faster answer has a different price", { unless: ["standard"] }),
  inference_geo: expensive("an answer from one region has a different price", { unless: ["global"] }),
  extra_body: members({ google: "context" }, expensive("it can set any other field")),
  ...all(
    expensive("it runs tools at the gateway", { isTool: true }),
    "mcp_servers container search_parameters compound_custom search_options enable_search enable_code_interpreter",
  ),
  deferred: expensive("the answer arrives before its cost is known", { unless: [false] }),
  use_beam_search: expensive("each beam may be billed", { unless: [false] }),
  cache_control: cacheControl,
  ...free("timeout transforms session_id trace usage debug cache_salt request_id safety_identifier user"),
};

/** Fields of `routing` whose values a price file can price, at endpoints that read them. */
export const ratedFields = all("priced", "service_tier speed inference_geo");

/** Schemas of functions. */
const schemas: Places = new Map([
  [
    "tools",
    new Map<string, Places | "free">([
      ["parameters", "free"],
      ["function", new Map([["parameters", "free"]])],
    ]),
  ],
]);

/** Fields that control sampling and display. They add no text. */
const sampling = free(`
  allowed_token_ids bad_words early_stopping frequency_penalty guided_choice guided_decoding_backend guided_grammar guided_json guided_regex
  guided_whitespace_pattern ignore_eos include_stop_str_in_output length_penalty logit_bias logprobs min_p min_tokens presence_penalty
  prompt_logprobs random_seed repetition_penalty return_tokens_as_token_ids seed skip_special_tokens spaces_between_special_tokens stop
  stop_token_ids structured_outputs temperature top_a top_k top_p truncate_prompt_tokens user
`);

export const chatFields = new RequestFields({
  ...routing,
  ...sampling,
  ...ratedFields,
  ...all(
    "priced",
    "model messages stream stream_options max_tokens max_completion_tokens n tools modalities prediction",
  ),
  ...free(`
    add_generation_prompt add_special_tokens audio context_management continue_final_message echo function_call functions include_reasoning
    metadata moderation output_config parallel_tool_calls prompt_cache_key prompt_cache_retention reasoning_effort reasoning_format
    response_format safe_prompt safety_identifier stop_sequences store system tool_choice top_logprobs verbosity
  `),
  prompt_cache_options: cacheOptions,
  // These fields add text from outside the body, or reasoning that a stated maximum may not limit.
  ...context(
    "chat_template chat_template_kwargs documents mm_processor_kwargs thinking reasoning thinking_budget enable_thinking prompt_mode",
  ),
  best_of: expensive("every choice is billed, but only the best is shown", { inUsage: true }),
  web_search_options: expensive("each search has a fee", { isTool: true }),
}).repeatingIn(schemas);

/** Members of a message in a chat. */
export const messageMembers = new RequestFields({
  ...free(`
    annotations content function_call id name partial prefix reasoning reasoning_content reasoning_details refusal role thinking_blocks
    tool_call_id tool_calls
  `),
  cache_control: cacheControl,
  // Refers to an earlier audio answer by its id.
  audio: "context",
});

export function kinds(of: Readonly<Record<string, Fields | "context" | "history">>): Kinds {
  return new Map(
    Object.entries(of).map(([type, fields]) => [
      type,
      typeof fields === "string" ? fields : new RequestFields({ type: "free", ...fields }),
    ]),
  );
}

/** Returns a table in which all types have the same kind. White space separates the types. */
function sameKind(kind: "context" | "history", types: string): Readonly<Record<string, "context" | "history">> {
  return Object.fromEntries(
    types
      .trim()
      .split(/\s+/)
      .map((type) => [type, kind]),
  );
}

const cached: Fields = { cache_control: cacheControl, prompt_cache_breakpoint: cacheBreakpoint };

/** Content parts of a chat. */
export const chatParts = kinds({
  text: { ...free("text annotations"), ...cached },
  refusal: { ...free("refusal"), ...cached },
  image_url: { ...free("image_url"), ...cached },
  input_audio: { ...free("input_audio"), ...cached },
  file: { ...free("file"), ...cached },
  // Earlier turns in Anthropic's format, which some clients send again.
  thinking: { ...free("thinking signature"), ...cached },
  redacted_thinking: { ...free("data"), ...cached },
  tool_use: { ...free("id name input"), ...cached },
  tool_result: { ...free("tool_use_id content is_error"), ...cached },
  video_url: "context",
});

/** Members of a predicted answer. `predictionParts` lists its content parts. */
export const predictionMembers = new RequestFields(free("type content"));
export const predictionParts = kinds({ text: { ...free("text"), ...cached } });

export const responsesFields = new RequestFields({
  ...routing,
  ...ratedFields,
  ...all("priced", "model input stream max_output_tokens max_tool_calls tools background include"),
  ...free(`
    access_programs client_metadata image instructions metadata moderation parallel_tool_calls prompt_cache_key prompt_cache_retention
    safety_identifier store stream_options temperature text tool_choice top_k top_logprobs top_p truncation user
  `),
  prompt_cache_options: cacheOptions,
  reasoning: members({
    ...free("context effort generate_summary summary enabled exclude max_tokens"),
    mode: expensive("it may run the model several times", { unless: ["standard"] }),
  }),
  // Content that the gateway has stored becomes a part of the prompt.
  ...context("conversation previous_response_id context_management"),
  prompt: expensive("a stored prompt can contain hosted tools", { inUsage: true }),
}).repeatingIn(schemas);

/** Data that an answer may include in addition to its text. None of it is billed. */
export const includedData: ReadonlySet<unknown> = new Set([
  "code_interpreter_call.outputs",
  "computer_call_output.output.image_url",
  "file_search_call.results",
  "message.input_image.image_url",
  "message.output_text.logprobs",
  "reasoning.encrypted_content",
  "web_search_call.action.sources",
  "web_search_call.results",
]);

/** Members of a tool, or of its function, that mark it for a cache. */
export const toolMarks = new RequestFields({ cache_control: cacheControl });

/** Machine on which commands run. Only the client's machine has no extra cost. */
const environment = members({
  type: expensive("its commands run at the gateway", { unless: ["local"] }),
  skills: "free",
});

/** Members of tools that run at the client, by the tool's type. `text`: all members count as text. */
export const clientTools: ReadonlyMap<string, RequestFields | "text"> = new Map<string, RequestFields | "text">([
  ["function", "text"],
  ["custom", "text"],
]);

/** Members of tools that run at the client, for the Responses API. */
export const responseTools: ReadonlyMap<string, RequestFields | "text"> = new Map<string, RequestFields | "text">([
  ...clientTools,
  ["namespace", new RequestFields(free("type name description tools"))],
  ["local_shell", new RequestFields(free("type"))],
  ["shell", new RequestFields({ ...free("type allowed_callers"), environment })],
  ["apply_patch", new RequestFields(free("type allowed_callers"))],
  ["tool_search", new RequestFields(free("type description execution parameters"))],
]);

/** Member in which Codex keeps notes on its items. Models do not receive it. */
export const itemMetadata = "internal_chat_message_metadata_passthrough";

const item = (names: string) => free(`${itemMetadata} ${names}`);

/**
 * Items in the input of the Responses API. If the gateway created or stored an item, its text does not bound its
 * tokens.
 */
export const responseItems = kinds({
  message: item("content id phase role status"),
  function_call: item("arguments async call_id caller id name namespace status"),
  function_call_output: item("call_id caller id name namespace output status"),
  custom_tool_call: item("async call_id caller id input name namespace"),
  custom_tool_call_output: item("call_id caller id output status"),
  reasoning: item("content encrypted_content id status summary"),
  local_shell_call: item("action call_id id status"),
  local_shell_call_output: item("call_id id output status"),
  shell_call: { ...item("action call_id caller created_by id status"), environment },
  shell_call_output: item("call_id caller created_by id max_output_length output status"),
  apply_patch_call: item("call_id caller created_by id operation status"),
  apply_patch_call_output: item("call_id caller created_by id output status"),
  tool_search_call: item("arguments call_id created_by execution id status"),
  tool_search_output: item("call_id created_by execution id status tools"),
  additional_tools: item("id role tools"),
  compaction: item("created_by encrypted_content id"),
  compaction_summary: item("created_by encrypted_content id"),
  context_compaction: item("created_by encrypted_content id"),
  compaction_trigger: item("id"),
  ...sameKind("context", "item_reference configuration_update program"),
  ...sameKind(
    "history",
    `
    file_search_call computer_call computer_call_output web_search_call image_generation_call code_interpreter_call mcp_list_tools
    mcp_approval_request mcp_approval_response mcp_call program_output
  `,
  ),
});

/** Members of the result of one shell command. */
export const shellResultMembers = new RequestFields(free("created_by outcome stderr stdout"));

/**
 * Content parts in the input of the Responses API. Farebox does not see content that a part names by an id or an
 * address.
 */
export const responseParts = kinds({
  input_text: { ...free("text"), ...cached },
  output_text: free("text annotations logprobs"),
  refusal: free("refusal"),
  reasoning_text: free("text"),
  summary_text: free("text"),
  input_image: { ...free("image_url detail"), ...context("file_id"), ...cached },
  input_audio: free("input_audio"),
  input_file: { ...free("file_data filename"), ...context("detail file_id file_url"), ...cached },
});

export const completionFields = new RequestFields({
  ...routing,
  ...sampling,
  ...ratedFields,
  ...all("priced", "model prompt stream stream_options max_tokens n best_of"),
  ...free("add_special_tokens echo response_format suffix"),
});

export const embeddingFields = new RequestFields({
  ...routing,
  ...ratedFields,
  ...all("priced", "model input"),
  ...free(`
    dimensions embedding_type encoding_format input_type late_chunking normalized output_dimension output_dtype task task_type truncate
    truncate_prompt_tokens truncation user
  `),
});

/** Fields of requests for images, in JSON or as a form. */
export const imageFields = new RequestFields({
  ...routing,
  ...all("priced", "model n"),
  ...free(`
    background complexity frame_duration_ms image input_fidelity markup mask moderation output_compression partial_images prompt quality
    response_format safety_identifier size stream style user
  `),
  frame_count: expensive("each frame may be billed"),
  output_format: expensive("each frame of an animation may be billed, and another model may write a drawing", {
    unless: ["png", "jpeg", "webp"],
  }),
  svg: expensive("another model writes the drawing"),
});

/** Fields of requests for speech. Here, `speed` is the speed of the voice. */
export const speechFields = new RequestFields({
  ...routing,
  ...all("priced", "model input instructions"),
  ...free("response_format speed stream_format voice"),
});

/** Fields of requests for transcriptions and translations of speech. */
export const transcriptionFields = new RequestFields({
  ...routing,
  ...all("priced", "model"),
  ...free(`
    chunking_strategy file include keywords known_speaker_names known_speaker_references language languages prompt response_format stream
    temperature timestamp_granularities
  `),
});

/** Fields of requests to other paths (`FAREBOX_PASSTHROUGH=all`). Only the fields that may name models matter. */
export const passthroughFields = new RequestFields({
  ...routing,
  ...all("priced", "model"),
  ...free("messages input prompt system instructions content contents systemInstruction tools functions metadata"),
});

export interface HeaderValues {
  readonly free: readonly RegExp[];
  readonly expensive: readonly (readonly [value: RegExp, why: string])[];
}

export type HeaderTable = ReadonlyMap<string, "free" | HeaderValues>;

/**
 * Headers that Farebox forwards and that may change a price. "free": no value changes the price. An object: patterns of
 * the values that are free, and of the values that are expensive.
 */
export const headerValues: HeaderTable = new Map<string, "free" | HeaderValues>([
  ["openai-organization", "free"],
  ["openai-project", "free"],
  ["openai-version", "free"],
  ["openai-beta", { free: [/^(assistants|realtime|responses)(=|$)/, /^v\d$/], expensive: [] }],
  ["anthropic-version", "free"],
  ["anthropic-dangerous-direct-browser-access", "free"],
  [
    "anthropic-beta",
    {
      // These values only permit features. The body shows whether the request uses a feature, and at what price.
      free: [
        /^(prompt-caching|extended-cache-ttl|interleaved-thinking|token-efficient-tools|fine-grained-tool-streaming|pdfs|files-api|message-batches|token-counting|computer-use|structured-outputs|context-management|oauth|claude-code|fast-mode)-/,
      ],
      expensive: [
        [/^context-1m-/, "a longer context has a different price"],
        [/^output-/, "the output may be longer than the catalogue states"],
      ],
    },
  ],
]);

/** Query parameters that do not change a price. */
export const freeParameters: ReadonlySet<string> = new Set(["api-version", "beta"]);
