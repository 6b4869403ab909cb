/*
 * Lists the known members of answers with their effect on the cost. A string in any other member is unknown output and
 * counts by its bytes. Sources: OpenAI's published interfaces, and members that gateways and other providers add.
 */

/**
 * `text`: text of the model, counted with a tokenizer. `json`: text of the model that may also be an object. `media`:
 * an image or audio, whose tokens cannot be counted from text. `sealed`: encrypted reasoning or a signature. `free`:
 * costs nothing (ids, types, repetitions of the request).
 */
export type Meaning = "text" | "json" | "media" | "sealed" | "free";

/** Meanings of the members of an object, or of each object in a list. */
export interface Shape {
  /** Meaning of a string in place of the object; if absent, such a string is unknown output. */
  readonly string?: Meaning;
  readonly members: Readonly<Record<string, Known>>;
  /** Members that may contain the same text. A text that several of them contain counts once. */
  readonly copies?: ReadonlySet<string>;
}

export type Known = Meaning | Shape;

/** Merges tables into an object without a prototype, because an answer may have a member of any name. */
function members(...tables: readonly Record<string, Known>[]): Shape["members"] {
  return Object.assign(Object.create(null) as Record<string, Known>, ...tables);
}

function all(meaning: Meaning, names: string): Record<string, Known> {
  return Object.fromEntries(names.split(" ").map((name) => [name, meaning]));
}

/** Text, or an object that contains a text. */
const textMember: Shape = {
  string: "text",
  members: members(all("text", "text content"), all("free", "type id format")),
};

const tool: Shape = {
  members: members(
    { name: "text", arguments: "json", input: "json" },
    all("sealed", "thought_signature signature"),
    all("free", "description type id"),
  ),
};

const toolCall: Shape = {
  members: members(
    { function: tool, custom: tool },
    all("sealed", "extra_content provider_specific_fields thought_signature signature"),
    all("free", "id index type call_id"),
  ),
};

const audio: Shape = { members: members({ data: "media", transcript: "text" }, all("free", "id format")) };

const image: Shape = {
  string: "media",
  members: members(all("media", "image_url url b64_json"), all("free", "type media_type mime_type detail id")),
};

/** Part of a message, in a chat or in a response. */
export const part: Shape = {
  members: members(
    {
      text: "text",
      refusal: "text",
      transcript: "text",
      thinking: textMember,
      reasoning: textMember,
      summary: textMember,
      audio,
      input_audio: audio,
    },
    all("media", "image_url image b64_json"),
    all("sealed", "data signature encrypted_content thought_signature"),
    all(
      "free",
      "type id index format detail mime_type annotations citations logprobs cache_control reference_ids file_id phase",
    ),
  ),
};

/** Entries of `reasoning_details` and `thinking_blocks`. */
const reasoningDetail: Shape = {
  string: "text",
  members: members(
    all("text", "text summary thinking content"),
    all("sealed", "data signature encrypted_content"),
    all("free", "type id index format"),
  ),
};

const reasoningMembers = {
  reasoning_content: textMember,
  reasoning: textMember,
  reasoning_text: textMember,
  thinking: textMember,
  reasoning_details: reasoningDetail,
  thinking_blocks: reasoningDetail,
} satisfies Record<string, Known>;
const reasoningNames = Object.keys(reasoningMembers);

const sealedReasoning = all(
  "sealed",
  "signature encrypted_content reasoning_opaque reasoning_encrypted thought_signature reasoning_signature",
);

/** Members of the provider's original answer that gateways repeat. */
const providerFields: Shape = {
  members: members(reasoningMembers, sealedReasoning, { refusal: "text" }, all("free", "citations annotations")),
  copies: new Set(reasoningNames),
};

/** Message or delta of a chat. */
export const message: Shape = {
  members: members(
    reasoningMembers,
    sealedReasoning,
    {
      content: { string: "text", members: part.members },
      refusal: "text",
      tool_calls: toolCall,
      function_call: tool,
      audio,
      images: image,
      provider_specific_fields: providerFields,
    },
    all("sealed", "extra_content"),
    all("free", "role id name type status index phase tool_call_id annotations citations logprobs"),
  ),
  copies: new Set([...reasoningNames, "provider_specific_fields"]),
};

/** Choice of a chat or of an older completion. */
export const chatChoice: Shape = {
  members: members(
    { message, delta: message, text: "text" },
    all(
      "free",
      "index id logprobs prompt_logprobs finish_reason native_finish_reason stop_reason stop matched_stop usage error seed object",
    ),
    all("free", "content_filter_results content_filter_result content_filter_offsets token_ids prompt_token_ids"),
  ),
  // Some gateways repeat the text of a delta next to it.
  copies: new Set(["text", "delta"]),
};

/** Choice in a chunk. Its message is free, because it repeats the text of the deltas. */
export const chunkChoice: Shape = { ...chatChoice, members: members(chatChoice.members, { message: "free" }) };

/** Part of an answer in Gemini's own format. */
const geminiPart: Shape = {
  members: members(
    {
      text: "text",
      functionCall: { members: members({ name: "text", args: "json", id: "free" }) },
      executableCode: { members: members({ code: "text", language: "free" }) },
      inlineData: "media",
    },
    all("sealed", "thoughtSignature"),
    all("free", "codeExecutionResult fileData videoMetadata"),
  ),
};

const candidate: Shape = {
  members: members(
    { content: { members: members({ parts: geminiPart, role: "free" }) } },
    all(
      "free",
      "finishReason finishMessage safetyRatings citationMetadata groundingMetadata urlContextMetadata logprobsResult",
    ),
  ),
};

/** Members of a chunk that describe it, state its usage or repeat the request. They contain nothing for the client. */
export const envelope: Shape = {
  members: members(
    { gateway: { members: members(all("free", "node")) }, x_groq: { members: members(all("free", "id usage seed")) } },
    all(
      "free",
      "id object created model system_fingerprint service_tier usage obfuscation provider type status request_id p",
    ),
    all("free", "usageMetadata usage_metadata modelVersion responseId createTime"),
    all("free", "metadata tools tool_choice response_format input_user"),
  ),
};

/** Chat answer or one chunk of it, without its choices. */
export const chatAnswer: Shape = {
  members: members(
    envelope.members,
    { choices: "free", candidates: candidate },
    all("free", "citations search_results error promptFeedback"),
    all("free", "prompt_filter_results prompt_annotations prompt_logprobs x_groq"),
  ),
};

const action: Shape = {
  string: "free",
  members: members(
    { query: "text", queries: "text", env: "json" },
    all("text", "text url pattern keys commands command working_directory path diff"),
    all("free", "type button sources user actions_id call_id"),
  ),
  copies: new Set(["query", "queries"]),
};

/** Block of a message in Anthropic's format, except a result of a tool, which the model did not write. */
export const messageBlock: Shape = {
  members: members(
    { text: "text", thinking: "text", name: "text", content: textMember, input: "json" },
    all("sealed", "signature data encrypted_content"),
    all("free", "type id tool_use_id caller citations cache_control server_name file_id"),
  ),
};

/** Delta of such a block. */
export const messageBlockDelta: Shape = {
  members: members(
    all("text", "text thinking partial_json content"),
    all("sealed", "signature encrypted_content"),
    all("free", "type citation"),
  ),
};

/** Message in Anthropic's format, or one event of its stream, without its blocks. */
export const messageEnvelope: Shape = {
  members: members(
    all("free", "content content_block delta message error type id index role model usage container request_id"),
    all("free", "stop_reason stop_sequence stop_details context_management"),
  ),
};

/** Item of a response's output, of any type. Results of tools are free, because the model did not write them. */
export const responseItem: Shape = {
  members: members(
    {
      content: { string: "text", members: part.members },
      summary: textMember,
      action: {
        string: "free",
        members: members(action.members, { actions: action }),
        copies: new Set(["query", "queries"]),
      },
      actions: action,
      operation: action,
      arguments: "json",
      input: "json",
      result: "media",
    },
    all("text", "name refusal code queries revised_prompt"),
    all("sealed", "encrypted_content signature"),
    all(
      "free",
      "id type status role phase call_id created_by execution server_label namespace approval_request_id container_id environment agent",
    ),
    all("free", "output outputs results tools error logs acknowledged_safety_checks pending_safety_checks"),
    all("free", "background quality size output_format format max_output_length"),
  ),
};

/** Response without its output. The other members are metadata, or repeat the request. */
export const response: Shape = {
  members: members(
    all("free", "output output_text"),
    all(
      "free",
      "id object status error incomplete_details model service_tier usage user provider billing moderation content_filters",
    ),
    all(
      "free",
      "instructions metadata tools tool_choice text reasoning prompt prompt_cache_key prompt_cache_retention previous_response_id",
    ),
    all("free", "conversation safety_identifier truncation context_management include access_programs input"),
  ),
};

/** Member of a response event. `at` is the path of its content in the item, with `#` for the index of the part. */
export interface EventMember {
  readonly known: Known;
  readonly at: string;
  /** True if the member adds to the text at that path; false if it states the whole text. */
  readonly isDelta: boolean;
}

/**
 * Texts that arrive in deltas. Each entry has a part of the event's type, and the path of the text in the item. `whole`
 * is the member of the `*.done` event that contains the whole text.
 */
const deltaTexts: readonly (readonly [name: string, at: string, whole: string])[] = [
  ["output_text", "content.#.text", "text"],
  ["refusal", "content.#.refusal", "refusal"],
  ["reasoning_text", "content.#.text", "text"],
  ["reasoning", "content.#.text", "text"],
  ["reasoning_summary_text", "summary.#.text", "text"],
  ["reasoning_summary", "summary.#.text", "text"],
  ["function_call_arguments", "arguments", "arguments"],
  ["mcp_call_arguments", "arguments", "arguments"],
  ["mcp_call.arguments", "arguments", "arguments"],
  ["custom_tool_call_input", "input", "input"],
  ["code_interpreter_call_code", "code", "code"],
  ["code_interpreter_call.code", "code", "code"],
  ["apply_patch_call_operation_diff", "operation.diff", "diff"],
  ["shell_call_command", "action.commands.#", "command"],
  ["audio.transcript", "content.#.transcript", "transcript"],
  ["audio_transcript", "content.#.transcript", "transcript"],
  ["output_audio_transcript", "content.#.transcript", "transcript"],
];

const textEvents = deltaTexts.flatMap(([name, at, whole]) => [
  [`response.${name}.delta`, { delta: { known: textMember, at, isDelta: true } }] as const,
  [
    `response.${name}.done`,
    { [whole]: { known: textMember, at, isDelta: false }, name: { known: "text", at: "name", isDelta: false } },
  ] as const,
]);

const wholeMember = (known: Known, at: string): EventMember => ({ known, at, isDelta: false });

/** Members of each type of event, in addition to `everyEvent`. Events of other types have no further known members. */
export const responseEvents: ReadonlyMap<string, Readonly<Record<string, EventMember>>> = new Map<
  string,
  Record<string, EventMember>
>(
  [
    ...textEvents,
    ["response.output_item.added", { item: wholeMember(responseItem, "") }],
    ["response.output_item.done", { item: wholeMember(responseItem, "") }],
    ["response.content_part.added", { part: wholeMember(part, "content.#") }],
    ["response.content_part.done", { part: wholeMember(part, "content.#") }],
    ["response.reasoning_summary_part.added", { part: wholeMember(part, "summary.#") }],
    ["response.reasoning_summary_part.done", { part: wholeMember(part, "summary.#") }],
    ["response.audio.delta", { delta: wholeMember("media", "content.#.audio") }],
    ["response.output_audio.delta", { delta: wholeMember("media", "content.#.audio") }],
    [
      "response.image_generation_call.partial_image",
      { partial_image_b64: wholeMember("media", "result"), ...imageSettings() },
    ],
    ["response.image_generation_call.completed", imageSettings()],
    [
      "error",
      Object.fromEntries(["message", "code", "param", "error"].map((name) => [name, wholeMember("free", name)])),
    ],
  ].map(([type, table]) => [type as string, Object.assign(Object.create(null) as Record<string, EventMember>, table)]),
);

function imageSettings(): Record<string, EventMember> {
  return Object.fromEntries(
    ["background", "quality", "size", "output_format"].map((name) => [name, wholeMember("free", name)]),
  );
}

/** Members that an event of any type may have. */
export const everyEvent: Shape["members"] = members(
  all(
    "free",
    "type event_id item_id output_index content_index summary_index command_index annotation_index sequence_number response_id",
  ),
  all("free", "annotation logprobs obfuscation status usage"),
);
