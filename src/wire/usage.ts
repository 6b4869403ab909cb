import { laterUsage, mergeCopies, withChoices, withRuns, withSeconds, type Run } from "../core/several-usages.ts";
import {
  decompose,
  noDoubts,
  promptClasses,
  promptTotal,
  withDoubts,
  type CacheStatement,
  type Doubt,
  type UnknownTokens,
  type Usage,
} from "../core/usage.ts";
import { isObject, objectOr, storedText, type JsonObject } from "./json.ts";
import {
  meaningOf,
  nothingStated,
  totals,
  unstated,
  usageMembers,
  type Count,
  type Members,
  type StatedCount,
} from "./usage-members.ts";

/** Largest credible count. No model can bill more tokens for one request. */
const tokensMax = 1_000_000_000;

/**
 * Kind of answer that a usage belongs to. `input`: an answer without output, so that the total is the prompt. `sound`:
 * an answer to a recording, so that tokens of the total that are in no part are sound of the prompt. `part`: a text
 * that can be counted, so that a usage may state only its prompt or only its output.
 */
type UsageKind = "text" | "input" | "sound" | "part";

/** Reads the usage that an answer states, in any of the places of `eachUsage`. */
export function readUsageOf(answer: JsonObject, kind: UsageKind = "text"): Usage | undefined {
  const { whole, choices } = readUsagesOf(answer, kind);
  return withChoices(whole, [...choices.values()]);
}

/** Usages that an answer or an event states for the whole answer, and for its choices. */
interface StatedUsages {
  readonly whole: Usage | undefined;
  readonly choices: ReadonlyMap<JsonObject, Usage>;
}

/** Reads the usages that an answer or an event states, in any of the places of `eachUsage`. */
export function readUsagesOf(answer: JsonObject, kind: UsageKind = "text"): StatedUsages {
  let whole: Usage | undefined;
  let choices: Map<JsonObject, Usage> | undefined;
  eachUsage(answer, (stated, choice) => {
    const usage = readUsage(stated, kind);
    if (usage === undefined) return;
    if (choice === undefined) whole = whole === undefined ? usage : mergeCopies(whole, usage);
    else (choices ??= new Map()).set(choice, laterUsage(choices.get(choice), usage) ?? usage);
  });
  return choices === undefined ? { whole, choices: noChoices } : withCopyMerged({ whole, choices });
}

/** Returns the usages of an event whose only choice repeats the usage of the whole, with the details of both. */
function withCopyMerged({ whole, choices }: StatedUsages): StatedUsages {
  const [only, ...others] = choices;
  if (whole === undefined || only === undefined || others.length > 0) return { whole, choices };
  const both = mergeCopies(whole, only[1]);
  return both.rivals === undefined ? { whole: both, choices: new Map([[only[0], both]]) } : { whole, choices };
}

const noChoices: StatedUsages["choices"] = new Map();

/**
 * Calls `visit` for each object in which an answer or an event may state usage: in `usage`, in Gemini's
 * `usageMetadata`, in the message of Anthropic's first event, in the members of some providers, and in its choices.
 */
export function eachUsage(
  answer: JsonObject,
  visit: (usage: JsonObject, choice: JsonObject | undefined) => void,
): void {
  const { usage, usageMetadata, usage_metadata, message, x_groq, meta, choices } = answer;
  const visitObject = (value: unknown, choice?: JsonObject) => {
    if (isObject(value)) visit(value, choice);
  };
  visitObject(usage);
  visitObject(usageMetadata ?? usage_metadata);
  if (isObject(message)) visitObject(message["usage"]);
  if (isObject(x_groq)) visitObject(x_groq["usage"]);
  if (isObject(meta)) visitObject(meta["usage"]);
  if (!Array.isArray(choices)) return;
  for (const choice of choices) {
    if (!isObject(choice)) continue;
    visitObject(choice["usage"], choice);
    const { delta, message: whole } = choice;
    if (isObject(delta)) visitObject(delta["usage"], choice);
    if (isObject(whole)) visitObject(whole["usage"], choice);
  }
}

/**
 * Reads a usage object in the format of any provider, or a duration. Returns undefined if the value is absent, empty or
 * all zeros, or has a negative, fractional or non-numeric total. An unknown usage never counts as 0.
 */
export function readUsage(value: unknown, kind: UsageKind = "text"): Usage | undefined {
  if (!isObject(value)) return undefined;
  const statement = new Statement();
  statement.add(value, usageMembers);
  const { counts, runs } = statement;
  const totals = usageOf(statement, kind);
  const tokens = runs.length === 0 ? totals : withRuns(totals, runs);
  // A duration alone is a usage only of sound. Elsewhere it could be a running time.
  const isDuration = kind === "sound" || value["type"] === "duration";
  const usage = tokens === undefined && !isDuration ? undefined : withSeconds(tokens, counts.seconds);
  return usage === undefined ? undefined : withDoubts(usage, statement.doubts());
}

/**
 * Returns the whole seconds of a duration that is stated as a number or as text ("8.47"); undefined for other values.
 */
export function secondsOf(duration: unknown): number | undefined {
  const isText = typeof duration === "string" && /^\d{1,10}(?:\.\d{1,20})?$/.test(duration);
  const seconds = isText ? Number(duration) : duration;
  return typeof seconds === "number" && seconds > 0 && seconds <= tokensMax ? Math.ceil(seconds) : undefined;
}

function usageOf({ counts: all, isMalformed, hasUnknown }: Statement, kind: UsageKind): Usage | undefined {
  if (isMalformed) return undefined;
  const counts = kind === "input" ? asInput(all) : all;
  const cache = cacheOf(counts);
  const { completion, reasoning, ...output } = completionOf(counts);
  const citations = numberOf(counts.citations);
  const total = counts.total.count === undefined ? undefined : counts.total.count + citations;
  const stated = promptOf(counts, cache);
  const isPart = kind === "part";
  const prompt = stated ?? (isPart && states(completion) ? promptFromTotal(total, completion.count) : undefined);
  if (prompt === undefined) return undefined;
  const hasOutput = completion.count !== undefined || (total !== undefined && total >= prompt.count);
  if (!hasOutput && !(isPart && total === undefined)) return undefined;
  const { cached, written5m, written1h, writtenOther } = cache;
  // If all totals are 0, details do not make a usage credible. Cached tokens that are stated next to the totals do.
  const outside = cache.isOutside ? cached + written5m + written1h + writtenOther : 0;
  if (prompt.count + (completion.count ?? 0) + (total ?? 0) + outside === 0) return undefined;

  const cachedAudio = numberOf(counts.cachedAudio);
  const cachedImages = numberOf(counts.cachedImage) + numberOf(counts.cachedVideo) + numberOf(counts.cachedDocument);
  const media = numberOf(counts.imageInput) + numberOf(counts.videoInput) + numberOf(counts.documentInput);
  const usage = decompose({
    prompt: prompt.count,
    completion: completion.count,
    total,
    cache: prompt.cache,
    // Cached audio and images have no class, so they count as uncached audio and images.
    cached: Math.max(cached - cachedAudio - cachedImages, 0),
    cacheWrite: written5m,
    cacheWrite1h: written1h,
    audioInput: Math.max(numberOf(counts.audioInput), cachedAudio),
    imageInput: Math.max(media, cachedImages),
    reasoning: reasoning.count ?? 0,
    ...output,
    promptContradicts:
      prompt.contradicts ||
      cache.contradicts ||
      counts.audioInput.contradicts ||
      counts.imageInput.contradicts ||
      counts.videoInput.contradicts ||
      counts.documentInput.contradicts,
    completionContradicts:
      completion.contradicts ||
      reasoning.contradicts ||
      counts.audioOutput.contradicts ||
      counts.imageOutput.contradicts,
    unknown: hasUnknown ? unknownOf(counts, writtenOther) : undefined,
    excess: kind === "sound" ? kind : undefined,
  });
  const doubts: Doubt[] = [];
  if (cache.splitContradicts || counts.total.contradicts) doubts.push("usage_contradicts");
  if (cachedAudio + cachedImages > 0) doubts.push("usage_unknown_class");
  const { textOutput, audioOutput, imageOutput, unknownOutput } = counts;
  const wroteOnlyText = states(textOutput) && ![audioOutput, imageOutput, unknownOutput].some(states);
  const found: Usage = {
    ...usage,
    ...(cache.isUnsplit && { lacksCacheLifetime: true }),
    ...(wroteOnlyText && { wroteOnlyText }),
    ...(!hasOutput && { unstated: "completion" }),
    // The prompt of a text has at least one token.
    ...((stated === undefined || (isPart && promptTotal(usage.tokens) === 0)) && { unstated: "prompt" }),
  };
  return withDoubts(prompt.count === 0 && stated === undefined ? withoutPrompt(found) : found, doubts);
}

/** Removes parts of a prompt whose total is unstated. */
function withoutPrompt(found: Usage): Usage {
  const { unknownInput: _, lacksCacheLifetime: __, ...usage } = found;
  const tokens = { ...usage.tokens };
  for (const name of promptClasses) tokens[name] = 0;
  return { ...usage, tokens };
}

/** Returns the prompt of a usage that states only output: the total without the output. */
function promptFromTotal(total = 0, completion = 0): PromptCount {
  return { count: Math.max(total - completion, 0), cache: "parts", contradicts: false };
}

function unknownOf(counts: Counts, written: number): UnknownTokens {
  return {
    part: numberOf(counts.unknownPart),
    nextToPrompt: numberOf(counts.unknownNextToPrompt),
    cached: numberOf(counts.cachedOther),
    written,
  };
}

/** Returns the counts of an answer without output. Its total is its prompt; if they differ, the larger one counts. */
function asInput(counts: Counts): Counts {
  const { total } = counts;
  const output = completionOf(counts).completion;
  const whole = { ...total, count: total.count && Math.max(total.count - (output.count ?? 0), 0) };
  const name = states(counts.prompt) ? "prompt" : "input";
  return {
    ...counts,
    [name]: mergeCounts(counts[name], whole),
    completion: { ...output, count: output.count ?? 0 },
    total: unstated,
  };
}

interface CacheCounts {
  readonly cached: number;
  /** Tokens written to the cache for five minutes, and for an hour. */
  readonly written5m: number;
  readonly written1h: number;
  /** Tokens written to the cache for an unknown time. */
  readonly writtenOther: number;
  /** True if the usage states only the sum of all kinds of writes, which then counts as `written5m`. */
  readonly isUnsplit: boolean;
  readonly contradicts: boolean;
  /** True if the kinds of writes do not add up to the stated sum. */
  readonly splitContradicts: boolean;
  /** True if members next to the prompt state the counts. */
  readonly isOutside: boolean;
}

/** Counts of cached tokens in the details of the prompt. */
const cacheDetails: readonly Count[] = [
  "cached",
  "hit",
  "partlyRead",
  "partlyWritten",
  "written",
  "written5m",
  "written1h",
  "writtenOther",
];

function cacheOf(counts: Counts): CacheCounts {
  const written = mergeCounts(mergeCounts(counts.written, counts.partlyWritten), counts.created);
  const five = mergeCounts(counts.written5m, counts.created5m);
  const hour = mergeCounts(counts.written1h, counts.created1h);
  const others = mergeCounts(counts.writtenOther, counts.createdOther);
  const { count: whole = 0 } = written;
  const { count: fiveMinutes = 0 } = five;
  const { count: oneHour = 0 } = hour;
  const { count: other = 0 } = others;
  const kinds = fiveMinutes + oneHour + other;
  const isUnsplit = whole > 0 && kinds === 0;
  const splitContradicts = !isUnsplit && whole > 0 && whole !== kinds;
  const cached = mergeCounts(mergeCounts(readOf(counts, Math.max(whole, kinds)), counts.hit), counts.cacheRead);
  return {
    cached: cached.count ?? 0,
    written5m: isUnsplit ? whole : fiveMinutes,
    // If the parts do not add up to the whole, the difference counts as the most expensive part with a known rate.
    written1h: splitContradicts ? Math.max(whole - fiveMinutes - other, oneHour) : oneHour,
    writtenOther: other,
    isUnsplit,
    contradicts: cached.contradicts || written.contradicts || five.contradicts || hour.contradicts,
    splitContradicts,
    isOutside:
      states(counts.cacheRead) ||
      states(counts.created) ||
      states(counts.created5m) ||
      states(counts.created1h) ||
      states(counts.createdOther),
  };
}

/**
 * Returns the tokens read from the cache that the details of the prompt state. Some gateways state reads and writes,
 * and their sum as the cached tokens. They omit reads of 0.
 */
function readOf({ cached, partlyRead, partlyWritten }: Counts, written: number): StatedCount {
  const { count: reads = 0 } = partlyRead;
  const isSum = states(partlyRead) || states(partlyWritten);
  return isSum && cached.count === reads + written ? { ...partlyRead, count: reads } : mergeCounts(cached, partlyRead);
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
function promptOf(counts: Counts, cache: CacheCounts): PromptCount | undefined {
  const { isOutside } = cache;
  const { prompt, input } = counts;
  const miss = counts.miss.count ?? 0;
  const hitAndMiss = miss > 0 ? (counts.hit.count ?? 0) + miss : undefined;
  const stated = larger(prompt.count, input.count);
  const count = larger(stated, hitAndMiss);
  if (count === undefined) return undefined;
  const isPrompt = states(counts.prompt) || input.count === undefined;
  const isBoth = states(counts.prompt) && states(counts.input);
  const cached = cache.cached + cache.written5m + cache.written1h + cache.writtenOther;
  const differs = isBoth && prompt.count !== input.count && prompt.count !== (input.count ?? 0) + cached;
  const isUnclear = isBoth
    ? prompt.count === input.count
    : !isPrompt && cacheDetails.some((name) => states(counts[name]));
  return {
    count: count + numberOf(counts.toolPrompt) + numberOf(counts.citations),
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
  const candidatesAndThoughts =
    larger(candidates.count, thoughts.count) === undefined
      ? undefined
      : (candidates.count ?? 0) + (thoughts.count ?? 0);
  const differs =
    (completion.count ?? 0) > 0 && (candidatesAndThoughts ?? 0) > 0 && completion.count !== candidatesAndThoughts;
  return {
    completion: {
      count: larger(completion.count, candidatesAndThoughts),
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

function numberOf({ count = 0 }: StatedCount): number {
  return count;
}

/** Collects the counts that the members of one usage object state. */
class Statement {
  /** True if a total is not a valid count. */
  isMalformed = false;
  /** Usage of each run of the model; empty if it is not stated. */
  runs: readonly Run[] = [];
  readonly #counts: Record<Count, StatedCount> = { ...nothingStated };
  /** True if a member has an unknown name or value. */
  hasUnknown = false;
  #hasTools = false;

  add(object: JsonObject, members: Members): void {
    for (const name in object) {
      const value = object[name];
      if (value === null || value === undefined) continue;
      const meaning = meaningOf(name, members);
      if (meaning === "known") continue;
      if (meaning === "tool") this.#hasTools ||= hasNumbers(value);
      else if (meaning === undefined) this.#unknown(name, value, members.unknown);
      else if (meaning === "runs" && Array.isArray(value)) this.#runs(value);
      else if (meaning === "runs") this.hasUnknown ||= hasNumbers(value);
      else if (typeof meaning === "string") this.#count(meaning, value);
      else if (Array.isArray(value)) this.add(this.#modalities(value), meaning);
      else if (isObject(value)) this.add(value, meaning);
      else if (meaning.whole !== undefined) this.#count(meaning.whole, value);
      else this.hasUnknown ||= hasNumbers(value);
    }
  }

  get counts(): Counts {
    return this.#counts;
  }

  doubts(): readonly Doubt[] {
    if (!this.#hasTools && !this.hasUnknown) return noDoubts;
    return [
      ...(this.#hasTools ? ["hosted_tool" as const] : []),
      ...(this.hasUnknown ? ["usage_unknown_class" as const] : []),
    ];
  }

  /** Records a count. Ignores a malformed part of a count, so its tokens remain in the class of the whole count. */
  #count(name: Count, value: unknown): void {
    const count = name === "seconds" ? secondsOf(value) : countOf(value);
    if (count !== undefined) this.#counts[name] = mergeCounts(this.#counts[name], { count, contradicts: false });
    else if (totals.has(name)) this.isMalformed = true;
    else this.hasUnknown ||= name !== "seconds" || hasNumbers(value);
  }

  #runs(list: readonly unknown[]): void {
    const { runs, isReadable } = runsIn(list);
    this.runs = runs;
    this.hasUnknown ||= !isReadable;
  }

  /** Records a member with an unknown name. Its tokens are added to a count, because they may be of any class. */
  #unknown(name: string, value: unknown, to: Count | undefined): void {
    const tokens = to === undefined ? 0 : promptTokensIn(name, value, to !== "unknownNextToPrompt");
    this.hasUnknown ||= tokens > 0 || hasNumbers(value);
    if (to === undefined || tokens === 0) return;
    const count = Math.min((this.#counts[to].count ?? 0) + tokens, tokensMax);
    this.#counts[to] = { count, contradicts: false };
  }

  /** Converts Gemini's list of tokens by modality into the object that other formats use. */
  #modalities(list: readonly unknown[]): JsonObject {
    const parts: Record<string, number> = {};
    for (const item of list) {
      const { modality, tokenCount, token_count: snake = tokenCount } = isObject(item) ? item : {};
      // Proto3 omits a count of 0.
      const count = countOf(snake ?? 0);
      if (typeof modality !== "string" || count === undefined) this.hasUnknown = true;
      else parts[`${modality.toLowerCase()}_tokens`] = (parts[`${modality.toLowerCase()}_tokens`] ?? 0) + count;
    }
    return parts;
  }
}

/** Returns a count that is stated as a number or as text ("1000"); undefined for any other value. */
export function countOf(value: unknown, most = tokensMax): number | undefined {
  const count = typeof value === "string" && /^\d{1,10}$/.test(value) ? Number(value) : value;
  return typeof count === "number" && Number.isInteger(count) && count >= 0 && count <= most ? count : undefined;
}

/** Words in the name of a number that does not count tokens. */
const otherUnits = wordSet(
  "second sec ms millisecond duration latency time timestamp ttl cost price usd tick rate ratio",
);
/** Words in the name of a number that does not count tokens, unless the name also contains "token". */
const otherThings = wordSet("request query queries call search searches source page character byte percent id version");
/** Words in the name of a number that counts tokens of the output, or of prompt and output together. */
const otherTokens = wordSet(
  "output completion reasoning thought thinking candidate response generated generation predicted prediction accepted",
  "rejected draft total sum billed",
);
/** Words in the name of a number that may count tokens of the prompt. */
const promptWords = wordSet("token prompt input context cache cached write written creation read");

function wordSet(...lists: readonly string[]): ReadonlySet<string> {
  return new Set(lists.flatMap((list) => list.split(" ")));
}

/**
 * Returns the sum of all counts in an unknown member that may be tokens of the prompt, by their names. `isPrompt`: true
 * if the member is part of the prompt's details, so that only a name with another unit excludes it.
 */
function promptTokensIn(name: string, value: unknown, isPrompt: boolean, depth = 0): number {
  if (depth >= depthMax) return 0;
  const words = wordsOf(name);
  const has = (set: ReadonlySet<string>) => words.some((word) => set.has(word));
  const isOther = has(otherUnits) || (has(otherThings) && !words.includes("token")) || (!isPrompt && has(otherTokens));
  if (isOther) return 0;
  const counts = isPrompt || has(promptWords);
  if (typeof value !== "object" || value === null) return counts ? (countOf(value) ?? 0) : 0;
  return Object.entries(value).reduce(
    (sum, [inner, part]) => sum + promptTokensIn(Array.isArray(value) ? name : inner, part, counts, depth + 1),
    0,
  );
}

/** Returns the words of a name in lower case, also in the singular: "cached", "tokens", "token" for `cachedTokens`. */
function wordsOf(name: string): readonly string[] {
  const words = name
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .toLowerCase()
    .split(/[^a-z]+/);
  return words.flatMap((word) => (word.endsWith("s") ? [word, word.slice(0, -1)] : word));
}

const runKinds: ReadonlyMap<unknown, Run["kind"]> = new Map<unknown, Run["kind"]>([
  [undefined, "attempt"],
  ["message", "attempt"],
  ["fallback_message", "attempt"],
  ["compaction", "extra"],
  ["advisor_message", "extra"],
]);

/**
 * Reads Anthropic's `iterations`, which are the runs of the model. Leaves out attempts that the model declined, after
 * which the gateway asked another model. Only runs in addition to the attempts have a model of their own.
 */
function runsIn(list: readonly unknown[]): { readonly runs: readonly Run[]; readonly isReadable: boolean } {
  const stated = list.map(objectOr);
  const last = stated.findLastIndex(({ type }) => type === "fallback_message");
  let isReadable = list.every(isObject);
  const runs = stated
    .filter(({ type }, index) => index >= last || runKinds.get(type) !== "attempt")
    .map((run): Run => {
      const { type, model: name } = run;
      // A run may state no output.
      const usage = readUsage({ output_tokens: 0, ...run, iterations: undefined });
      isReadable &&= usage !== undefined || !statesTokens(run);
      const kind = runKinds.get(type) ?? "unknown";
      const model = kind !== "attempt" && typeof name === "string" && name !== "" ? storedText(name) : null;
      // The rates of an advisor without a name are unknown.
      return { kind: type === "advisor_message" && model === null ? "unknown" : kind, usage, model };
    });
  return { runs, isReadable };
}

/** Returns true if a run states a count that is not 0, even one that cannot be read. */
function statesTokens(run: JsonObject): boolean {
  return Object.entries(run).some(([name, value]) => name.endsWith("_tokens") && value !== 0 && value != null);
}

/** Largest depth that is searched. No usage is deeper. */
const depthMax = 8;

/** Returns true if the value contains a whole number other than 0, or is too deep to be searched. */
function hasNumbers(value: unknown, depth = 0): boolean {
  if (typeof value === "number") return value !== 0 && Number.isInteger(value);
  if (typeof value !== "object" || value === null) return false;
  return depth >= depthMax || Object.values(value).some((part) => hasNumbers(part, depth + 1));
}
