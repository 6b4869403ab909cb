import { ceilingPrice } from "../core/price.ts";
import { tokenClasses } from "../core/usage.ts";
import { contentId } from "../wire/content-id.ts";
import type { Path } from "../ports/yaml.ts";
import { blockOf, readPriceFile, type Block, type ParsedPriceFile } from "./read.ts";
import { catalogueOf, type CatalogueData, type LoadedCatalogue } from "./catalogue.ts";
import { suggest, type Fault, type OrFaults } from "../core/fault.ts";
import { readFraction, type Fraction } from "./rates.ts";
import { resolveModel, type ModelStatement } from "./resolve.ts";
import { routesOf } from "./routes.ts";
import { resolveTasks } from "./task-prices.ts";
import type { StatedModel, StatedTraits } from "./schema.ts";
import type { TaskTimeLimits } from "../core/tasks.ts";
import type { FileLocation, ModelHistory } from "../ports/catalogue.ts";
import { minuteMs } from "../core/time.ts";

/** Text of a price file, and the file's name in fault messages. */
export interface PriceText {
  readonly name: string;
  readonly text: string;
}

export type CatalogueResult = OrFaults<{ catalogue: LoadedCatalogue; origins: Origins }>;

/** Builds a catalogue from the texts of files. Equal texts result in equal catalogues. */
export type CatalogueBuilder = (layers: readonly (readonly PriceText[])[]) => CatalogueResult;

/** Position of a statement in the price files. */
interface Location {
  readonly file: ParsedPriceFile;
  readonly layer: number;
  readonly block: Block;
}

type LocationIn = (file: ParsedPriceFile, layer: number, path: Path) => Location;

/**
 * Builds the catalogue from layers of files: the shipped files, then the user's. A model replaces the whole model with
 * the same id of an earlier layer. A group replaces the group with the same name. Reports all faults in file order.
 * `unreadable`: faults of files that could not be read. If there are any, unknown groups are not faults, because the
 * unreadable files may state those groups.
 */
export function buildCatalogue(
  layers: readonly (readonly PriceText[])[],
  unreadable: readonly Fault[] = [],
): CatalogueResult {
  const read = layers.map((files) => files.map(({ name, text }) => readPriceFile(name, text)));
  const faults = [...unreadable, ...read.flat().flatMap((file) => file.faults)];
  const locationIn: LocationIn = (file, layer, path) => ({
    file,
    layer,
    block: blockOf(file, path, (fault) => faults.push(fault)),
  });

  const groups = groupsOf(read, locationIn, unreadable.length === 0);
  const statements = statementsOf(read, locationIn);
  const resolvedOf = (statement: Statement): Resolved => {
    const group = groupOf(statement, groups);
    const spans = resolveModel(statement, group?.fraction ?? null);
    const tasks = resolveTasks(statement, group?.fraction ?? null);
    return {
      statement,
      group,
      entry: { id: statement.id, aliases: statement.model.aliases ?? [], spans, ...(tasks.length > 0 && { tasks }) },
    };
  };

  const resolved = [...statements.models.values()].map(resolvedOf);
  const byName = namesOf(resolved);
  const fallback = statements.fallback && resolvedOf(statements.fallback);
  const routes = routesOf(read, (file, key) => blockOf(file, ["routes", key], (fault) => faults.push(fault)));
  if (faults.length > 0) return { ok: false, faults: inOrder(faults, read.flat()) };

  const entries = resolved.map(({ entry }) => entry);
  const common = { taskUnits: taskUnitsOf(read), taskTimeLimits: taskTimeLimitsOf(read), routes };
  const digest = digestOf(entries, fallback?.entry ?? null, common);
  let origins: Origins | null = null;
  return {
    ok: true,
    catalogue: catalogueOf({ entries, byName, fallback: fallback?.entry ?? null, ...common, digest }),
    // Computed on demand, because finding the positions of values takes ten times as long as reading the values.
    get origins() {
      origins ??= originsOf(fallback === null ? resolved : [...resolved, fallback], groups);
      return origins;
    },
  };
}

interface Group {
  readonly location: Location;
  /** Null if the fraction has a fault. */
  readonly fraction: Fraction | null;
}

interface Groups {
  readonly byName: ReadonlyMap<string, Group>;
  /** Names of groups that were removed because of faults. */
  readonly removed: ReadonlySet<string>;
  /** True if all groups are known, because every file and its block of groups could be read. */
  readonly isComplete: boolean;
}

function groupsOf(layers: readonly (readonly ParsedPriceFile[])[], locationIn: LocationIn, allRead: boolean): Groups {
  const byName = new Map<string, Group>();
  const removed = new Set<string>();
  let isComplete = allRead;
  eachFile(layers, (file, layer) => {
    for (const name of file.removedIn(["groups"])) removed.add(name);
    isComplete &&= locationIn(file, layer, []).block.isReliable("groups");
    for (const [name, group] of Object.entries(file.value.groups ?? {})) {
      const location = locationIn(file, layer, ["groups", name]);
      const other = byName.get(name);
      if (name === ceilingPrice)
        location.block.report(`"${ceilingPrice}" is reserved for charges of unknown models; use another name`);
      if (other?.location.layer === layer)
        location.block.report(`group "${name}" is already in ${other.location.file.name}; keep one of them`);
      // The fraction is missing if it was removed because of a fault.
      const text = group.fraction as string | undefined;
      byName.set(name, { location, fraction: text === undefined ? null : readFraction(name, text) });
    }
  });
  return { byName, removed, isComplete };
}

interface Statement extends ModelStatement {
  readonly location: Location;
}

/** Returns the statements of models and of the default price that apply after all layers. Each model id occurs once. */
function statementsOf(layers: readonly (readonly ParsedPriceFile[])[], locationIn: LocationIn) {
  const models = new Map<string, Statement>();
  let fallback: Statement | null = null;
  eachFile(layers, (file, layer) => {
    const { value } = file;
    const root = locationIn(file, layer, []).block;
    const statementOf = (id: string, provider: string, path: Path, model: ModelStatement["model"]): Statement => {
      const location = locationIn(file, layer, path);
      return {
        id,
        provider,
        model,
        defaults: value.defaults ?? {},
        location,
        block: location.block,
        defaultsBlock: root.at("defaults"),
      };
    };
    const stated = Object.entries(value.models ?? {});
    const lacksProvider = stated.some(
      ([id, model]) => model.provider === undefined && root.at("models", id).isReliable("provider"),
    );
    if (lacksProvider && value.provider === undefined && root.isReliable("provider")) {
      root.at("models").report('"provider" is missing next to models; write the family\'s name, such as openai');
    }
    for (const [id, model] of stated) {
      const statement = statementOf(id, model.provider ?? value.provider ?? "", ["models", id], model);
      const other = models.get(id);
      if (id === ceilingPrice)
        statement.block.report(`"${ceilingPrice}" is reserved for the price of unknown models; use another id`);
      if (other?.location.layer === layer)
        statement.block.report(`model "${id}" is already in ${other.location.file.name}; keep one of them`);
      models.set(id, statement);
    }
    if (value.default === undefined) return;
    if (fallback?.location.layer === layer && value.default !== null) {
      root.at("default").report(`a default is already in ${fallback.location.file.name}; keep one of them`);
    }
    fallback = value.default === null ? null : statementOf(ceilingPrice, ceilingPrice, ["default"], value.default);
  });
  return { models, fallback: fallback as Statement | null };
}

/**
 * Returns the model's group; null for a model without a group. Reports an unknown group, unless a file that may state
 * the group could not be read. An unknown or faulty group gets the fraction 1, so that the model's other faults can
 * still be found.
 */
function groupOf({ model, block }: Statement, groups: Groups): ResolvedGroup | null {
  const name = model.group ?? null;
  if (name === null && block.isReliable("group")) return null;
  const group = name === null ? undefined : groups.byName.get(name);
  if (group === undefined && name !== null && groups.isComplete && !groups.removed.has(name)) {
    block.at("group").report(`unknown group "${name}"; ${suggest(name, [...groups.byName.keys()])}`);
  }
  return { name: name ?? "", fraction: group?.fraction ?? readFraction(name ?? "", "1") };
}

interface ResolvedGroup {
  readonly name: string;
  readonly fraction: Fraction;
}

interface Resolved {
  readonly statement: Statement;
  readonly group: ResolvedGroup | null;
  readonly entry: ModelHistory;
}

/**
 * Returns the models by id and alias. Reports an alias that is already a name in the same layer, or an id in an earlier
 * layer. An id in a later layer takes precedence over an alias.
 */
function namesOf(resolved: readonly Resolved[]): ReadonlyMap<string, ModelHistory> {
  const owners = new Map<string, Resolved>(resolved.map((each) => [each.statement.id, each]));
  const ids = new Set(owners.keys());
  const ascending = [...resolved].sort((a, b) => a.statement.location.layer - b.statement.location.layer);
  for (const each of ascending) {
    const { location } = each.statement;
    const aliases: readonly (string | undefined)[] = each.entry.aliases;
    aliases.forEach((alias, index) => {
      if (alias === undefined) return;
      const owner = owners.get(alias);
      const taken = owner?.statement.location;
      const isIdInLaterLayer = ids.has(alias) && taken !== undefined && taken.layer > location.layer;
      if (isIdInLaterLayer) return;
      if (owner !== undefined && (ids.has(alias) || taken?.layer === location.layer)) {
        const other = owner === each ? "this model" : `model "${owner.statement.id}"`;
        location.block.at("aliases", index).report(`"${alias}" already names ${other}; keep one of them`);
        return;
      }
      owners.set(alias, each);
    });
  }
  return new Map([...owners].map(([name, { entry }]) => [name, entry]));
}

/**
 * Returns the origins as plain data that does not refer to the files. The texts of the files can then be garbage
 * collected.
 */
function originsOf(resolved: readonly Resolved[], groups: Groups): Origins {
  const models = resolved.map(({ statement, group }) => {
    const { id, provider, model, defaults, location, block } = statement;
    const lines = (model.prices ?? []).map((_, index) => block.at("prices", index).line());
    return [
      id,
      {
        provider,
        model,
        defaults,
        fraction: group?.fraction ?? null,
        file: location.file.name,
        layer: location.layer,
        line: block.line(),
        lines,
      },
    ] as const;
  });
  const groupLocations = [...groups.byName].map(
    ([name, { location }]) => [name, { file: location.file.name, line: location.block.line() }] as const,
  );
  return { models: new Map(models), groups: new Map(groupLocations) };
}

function taskUnitsOf(layers: readonly (readonly ParsedPriceFile[])[]): ReadonlyMap<string, bigint> {
  const units = new Map<string, bigint>();
  eachFile(layers, (file) => {
    for (const [type, count] of Object.entries(file.value.task_units ?? {})) units.set(type, BigInt(count));
  });
  return units;
}

/** Returns the time limits of task families in milliseconds. A null removes the limit of an earlier file. */
function taskTimeLimitsOf(layers: readonly (readonly ParsedPriceFile[])[]): TaskTimeLimits {
  const limits = new Map<string, number>();
  eachFile(layers, (file) => {
    for (const [family, minutes] of Object.entries(file.value.task_minutes ?? {})) {
      if (minutes === null) limits.delete(family);
      else limits.set(family, minutes * minuteMs);
    }
  });
  return limits;
}

/** Returns a digest that depends only on the catalogue's content, not on its division into files. */
function digestOf(
  entries: readonly ModelHistory[],
  fallback: ModelHistory | null,
  { taskUnits, taskTimeLimits, routes }: Pick<CatalogueData, "taskUnits" | "taskTimeLimits" | "routes">,
): string {
  const all = [...entries, ...(fallback === null ? [] : [fallback])];
  const models = all.map((entry) => ({
    id: entry.id,
    aliases: entry.aliases.toSorted(),
    spans: entry.spans.map(({ start, model }) => [String(start), { ...model, price: model.price?.canonical ?? null }]),
    ...(entry.tasks && {
      tasks: entry.tasks.map(({ taskType, spans }) => [
        taskType,
        spans.map((span) => [span.start, span.price?.canonical ?? null, span.quantity]),
      ]),
    }),
  }));
  models.sort((a, b) => (a.id < b.id ? -1 : 1));
  const units = [...taskUnits].map(([type, count]) => [type, count.toString()]).sort();
  const paths = routes.toSorted((a, b) => (`${a.method} ${a.path}` < `${b.method} ${b.path}` ? -1 : 1));
  const limits = [...taskTimeLimits].sort();
  return contentId(JSON.stringify({ models, units, limits, classes: tokenClasses, routes: paths }));
}

function eachFile(
  layers: readonly (readonly ParsedPriceFile[])[],
  visit: (file: ParsedPriceFile, layer: number) => void,
): void {
  layers.forEach((files, layer) => {
    for (const file of files) visit(file, layer);
  });
}

function inOrder(faults: readonly Fault[], files: readonly ParsedPriceFile[]): Fault[] {
  const rank = new Map(files.map((file, index) => [file.name, index]));
  return faults.toSorted(
    (a, b) => (rank.get(a.file) ?? 0) - (rank.get(b.file) ?? 0) || a.line - b.line || a.column - b.column,
  );
}

/**
 * Statement of a model in the last layer that states the model. It explains prices to people; requests never use it.
 */
export interface ModelOrigin {
  readonly provider: string;
  readonly model: StatedModel;
  /** Values that the file states for all its models. */
  readonly defaults: StatedTraits;
  /** The group's fraction of the official price; null for a model without a group. */
  readonly fraction: Fraction | null;
  readonly file: string;
  /** Index of the layer; 0 contains the shipped files. */
  readonly layer: number;
  readonly line: number;
  /** Line number of each price. */
  readonly lines: readonly number[];
}

export interface Origins {
  /** Origins by model id. Includes the ceiling price for unknown models, if a file states it. */
  readonly models: ReadonlyMap<string, ModelOrigin>;
  readonly groups: ReadonlyMap<string, FileLocation>;
}
