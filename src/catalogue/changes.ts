import { nearest } from "../core/fault.ts";
import type { Path } from "../ports/yaml.ts";
import { matchesPattern } from "../core/keys.ts";
import { fold, foldedForms } from "../core/model-names.ts";
import { Effect } from "./effects.ts";
import { priceFields, type Level } from "./levels.ts";
import type { Block } from "./read.ts";
import { cacheClasses, cacheWords } from "./rates.ts";
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
  /** True if the change states an amount, or how amounts are computed. */
  readonly statesAmount: boolean;
  /** True if the change may change a price. */
  readonly isPriced: boolean;
}

/** Returns the traits of the model that a change states. */
export function traitsIn(stated: StatedChange): StatedTraits {
  return Object.fromEntries(
    changedTraitNames.flatMap((name) => (stated[name] === undefined ? [] : [[name, stated[name]]])),
  );
}

/** Returns true if an entry of `models` changes models, or would do so without its faults. */
export function isChange(models: string, stated: StatedModel, block: Block): boolean {
  const { change, changes } = stated;
  const isStated = change !== undefined || changes !== undefined;
  return isStated || models.includes("*") || isFaultyChange(stated, block);
}

/**
 * Returns true if faults removed the change, or every field of the entry: then `change` was probably forgotten, and the
 * entry is not a whole model with missing fields.
 */
function isFaultyChange(stated: StatedModel, block: Block): boolean {
  const isEmptied = Object.keys(stated).length === 0 && !block.isWhole();
  return isEmptied || !block.isReliable("change") || !block.isReliable("changes");
}

/** Returns the changes of one entry of `models`. Reports fields that contradict each other. */
export function changesIn(models: string, stated: StatedModel, block: Block): readonly Change[] {
  const { change, changes, ...others } = stated;
  const isPattern = models.includes("*");
  if (change === undefined && changes === undefined) {
    if (!isFaultyChange(stated, block)) block.report("a pattern can only change models; write the model's id");
    return [];
  }
  const [other] = change !== undefined && changes !== undefined ? ["changes"] : Object.keys(others);
  if (other !== undefined) {
    const field = change === undefined ? "changes" : "change";
    const advice =
      other === "changes" ? "write all changes in `changes`" : "a model is either changed or stated as a whole";
    block.at(other).report(`"${field}" cannot be next to "${other}"; ${advice}`);
  }
  if (changes?.length === 0) block.at("changes").report("states nothing; write a change, or leave it out");
  const single = change === undefined ? [] : [changeOf(models, change, block.at("change"))];
  // A change that was removed because of a fault is undefined.
  const listed: readonly (StatedChange | undefined)[] = changes ?? [];
  const several = listed.flatMap((each, index) =>
    each === undefined ? [] : [changeOf(models, each, block.at("changes", index))],
  );
  several.forEach(({ start, block: here, stated: { from } }, index) => {
    const before = several[index - 1];
    if (before === undefined || start >= before.start) return;
    const begins = from === undefined ? "has no `from`, so that it begins" : `begins on ${from},`;
    const advice = "write changes in the order of their `from`";
    if (from !== undefined || here.isReliable("from"))
      here.at("from").report(`${begins} before the change above it; ${advice}`);
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
  const statesAmount = priceFields.some((field) => stated[field] !== undefined);
  if (statesAmount && from === undefined && block.isReliable("from")) {
    block.report('"from" is missing; write the first UTC day of the change, so that earlier days keep their price');
  }
  if (statesAmount && source === undefined && block.isReliable("source")) {
    block.report('"source" is missing; write where the amounts come from, such as "our contract"');
  }
  reportEmpty(stated, block);
  reportTiers(stated.tiers, block.at("tiers"));
  for (const [name, tier] of Object.entries(stated.service_tiers ?? {}))
    reportTiers(tier?.tiers, block.at("service_tiers", name, "tiers"));
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
    statesAmount,
    isPriced: statesAmount || stated.group !== undefined,
  };
}

/**
 * Reports a block that states nothing, and such blocks within it, which are forgotten or mistaken. An empty minimum would
 * remove the minimum of a lower level. `advice`: what to write instead.
 */
export function reportEmpty(stated: object, block: Block, advice = "write a field, or leave it out"): void {
  if (Object.keys(stated).length === 0 && block.isWhole()) block.report(`states nothing; ${advice}`);
  for (const [field, value] of Object.entries(stated) as readonly [string, unknown][]) {
    // An empty max_output_field states that no field limits the output.
    if (typeof value !== "object" || value === null || Array.isArray(value) || field === "max_output_field") continue;
    const what = field === "minimum" ? "write tokens, usd or both" : `write a field, or leave "${field}" out`;
    reportEmpty(value, block.at(field), what);
  }
}

/** Reports tiers of one change that are stated twice, that state nothing, or that are removed and changed. */
function reportTiers(tiers: StatedChange["tiers"], block: Block): void {
  const starts = new Set<number>();
  // A tier that was removed because of a fault is undefined.
  for (const [index, tier] of ((tiers ?? []) as readonly (StatedTierChange | undefined)[]).entries()) {
    const here = block.at(index);
    if (tier === undefined || !here.isWhole()) continue;
    reportEmpty(tier, here);
    const { from_prompt_tokens: start, official, gateway, remove } = tier;
    if (starts.has(start)) here.at("from_prompt_tokens").report(`is ${start} for a second time; keep one of them`);
    starts.add(start);
    const field = official === undefined ? "gateway" : "official";
    if (official === undefined && gateway === undefined) {
      if (!remove) here.report("states nothing; write official, gateway, or remove: true");
    } else if (remove) here.at(field).report(`has no meaning next to remove; leave "${field}" out`);
  }
}

type StatedTierChange = NonNullable<StatedChange["tiers"]>[number];

/** Reports a change of prices for models that have none at its time. */
export function reportWithoutPrice({ block, stated, effect, models, isPattern, statesAmount }: Change): void {
  const { from, until } = stated;
  const isFaulty = from === undefined || (until !== undefined && until <= from);
  if (!statesAmount || effect.meetsPrice || isFaulty) return;
  const time = until === undefined ? `from ${from}` : `from ${from} until ${until}`;
  const which = isPattern ? `a model that "${models}" matches` : `"${models}"`;
  block.report(`no price of ${which} is in force ${time}; write other days, or state the model as a whole`);
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
    applied.sort(
      (a, b) => a.block.layer - b.block.layer || rankOf(a) - rankOf(b) || (a.start === b.start ? 0 : a.start - b.start),
    );
    for (let index = 1; index < applied.length; index += 1) reportTwice(id, applied, index, reported);
  }
  return byModel;
}

function covers({ models, isPattern }: Change, id: string): boolean {
  return isPattern ? matchesPattern(fold(models), fold(id)) : models === id;
}

/** A change of an id ranks above all patterns, and a longer pattern above a shorter one. */
function rankOf({ models, isPattern }: Change): number {
  return isPattern ? models.replaceAll("*", "").length : Number.MAX_SAFE_INTEGER;
}

function unmatched({ models, isPattern }: Change, known: readonly NamedModel[]): string {
  const ids = known.map(({ id }) => id);
  const advice = (near: string | undefined) =>
    near === undefined ? "`farebox prices list` shows the ids" : `did you mean "${near}"?`;
  if (!isPattern) {
    const id = idOf(models, known);
    return id === undefined
      ? `"${models}" names no model to change; ${advice(nearest(models, ids)[0])}`
      : `"${models}" is another name of model "${id}"; write ${id}`;
  }
  const [start = ""] = models.split("*");
  const [near] = start === "" ? [] : nearest(start, [...new Set(ids.map((id) => id.slice(0, start.length)))]);
  return `"${models}" matches no model; ${advice(near && `${near}*`)}`;
}

/** Returns the id of the model of which a text is another name or another spelling, if exactly one model fits. */
function idOf(text: string, known: readonly NamedModel[]): string | undefined {
  for (const form of foldedForms(text)) {
    const [found, ...others] = known.filter(({ id, aliases }) => [id, ...aliases].some((name) => fold(name) === form));
    if (found !== undefined) return others.length === 0 ? found.id : undefined;
  }
  return undefined;
}

/** Reports figures that a change states, if a change before it states them for the same model from the same day. */
function reportTwice(id: string, applied: readonly Change[], index: number, reported: Set<string>): void {
  const change = applied[index] as Change;
  for (const other of applied.slice(0, index)) {
    const isSame =
      other.block.layer === change.block.layer && rankOf(other) === rankOf(change) && other.start === change.start;
    if (!isSame) continue;
    const before = figuresOf(other.stated);
    for (const figure of figuresOf(change.stated)) {
      const { name } = figure;
      const clash = before.find((each) => each.name === name || replaces(each, figure) || replaces(figure, each));
      if (clash === undefined) continue;
      const block = change.block.at(...figure.path);
      const first = other.block.at(...clash.path).place();
      const { file, line } = block.place();
      const position = `${file}:${line}:${name}`;
      if (reported.has(position)) continue;
      reported.add(position);
      const since = change.stated.from === undefined ? "" : " from the same day";
      const place = `${first.file}, line ${first.line}`;
      block.report(
        clash.name === name
          ? `${name} of "${id}" is already changed${since} in ${place}; keep one of them`
          : `${name} of "${id}" contradicts ${clash.name}, which is changed${since} in ${place}; write both in one change`,
      );
    }
  }
}

/**
 * Returns true if a figure removes another one of a lower level, as `decidePrice` does, so that the order of two changes
 * from one day would decide whether an amount counts.
 */
function replaces({ name }: Figure, other: Figure): boolean {
  const isTerm = (each: string) => cacheClasses.some((term) => term === each);
  if (name === "fraction")
    return /(^|\.)gateway(\.|$)/.test(other.name) || (isTerm(other.name) && !cacheWords.has(other.value));
  return isTerm(name) && other.name.endsWith(`gateway.${name}`);
}

interface Figure {
  /** Such as "gateway.input". */
  readonly name: string;
  readonly value: unknown;
  /** Path of the figure within its change. */
  readonly path: Path;
}

/** Fields of a change that are not figures, or whose parts are one figure. */
const notFigures = new Set(["from", "until", "source", "aliases"]);
const wholeFigures = new Set(["minimum", "image_tokens", "max_output_field"]);

/** Returns each figure of a change. A tier is one figure. */
export function figuresOf(stated: object, within: readonly string[] = []): Figure[] {
  return Object.entries(stated).flatMap(([field, value]: [string, unknown]): Figure[] => {
    if (value === undefined || notFigures.has(field)) return [];
    const path = [...within, field];
    const name = path.join(".");
    if (Array.isArray(value)) {
      return (value as readonly (StatedTierChange | undefined)[]).flatMap((tier, index) => {
        const from = tier?.from_prompt_tokens;
        return tier === undefined
          ? []
          : [{ name: `${name}.${from}`, value: tier, path: [...path, index, "from_prompt_tokens"] }];
      });
    }
    // Factors of one value are one figure, as a number or by class.
    const isFactor = path[0] === "factors" && path.length === 3;
    return typeof value === "object" && value !== null && !wholeFigures.has(field) && !isFactor
      ? figuresOf(value, path)
      : [{ name, value, path }];
  });
}
