/**
 * Disjoint classes of tokens: each token is counted in one. `input` is the prompt without its cached, written, audio
 * and image tokens; `output` is the completion without its reasoning, audio and image tokens.
 */
export const promptClasses = [
  "input",
  "cached_input",
  "cache_write",
  "cache_write_1h",
  "audio_input",
  "image_input",
] as const;
export const completionClasses = ["output", "reasoning", "audio_output", "image_output"] as const;
export const tokenClasses = [...promptClasses, ...completionClasses] as const;

export type TokenClass = (typeof tokenClasses)[number];
export type TokenCounts = Readonly<Record<TokenClass, number>>;

/** Class whose rate applies where a price states none. A parent comes before its children in `tokenClasses`. */
export const parentClass: Readonly<Record<TokenClass, TokenClass | null>> = {
  input: null,
  cached_input: "input",
  cache_write: "input",
  cache_write_1h: "cache_write",
  audio_input: "input",
  image_input: "input",
  output: null,
  reasoning: "output",
  audio_output: "output",
  image_output: "output",
};

/** Returns the class whose rate a list has for this one: its own, or that of the nearest stated parent. */
export function statedClass(name: TokenClass, stated: Readonly<Partial<Record<TokenClass, unknown>>>): TokenClass {
  const parent = parentClass[name];
  return stated[name] !== undefined || parent === null ? name : statedClass(parent, stated);
}

export const noTokens = Object.fromEntries(tokenClasses.map((name) => [name, 0])) as TokenCounts;

export function promptTotal(tokens: TokenCounts): number {
  return (
    tokens.input +
    tokens.cached_input +
    tokens.cache_write +
    tokens.cache_write_1h +
    tokens.audio_input +
    tokens.image_input
  );
}

export function completionTotal(tokens: TokenCounts): number {
  return tokens.output + tokens.reasoning + tokens.audio_output + tokens.image_output;
}

/**
 * Unit by which a model is billed. Seconds of sound are counted as `audio_input`, characters as `input`; rates are for
 * a million of them.
 */
export const units = ["token", "second", "character"] as const;
export type Unit = (typeof units)[number];

/** A factor in thousandths, so that scaling stays in integers: 1250 is 1.25 times. */
export type Permille = number & { readonly unit: "permille" };

export const unchanged = 1000 as Permille;

/** Scales tokens by a factor, rounded up so that an estimate is never too low by rounding. */
export function scaleTokens(tokens: number, factor: Permille): number {
  return Math.ceil((tokens * factor) / 1000);
}

/** The reasons why a posted amount may differ from the gateway's bill, in the order in which they are shown. */
export const doubts = [
  /** The answer carries text in a member that Farebox does not know. */
  "unknown_output",
  /** The request has a field that Farebox does not know, or one whose cost the answer does not show. */
  "unknown_field",
  /** Another model answered than the requested one. */
  "served_model",
  /** A service tier answered for which no rate is known. */
  "service_tier",
  /** The answer used a hosted tool whose fee is not known. */
  "hosted_tool",
  /** The reported usage contradicts itself; the more expensive reading is posted. */
  "usage_contradicts",
  /** The reported usage has a count that Farebox does not know. */
  "usage_unknown_class",
  /** The task's record does not state its consumption. */
  "task_consumption",
  /** The amount is based on the run time of a model with hidden reasoning. */
  "time_based",
  /** The amount is based on the catalogue's bound for images, audio or files. */
  "image_bound",
] as const;
export type Doubt = (typeof doubts)[number];

/** Each doubt once, in the order of `doubts`. */
export function mergeDoubts(...lists: readonly (readonly Doubt[] | undefined)[]): readonly Doubt[] {
  if (lists.every((list) => list === undefined || list.length === 0)) return noDoubts;
  return doubts.filter((doubt) => lists.some((list) => list?.includes(doubt)));
}

export const noDoubts: readonly Doubt[] = [];

/** Returns the stored form: names separated by commas; null for none. */
export function formatDoubts(list: readonly Doubt[] | undefined): string | null {
  return list === undefined || list.length === 0 ? null : mergeDoubts(list).join(",");
}

/** Parses the output of `formatDoubts`; skips names that a later release added. */
export function parseDoubts(text: string | null): readonly Doubt[] {
  if (text === null) return noDoubts;
  const names = text.split(",");
  return doubts.filter((doubt) => names.includes(doubt));
}

/**
 * Place of cached and written tokens in a usage. `parts`: in the prompt's details. `inside`: next to a prompt that
 * includes them, unless they exceed it. `outside`: next to a prompt without them. `unclear`: either of the last two.
 */
export type CacheStatement = "parts" | "inside" | "outside" | "unclear";

/** Whole numbers that a usage object stated; absent parts are 0. Totals include their parts. */
export interface StatedUsage {
  readonly prompt: number;
  readonly completion: number | undefined;
  readonly total: number | undefined;
  readonly cache: CacheStatement;
  readonly cached: number;
  readonly cacheWrite: number;
  readonly cacheWrite1h: number;
  readonly audioInput: number;
  readonly imageInput: number;
  readonly reasoning: number;
  readonly audioOutput: number;
  readonly imageOutput: number;
  /** Members for one count state different numbers; the count is the largest of them. */
  readonly promptContradicts: boolean;
  readonly completionContradicts: boolean;
}

/** Disjoint token counts, and how far they can be believed. */
export interface Usage {
  readonly tokens: TokenCounts;
  /** The unit of the counts, absent for tokens: it must be the one that the model is billed by. */
  readonly unit?: Unit;
  /** True if the members contradict each other, so that the more expensive reading was taken. */
  readonly clamped: boolean;
  /** Reasons why the amount may differ from the bill; absent for none. */
  readonly doubts?: readonly Doubt[];
  /** True if cache writes are stated without their lifetime. */
  readonly writesAreUnsplit?: true;
}

/**
 * Takes a usage statement apart into disjoint classes; the one place that does.
 *
 * The completion is the larger of what is stated and total less prompt, because some conversions leave reasoning out.
 * Where members contradict each other, parts stand outside their whole and the discounted part (cached) is plain input:
 * no reading of the same members costs more while cached input costs no more than input.
 */
export function decompose(stated: StatedUsage): Usage {
  const {
    prompt,
    total,
    cached,
    cacheWrite,
    cacheWrite1h,
    audioInput,
    imageInput,
    reasoning,
    audioOutput,
    imageOutput,
  } = stated;
  const kept = cached + cacheWrite + cacheWrite1h;
  const media = audioInput + imageInput;
  const place = placeOfCache(stated, kept);
  const remainder = prompt - media - (place === "inside" ? kept : 0);
  const promptClamped = place === undefined || remainder < 0;
  const input = promptClamped ? (media > prompt ? prompt : prompt - media) + cached : remainder;

  const outside = place === "outside" ? kept : 0;
  const completion = Math.max(stated.completion ?? 0, (total ?? 0) - prompt - outside);
  const completionParts = reasoning + audioOutput + imageOutput;
  const completionClamped = stated.completionContradicts || completionParts > completion;

  const clamped = promptClamped || completionClamped;
  const totalIsLess = total !== undefined && total < prompt + outside + (stated.completion ?? 0);
  return {
    tokens: {
      input,
      cached_input: promptClamped ? 0 : cached,
      cache_write: cacheWrite,
      cache_write_1h: cacheWrite1h,
      audio_input: audioInput,
      image_input: imageInput,
      output: completionClamped ? completion : completion - completionParts,
      reasoning,
      audio_output: audioOutput,
      image_output: imageOutput,
    },
    clamped,
    ...((clamped || totalIsLess) && { doubts: ["usage_contradicts"] }),
  };
}

/** Returns the place of the cached and written tokens; undefined where the members contradict each other. */
function placeOfCache(stated: StatedUsage, kept: number): "inside" | "outside" | undefined {
  const { prompt, completion, total, reasoning, cache } = stated;
  if (stated.promptContradicts) return undefined;
  if (kept === 0) return "inside";
  const mayBeInside = kept <= prompt;
  if (cache === "parts")
    return mayBeInside ? "inside" : total === prompt + kept + (completion ?? NaN) ? "outside" : undefined;
  const usual = cache === "unclear" ? undefined : cache === "inside" && mayBeInside ? "inside" : "outside";
  if (total === undefined) return usual;
  const fits = (rest: number) =>
    completion === undefined ? rest >= 0 : rest === completion || rest === completion + reasoning;
  const isInside = mayBeInside && fits(total - prompt);
  const isOutside = fits(total - prompt - kept);
  if (isInside !== isOutside) return isInside ? "inside" : "outside";
  if (completion === undefined) return isInside ? usual : undefined;
  // More than prompt and completion, but less than with another prompt: reasoning that the completion leaves out.
  const hidesReasoning = !isInside && total > prompt + completion && total < prompt + kept + completion;
  return usual === "inside" && hidesReasoning ? "inside" : undefined;
}

/** Merges two statements of the same answer. Where they differ, each class has the larger count. */
export function mergeUsage(one: Usage | undefined, other: Usage | undefined): Usage | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  if (one.unit !== other.unit) return one;
  const doubts = mergeDoubts(one.doubts, other.doubts);
  if (tokenClasses.every((name) => one.tokens[name] === other.tokens[name])) return withDoubts(one, doubts);
  const tokens = { ...noTokens };
  for (const name of tokenClasses) tokens[name] = Math.max(one.tokens[name], other.tokens[name]);
  return withDoubts({ ...other, ...one, tokens, clamped: true }, [...doubts, "usage_contradicts"]);
}

/** Adds doubts to a usage. */
export function withDoubts(usage: Usage, more: readonly Doubt[]): Usage {
  return more.length === 0 ? usage : { ...usage, doubts: mergeDoubts(usage.doubts, more) };
}

/**
 * Returns the usage if it counts the model's billing unit; undefined otherwise. `promptClasses`: classes that the
 * request's prompt can become.
 */
export function usageIn(unit: Unit, usage: Usage | undefined, promptClasses: readonly TokenClass[]): Usage | undefined {
  if (usage === undefined || (usage.unit ?? "token") !== unit) return undefined;
  const { tokens, writesAreUnsplit } = usage;
  if (writesAreUnsplit !== true || !promptClasses.includes("cache_write_1h")) return usage;
  // The request wrote for an hour, and the usage states no shorter lifetime.
  const moved = { ...tokens, cache_write: 0, cache_write_1h: tokens.cache_write_1h + tokens.cache_write };
  return withDoubts({ ...usage, tokens: moved }, ["usage_unknown_class"]);
}
