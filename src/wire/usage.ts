import {
  decompose,
  laterUsage,
  noDoubts,
  noTokens,
  withDoubts,
  type CacheStatement,
  type Doubt,
  type Usage,
} from "../core/usage.ts";
import { isObject, type JsonObject } from "./json.ts";

/** Largest credible count. No model can bill more tokens for one request. */
const tokensMax = 1_000_000_000;

const unstated: StatedCount = { count: undefined, contradicts: false };

/** All counts that a usage can state. */
const nothingStated = {
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
  cacheRead: unstated,
  created: unstated,
  created5m: unstated,
  created1h: unstated,
  cachedAudio: unstated,
  cachedImage: unstated,
  cachedVideo: unstated,
  cachedDocument: unstated,
  audioInput: unstated,
  imageInput: unstated,
  videoInput: unstated,
  documentInput: unstated,
  reasoning: unstated,
  textOutput: unstated,
  audioOutput: unstated,
  imageOutput: unstated,
};
type Count = keyof typeof nothingStated;

/** Counts that make a usage unreadable if they are malformed. */
const totals: ReadonlySet<Count> = new Set<Count>(["prompt", "input", "completion", "candidates", "thoughts", "total"]);

/**
 * Meaning of a member. `known`: a part of another count, or not a count. `tool`: calls that are billed in addition to
 * tokens. `once`: a list that repeats the usage if it has one entry. All other meanings are counts, or objects with
 * known members.
 */
type Meaning = Count | "known" | "tool" | "once" | Members;
type Members = ReadonlyMap<string, Meaning>;

/**
 * Returns the same text for `prompt_tokens` and `promptTokens`. Used for names that a table does not contain as
 * written.
 */
const fold = (name: string) => name.replaceAll("_", "").toLowerCase();

function membersOf(members: Readonly<Record<string, Meaning>>): Members {
  const entries = Object.entries(members);
  return new Map([...entries, ...entries.map(([name, meaning]) => [fold(name), meaning] as const)]);
}

const cachedParts = membersOf({
  text_tokens: "known",
  audio_tokens: "cachedAudio",
  image_tokens: "cachedImage",
  video_tokens: "cachedVideo",
  document_tokens: "cachedDocument",
});

const writtenParts = membersOf({ ephemeral_5m_input_tokens: "written5m", ephemeral_1h_input_tokens: "written1h" });

const promptParts = membersOf({
  text_tokens: "known",
  cached_tokens: "cached",
  cached_tokens_details: cachedParts,
  cache_creation_tokens: "written",
  cached_creation_tokens: "written",
  cache_write_tokens: "written",
  cache_creation_input_tokens: "written",
  cache_creation: writtenParts,
  cache_creation_token_details: writtenParts,
  audio_tokens: "audioInput",
  image_tokens: "imageInput",
  video_tokens: "videoInput",
  document_tokens: "documentInput",
  web_search_requests: "tool",
});

const completionParts = membersOf({
  text_tokens: "textOutput",
  reasoning_tokens: "reasoning",
  audio_tokens: "audioOutput",
  image_tokens: "imageOutput",
  accepted_prediction_tokens: "known",
  rejected_prediction_tokens: "known",
});

/**
 * All known members: the members of OpenAI, Anthropic and Gemini, and the members that conversions between these
 * formats add.
 */
const usageMembers = membersOf({
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
  cache_creation: membersOf({ ephemeral_5m_input_tokens: "created5m", ephemeral_1h_input_tokens: "created1h" }),
  claude_cache_creation_5_m_tokens: "created5m",
  claude_cache_creation_1_h_tokens: "created1h",

  prompt_tokens_details: promptParts,
  input_tokens_details: promptParts,
  input_token_details: promptParts,
  cache_tokens_details: cachedParts,
  tool_use_prompt_tokens_details: membersOf({ text_tokens: "known" }),
  completion_tokens_details: completionParts,
  output_tokens_details: completionParts,
  output_token_details: completionParts,
  candidates_tokens_details: completionParts,
  response_tokens_details: completionParts,
  reasoning_tokens: "reasoning",
  accepted_prediction_tokens: "known",
  rejected_prediction_tokens: "known",

  audio_seconds: "known",
  seconds: "known",
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
  iterations: "once",

  server_tool_use: membersOf({ web_search_requests: "known", web_fetch_requests: "known" }),
  num_sources_used: "tool",
  num_search_queries: "tool",
  num_server_side_tools_used: "tool",
  server_side_tool_usage: "tool",
  server_side_tool_usage_details: "tool",
});

/** Reads the usage that an answer or an event states in `usage` or in Gemini's `usageMetadata`. */
export function readUsageOf(answer: JsonObject): Usage | undefined {
  return laterUsage(readUsage(answer["usage"]), readUsage(answer["usageMetadata"] ?? answer["usage_metadata"]));
}

/**
 * Reads a usage object in the format of any provider, or a duration. Returns undefined if the value is absent, empty or
 * all zeros, or has a negative, fractional or non-numeric total. An unknown usage never counts as 0.
 */
export function readUsage(value: unknown): Usage | undefined {
  if (!isObject(value)) return undefined;
  const statement = new Statement();
  statement.add(value, usageMembers);
  const usage = value["type"] === "duration" ? durationOf(value["seconds"]) : usageOf(statement);
  return usage === undefined ? undefined : withDoubts(usage, statement.doubts());
}

/** Returns the usage for a duration in seconds. A part of a second counts as a whole second. */
function durationOf(seconds: unknown): Usage | undefined {
  if (typeof seconds !== "number" || !(seconds > 0) || seconds > tokensMax) return undefined;
  return { tokens: { ...noTokens, audio_input: Math.ceil(seconds) }, clamped: false, unit: "second" };
}

function usageOf({ counts, isMalformed }: Statement): Usage | undefined {
  if (isMalformed) return undefined;
  const cache = cacheOf(counts);
  const prompt = promptOf(counts, cache);
  const { completion, reasoning, ...written } = completionOf(counts);
  const { total } = counts;
  if (prompt === undefined) return undefined;
  if (completion.count === undefined && (total.count === undefined || total.count < prompt.count)) return undefined;
  const { cached, five, hour } = cache;
  // If all totals are 0, details do not make a usage credible. Cached tokens that are stated next to the totals do.
  const outside = cache.isOutside ? cached + five + hour : 0;
  if (prompt.count + (completion.count ?? 0) + (total.count ?? 0) + outside === 0) return undefined;

  const cachedAudio = numberOf(counts.cachedAudio);
  const cachedImages = numberOf(counts.cachedImage) + numberOf(counts.cachedVideo) + numberOf(counts.cachedDocument);
  const media = numberOf(counts.imageInput) + numberOf(counts.videoInput) + numberOf(counts.documentInput);
  const usage = decompose({
    prompt: prompt.count,
    completion: completion.count,
    total: total.count,
    cache: prompt.cache,
    // Cached audio and images have no class, so they count as uncached audio and images.
    cached: Math.max(cached - cachedAudio - cachedImages, 0),
    cacheWrite: five,
    cacheWrite1h: hour,
    audioInput: Math.max(numberOf(counts.audioInput), cachedAudio),
    imageInput: Math.max(media, cachedImages),
    reasoning: reasoning.count ?? 0,
    ...written,
    promptContradicts: [
      prompt,
      cache,
      counts.audioInput,
      counts.imageInput,
      counts.videoInput,
      counts.documentInput,
    ].some(contradicts),
    completionContradicts: [completion, reasoning, counts.audioOutput, counts.imageOutput].some(contradicts),
  });
  const doubts: Doubt[] = [];
  if (cache.splitContradicts || total.contradicts) doubts.push("usage_contradicts");
  if (cachedAudio + cachedImages > 0) doubts.push("usage_unknown_class");
  const wroteOnlyText = states(counts.textOutput) && !states(counts.audioOutput) && !states(counts.imageOutput);
  const stated: Usage = {
    ...usage,
    ...(cache.isUnsplit && { writesAreUnsplit: true }),
    ...(wroteOnlyText && { wroteOnlyText }),
  };
  return withDoubts(stated, doubts);
}

interface CacheCounts {
  readonly cached: number;
  /** Tokens written to the cache for five minutes, and for an hour. */
  readonly five: number;
  readonly hour: number;
  /** True if the usage states only the sum of both kinds of writes, which then counts as `five`. */
  readonly isUnsplit: boolean;
  readonly contradicts: boolean;
  /** True if the two kinds of writes do not add up to the stated sum. */
  readonly splitContradicts: boolean;
  /** `isOutside`: members next to the prompt state the counts. `isDetailed`: the details of the prompt state them. */
  readonly isOutside: boolean;
  readonly isDetailed: boolean;
}

function cacheOf(counts: Counts): CacheCounts {
  const cached = mergeCounts(mergeCounts(counts.cached, counts.hit), counts.cacheRead);
  const written = mergeCounts(counts.written, counts.created);
  const five = mergeCounts(counts.written5m, counts.created5m);
  const hour = mergeCounts(counts.written1h, counts.created1h);
  const { count: whole = 0 } = written;
  const { count: short = 0 } = five;
  const { count: long = 0 } = hour;
  const isUnsplit = whole > 0 && short + long === 0;
  const splitContradicts = !isUnsplit && whole > 0 && whole !== short + long;
  return {
    cached: cached.count ?? 0,
    five: isUnsplit ? whole : short,
    // If the two parts do not add up to the whole, the difference counts as the more expensive part.
    hour: splitContradicts ? Math.max(whole - short, long) : long,
    isUnsplit,
    contradicts: [cached, written, five, hour].some(contradicts),
    splitContradicts,
    isOutside: [counts.cacheRead, counts.created, counts.created5m, counts.created1h].some(states),
    isDetailed: [counts.cached, counts.hit, counts.written, counts.written5m, counts.written1h].some(states),
  };
}

interface PromptCount {
  readonly count: number;
  readonly cache: CacheStatement;
  readonly contradicts: boolean;
}

/**
 * Returns the prompt tokens in the format of any provider, and whether they include the cached tokens. Returns
 * undefined if the usage states no prompt tokens.
 */
function promptOf(counts: Counts, { cached, five, hour, isOutside, isDetailed }: CacheCounts): PromptCount | undefined {
  const { prompt, input } = counts;
  const miss = counts.miss.count ?? 0;
  const hitAndMiss = miss > 0 ? (counts.hit.count ?? 0) + miss : undefined;
  const stated = larger(prompt.count, input.count);
  const count = larger(stated, hitAndMiss);
  if (count === undefined) return undefined;
  const isPrompt = states(counts.prompt) || input.count === undefined;
  const isBoth = states(counts.prompt) && states(counts.input);
  const differs = isBoth && prompt.count !== input.count && prompt.count !== (input.count ?? 0) + cached + five + hour;
  const isUnclear = isBoth ? prompt.count === input.count : !isPrompt && isDetailed;
  return {
    count: count + (counts.toolPrompt.count ?? 0),
    cache: !isOutside ? "parts" : isUnclear ? "unclear" : isPrompt ? "inside" : "outside",
    contradicts:
      prompt.contradicts ||
      input.contradicts ||
      differs ||
      (hitAndMiss !== undefined && stated !== undefined && stated !== hitAndMiss),
  };
}

function completionOf(counts: Counts) {
  const { completion, candidates, thoughts } = counts;
  // Gemini's candidates do not include its thoughts.
  const written =
    larger(candidates.count, thoughts.count) === undefined
      ? undefined
      : (candidates.count ?? 0) + (thoughts.count ?? 0);
  const differs = (completion.count ?? 0) > 0 && (written ?? 0) > 0 && completion.count !== written;
  return {
    completion: {
      count: larger(completion.count, written),
      contradicts: completion.contradicts || candidates.contradicts || differs,
    },
    reasoning: mergeCounts(counts.reasoning, counts.thoughts),
    audioOutput: counts.audioOutput.count ?? 0,
    imageOutput: counts.imageOutput.count ?? 0,
  };
}

function larger(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? (one ?? other) : Math.max(one, other);
}

interface StatedCount {
  /** Largest stated number; undefined if the usage states none. */
  readonly count: number | undefined;
  /**
   * True if the usage states different numbers. A 0 contradicts nothing, because conversions fill unused members with
   * 0.
   */
  readonly contradicts: boolean;
}

type Counts = Readonly<Record<Count, StatedCount>>;

/** Merges two counts with the same meaning. */
function mergeCounts(one: StatedCount, other: StatedCount): StatedCount {
  if (one.count === undefined || other.count === undefined) return one.count === undefined ? other : one;
  const differ = one.count > 0 && other.count > 0 && one.count !== other.count;
  return { count: Math.max(one.count, other.count), contradicts: one.contradicts || other.contradicts || differ };
}

/** Returns true if the count is stated and not 0. */
function states({ count = 0 }: StatedCount): boolean {
  return count > 0;
}

function contradicts(statement: Pick<StatedCount, "contradicts">): boolean {
  return statement.contradicts;
}

function numberOf({ count = 0 }: StatedCount): number {
  return count;
}

/** Collects the counts that the members of one usage object state. */
class Statement {
  /** True if a total is not a valid count. */
  isMalformed = false;
  readonly #counts: Record<Count, StatedCount> = { ...nothingStated };
  #hasUnknown = false;
  #hasTools = false;

  add(object: JsonObject, members: Members): void {
    for (const name in object) {
      const value = object[name];
      if (value === null || value === undefined) continue;
      const meaning = members.get(name) ?? members.get(fold(name));
      if (meaning === "known" || (meaning === "once" && Array.isArray(value) && value.length <= 1)) continue;
      if (meaning === "tool") this.#hasTools ||= hasNumbers(value);
      else if (meaning === undefined || meaning === "once") this.#hasUnknown ||= hasNumbers(value);
      else if (typeof meaning === "string") this.#count(meaning, value);
      else if (Array.isArray(value)) this.add(this.#modalities(value), meaning);
      else if (isObject(value)) this.add(value, meaning);
      else this.#hasUnknown ||= hasNumbers(value);
    }
  }

  get counts(): Counts {
    return this.#counts;
  }

  doubts(): readonly Doubt[] {
    if (!this.#hasTools && !this.#hasUnknown) return noDoubts;
    return [
      ...(this.#hasTools ? ["hosted_tool" as const] : []),
      ...(this.#hasUnknown ? ["usage_unknown_class" as const] : []),
    ];
  }

  /** Records a count. Ignores a malformed part of a count, so its tokens remain in the class of the whole count. */
  #count(name: Count, value: unknown): void {
    if (isCount(value)) this.#counts[name] = mergeCounts(this.#counts[name], { count: value, contradicts: false });
    else if (totals.has(name)) this.isMalformed = true;
    else this.#hasUnknown = true;
  }

  /** Converts Gemini's list of tokens by modality into the object that other formats use. */
  #modalities(list: readonly unknown[]): JsonObject {
    const parts: Record<string, number> = {};
    for (const item of list) {
      const { modality, tokenCount, token_count: snake = tokenCount } = isObject(item) ? item : {};
      // Proto3 omits a count of 0.
      const count = snake ?? 0;
      if (typeof modality !== "string" || !isCount(count)) this.#hasUnknown = true;
      else parts[`${modality.toLowerCase()}_tokens`] = (parts[`${modality.toLowerCase()}_tokens`] ?? 0) + count;
    }
    return parts;
  }
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= tokensMax;
}

/** Largest depth that is searched. No usage is deeper. */
const depthMax = 8;

/** Returns true if the value contains a whole number other than 0, or is too deep to be searched. */
function hasNumbers(value: unknown, depth = 0): boolean {
  if (typeof value === "number") return value !== 0 && Number.isInteger(value);
  if (typeof value !== "object" || value === null) return false;
  return depth >= depthMax || Object.values(value).some((part) => hasNumbers(part, depth + 1));
}
