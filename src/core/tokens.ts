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

export type PromptClass = (typeof promptClasses)[number];
export type CompletionClass = (typeof completionClasses)[number];
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

export const noTokens: TokenCounts = {
  input: 0,
  cached_input: 0,
  cache_write: 0,
  cache_write_1h: 0,
  audio_input: 0,
  image_input: 0,
  output: 0,
  reasoning: 0,
  audio_output: 0,
  image_output: 0,
};

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
