/*
 * Lists the known members of usage objects with their meaning. Sources: the interfaces of OpenAI, Anthropic and Gemini,
 * and members that gateways and other providers add.
 */

export interface StatedCount {
  /** Largest stated number; undefined if the usage states none. */
  readonly count: number | undefined;
  /**
   * True if the usage states different numbers. A 0 contradicts nothing, because conversions fill unused members with
   * 0.
   */
  readonly contradicts: boolean;
}

export const unstated: StatedCount = { count: undefined, contradicts: false };

/** All counts that a usage can state. */
export const nothingStated = {
  prompt: unstated,
  input: unstated,
  completion: unstated,
  candidates: unstated,
  thoughts: unstated,
  total: unstated,
  toolPrompt: unstated,
  // Tokens read from and written to a cache. `cached` to `written1h` are parts of the prompt. `cacheRead` to
  // `created1h` are stated next to the prompt.
  cached: unstated,
  hit: unstated,
  miss: unstated,
  written: unstated,
  written5m: unstated,
  written1h: unstated,
  writtenOther: unstated,
  // Stated next to `cached`, which may be their sum.
  partlyRead: unstated,
  partlyWritten: unstated,
  cacheRead: unstated,
  created: unstated,
  created5m: unstated,
  created1h: unstated,
  createdOther: unstated,
  cachedOther: unstated,
  cachedAudio: unstated,
  cachedImage: unstated,
  cachedVideo: unstated,
  cachedDocument: unstated,
  audioInput: unstated,
  imageInput: unstated,
  videoInput: unstated,
  documentInput: unstated,
  // Tokens that searches add to the prompt. Neither the prompt nor the total includes them.
  citations: unstated,
  // Tokens of members with unknown names, in the details of the prompt and next to it.
  unknownPart: unstated,
  unknownNextToPrompt: unstated,
  reasoning: unstated,
  unknownOutput: unstated,
  textOutput: unstated,
  audioOutput: unstated,
  imageOutput: unstated,
  seconds: unstated,
};
export type Count = keyof typeof nothingStated;

/** Counts that make a usage unreadable if they are malformed. */
export const totals: ReadonlySet<Count> = new Set<Count>([
  "prompt",
  "input",
  "completion",
  "candidates",
  "thoughts",
  "total",
]);

/**
 * Meaning of a member. `known`: a part of another count, or not a count. `tool`: calls that are billed in addition to
 * tokens. `runs`: the usage of each run of the model. All other meanings are counts, or objects with known members.
 */
type Meaning = Count | "known" | "tool" | "runs" | Members;

export interface Members {
  readonly names: ReadonlyMap<string, Meaning>;
  /** Count to which tokens of an unknown member are added; undefined if such a member only adds a doubt. */
  readonly unknown: Count | undefined;
  /** Count that a number in place of the object states. */
  readonly whole: Count | undefined;
}

/**
 * Returns the same text for `prompt_tokens` and `promptTokens`. Used for names that a table does not contain as
 * written.
 */
const fold = (name: string) => name.replaceAll("_", "").toLowerCase();

/** Returns the meaning of a member; undefined for an unknown name. */
export function meaningOf(name: string, { names }: Members): Meaning | undefined {
  return names.get(name) ?? names.get(fold(name));
}

function membersOf(
  members: Readonly<Record<string, Meaning>>,
  { unknown, whole }: { readonly unknown?: Count; readonly whole?: Count } = {},
): Members {
  const entries = Object.entries(members);
  return {
    names: new Map([...entries, ...entries.map(([name, meaning]) => [fold(name), meaning] as const)]),
    unknown,
    whole,
  };
}

const cachedParts = membersOf(
  {
    text_tokens: "known",
    audio_tokens: "cachedAudio",
    image_tokens: "cachedImage",
    video_tokens: "cachedVideo",
    document_tokens: "cachedDocument",
  },
  { unknown: "cachedOther" },
);

/** Members with the lifetimes of cache writes: in the details of the prompt, or next to it. */
const writesOf = (prefix: "written" | "created") =>
  membersOf(
    {
      ephemeral_5m_input_tokens: `${prefix}5m`,
      ephemeral_1h_input_tokens: `${prefix}1h`,
      cached_write_tokens_5m: `${prefix}5m`,
      cached_write_tokens_1h: `${prefix}1h`,
    },
    { unknown: `${prefix}Other`, whole: prefix },
  );
const writtenParts = writesOf("written");
const createdParts = writesOf("created");

const promptParts = membersOf(
  {
    text_tokens: "known",
    cached_tokens: "cached",
    cached_tokens_details: cachedParts,
    cache_read: "cached",
    cache_read_tokens: "cached",
    cache_read_input_tokens: "cached",
    cached_read_tokens: "partlyRead",
    cache_creation_tokens: "written",
    cached_creation_tokens: "written",
    cache_write_tokens: "written",
    cached_write_tokens: "partlyWritten",
    cache_creation_input_tokens: "written",
    cache_creation: writtenParts,
    cache_creation_token_details: writtenParts,
    cached_write_token_details: writtenParts,
    cached_write_tokens_5m: "written5m",
    cached_write_tokens_1h: "written1h",
    ephemeral_5m_input_tokens: "written5m",
    ephemeral_1h_input_tokens: "written1h",
    audio_tokens: "audioInput",
    image_tokens: "imageInput",
    video_tokens: "videoInput",
    document_tokens: "documentInput",
    web_search_requests: "known",
    num_search_queries: "known",
  },
  { unknown: "unknownPart" },
);

const completionParts = membersOf(
  {
    text_tokens: "textOutput",
    reasoning_tokens: "reasoning",
    thinking_tokens: "reasoning",
    audio_tokens: "audioOutput",
    image_tokens: "imageOutput",
    accepted_prediction_tokens: "known",
    rejected_prediction_tokens: "known",
    citation_tokens: "citations",
    num_search_queries: "known",
  },
  { unknown: "unknownOutput" },
);

/**
 * All known members: the members of OpenAI, Anthropic and Gemini, and the members that conversions between these
 * formats add.
 */
export const usageMembers = membersOf(
  {
    prompt_tokens: "prompt",
    prompt_token_count: "prompt",
    input_tokens: "input",
    tool_use_prompt_token_count: "toolPrompt",
    completion_tokens: "completion",
    output_tokens: "completion",
    candidates_token_count: "candidates",
    response_token_count: "candidates",
    thoughts_token_count: "thoughts",
    total_tokens: "total",
    total_token_count: "total",

    cached_tokens: "cached",
    num_cached_tokens: "cached",
    cached_content_token_count: "cached",
    prompt_cache_hit_tokens: "hit",
    prompt_cache_miss_tokens: "miss",
    cache_read_input_tokens: "cacheRead",
    cache_creation_input_tokens: "created",
    cache_write_input_tokens: "created",
    cache_write_tokens: "created",
    cached_creation_tokens: "created",
    cache_read_tokens: "cacheRead",
    cached_read_tokens: "cacheRead",
    cached_write_tokens: "created",
    cached_write_tokens_5m: "created5m",
    cached_write_tokens_1h: "created1h",
    cache_creation_tokens: "created",
    cache_creation: createdParts,
    cached_write_token_details: createdParts,
    claude_cache_creation_5_m_tokens: "created5m",
    claude_cache_creation_1_h_tokens: "created1h",

    prompt_tokens_details: promptParts,
    input_tokens_details: promptParts,
    input_token_details: promptParts,
    cache_tokens_details: cachedParts,
    citation_tokens: "citations",
    tool_use_prompt_tokens_details: membersOf({ text_tokens: "known" }, { unknown: "unknownPart" }),
    completion_tokens_details: completionParts,
    output_tokens_details: completionParts,
    output_token_details: completionParts,
    candidates_tokens_details: completionParts,
    response_tokens_details: completionParts,
    reasoning_tokens: "reasoning",
    accepted_prediction_tokens: "known",
    rejected_prediction_tokens: "known",

    audio_seconds: "seconds",
    prompt_audio_seconds: "seconds",
    input_audio_seconds: "seconds",
    audio_duration: "seconds",
    duration: "seconds",
    seconds: "seconds",
    image_count: "known",
    cost: "known",
    cost_details: "known",
    cost_in_usd_ticks: "known",
    estimated_cost: "known",
    is_byok: "known",
    queue_time: "known",
    prompt_time: "known",
    completion_time: "known",
    total_time: "known",
    x_details: "known",
    iterations: "runs",

    // `statedCalls` reads these calls.
    server_tool_use: membersOf({ web_search_requests: "known", web_fetch_requests: "known" }),
    web_search_requests: "known",
    num_search_queries: "known",
    num_sources_used: "tool",
    num_server_side_tools_used: "tool",
    server_side_tool_usage: "tool",
    server_side_tool_usage_details: "tool",
  },
  { unknown: "unknownNextToPrompt" },
);
