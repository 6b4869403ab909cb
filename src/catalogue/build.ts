import { tokenClasses } from "../core/tokens.ts";
import { contentId } from "../wire/content-id.ts";
import { catalogueOf, type Entry, type LoadedCatalogue } from "./catalogue.ts";
import { suggest, type Fault } from "./fault.ts";
import { readFraction, type Fraction } from "./rates.ts";
import { readPriceFile, type Path, type ReadFile } from "./read.ts";
import { resolveModel, type ModelStatement } from "./resolve.ts";

/** A price file's text and the name that its faults are reported under. */
export interface PriceText {
  readonly name: string;
  readonly text: string;
}

export type CatalogueResult =
  | { readonly ok: true; readonly catalogue: LoadedCatalogue }
  | { readonly ok: false; readonly faults: readonly Fault[] };

/** Where a thing is stated. */
interface Place {
  readonly file: ReadFile;
  readonly path: Path;
  readonly layer: number;
}

type Report = (place: Place, path: Path, message: string) => void;

/** What a request that no file names is priced as, where a file states `default`. */
const defaultId = "default";

/**
 * Builds the catalogue from layers of files, later layers over earlier ones: a model replaces the whole model of its id, a
 * group the group of its name. Pure; every fault that can be seen is reported, in the order of the files.
 */
export function buildCatalogue(layers: readonly (readonly PriceText[])[]): CatalogueResult {
  const read = layers.map((files) => files.map(({ name, text }) => readPriceFile(name, text)));
  const faults = read.flat().flatMap((file) => file.faults);
  const report: Report = (place, path, message) => {
    faults.push(place.file.faultAt([...place.path, ...path], message));
  };

  const groups = groupsOf(read, report);
  const statements = statementsOf(read, report);
  const whole = read.flat().every((file) => file.intact(["groups"]));
  const entryOf = (statement: Statement): Entry => {
    const spans = resolveModel(statement, fractionOf(statement, groups, whole));
    return { id: statement.id, aliases: statement.model.aliases ?? [], spans };
  };

  const resolved = [...statements.models.values()].map((statement) => ({ statement, entry: entryOf(statement) }));
  const byName = namesOf(resolved, report);
  const fallback = statements.fallback && entryOf(statements.fallback);
  if (faults.length > 0) return { ok: false, faults: inOrder(faults, read.flat()) };

  const entries = resolved.map(({ entry }) => entry);
  const taskUnits = taskUnitsOf(read);
  const digest = digestOf(entries, fallback, taskUnits);
  return { ok: true, catalogue: catalogueOf({ entries, byName, fallback, taskUnits, digest }) };
}

interface Group {
  readonly place: Place;
  readonly fraction: Fraction;
}

function groupsOf(layers: readonly (readonly ReadFile[])[], report: Report): ReadonlyMap<string, Group> {
  const groups = new Map<string, Group>();
  eachFile(layers, (file, layer) => {
    for (const [name, group] of Object.entries(file.value.groups ?? {})) {
      const place: Place = { file, path: ["groups", name], layer };
      if (!file.intact(place.path)) continue;
      const other = groups.get(name);
      if (other?.place.layer === layer) report(place, [], `group "${name}" is already in ${other.place.file.name}; keep one of them`);
      groups.set(name, { place, fraction: readFraction(name, group.fraction) });
    }
  });
  return groups;
}

interface Statement extends ModelStatement {
  readonly place: Place;
}

/** The models that are in force after all layers, each id once, and the default. */
function statementsOf(layers: readonly (readonly ReadFile[])[], report: Report) {
  const models = new Map<string, Statement>();
  let fallback: Statement | null = null;
  eachFile(layers, (file, layer) => {
    const { value } = file;
    const defaults = file.intact(["defaults"]) ? (value.defaults ?? {}) : undefined;
    const state = (id: string, provider: string, path: Path, model: ModelStatement["model"]): Statement => {
      const place: Place = { file, path, layer };
      return { id, provider, model, defaults: defaults ?? {}, place, report: (inner, message) => report(place, inner, message) };
    };
    if (value.models !== undefined && value.provider === undefined && file.intact(["provider"])) {
      report({ file, path: [], layer }, ["models"], '"provider" is missing beside models; write the family\'s name, such as openai');
    }
    for (const [id, model] of Object.entries(value.models ?? {})) {
      const path = ["models", id];
      if (defaults === undefined || !file.intact(path)) continue;
      const statement = state(id, value.provider ?? "", path, model);
      const other = models.get(id);
      if (id === defaultId) statement.report([], `"${defaultId}" is kept for the price of unknown models; use another id`);
      if (other?.place.layer === layer) statement.report([], `model "${id}" is already in ${other.place.file.name}; keep one of them`);
      models.set(id, statement);
    }
    if (value.default === undefined || defaults === undefined || !file.intact(["default"])) return;
    if (fallback?.place.layer === layer && value.default !== null) {
      report({ file, path: ["default"], layer }, [], `a default is already in ${fallback.place.file.name}; keep one of them`);
    }
    fallback = value.default === null ? null : state(defaultId, defaultId, ["default"], value.default);
  });
  return { models, fallback: fallback as Statement | null };
}

/**
 * The share of the model's group; null where it has none. An unknown group is reported, unless a file could not be read
 * that may hold it, and the model is read on with the whole price, so that its other faults are found.
 */
function fractionOf(statement: Statement, groups: ReadonlyMap<string, Group>, whole: boolean): Fraction | null {
  const name = statement.model.group ?? null;
  if (name === null) return null;
  const group = groups.get(name);
  if (group !== undefined) return group.fraction;
  if (whole) statement.report(["group"], `unknown group "${name}"; ${suggest(name, [...groups.keys()])}`);
  return readFraction(name, "1");
}

interface Resolved {
  readonly statement: Statement;
  readonly entry: Entry;
}

/** Every name once within a layer; a later layer's id takes an earlier layer's alias over. */
function namesOf(resolved: readonly Resolved[], report: Report): ReadonlyMap<string, Entry> {
  const owners = new Map<string, Resolved>(resolved.map((each) => [each.statement.id, each]));
  const ids = new Set(owners.keys());
  const ascending = [...resolved].sort((a, b) => a.statement.place.layer - b.statement.place.layer);
  for (const each of ascending) {
    const { place } = each.statement;
    each.entry.aliases.forEach((alias, index) => {
      const owner = owners.get(alias);
      const taken = owner?.statement.place;
      const idOfLater = ids.has(alias) && taken !== undefined && taken.layer > place.layer;
      if (idOfLater) return;
      if (owner !== undefined && (ids.has(alias) || taken?.layer === place.layer)) {
        const other = owner === each ? "this model" : `model "${owner.statement.id}"`;
        report(place, ["aliases", index], `"${alias}" already names ${other}; keep one of them`);
        return;
      }
      owners.set(alias, each);
    });
  }
  return new Map([...owners].map(([name, { entry }]) => [name, entry]));
}

function taskUnitsOf(layers: readonly (readonly ReadFile[])[]): ReadonlyMap<string, bigint> {
  const units = new Map<string, bigint>();
  eachFile(layers, (file) => {
    for (const [type, count] of Object.entries(file.value.task_units ?? {})) units.set(type, BigInt(count));
  });
  return units;
}

/** Equal for equal content, however it is spread over files. */
function digestOf(entries: readonly Entry[], fallback: Entry | null, taskUnits: ReadonlyMap<string, bigint>): string {
  const all = [...entries, ...(fallback === null ? [] : [fallback])];
  const models = all.map((entry) => ({
    id: entry.id,
    aliases: entry.aliases.toSorted(),
    spans: entry.spans.map(({ start, model }) => [String(start), { ...model, price: model.price?.canonical ?? null }]),
  }));
  models.sort((a, b) => (a.id < b.id ? -1 : 1));
  const units = [...taskUnits].map(([type, count]) => [type, count.toString()]).sort();
  return contentId(JSON.stringify({ models, units, classes: tokenClasses }));
}

function eachFile(layers: readonly (readonly ReadFile[])[], visit: (file: ReadFile, layer: number) => void): void {
  layers.forEach((files, layer) => {
    for (const file of files) visit(file, layer);
  });
}

function inOrder(faults: readonly Fault[], files: readonly ReadFile[]): Fault[] {
  const rank = new Map(files.map((file, index) => [file.name, index]));
  return faults.toSorted(
    (a, b) => (rank.get(a.file) ?? 0) - (rank.get(b.file) ?? 0) || a.line - b.line || a.column - b.column,
  );
}
