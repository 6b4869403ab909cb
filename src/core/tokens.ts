/**
 * Disjoint classes of tokens: a token is counted in one of them only. `input` is the prompt less its cached, written,
 * audio and image tokens; `output` is the completion less its reasoning, audio and image tokens.
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

/** The class whose rate serves where a price names none of its own. A parent stands before its children in `tokenClasses`. */
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

/** The class whose rate a list has for this one: its own, or that of the nearest parent that the list states. */
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
 * What a model is billed by. Where it is no tokens, seconds of sound take the place of `audio_input` tokens and characters
 * that of `input` tokens, and its rates are for a million of them.
 */
export const units = ["token", "second", "character"] as const;
export type Unit = (typeof units)[number];

/** A factor in thousandths, so that scaling stays in integers: 1250 is 1.25 times. */
export type Permille = number & { readonly unit: "permille" };

export const unchanged = 1000 as Permille;

/** Tokens times a factor, rounded up: an estimate never errs to the cheap side by rounding. */
export function scaleTokens(tokens: number, factor: Permille): number {
  return Math.ceil((tokens * factor) / 1000);
}
