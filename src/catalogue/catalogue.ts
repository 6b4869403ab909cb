import { LRUCache } from "lru-cache";
import { baseName, fold, foldedForms } from "../core/model-names.ts";
import { anyTaskType } from "../core/price.ts";
import { matchRoute, type TaskRoute } from "../core/task-routes.ts";
import type { TaskTimeLimits } from "../core/tasks.ts";
import type { Catalogue, CatalogueModel, CatalogueTask, ModelHistory, TaskQuantity } from "../ports/catalogue.ts";

/** A catalogue together with its data. */
export interface LoadedCatalogue extends Catalogue {
  /** Content of the catalogue, as plain data that can be sent between threads. */
  readonly data: CatalogueData;
}

export interface CatalogueData {
  readonly entries: readonly ModelHistory[];
  /** Entries by id and by alias. */
  readonly byName: ReadonlyMap<string, ModelHistory>;
  /** Price of all models that no file names; null if no file states such a price. */
  readonly fallback: ModelHistory | null;
  /** Units of consumption for one USD, by the `usage.type` of a task. */
  readonly taskUnits: ReadonlyMap<string, bigint>;
  readonly taskTimeLimits: TaskTimeLimits;
  readonly routes: readonly TaskRoute[];
  /** Digest of the content: equal for catalogues with equal content. */
  readonly digest: string;
}

/**
 * Largest number of cached spellings. The cache needs a limit because clients choose the names. Texts that name no model
 * are not cached, so they cannot displace names.
 */
const spellingsMax = 1000;

/** Length of the longest text that may name a model. */
const textLengthMax = 256;

/** A name in the price files, with its model. */
interface StatedName {
  readonly name: string;
  readonly entry: ModelHistory;
}

export function catalogueOf(data: CatalogueData): LoadedCatalogue {
  const { entries, byName, fallback, taskUnits, taskTimeLimits, routes, digest } = data;
  const byFolded = foldedNames(byName);
  const spellings = new LRUCache<string, StatedName>({ max: spellingsMax });

  /** Finds the stated name that a text spells otherwise. The first form that any name has decides. */
  const spelled = (text: string): StatedName | undefined => {
    if (text.length > textLengthMax) return undefined;
    const base = baseName(text) ?? "";
    const dated = byName.get(base);
    if (dated !== undefined) return { name: base, entry: dated };
    for (const form of foldedForms(text)) {
      const found = byFolded.get(form);
      if (found !== undefined) return found === "ambiguous" ? undefined : found;
    }
    return undefined;
  };

  const otherwise = (text: string): StatedName | undefined => {
    const cached = spellings.get(text);
    if (cached !== undefined) return cached;
    const found = spelled(text);
    if (found !== undefined) spellings.set(text, found);
    return found;
  };

  const named = (text: string): ModelHistory | undefined => byName.get(text) ?? otherwise(text)?.entry;

  return {
    digest,
    taskUnits,
    taskTimeLimits,
    data,
    find(model, at) {
      const entry = named(model) ?? fallback;
      return entry === null ? undefined : modelAt(entry, at);
    },
    named(text, at) {
      const entry = named(text);
      return entry && modelAt(entry, at);
    },
    statedName: (text) => (byName.has(text) ? text : otherwise(text)?.name),
    findTask(model, taskType, at) {
      const entry = named(model);
      return entry && taskAt(entry, taskType, at);
    },
    route: (method, path) => matchRoute(routes, method, path),
    list: (at) => entries.map((entry) => modelAt(entry, at)),
    histories: () => (fallback === null ? entries : [...entries, fallback]),
  };
}

/**
 * Returns the stated names by their folded form. A form that fits names of several models is ambiguous. Names keep their
 * providers, because the same model may have another price at another provider.
 */
function foldedNames(byName: ReadonlyMap<string, ModelHistory>): ReadonlyMap<string, StatedName | "ambiguous"> {
  const byFolded = new Map<string, StatedName | "ambiguous">();
  for (const [name, entry] of byName) {
    const folded = fold(name);
    const other = byFolded.get(folded);
    if (other === undefined) byFolded.set(folded, { name, entry });
    else if (other !== "ambiguous" && other.entry !== entry) byFolded.set(folded, "ambiguous");
  }
  return byFolded;
}

/**
 * Returns the model in the span that contains the instant. Allocates no memory, because every request calls this
 * function.
 */
function modelAt(entry: ModelHistory, at: number): CatalogueModel {
  const { spans } = entry;
  for (let index = spans.length - 1; index >= 0; index -= 1) {
    const span = spans[index];
    if (span !== undefined && span.start <= at) return span.model;
  }
  throw new Error(`invariant broken: no span of ${entry.id} contains ${at}`);
}

const oneUnit: TaskQuantity = { field: null, otherwise: "1", most: "1" };

/**
 * Returns a model's price for a task type. If the model states no price for the type, returns its price for all types.
 * `price` is null if the model states neither, or if the stated price is not in force at the instant.
 */
function taskAt(entry: ModelHistory, taskType: string | null, at: number): CatalogueTask {
  const { id, group, billsServerErrors } = modelAt(entry, at);
  const history =
    entry.tasks?.find((task) => task.taskType === taskType) ??
    entry.tasks?.find((task) => task.taskType === anyTaskType);
  const span = history?.spans.findLast(({ start }) => start <= at);
  return { id, group, billsServerErrors, price: span?.price ?? null, quantity: span?.quantity ?? oneUnit };
}
