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
  /** The service tier that answered has no known rates. */
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
  /** Kind of the tokens that the total has in addition to prompt and completion; output unless stated. */
  readonly excess?: "sound" | undefined;
}

/** Tokens of the prompt in members with unknown names, by their position. */
export interface UnknownTokens {
  /** Stated in the details of the prompt, which includes them. */
  readonly part: number;
  /** Stated next to the prompt, which may include them. */
  readonly beside: number;
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
  readonly writesAreUnsplit?: true;
  /** True if the usage states text, but no sound and no images, among the completion tokens. */
  readonly wroteOnlyText?: true;
  /** Side that is not stated at all, so that another usage must state it. Absent if both sides are stated. */
  readonly unstated?: "prompt" | "completion";
  /** Earlier usages of the same answer that this one contradicts; absent if there are none. */
  readonly rivals?: Rivals;
}

/** Splits stated usage into disjoint classes. All endpoints use it. */
export function decompose(stated: StatedUsage): Usage {
  const { unknown } = stated;
  if (unknown === undefined || unknown.part + unknown.beside + unknown.cached + unknown.written === 0)
    return splitKnown(stated);
  const { isInside, total } = placeBeside(stated, unknown.beside);
  const usage = splitKnown({ ...stated, total, cacheWrite: stated.cacheWrite + unknown.written });
  return withUnknownTokens(usage, unknown, isInside);
}

/**
 * Splits the counts of known classes.
 *
 * The completion is the larger of two numbers: the stated completion, and total minus prompt. Some converters leave
 * reasoning out of the stated completion. If fields contradict each other, the parts are added to their whole, and
 * cached tokens count as plain input. Unless cached input costs more than input, no other interpretation costs more.
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
 * Counts the tokens that the total has in addition to prompt and completion as sound in the prompt. If they are as many
 * as the stated sound, the prompt does not include the sound. Sound that exceeds the prompt is not part of it either.
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
function placeBeside(
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
 * gateways state unknown tokens also within the number of cached ones.
 */
function withUnknownTokens(usage: Usage, unknown: UnknownTokens, isInside: boolean): Usage {
  const tokens = { ...usage.tokens };
  const move = (from: TokenClass, most: number): number => {
    const moved = Math.max(Math.min(tokens[from], most), 0);
    tokens[from] -= moved;
    tokens.input += moved;
    return moved;
  };
  const part = unknown.part + (isInside ? unknown.beside : 0);
  const isMore = part > promptTotal(tokens);
  const within = move("cache_write", unknown.written) + unknown.cached + (isMore ? 0 : part);
  move("cached_input", within - unknown.written);
  for (const name of promptClasses) if (name !== "input") move(name, within - tokens.input);
  const added = (isInside ? 0 : unknown.beside) + (isMore ? part : 0);
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

/** Sides of a usage. Each side is charged as one usage states it: classes of two usages are never mixed. */
const sides = { prompts: promptClasses, completions: completionClasses } as const;

/** Usages that the latest usage of an answer contradicts, by the side that they state differently. */
type Rivals = Readonly<Record<keyof typeof sides, readonly Usage[]>>;

const noRivals: Rivals = { prompts: [], completions: [] };

/** Largest number of rivals on one side. Further rivals are merged into one, which has the most of each class. */
const rivalsMax = 8;

/**
 * Returns the usage of an answer that stated `before` and then `next`; undefined if both are. Counts that stay or grow
 * are ordinary, because many gateways state the usage so far in each event. If a side shrinks or its classes differ,
 * the earlier side remains as a rival (`readings`). A side that is unstated or 0 contradicts nothing, because some
 * gateways state the prompt first and the output last. Seconds are kept next to tokens.
 */
export function laterUsage(before: Usage, next: Usage): Usage;
export function laterUsage(before: Usage | undefined, next: Usage | undefined): Usage | undefined;
export function laterUsage(before: Usage | undefined, later: Usage | undefined): Usage | undefined {
  if (before === undefined || later === undefined) return later ?? before;
  if (before.unit !== later.unit) {
    const [tokens, duration] = before.unit === undefined ? [before, later] : [later, before];
    return withSeconds(tokens, { count: duration.tokens.audio_input, contradicts: false });
  }
  const next = withUnstated(before, later);
  const rivals = { prompts: rivalsOf("prompts", before, next), completions: rivalsOf("completions", before, next) };
  const isRivalled = rivals.prompts.length + rivals.completions.length > 0;
  const differs = (side: keyof typeof sides) => {
    const [total, earlier] = [sideTotal(side, next), sideTotal(side, before)];
    return total < earlier || (total === earlier && !coversSide(side, next, before));
  };
  const hasChanged = differs("prompts") || differs("completions");
  const doubts = before.doubts ?? noDoubts;
  const contradicts =
    isRivalled && (hasChanged || (before.rivals !== undefined && doubts.includes("usage_contradicts")));
  const seconds = Math.max(before.seconds ?? 0, next.seconds ?? 0);
  return withDoubts({ ...next, ...(seconds > 0 && { seconds }), ...(isRivalled && { rivals }) }, [
    ...doubts.filter((doubt) => doubt !== "usage_contradicts"),
    ...(contradicts ? (["usage_contradicts"] as const) : []),
  ]);
}

/** Returns a later usage with the earlier prompt or completion in place of one that it does not state. */
function withUnstated(before: Usage, later: Usage): Usage {
  const hasPrompt = promptTotal(later.tokens) > 0;
  const hasCompletion = completionTotal(later.tokens) > 0;
  if (hasPrompt && hasCompletion) return later;
  const { unstated: ofLater, rivals, doubts, seconds, ...known } = later;
  const { unstated: ofBefore, rivals: _, doubts: __, ...earlier } = before;
  const keepsPrompt = !hasPrompt && promptTotal(before.tokens) > 0;
  const keepsCompletion = !hasCompletion && completionTotal(before.tokens) > 0;
  const unstated = ofLater === ofBefore ? ofLater : undefined;
  return {
    ...sidesOf(keepsPrompt ? earlier : known, keepsCompletion ? earlier : known),
    ...(rivals && { rivals }),
    ...(doubts && { doubts }),
    ...(seconds !== undefined && { seconds }),
    ...(unstated && { unstated }),
  };
}

function rivalsOf(side: keyof typeof sides, before: Usage, next: Usage): readonly Usage[] {
  const covers = (one: Usage, other: Usage) => coversSide(side, one, other);
  const { rivals = noRivals, ...latest } = before;
  const isCovered = rivals[side].some((rival) => covers(rival, latest));
  const earlier = isCovered ? rivals[side] : [...rivals[side], latest];
  return fewRivals(side, [...earlier.filter((rival) => !covers(next, rival)), ...(next.rivals?.[side] ?? [])]);
}

/** Merges rivals until at most `rivalsMax` are left. */
function fewRivals(side: keyof typeof sides, rivals: readonly Usage[]): readonly Usage[] {
  if (rivals.length <= rivalsMax) return rivals;
  const [one, other, ...others] = rivals as [Usage, Usage, ...Usage[]];
  const tokens = { ...one.tokens };
  for (const name of sides[side]) tokens[name] = Math.max(one.tokens[name], other.tokens[name]);
  return fewRivals(side, [{ ...one, tokens }, ...others]);
}

function sideTotal(side: keyof typeof sides, { tokens }: Usage): number {
  return side === "prompts" ? promptTotal(tokens) : completionTotal(tokens);
}

/**
 * Merges two usages that one event states. If one is a copy of the other without classes, it contradicts nothing.
 */
export function mergeCopies(one: Usage, other: Usage): Usage {
  if ((one.rivals ?? other.rivals) !== undefined || one.unit !== other.unit) return laterUsage(one, other);
  const [prompt, completion] = [moreDetailed("prompts", one, other), moreDetailed("completions", one, other)];
  const withDetails = (usage: Usage) => sidesOf(prompt ?? usage, completion ?? usage);
  return laterUsage(withDetails(one), withDetails(other));
}

/** Returns the usage that divides the same total of a side into classes; undefined if both or neither do. */
function moreDetailed(side: keyof typeof sides, one: Usage, other: Usage): Usage | undefined {
  const total = sideTotal(side, one);
  const isPlain = ({ tokens, unknownInput = 0 }: Usage) =>
    side === "prompts" ? tokens.input - unknownInput === total : tokens.output === total;
  if (total !== sideTotal(side, other) || isPlain(one) === isPlain(other)) return undefined;
  return isPlain(one) ? other : one;
}

/** Returns true if one usage has at least as many tokens of each class of a side as another. */
function coversSide(side: keyof typeof sides, one: Usage, other: Usage): boolean {
  return sides[side].every((name) => one.tokens[name] >= other.tokens[name]);
}

/**
 * Returns all readings of a usage: the latest usage first, then each combination of a prompt and a completion with
 * those that it contradicts.
 */
export function readings(usage: Usage): readonly [Usage, ...Usage[]] {
  const { rivals, ...latest } = usage;
  if (rivals === undefined) return [usage];
  const [, ...others] = [latest, ...rivals.prompts].flatMap((prompt) =>
    [latest, ...rivals.completions].map((completion) => sidesOf(prompt, completion)),
  );
  return [latest, ...others];
}

export function withDoubts(usage: Usage, more: readonly Doubt[]): Usage {
  return more.length === 0 ? usage : { ...usage, doubts: mergeDoubts(usage.doubts, more) };
}

/** Usage of one run of the model. */
export interface Run {
  /** `attempt`: the totals include it. `extra`: they do not. `unknown`: they may not, and its rates may differ. */
  readonly kind: "attempt" | "extra" | "unknown";
  readonly usage: Usage | undefined;
}

/**
 * Returns the usage of an answer that also states each run of the model. Runs that the totals leave out are added. They
 * contradict the totals unless the totals are those of the attempts.
 */
export function withRuns(stated: Usage | undefined, runs: readonly Run[]): Usage | undefined {
  const totals = stated ?? noUsage;
  const attempts = runs.filter(({ kind }) => kind === "attempt");
  const attempted = sumOf(attempts);
  const all = sumOf(runs);
  const isLarger = (one: Usage, total: (tokens: TokenCounts) => number) => total(one.tokens) > total(totals.tokens);
  // Without attempts, the runs are only those that the totals leave out.
  const hasAttempts = attempts.length > 0;
  if (hasAttempts && !isLarger(all, promptTotal) && !isLarger(all, completionTotal))
    return stated === undefined || runs.length === 1 || isSame(all, totals)
      ? stated
      : withDoubts(stated, ["usage_unknown_class"]);
  const base = sidesOf(
    isLarger(attempted, promptTotal) ? attempted : totals,
    isLarger(attempted, completionTotal) ? attempted : totals,
  );
  const usage = addUsage(base, sumOf(runs.filter(({ kind }) => kind !== "attempt")));
  const doubts: Doubt[] = [];
  if (stated !== undefined && !isSame(attempted, totals)) doubts.push("usage_contradicts");
  if (runs.some(({ kind }) => kind === "unknown")) doubts.push("usage_unknown_class");
  return withDoubts(usage, doubts);
}

const noUsage: Usage = { tokens: noTokens, clamped: false };

function isSame(one: Usage, other: Usage): boolean {
  return tokenClasses.every((name) => one.tokens[name] === other.tokens[name]);
}

function sumOf(runs: readonly Run[]): Usage {
  return runs.reduce<Usage>((sum, { usage }) => (usage === undefined ? sum : addUsage(sum, usage)), noUsage);
}

/** Adds the usages of two parts of an answer, for example of two runs or images. */
export function addUsage(one: Usage, other: Usage): Usage {
  const tokens = { ...noTokens };
  for (const name of tokenClasses) tokens[name] = one.tokens[name] + other.tokens[name];
  const unknownInput = (one.unknownInput ?? 0) + (other.unknownInput ?? 0);
  const doubts = mergeDoubts(one.doubts, other.doubts);
  return {
    tokens,
    clamped: one.clamped || other.clamped,
    ...(doubts.length > 0 && { doubts }),
    ...(unknownInput > 0 && { unknownInput }),
    ...((one.writesAreUnsplit ?? other.writesAreUnsplit) === true && { writesAreUnsplit: true }),
    ...(one.wroteOnlyText === true && other.wroteOnlyText === true && { wroteOnlyText: true }),
  };
}

/** Returns the prompt of one usage and the completion of another. */
function sidesOf(prompt: Usage, completion: Usage): Usage {
  if (prompt === completion) return prompt;
  const tokens = { ...prompt.tokens };
  for (const name of completionClasses) tokens[name] = completion.tokens[name];
  const { wroteOnlyText: _, ...side } = prompt;
  const { wroteOnlyText } = completion;
  const sides = {
    ...side,
    tokens,
    clamped: prompt.clamped || completion.clamped,
    ...(wroteOnlyText && { wroteOnlyText }),
  };
  return withDoubts(sides, completion.doubts ?? noDoubts);
}

/**
 * Merges the usages of two choices of an answer, which share its prompt. Usages of several choices are unusual, so they
 * are in doubt.
 */
export function addChoice(one: Usage, other: Usage): Usage {
  if (one.unit !== other.unit) return one;
  const larger = promptTotal(other.tokens) > promptTotal(one.tokens) ? other : one;
  const { rivals: _, unstated: __, ...both } = sidesOf(larger, addUsage(one, other));
  const unstated = [one, other].some((usage) => usage.unstated === "completion") ? "completion" : larger.unstated;
  const sum: Usage = { ...both, ...(unstated && { unstated }) };
  const each = (side: keyof typeof sides, { rivals = noRivals, ...latest }: Usage) => [latest, ...rivals[side]];
  const others = (side: keyof typeof sides, usages: readonly Usage[]) =>
    fewRivals(
      side,
      usages.filter((usage) => !coversSide(side, sum, usage)),
    );
  const rivals: Rivals = {
    prompts: others("prompts", [...each("prompts", one), ...each("prompts", other)]),
    completions: others(
      "completions",
      each("completions", one).flatMap((first) => each("completions", other).map((second) => addUsage(first, second))),
    ),
  };
  const isRivalled = rivals.prompts.length + rivals.completions.length > 0;
  return withDoubts({ ...sum, ...(isRivalled && { rivals }) }, ["usage_contradicts"]);
}

/**
 * Returns the usage of an answer that states `whole`, and usages of its choices. The choices are in doubt only if they
 * state more than the whole.
 */
export function withChoices(whole: Usage | undefined, choices: readonly Usage[]): Usage | undefined {
  const [first, ...others] = choices;
  const sum = first && others.reduce(addChoice, first);
  if (whole === undefined || sum === undefined) return sum ?? whole;
  const isCovered = readings(sum).every(
    (usage) => coversSide("prompts", whole, usage) && coversSide("completions", whole, usage),
  );
  if (!isCovered || whole.unit !== sum.unit) return laterUsage(whole, sum);
  const doubts = (sum.doubts ?? noDoubts).filter((doubt) => doubt !== "usage_contradicts");
  return withDoubts(whole, doubts);
}

/** Adds a stated duration to a usage. Returns undefined if there is neither. */
export function withSeconds(
  usage: Usage | undefined,
  { count, contradicts }: { readonly count: number | undefined; readonly contradicts: boolean },
): Usage | undefined {
  if (count === undefined) return usage;
  const known = usage?.unit === "second" ? usage.tokens.audio_input : usage?.seconds;
  const seconds = Math.max(count, known ?? count);
  const doubts: Doubt[] = contradicts || (known ?? count) !== count ? ["usage_contradicts"] : [];
  if (usage !== undefined && usage.unit !== "second") return withDoubts({ ...usage, seconds }, doubts);
  const duration: Usage = { ...usage, tokens: { ...noTokens, audio_input: seconds }, clamped: false, unit: "second" };
  return withDoubts(duration, doubts);
}

/**
 * Returns all readings (`readings`) of a usage in the model's billing unit; none if it states none in this unit.
 * `asked`: classes in which the request's prompt can be billed. They decide the lifetime of cache writes that the usage
 * does not split.
 */
export function usagesIn(unit: Unit, usage: Usage | undefined, asked: readonly TokenClass[]): readonly Usage[] {
  if (usage === undefined) return [];
  if (unit === "second" && usage.unit === undefined)
    return usagesIn(unit, withSeconds(undefined, { count: usage.seconds, contradicts: false }), asked);
  if ((usage.unit ?? "token") !== unit) return [];
  return readings(usage).map((reading) => (asked.includes("cache_write_1h") ? withHourWrites(reading) : reading));
}

/** Counts cache writes of an unstated lifetime as one-hour writes, for a request that asked for these. */
function withHourWrites(usage: Usage): Usage {
  const { tokens, writesAreUnsplit } = usage;
  if (writesAreUnsplit !== true) return usage;
  const moved = { ...tokens, cache_write: 0, cache_write_1h: tokens.cache_write_1h + tokens.cache_write };
  return withDoubts({ ...usage, tokens: moved }, ["usage_unknown_class"]);
}
