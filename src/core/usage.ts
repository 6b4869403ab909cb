import { mergeDoubts, type Doubt } from "./doubts.ts";
import { noTokens, tokenClasses, type TokenClass, type TokenCounts, type Unit } from "./tokens.ts";

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
