import { ceilingPrice } from "../core/price.ts";
import { tokenClasses } from "../core/usage.ts";
import { contentId } from "../wire/content-id.ts";
import type { Path } from "../ports/yaml.ts";
import { Block, readPriceFile, type ParsedPriceFile } from "./read.ts";
import { catalogueOf, type CatalogueData, type LoadedCatalogue } from "./catalogue.ts";
import { formatFault, suggest, type Fault, type OrFaults } from "../core/fault.ts";
import { changesByModel, changesIn, isChange, reportEmpty, reportWithoutPrice, type Change } from "./changes.ts";
import { Effect } from "./effects.ts";
import type { Level } from "./levels.ts";
import { resolveModel, type LevelsInTime, type ModelLevels, type ModelStatement } from "./resolve.ts";
import { routesOf } from "./routes.ts";
import { resolveTasks } from "./task-prices.ts";
import type { TaskTimeLimits } from "../core/tasks.ts";
import type { ModelHistory } from "../ports/catalogue.ts";
import { minuteMs } from "../core/time.ts";

/** Text of a price file, and the file's name in fault messages. */
export interface PriceText {
  readonly name: string;
  readonly text: string;
}

export type CatalogueResult = OrFaults<{ catalogue: LoadedCatalogue; origins: Origins }>;

/** Builds a catalogue from the texts of files. Equal texts result in equal catalogues. */
export type CatalogueBuilder = (layers: readonly (readonly PriceText[])[]) => CatalogueResult;

type BlockIn = (file: ParsedPriceFile, layer: number, path: Path) => Block;

/**
 * Builds the catalogue from layers of files: the shipped files, then the user's. A model replaces the whole model with
 * the same id of an earlier layer; a change replaces single fields; a group or a gateway replaces what it states. Reports
 * all faults in file order. `unreadable`: faults of files that could not be read. If there are any, unknown groups and
 * models are not faults, because the unreadable files may state them.
 */
export function buildCatalogue(
  layers: readonly (readonly PriceText[])[],
  unreadable: readonly Fault[] = [],
): CatalogueResult {
  const read = layers.map((files) => files.map(({ name, text }) => readPriceFile(name, text)));
  const faults = [...unreadable, ...read.flat().flatMap((file) => file.faults)];
  const report = (fault: Fault) => faults.push(fault);
  const blockIn: BlockIn = (file, layer, path) => new Block(file, layer, path, report);

  const terms = termsOf(read, blockIn, unreadable.length === 0);
  const statements = statementsOf(read, blockIn);
  const models = [...statements.models.values()];
  const added = Map.groupBy(statements.changes, (change) => change.models);
  const known = models.map((statement) => {
    const aliases = aliasesOf(statement, added.get(statement.id) ?? []);
    return { id: statement.id, aliases: aliases.map(({ alias }) => alias) };
  });
  const changes = changesByModel(statements.changes, known, unreadable.length === 0 && statements.isComplete);
  const resolvedOf = (statement: ModelStatement): Resolved => {
    const own = (changes.get(statement.id) ?? []).filter((change) => change.block.layer >= statement.block.layer);
    const levels = levelsOf(statement, own, terms);
    const spans = resolveModel(statement, levels);
    const tasks = resolveTasks(statement, levels);
    const aliases = aliasesOf(statement, own);
    const names = aliases.map(({ alias }) => alias);
    return {
      origin: { ...statement, levels },
      aliases,
      entry: { id: statement.id, aliases: names, spans, ...(tasks.length > 0 && { tasks }) },
    };
  };

  const resolved = models.map(resolvedOf);
  const byName = namesOf(resolved);
  const fallback = statements.fallback && resolvedOf(statements.fallback);
  const routes = routesOf(read, (file, key) => blockIn(file, 0, ["routes", key]));
  reportEffects(statements, changes, terms);
  if (faults.length > 0) return { ok: false, faults: inOrder(faults, read.flat()) };

  const entries = resolved.map(({ entry }) => entry);
  const common = { taskUnits: taskUnitsOf(read), taskTimeLimits: taskTimeLimitsOf(read), routes };
  const digest = digestOf(entries, fallback?.entry ?? null, common);
  const all = fallback === null ? resolved : [...resolved, fallback];
  return {
    ok: true,
    catalogue: catalogueOf({ entries, byName, fallback: fallback?.entry ?? null, ...common, digest }),
    origins: {
      models: new Map(all.map(({ origin }) => [origin.id, origin])),
      changes: statements.changes,
      groups: terms.groups,
    },
  };
}

/** Statements about all models or all models of a group, by layer. */
interface Terms {
  /** Number of layers. */
  readonly layers: number;
  readonly gateways: readonly (Level | undefined)[];
  /** Statements of each group, in the order of their layers. */
  readonly groups: ReadonlyMap<string, readonly Level[]>;
  /** Names of groups that were removed because of faults. */
  readonly removed: ReadonlySet<string>;
  /** True if all groups are known, because every file and its block of groups could be read. */
  readonly isComplete: boolean;
}

function termsOf(layers: readonly (readonly ParsedPriceFile[])[], blockIn: BlockIn, allRead: boolean): Terms {
  const gateways: (Level | undefined)[] = [];
  const groups = new Map<string, Level[]>();
  const removed = new Set<string>();
  let isComplete = allRead;
  eachFile(layers, (file, layer) => {
    for (const name of file.removedIn(["groups"])) removed.add(name);
    isComplete &&= blockIn(file, layer, []).isReliable("groups");
    for (const [name, stated] of Object.entries(file.value.groups ?? {})) {
      const block = blockIn(file, layer, ["groups", name]);
      reportEmpty(stated, block);
      const own = groups.get(name) ?? [];
      const other = own.findLast((each) => each.block.layer === layer);
      if (name === ceilingPrice)
        block.report(`"${ceilingPrice}" is reserved for charges of unknown models; use another name`);
      if (other !== undefined)
        block.report(`group "${name}" is already in ${other.block.place().file}; keep one of them`);
      groups.set(name, [...own, { by: `group "${name}"`, stated, block, effect: new Effect() }]);
    }
    if (file.value.gateway === undefined) return;
    const block = blockIn(file, layer, ["gateway"]);
    reportEmpty(file.value.gateway, block);
    const other = gateways[layer]?.block.place();
    if (other !== undefined)
      block.report(`"gateway" is already in ${other.file}, line ${other.line}; keep one of them`);
    gateways[layer] = { by: "gateway", stated: file.value.gateway, block, effect: new Effect() };
  });
  return { layers: layers.length, gateways, groups, removed, isComplete };
}

/** Reports changes, groups and gateways of which a part changes no model. `byModel`: changes of each model. */
function reportEffects(
  { models, changes }: Statements,
  byModel: ReadonlyMap<string, readonly Change[]>,
  { gateways, groups }: Terms,
): void {
  const isWhole = (id: string) => models.get(id)?.block.isWhole() ?? true;
  for (const level of [...changes, ...gateways, ...[...groups.values()].flat()]) level?.effect.report(isWhole);
  for (const change of changes) {
    const covered = [...models.values()].filter(
      ({ id, block }) => change.block.layer >= block.layer && byModel.get(id)?.includes(change),
    );
    if (covered.length > 0 && covered.every(({ block }) => block.isWhole())) reportWithoutPrice(change);
  }
}

/**
 * Returns what applies to a model over time. In each layer, a group precedes the gateway, the model its group, and a
 * change the model. A group counts in the layer that assigns the model to it, if that is the later one. A group that a
 * change assigns precedes the model.
 */
function levelsOf(statement: ModelStatement, changes: readonly Change[], terms: Terms): LevelsInTime {
  const startsOf = (each: readonly Change[]) =>
    new Set(each.flatMap(({ start, end }) => [start, end]).filter((instant) => Number.isFinite(instant)));
  const known = new Map<string, ModelLevels>();
  return {
    starts: startsOf(changes),
    pricedStarts: startsOf(changes.filter(({ isPriced }) => isPriced)),
    at(instant) {
      const inForce = changes.filter(({ start, end }) => start <= instant && instant < end);
      const key = inForce.map((change) => changes.indexOf(change)).join(" ");
      const levels = known.get(key) ?? levelsWith(statement, inForce, terms);
      known.set(key, levels);
      return levels;
    },
  };
}

function levelsWith(statement: ModelStatement, changes: readonly Change[], terms: Terms): ModelLevels {
  const { id, model, block } = statement;
  const assignment = changes.findLast(({ stated }) => stated.group !== undefined);
  assignment?.effect.apply("group", id);
  const group = assignment?.stated.group ?? model.group ?? null;
  const assigned = assignment?.block ?? block;
  const ofGroup = groupLevels(group, assigned, terms);
  const below: Level[] = [];
  const above: Level[] = [];
  for (let layer = 0; layer < terms.layers; layer += 1) {
    const inLayer = ({ block: own }: Level) => own.layer === layer;
    const groupsHere = ofGroup.filter((level) => Math.max(level.block.layer, assigned.layer) === layer);
    const gateway = terms.gateways[layer];
    const covering = [...(gateway ? [gateway] : []), ...(assignment ? [] : groupsHere)];
    (layer <= block.layer ? below : above).push(...covering);
    (layer < block.layer ? below : above).push(...(assignment ? groupsHere : []), ...changes.filter(inLayer));
  }
  const name = assignment?.stated.group;
  return {
    below,
    above,
    group,
    changes,
    assigned:
      name === undefined || assignment === undefined ? null : { value: name, block: assignment.block.at("group") },
  };
}

/**
 * Returns the statements of a group, in the order of their layers. Reports an unknown group, unless a file that may state
 * the group could not be read. An unknown or faulty group gets the fraction 1, so that the model's other faults can
 * still be found. `assigned`: the block that names the group.
 */
function groupLevels(name: string | null, assigned: Block, terms: Terms): readonly Level[] {
  const unknown: Level = {
    by: `group "${name ?? ""}"`,
    stated: { fraction: "1" },
    block: assigned,
    effect: new Effect(),
  };
  if (name === null) return assigned.isReliable("group") ? [] : [unknown];
  const levels = terms.groups.get(name);
  if (levels === undefined) {
    if (terms.isComplete && !terms.removed.has(name))
      assigned.at("group").report(`unknown group "${name}"; ${suggest(name, [...terms.groups.keys()])}`);
    return [unknown];
  }
  return levels.every(({ block }) => block.isReliable("fraction")) ? levels : [...levels, unknown];
}

interface Statements {
  readonly models: ReadonlyMap<string, ModelStatement>;
  readonly fallback: ModelStatement | null;
  readonly changes: readonly Change[];
  /** True if all models are known, because no statement of a model was removed because of a fault. */
  readonly isComplete: boolean;
}

/**
 * Returns the statements of models and of the default price that apply after all layers, and the changes. Each model id
 * occurs once.
 */
function statementsOf(layers: readonly (readonly ParsedPriceFile[])[], blockIn: BlockIn): Statements {
  const models = new Map<string, ModelStatement>();
  const changes: Change[] = [];
  let fallback: ModelStatement | null = null;
  let isComplete = true;
  eachFile(layers, (file, layer) => {
    const { value } = file;
    const root = blockIn(file, layer, []);
    isComplete &&= root.isReliable("models") && file.removedIn(["models"]).length === 0;
    const statementOf = (id: string, provider: string, path: Path, model: ModelStatement["model"]): ModelStatement => ({
      id,
      provider,
      model,
      defaults: value.defaults ?? {},
      block: root.at(...path),
      defaultsBlock: root.at("defaults"),
    });
    const stated = Object.entries(value.models ?? {}).filter(([id, model]) => {
      const block = root.at("models", id);
      if (!isChange(id, model, block)) return true;
      changes.push(...changesIn(id, model, block));
      return false;
    });
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
      if (other?.block.layer === layer)
        statement.block.report(`model "${id}" is already in ${other.block.place().file}; keep one of them`);
      models.set(id, statement);
    }
    if (value.default === undefined) return;
    if (fallback?.block.layer === layer && value.default !== null) {
      root.at("default").report(`a default is already in ${fallback.block.place().file}; keep one of them`);
    }
    fallback = value.default === null ? null : statementOf(ceilingPrice, ceilingPrice, ["default"], value.default);
  });
  return { models, fallback, changes, isComplete };
}

interface Alias {
  readonly alias: string;
  readonly block: Block;
}

/** Returns the aliases of a model: those of its statement, and those that changes add. */
function aliasesOf({ model, block }: ModelStatement, changes: readonly Change[]): readonly Alias[] {
  const stated = [
    { aliases: model.aliases, block },
    ...changes.map((change) => ({ aliases: change.stated.aliases, block: change.block })),
  ];
  return stated.flatMap(({ aliases, block: own }) =>
    // An alias that was removed because of a fault is undefined.
    ((aliases ?? []) as readonly (string | undefined)[]).flatMap((alias, index) =>
      alias === undefined ? [] : [{ alias, block: own.at("aliases", index) }],
    ),
  );
}

interface Resolved {
  readonly origin: ModelOrigin;
  readonly aliases: readonly Alias[];
  readonly entry: ModelHistory;
}

/**
 * Returns the models by id and alias. Reports an alias that is already a name in the same layer, or an id in an earlier
 * layer. An id in a later layer takes precedence over an alias.
 */
function namesOf(resolved: readonly Resolved[]): ReadonlyMap<string, ModelHistory> {
  const owners = new Map(
    resolved.map((owner) => [owner.origin.id, { owner, layer: owner.origin.block.layer }] as const),
  );
  const ids = new Set(owners.keys());
  const aliases = resolved.flatMap((owner) => owner.aliases.map((each) => ({ ...each, owner })));
  for (const { alias, block, owner } of aliases.sort((a, b) => a.block.layer - b.block.layer)) {
    const { layer } = block;
    const taken = owners.get(alias);
    const isIdInLaterLayer = ids.has(alias) && taken !== undefined && taken.layer > layer;
    if (isIdInLaterLayer) continue;
    if (taken !== undefined && (ids.has(alias) || taken.layer === layer)) {
      const other = taken.owner === owner ? "this model" : `model "${taken.owner.origin.id}"`;
      block.report(`"${alias}" already names ${other}; keep one of them`);
      continue;
    }
    owners.set(alias, { owner, layer });
  }
  return new Map([...owners].map(([name, { owner }]) => [name, owner.entry]));
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

/** Returns the faults in the order of the files. A fault that was found at several instants occurs once. */
function inOrder(faults: readonly Fault[], files: readonly ParsedPriceFile[]): Fault[] {
  const rank = new Map(files.map((file, index) => [file.name, index]));
  const unique = new Map(faults.map((fault) => [formatFault(fault), fault]));
  return [...unique.values()].sort(
    (a, b) => (rank.get(a.file) ?? 0) - (rank.get(b.file) ?? 0) || a.line - b.line || a.column - b.column,
  );
}

/**
 * Statement of a model in the last layer that states the model. It explains prices to people; requests never use it.
 */
export interface ModelOrigin extends ModelStatement {
  readonly levels: LevelsInTime;
}

export interface Origins {
  /** Origins by model id. Includes the ceiling price for unknown models, if a file states it. */
  readonly models: ReadonlyMap<string, ModelOrigin>;
  /** All changes of models, in the order of the files. */
  readonly changes: readonly Change[];
  /** Statements of each group, in the order of their layers. */
  readonly groups: ReadonlyMap<string, readonly Level[]>;
}
