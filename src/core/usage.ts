/**
 * Disjoint classes of tokens: each token counts in exactly one class. `input` is the prompt without cached tokens,
 * cache writes, audio and images. `output` is the completion without reasoning, audio and images.
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

/**
 * Class whose rate applies if a price states none for the given class. In `tokenClasses`, a parent comes before its
 * children.
 */
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

/**
 * Returns the class whose stated rate applies to the given class: the class itself, or its nearest parent with a
 * stated rate.
 */
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
 * Billing unit of a model. Seconds of audio are counted as `audio_input` and characters as `input`. Rates are for one
 * million units.
 */
export const units = ["token", "second", "character"] as const;
export type Unit = (typeof units)[number];

/** A factor in thousandths, so that scaling uses only integers: 1250 means 1.25. */
export type Permille = number & { readonly unit: "permille" };

export const unchanged = 1000 as Permille;

/** Returns a number of tokens times a factor, rounded up so that rounding never makes an estimate too low. */
export function scaleTokens(tokens: number, factor: Permille): number {
  return Math.ceil((tokens * factor) / 1000);
}

/** Reasons why a posted amount may differ from the gateway's bill, in display order. */
export const doubts = [
  /** The answer has text in a field that Farebox does not know. */
  "unknown_output",
  /** The request has a field that Farebox does not know, or a field whose cost the answer does not show. */
  "unknown_field",
  /** The model that answered is not the requested one. */
  "served_model",
  /** The service tier, speed or region that answered has no known rates. */
  "service_tier",
  /** The answer used a hosted tool whose fee is unknown. */
  "hosted_tool",
  /** The reported usage contradicts itself. The more expensive interpretation is posted. */
  "usage_contradicts",
  /** The reported usage counts a class that Farebox does not know, or does not separate sound or images from text. */
  "usage_unknown_class",
  /** The task's record does not state its consumption. */
  "task_consumption",
  /** The amount is based on the run time of a model with hidden reasoning. */
  "time_based",
  /** The amount is based on the catalogue's bound for images, audio or files. */
  "image_bound",
] as const;
export type Doubt = (typeof doubts)[number];

/** Merges lists of doubts. Returns each doubt once, in the order of `doubts`. */
export function mergeDoubts(...lists: readonly (readonly Doubt[] | undefined)[]): readonly Doubt[] {
  if (lists.every((list) => list === undefined || list.length === 0)) return noDoubts;
  return doubts.filter((doubt) => lists.some((list) => list?.includes(doubt)));
}

export const noDoubts: readonly Doubt[] = [];

/** Returns the stored form: names separated by commas; null if there are none. */
export function formatDoubts(list: readonly Doubt[] | undefined): string | null {
  return list === undefined || list.length === 0 ? null : mergeDoubts(list).join(",");
}

/** Parses the output of `formatDoubts`. Skips names that a later release added. */
export function parseDoubts(text: string | null): readonly Doubt[] {
  if (text === null) return noDoubts;
  const names = text.split(",");
  return doubts.filter((doubt) => names.includes(doubt));
}

/**
 * Position of cached tokens and cache writes in a usage object. `parts`: in the details of the prompt count. `inside`:
 * next to a prompt count that includes them, unless they exceed it. `outside`: next to a prompt count that excludes
 * them. `unclear`: either `inside` or `outside`.
 */
export type CacheStatement = "parts" | "inside" | "outside" | "unclear";

/** Whole numbers that a usage object states. Absent parts are 0. Totals include their parts. */
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
  /** True if several fields state different numbers for the same count. The count is the largest of them. */
  readonly promptContradicts: boolean;
  readonly completionContradicts: boolean;
  readonly unknown?: UnknownTokens | undefined;
  /** Kind of the tokens of the total that are in neither prompt nor completion; output unless stated. */
  readonly excess?: "sound" | undefined;
}

/** Tokens of the prompt in members with unknown names, by their position. */
export interface UnknownTokens {
  /** Stated in the details of the prompt, which includes them. */
  readonly part: number;
  /** Stated next to the prompt, which may include them. */
  readonly nextToPrompt: number;
  /** Part of `cached`, of an unknown kind. */
  readonly cached: number;
  /** Written to the cache for an unknown time. Not part of `cacheWrite`, but in the same position. */
  readonly written: number;
}

/** Disjoint token counts, and what is doubtful about them. */
export interface Usage {
  readonly tokens: TokenCounts;
  /** Unit of the counts; absent for tokens. The counts are used only if the model is billed in this unit. */
  readonly unit?: Unit;
  /** True if the fields contradict each other, so that the more expensive interpretation was chosen. */
  readonly clamped: boolean;
  /** Reasons why the amount may differ from the bill; absent if there are none. */
  readonly doubts?: readonly Doubt[];
  /**
   * Number of tokens in `input` whose class is unknown. They cost as much as the most expensive class of the request's
   * prompt. Absent if there are none.
   */
  readonly unknownInput?: number;
  /** Stated duration in seconds, next to counts in tokens. Used if the model is billed by the second. */
  readonly seconds?: number;
  /** True if cache writes are stated without their lifetime. */
  readonly lacksCacheLifetime?: true;
  /** True if the usage states text, but no sound and no images, among the completion tokens. */
  readonly wroteOnlyText?: true;
  /** Side that is not stated at all, so that another usage must state it. Absent if both sides are stated. */
  readonly unstated?: "prompt" | "completion";
  /** Earlier usages of the same answer that this one contradicts; absent if there are none. */
  readonly rivals?: Rivals;
  /** Runs of the model, whose sum is this usage. Absent if there is only one, of the model that answers. */
  readonly runs?: readonly ModelRun[];
}

/** One of several runs of a model for an answer, such as one of Anthropic's `iterations`. */
export interface ModelRun {
  readonly usage: Usage;
  /** Name of the run's own model; null for the model that answers. */
  readonly model: string | null;
}

/** Usages that the latest usage of an answer contradicts, by the side that they state differently. */
export type Rivals = Readonly<Record<"prompts" | "completions", readonly Usage[]>>;

/** Splits stated usage into disjoint classes. All endpoints use it. */
export function decompose(stated: StatedUsage): Usage {
  const { unknown } = stated;
  if (unknown === undefined || unknown.part + unknown.nextToPrompt + unknown.cached + unknown.written === 0)
    return splitKnown(stated);
  const { isInside, total } = placeNextToPrompt(stated, unknown.nextToPrompt);
  const usage = splitKnown({ ...stated, total, cacheWrite: stated.cacheWrite + unknown.written });
  return withUnknownTokens(usage, unknown, isInside);
}

/**
 * Splits the counts of known classes.
 *
 * The completion is the larger of two numbers: the stated completion, and total minus prompt. Some converters leave
 * reasoning out of the stated completion. If fields contradict each other, the parts are added to their whole, and
 * cached tokens count as plain input: the most expensive interpretation, unless cached input costs more than input.
 */
function splitKnown(given: StatedUsage): Usage {
  const stated = given.excess === undefined ? given : withExcessSound(given);
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
  const cacheTokens = cached + cacheWrite + cacheWrite1h;
  const media = audioInput + imageInput;
  const position = cachePosition(stated, cacheTokens);
  const remainder = prompt - media - (position === "inside" ? cacheTokens : 0);
  const promptClamped = position === undefined || remainder < 0;
  const input = promptClamped ? (media > prompt ? prompt : prompt - media) + cached : remainder;

  const outside = position === "outside" ? cacheTokens : 0;
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

/**
 * Counts the tokens of the total that are in neither prompt nor completion as sound of the prompt. If they are as many as
 * the stated sound, the prompt does not include the sound. Sound that exceeds the prompt is not part of it either.
 */
function withExcessSound(stated: StatedUsage): StatedUsage {
  const { prompt, completion, total, cache, cached, cacheWrite, cacheWrite1h, audioInput } = stated;
  const outside = cache === "outside" ? cached + cacheWrite + cacheWrite1h : 0;
  const excess = Math.max(completion === undefined ? 0 : (total ?? 0) - prompt - outside - completion, 0);
  const isStated = excess === audioInput || audioInput > prompt;
  const sound = isStated ? Math.max(excess, audioInput) : excess + audioInput;
  if (excess === 0 && !isStated) return stated;
  return { ...stated, prompt: prompt + (isStated ? sound : excess), audioInput: sound };
}

/**
 * Decides whether the prompt includes the unknown tokens that are stated next to it. It does if the total leaves no room
 * for them. Returns the total without them.
 */
function placeNextToPrompt(
  { prompt, completion, total, cached, cacheWrite, cacheWrite1h, reasoning }: StatedUsage,
  unknown: number,
): { readonly isInside: boolean; readonly total: number | undefined } {
  if (unknown === 0 || total === undefined || completion === undefined) return { isInside: false, total };
  const outside = cached + cacheWrite + cacheWrite1h;
  const parts = prompt + completion;
  const sums = new Set([parts, parts + outside, parts + reasoning, parts + outside + reasoning]);
  if (sums.has(total)) return { isInside: unknown <= prompt && !sums.has(total - unknown), total };
  return { isInside: false, total: sums.has(total - unknown) ? total - unknown : total };
}

/**
 * Moves unknown tokens of the prompt into `input`, and adds those next to it. Cached tokens are moved first, because
 * gateways may include unknown tokens in the number of cached ones.
 */
function withUnknownTokens(usage: Usage, unknown: UnknownTokens, isInside: boolean): Usage {
  const tokens = { ...usage.tokens };
  const move = (from: TokenClass, most: number): number => {
    const moved = Math.max(Math.min(tokens[from], most), 0);
    tokens[from] -= moved;
    tokens.input += moved;
    return moved;
  };
  const part = unknown.part + (isInside ? unknown.nextToPrompt : 0);
  const isMore = part > promptTotal(tokens);
  const within = move("cache_write", unknown.written) + unknown.cached + (isMore ? 0 : part);
  move("cached_input", within - unknown.written);
  for (const name of promptClasses) if (name !== "input") move(name, within - tokens.input);
  const added = (isInside ? 0 : unknown.nextToPrompt) + (isMore ? part : 0);
  tokens.input += added;
  const found = { ...usage, tokens, unknownInput: Math.min(within + added, tokens.input) };
  return isMore ? withDoubts({ ...found, clamped: true }, ["usage_contradicts"]) : found;
}

/** Returns the position of cached tokens and cache writes; undefined if the fields contradict each other. */
function cachePosition(stated: StatedUsage, cacheTokens: number): "inside" | "outside" | undefined {
  const { prompt, completion, total, reasoning, cache } = stated;
  if (stated.promptContradicts) return undefined;
  if (cacheTokens === 0) return "inside";
  const mayBeInside = cacheTokens <= prompt;
  if (cache === "parts")
    return mayBeInside ? "inside" : total === prompt + cacheTokens + (completion ?? NaN) ? "outside" : undefined;
  const usual = cache === "unclear" ? undefined : cache === "inside" && mayBeInside ? "inside" : "outside";
  if (total === undefined) return usual;
  const fits = (remaining: number) =>
    completion === undefined ? remaining >= 0 : remaining === completion || remaining === completion + reasoning;
  const isInside = mayBeInside && fits(total - prompt);
  const isOutside = fits(total - prompt - cacheTokens);
  if (isInside !== isOutside) return isInside ? "inside" : "outside";
  if (completion === undefined) return isInside ? usual : undefined;
  // If the total exceeds prompt plus completion by less than the cached tokens, the completion leaves out reasoning.
  const hidesReasoning = !isInside && total > prompt + completion && total < prompt + cacheTokens + completion;
  return usual === "inside" && hidesReasoning ? "inside" : undefined;
}

export function withDoubts(usage: Usage, more: readonly Doubt[]): Usage {
  return more.length === 0 ? usage : { ...usage, doubts: mergeDoubts(usage.doubts, more) };
}
