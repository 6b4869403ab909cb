import { suggest } from "../core/fault.ts";
import { matchesPattern } from "../core/keys.ts";
import { Effect } from "./effects.ts";
import type { Level } from "./levels.ts";
import type { Block } from "./read.ts";
import { changedTraitNames, type StatedChange, type StatedModel, type StatedTraits } from "./schema.ts";
import { instantOf } from "./validity.ts";

/** A change of single fields of a model, or of all models that a pattern matches. */
export interface Change extends Level {
  /** Id of a model, or a pattern. */
  readonly models: string;
  readonly isPattern: boolean;
  /** Time of the change in milliseconds since 1970; infinite without a beginning or an end. */
  readonly start: number;
  readonly end: number;
  /** True if the change may change a price. */
  readonly isPriced: boolean;
}

/** Fields of a change that state amounts, or how amounts are computed. */
const amountFields = [
  "fraction",
  "minimum",
  "cached_input",
  "cache_write",
  "cache_write_1h",
  "fees",
  "official",
  "gateway",
  "per_request",
  "tier_mode",
  "tiers",
  "service_tiers",
] as const satisfies readonly (keyof StatedChange)[];

/** Returns the traits of the model that a change states. */
export function traitsIn(stated: StatedChange): StatedTraits {
  return Object.fromEntries(
    changedTraitNames.flatMap((name) => (stated[name] === undefined ? [] : [[name, stated[name]]])),
  );
}

/** Returns true if an entry of `models` changes models, or would do so without its faults. */
export function isChange(models: string, { change, changes }: StatedModel, block: Block): boolean {
  const isStated = change !== undefined || changes !== undefined;
  return isStated || models.includes("*") || !block.isReliable("change") || !block.isReliable("changes");
}

/** Returns the changes of one entry of `models`. Reports fields that contradict each other. */
export function changesIn(models: string, stated: StatedModel, block: Block): readonly Change[] {
  const { change, changes, ...others } = stated;
  const isPattern = models.includes("*");
  const isFaulty = !block.isReliable("change") || !block.isReliable("changes");
  if (change === undefined && changes === undefined) {
    if (!isFaulty) block.report("a pattern can only change models; write the model's id");
    return [];
  }
  const [other] = change !== undefined && changes !== undefined ? ["changes"] : Object.keys(others);
  if (other !== undefined) {
    const field = change === undefined ? "changes" : "change";
    const advice =
      other === "changes" ? "write all changes in `changes`" : "a model is either changed or stated as a whole";
    block.at(other).report(`"${field}" cannot be next to "${other}"; ${advice}`);
  }
  const single = change === undefined ? [] : [changeOf(models, change, block.at("change"))];
  // A change that was removed because of a fault is undefined.
  const listed: readonly (StatedChange | undefined)[] = changes ?? [];
  const several = listed.flatMap((each, index) =>
    each === undefined ? [] : [changeOf(models, each, block.at("changes", index))],
  );
  several.forEach(({ start, block: here, stated: { from = "" } }, index) => {
    const before = several[index - 1];
    if (before !== undefined && start < before.start)
      here
        .at("from")
        .report(`begins on ${from}, before the change above it; write changes in the order of their \`from\``);
  });
  if (isPattern) {
    for (const each of [...single, ...several]) {
      if (each.stated.aliases !== undefined)
        each.block.at("aliases").report("a pattern cannot add aliases; write the model's id");
    }
  }
  return [...single, ...several];
}

function changeOf(models: string, stated: StatedChange, block: Block): Change {
  const { from, until, source } = stated;
  const statesAmount = amountFields.some((field) => stated[field] !== undefined);
  if (statesAmount && from === undefined && block.isReliable("from")) {
    block.report('"from" is missing; write the first UTC day of the change, so that earlier days keep their price');
  }
  if (statesAmount && source === undefined && block.isReliable("source")) {
    block.report('"source" is missing; write where the amounts come from, such as "our contract"');
  }
  if (from !== undefined && until !== undefined && until <= from) {
    block.at("until").report(`ends on ${until}, not after its start on ${from}; write a later day or leave it out`);
  }
  return {
    models,
    isPattern: models.includes("*"),
    by: "change",
    stated,
    block,
    effect: new Effect(),
    start: from === undefined ? Number.NEGATIVE_INFINITY : instantOf(from),
    end: until === undefined ? Number.POSITIVE_INFINITY : instantOf(until),
    isPriced: statesAmount || stated.group !== undefined,
  };
}

/** A model that changes may name. */
interface NamedModel {
  readonly id: string;
  readonly aliases: readonly string[];
}

/**
 * Returns the changes of each model, from the lowest to the highest level: patterns, the shorter ones first, then the
 * model's id; among equal names, the earlier `from` first. Reports two changes of one figure from one day. If
 * `allKnown`, also reports names and patterns that match no model.
 */
export function changesByModel(
  changes: readonly Change[],
  models: readonly NamedModel[],
  allKnown: boolean,
): ReadonlyMap<string, readonly Change[]> {
  const ids = models.map(({ id }) => id);
  const byModel = new Map<string, Change[]>();
  for (const change of changes) {
    const matched = ids.filter((id) => covers(change, id));
    for (const id of matched) byModel.set(id, [...(byModel.get(id) ?? []), change]);
    if (matched.length === 0 && allKnown) change.block.report(unmatched(change, models));
  }
  const reported = new Set<string>();
  for (const [id, applied] of byModel) {
    applied.sort((a, b) => a.block.layer - b.block.layer || rankOf(a) - rankOf(b) || compare(a.start, b.start));
    for (let index = 1; index < applied.length; index += 1) reportTwice(id, applied, index, reported);
  }
  return byModel;
}

function compare(a: number, b: number): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

function covers({ models, isPattern }: Change, id: string): boolean {
  return isPattern ? matchesPattern(models.toLowerCase(), id.toLowerCase()) : models === id;
}

/** A change of an id ranks above all patterns, and a longer pattern above a shorter one. */
function rankOf({ models, isPattern }: Change): number {
  return isPattern ? models.replaceAll("*", "").length : Number.MAX_SAFE_INTEGER;
}

function unmatched({ models, isPattern }: Change, known: readonly NamedModel[]): string {
  const ids = known.map(({ id }) => id);
  if (!isPattern) {
    const owner = known.find(({ aliases }) => aliases.includes(models));
    if (owner !== undefined) return `"${models}" is another name of model "${owner.id}"; write ${owner.id}`;
    return `"${models}" names no model to change; ${suggest(models, ids)}`;
  }
  const [start = ""] = models.split("*");
  const starts = [...new Set(ids.map((id) => id.slice(0, start.length)))];
  return `"${models}" matches no model; ${suggest(start, starts).replace(/^(did you mean ".*)"\?$/, '$1*"?')}`;
}

/** Reports figures that a change states, if a change before it states them for the same model from the same day. */
function reportTwice(id: string, applied: readonly Change[], index: number, reported: Set<string>): void {
  const change = applied[index] as Change;
  for (const other of applied.slice(0, index)) {
    const isSame =
      other.block.layer === change.block.layer && rankOf(other) === rankOf(change) && other.start === change.start;
    if (!isSame) continue;
    const before = new Map(figuresOf(other.stated, other.block));
    for (const [name, block] of figuresOf(change.stated, change.block)) {
      const first = before.get(name)?.place();
      if (first === undefined) continue;
      const { file, line } = block.place();
      const position = `${file}:${line}:${name}`;
      if (reported.has(position)) continue;
      reported.add(position);
      const since = change.stated.from === undefined ? "" : " from the same day";
      block.report(
        `${name} of "${id}" is already changed${since} in ${first.file}, line ${first.line}; keep one of them`,
      );
    }
  }
}

/** Fields of a change that are not figures, or whose parts are one figure. */
const notFigures = new Set(["from", "until", "source", "aliases", "from_prompt_tokens"]);
const wholeFigures = new Set(["minimum", "image_tokens", "max_output_field"]);

/** Returns each figure of a change with its name, such as "gateway.input", and its position. */
function figuresOf(stated: object, block: Block, within = ""): [name: string, block: Block][] {
  return Object.entries(stated).flatMap(([field, value]: [string, unknown]): [string, Block][] => {
    if (value === undefined || notFigures.has(field)) return [];
    const name = `${within}${field}`;
    if (Array.isArray(value)) {
      return (value as readonly ({ readonly from_prompt_tokens?: number } | undefined)[]).flatMap((tier, index) =>
        tier === undefined ? [] : figuresOf(tier, block.at(field, index), `${name}.${tier.from_prompt_tokens ?? ""}.`),
      );
    }
    if (typeof value === "object" && value !== null && !wholeFigures.has(field))
      return figuresOf(value, block.at(field), `${name}.`);
    return [[name, block.at(field)]];
  });
}
