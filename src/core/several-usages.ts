import {
  completionClasses,
  completionTotal,
  mergeDoubts,
  noDoubts,
  noTokens,
  promptClasses,
  promptTotal,
  tokenClasses,
  withDoubts,
  type Doubt,
  type ModelRun,
  type Rivals,
  type TokenClass,
  type TokenCounts,
  type Unit,
  type Usage,
} from "./usage.ts";

/** Sides of a usage. Each side is charged as one usage states it: classes of two usages are never mixed. */
const sides = { prompts: promptClasses, completions: completionClasses } as const;

const noRivals: Rivals = { prompts: [], completions: [] };

/** Largest number of rivals on one side. Further rivals are merged into one, which has the most of each class. */
const rivalsMax = 8;

/**
 * Returns the usage of an answer that stated `before` and then `later`; undefined if both are. Counts that stay or grow
 * are ordinary, because many gateways state the usage so far in each event. If a side shrinks or its classes differ,
 * the earlier side remains as a rival (`readings`). A side that is unstated or 0 contradicts nothing, because some
 * gateways state the prompt first and the output last. Seconds are kept next to tokens.
 */
export function laterUsage(before: Usage, later: Usage): Usage;
export function laterUsage(before: Usage | undefined, later: Usage | undefined): Usage | undefined;
export function laterUsage(before: Usage | undefined, later: Usage | undefined): Usage | undefined {
  if (before === undefined || later === undefined) return later ?? before;
  if (before.unit !== later.unit) {
    const [tokens, duration] = before.unit === undefined ? [before, later] : [later, before];
    return withSeconds(tokens, { count: duration.tokens.audio_input, contradicts: false });
  }
  const next = withKnownRuns(before, withUnstated(before, later));
  const { rivals: earlier = noRivals, ...latest } = before;
  const rivals = {
    prompts: rivalsOf("prompts", earlier, latest, next),
    completions: rivalsOf("completions", earlier, latest, next),
  };
  const hasRivals = rivals.prompts.length + rivals.completions.length > 0;
  const differs = (side: keyof typeof sides) => {
    const [total, earlier] = [sideTotal(side, next), sideTotal(side, before)];
    return total < earlier || (total === earlier && !coversSide(side, next, before));
  };
  const hasChanged = differs("prompts") || differs("completions");
  const doubts = before.doubts ?? noDoubts;
  const contradicts =
    hasRivals && (hasChanged || (before.rivals !== undefined && doubts.includes("usage_contradicts")));
  const seconds = Math.max(before.seconds ?? 0, next.seconds ?? 0);
  return withDoubts({ ...next, ...(seconds > 0 && { seconds }), ...(hasRivals && { rivals }) }, [
    ...doubts.filter((doubt) => doubt !== "usage_contradicts"),
    ...(contradicts ? (["usage_contradicts"] as const) : []),
  ]);
}

/** Returns the later usage. If it states no prompt or no completion, takes that side from the earlier usage. */
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
    ...joinSides(keepsPrompt ? earlier : known, keepsCompletion ? earlier : known),
    ...(rivals && { rivals }),
    ...(doubts && { doubts }),
    ...(seconds !== undefined && { seconds }),
    ...(unstated && { unstated }),
  };
}

/** Returns the later usage with the runs of the earlier one if it states the same counts without runs. */
function withKnownRuns(before: Usage, later: Usage): Usage {
  const { runs } = before;
  return runs === undefined || later.runs !== undefined || !isSame(before, later) ? later : { ...later, runs };
}

/** Returns the rivals of a usage on one side. `rivals`: those of the usage `latest`, which comes before `next`. */
function rivalsOf(side: keyof typeof sides, rivals: Rivals, latest: Usage, next: Usage): readonly Usage[] {
  const covers = (one: Usage, other: Usage) => coversSide(side, one, other);
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
  const { runs: _, ...merged } = one;
  return fewRivals(side, [{ ...merged, tokens }, ...others]);
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
  const withDetails = (usage: Usage) => joinSides(prompt ?? usage, completion ?? usage);
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
 * Returns all readings of a usage: the latest usage first, then each other combination of a prompt and a completion
 * from the latest usage and its rivals.
 */
export function readings(usage: Usage): readonly [Usage, ...Usage[]] {
  const { rivals, ...latest } = usage;
  if (rivals === undefined) return [usage];
  const [, ...others] = [latest, ...rivals.prompts].flatMap((prompt) =>
    [latest, ...rivals.completions].map((completion) => joinSides(prompt, completion)),
  );
  return [latest, ...others];
}

/** Usage of one run of the model. */
export interface Run {
  /** `attempt`: the totals include it. `extra`: they do not. `unknown`: they may not, and its rates may differ. */
  readonly kind: "attempt" | "extra" | "unknown";
  readonly usage: Usage | undefined;
  /** Name of the run's own model; null for the model that answers. */
  readonly model: string | null;
}

/**
 * Returns the usage of an answer that also states each run of the model. Runs that the totals leave out are added. If
 * totals are stated and differ from the sum of the attempts, the result has the doubt `usage_contradicts`, and all
 * attempts count as one run.
 */
export function withRuns(stated: Usage | undefined, runs: readonly Run[]): Usage | undefined {
  const attempts = runs.filter(({ kind }) => kind === "attempt");
  const others = runs.filter(({ kind }) => kind !== "attempt");
  const attempted = sumOf(attempts);
  if (stated?.unstated !== undefined && attempts.length > 0) return withRuns(withSideOf(attempted, stated), runs);
  const totals = stated ?? noUsage;
  const all = sumOf(runs);
  const isLarger = (one: Usage, total: (tokens: TokenCounts) => number) => total(one.tokens) > total(totals.tokens);
  // Without attempts, the runs are only those that the totals leave out.
  const isCovered = attempts.length > 0 && !isLarger(all, promptTotal) && !isLarger(all, completionTotal);
  if (isCovered && agrees(all, totals)) return stated && withSum(stated, partsOf(runs));
  // A model of its own may be more expensive, so its runs are added even if the totals may include them.
  if (isCovered && others.every(({ model }) => model === null))
    return stated === undefined || runs.length === 1 ? stated : withDoubts(stated, ["usage_unknown_class"]);
  const isSplit = stated === undefined || agrees(attempted, totals);
  const base = joinSides(
    isLarger(attempted, promptTotal) ? attempted : totals,
    isLarger(attempted, completionTotal) ? attempted : totals,
  );
  const doubts: Doubt[] = [];
  if (!isSplit) doubts.push("usage_contradicts");
  if (others.some(({ kind }) => kind === "unknown")) doubts.push("usage_unknown_class");
  const parts = isSplit ? partsOf(attempts) : [{ usage: base, model: null }];
  const unstated = stated?.unstated && { unstated: stated.unstated };
  return withDoubts(withSum({ ...noUsage, ...unstated }, [...parts, ...partsOf(others)]), doubts);
}

/** Returns a usage whose unstated side is that of the attempts. */
function withSideOf(attempted: Usage, { unstated, ...stated }: Usage): Usage {
  return unstated === "prompt" ? joinSides(attempted, stated) : joinSides(stated, attempted);
}

const noUsage: Usage = { tokens: noTokens, clamped: false };

function isSame(one: Usage, other: Usage): boolean {
  return tokenClasses.every((name) => one.tokens[name] === other.tokens[name]);
}

/** Returns true if a sum of runs has the stated totals. Totals may leave out the lifetimes of cache writes. */
function agrees(sum: Usage, totals: Usage): boolean {
  if (totals.lacksCacheLifetime !== true) return isSame(sum, totals);
  const { cache_write: short, cache_write_1h: long } = sum.tokens;
  return isSame({ ...sum, tokens: { ...sum.tokens, cache_write: short + long, cache_write_1h: 0 } }, totals);
}

function partsOf(runs: readonly Run[]): readonly ModelRun[] {
  return runs.flatMap(({ usage, model }) => (usage === undefined ? [] : [{ usage, model }]));
}

function sumOf(runs: readonly Pick<Run, "usage">[]): Usage {
  return runs.reduce<Usage>((sum, { usage }) => (usage === undefined ? sum : addUsage(sum, usage)), noUsage);
}

/** Returns the usage with these runs, and with their sum as its tokens. */
function withSum(usage: Usage, runs: readonly ModelRun[]): Usage {
  const { lacksCacheLifetime: _, unknownInput: __, runs: ___, ...known } = usage;
  const isOne = runs.length <= 1 && runs.every(({ model }) => model === null);
  return withDoubts({ ...known, ...sumOf(runs), ...(!isOne && { runs }) }, known.doubts ?? noDoubts);
}

/** Changes each run of a usage, or the usage itself if it states no runs. */
export function mapRuns(usage: Usage, change: (usage: Usage, model: string | null) => Usage): Usage {
  const { runs } = usage;
  if (runs === undefined) return change(usage, null);
  return withSum(
    usage,
    runs.map((run) => ({ ...run, usage: change(run.usage, run.model) })),
  );
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
    ...((one.lacksCacheLifetime ?? other.lacksCacheLifetime) === true && { lacksCacheLifetime: true }),
    ...(one.wroteOnlyText === true && other.wroteOnlyText === true && { wroteOnlyText: true }),
  };
}

/** Returns the prompt of one usage and the completion of another. */
function joinSides(prompt: Usage, completion: Usage): Usage {
  if (prompt === completion) return prompt;
  const tokens = { ...prompt.tokens };
  for (const name of completionClasses) tokens[name] = completion.tokens[name];
  const { wroteOnlyText: _, runs: __, ...side } = prompt;
  const { wroteOnlyText } = completion;
  const joined = {
    ...side,
    tokens,
    clamped: prompt.clamped || completion.clamped,
    ...(wroteOnlyText && { wroteOnlyText }),
  };
  return withDoubts(joined, completion.doubts ?? noDoubts);
}

/**
 * Merges the usages of two choices of an answer, which share its prompt. Usages of several choices are unusual, so they
 * are in doubt.
 */
export function addChoice(one: Usage, other: Usage): Usage {
  if (one.unit !== other.unit) return one;
  const larger = promptTotal(other.tokens) > promptTotal(one.tokens) ? other : one;
  const { rivals: _, unstated: __, ...both } = joinSides(larger, addUsage(one, other));
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
  const hasRivals = rivals.prompts.length + rivals.completions.length > 0;
  return withDoubts({ ...sum, ...(hasRivals && { rivals }) }, ["usage_contradicts"]);
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
  return readings(usage).map((reading) =>
    asked.includes("cache_write_1h") ? mapRuns(reading, withHourWrites) : reading,
  );
}

/** Counts cache writes of an unstated lifetime as one-hour writes, for a request that asked for these. */
function withHourWrites(usage: Usage): Usage {
  const { tokens, lacksCacheLifetime } = usage;
  if (lacksCacheLifetime !== true) return usage;
  const moved = { ...tokens, cache_write: 0, cache_write_1h: tokens.cache_write_1h + tokens.cache_write };
  return withDoubts({ ...usage, tokens: moved }, ["usage_unknown_class"]);
}
