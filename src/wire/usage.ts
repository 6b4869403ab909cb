import {
  decompose,
  mergeUsage,
  noDoubts,
  noTokens,
  withDoubts,
  type CacheStatement,
  type Doubt,
  type Usage,
} from "../core/usage.ts";
import { isObject, type JsonObject } from "./json.ts";

/** More than any model can bill for one request; a larger number is no usage but noise. */
const tokensMax = 1_000_000_000;

const unstated: Agreed = { count: undefined, contradicts: false };

/** The counts that a usage can state. */
const nothingStated = {
  prompt: unstated,
  input: unstated,
  completion: unstated,
  candidates: unstated,
  thoughts: unstated,
  total: unstated,
  toolPrompt: unstated,
  // Cached and written tokens: parts of the prompt by definition, or stated next to it.
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
  audioOutput: unstated,
  imageOutput: unstated,
};
type Count = keyof typeof nothingStated;

/** Counts that make a usage unreadable if they are malformed. */
const isTotal: ReadonlySet<Count> = new Set<Count>([
  "prompt",
  "input",
  "completion",
  "candidates",
  "thoughts",
  "total",
]);

/**
 * The meaning of a member. `known`: a part of another count, or no count. `tool`: calls that are billed next to tokens.
 * `once`: a list that repeats the usage where it has one entry. Others are counts, or objects with members of their own.
 */
type Meaning = { readonly count: Count } | "known" | "tool" | "once" | Members;
type Members = ReadonlyMap<string, Meaning>;
type Written = Count | "known" | "tool" | "once" | Members;

/** One spelling for `prompt_tokens` and `promptTokens`, where a name is not in the table as it is. */
const fold = (name: string) => name.replaceAll("_", "").toLowerCase();

function membersOf(members: Readonly<Record<string, Written>>): Members {
  const meaning = (written: Written): Meaning =>
    typeof written !== "string" || written === "known" || written === "tool" || written === "once"
      ? written
      : { count: written };
  const entries = Object.entries(members).map(([name, written]) => [name, meaning(written)] as const);
  return new Map([...entries, ...entries.map(([name, written]) => [fold(name), written] as const)]);
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
  text_tokens: "known",
  reasoning_tokens: "reasoning",
  audio_tokens: "audioOutput",
  image_tokens: "imageOutput",
  accepted_prediction_tokens: "known",
  rejected_prediction_tokens: "known",
});

/** Every member that is known, in any vocabulary: OpenAI, Anthropic, Gemini, and what conversions between them add. */
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

/** Reads what an answer or an event states of its usage: `usage`, and Gemini's `usageMetadata`. */
export function readUsageOf(answer: JsonObject): Usage | undefined {
  return mergeUsage(readUsage(answer["usage"]), readUsage(answer["usageMetadata"] ?? answer["usage_metadata"]));
}

/**
 * Reads a usage object of any vocabulary, or of a duration. Undefined where it is absent, empty, all zeros, or has a
 * negative, fractional or non-numeric total: an unknown usage is never taken for 0.
 */
export function readUsage(value: unknown): Usage | undefined {
  if (!isObject(value)) return undefined;
  const statement = new Statement();
  statement.add(value, usageMembers);
  const usage = value["type"] === "duration" ? durationOf(value["seconds"]) : usageOf(statement);
  return usage === undefined ? undefined : withDoubts(usage, statement.doubts());
}

/** Seconds of sound; a part of one counts as a whole one. */
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
  // Details say nothing of totals that are 0; what stands next to them does.
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
    // Cached sound and images have no class of their own: they count in full with the others of their kind.
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
  return withDoubts(cache.isUnsplit ? { ...usage, writesAreUnsplit: true } : usage, doubts);
}

interface CacheCounts {
  readonly cached: number;
  /** Tokens written for five minutes, and for an hour. */
  readonly five: number;
  readonly hour: number;
  readonly isUnsplit: boolean;
  readonly contradicts: boolean;
  readonly splitContradicts: boolean;
  /** True if members next to the prompt state them (`isOutside`), or its details do (`isDetailed`). */
  readonly isOutside: boolean;
  readonly isDetailed: boolean;
}

function cacheOf(counts: Counts): CacheCounts {
  const cached = agreed(agreed(counts.cached, counts.hit), counts.cacheRead);
  const written = agreed(counts.written, counts.created);
  const five = agreed(counts.written5m, counts.created5m);
  const hour = agreed(counts.written1h, counts.created1h);
  const { count: whole = 0 } = written;
  const { count: short = 0 } = five;
  const { count: long = 0 } = hour;
  const isUnsplit = whole > 0 && short + long === 0;
  const splitContradicts = !isUnsplit && whole > 0 && whole !== short + long;
  return {
    cached: cached.count ?? 0,
    five: isUnsplit ? whole : short,
    // The part that the two do not explain counts as the more expensive one.
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

/** Returns the prompt in any vocabulary, and the place of the cached tokens. */
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
    reasoning: agreed(counts.reasoning, counts.thoughts),
    audioOutput: counts.audioOutput.count ?? 0,
    imageOutput: counts.imageOutput.count ?? 0,
  };
}

function larger(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? (one ?? other) : Math.max(one, other);
}

interface Agreed {
  /** Largest stated number; undefined for none. */
  readonly count: number | undefined;
  /** True if different numbers are stated. Conversions fill unused members with 0. */
  readonly contradicts: boolean;
}

type Counts = Readonly<Record<Count, Agreed>>;

/** Both counts as one, where they mean the same. */
function agreed(one: Agreed, other: Agreed): Agreed {
  if (one.count === undefined || other.count === undefined) return one.count === undefined ? other : one;
  const differ = one.count > 0 && other.count > 0 && one.count !== other.count;
  return { count: Math.max(one.count, other.count), contradicts: one.contradicts || other.contradicts || differ };
}

/** Reports that the count is stated and not 0. */
function states({ count = 0 }: Agreed): boolean {
  return count > 0;
}

function contradicts(statement: Pick<Agreed, "contradicts">): boolean {
  return statement.contradicts;
}

function numberOf({ count = 0 }: Agreed): number {
  return count;
}

/** Counts by their meaning, as the members of one usage object state them. */
class Statement {
  /** True if a total is not a valid count. */
  isMalformed = false;
  readonly #counts: Record<Count, Agreed> = { ...nothingStated };
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
      else if ("count" in meaning) this.#count(meaning.count, value);
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

  /** A malformed part counts as none: its tokens stay in the plain class of their whole. */
  #count(name: Count, value: unknown): void {
    if (isCount(value)) this.#counts[name] = agreed(this.#counts[name], { count: value, contradicts: false });
    else if (isTotal.has(name)) this.isMalformed = true;
    else this.#hasUnknown = true;
  }

  /** Gemini's list of tokens by modality, as the object that other vocabularies have in its place. */
  #modalities(list: readonly unknown[]): JsonObject {
    const parts: Record<string, number> = {};
    for (const item of list) {
      const { modality, tokenCount, token_count: snake = tokenCount } = isObject(item) ? item : {};
      // Proto3 leaves a count of 0 out.
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

/** Deeper than any usage; what lies below it is not looked into. */
const depthMax = 8;

/** Reports a whole number other than 0, at any depth. */
function hasNumbers(value: unknown, depth = 0): boolean {
  if (typeof value === "number") return value !== 0 && Number.isInteger(value);
  if (typeof value !== "object" || value === null) return false;
  return depth >= depthMax || Object.values(value).some((part) => hasNumbers(part, depth + 1));
}
