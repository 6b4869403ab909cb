import { LRUCache } from "lru-cache";
import { anyTaskType } from "../core/price.ts";
import { matchRoute, type TaskRoute } from "../core/task-routes.ts";
import type { Catalogue, CatalogueModel, CatalogueTask, ModelHistory, TaskQuantity } from "../ports/catalogue.ts";

/** One model with all its names, at all times. */
export type Entry = ModelHistory;

/** The catalogue together with its data. */
export interface LoadedCatalogue extends Catalogue {
  /** Content of the catalogue, as data that can be sent between threads. */
  readonly parts: CatalogueData;
}

export interface CatalogueData {
  readonly entries: readonly Entry[];
  /** Entries by id and by alias. */
  readonly byName: ReadonlyMap<string, Entry>;
  /** Price of all models that no file names; null if none is stated. */
  readonly fallback: Entry | null;
  readonly taskUnits: ReadonlyMap<string, bigint>;
  readonly routes: readonly TaskRoute[];
  readonly digest: string;
}

/** Largest number of dated or numbered model names that are cached; clients can make up any number of them. */
const revisionsMax = 1000;

export function catalogueOf(parts: CatalogueData): LoadedCatalogue {
  const { entries, byName, fallback, taskUnits, routes, digest } = parts;
  const revisions = new LRUCache<string, Entry>({ max: revisionsMax });

  const revisionOf = (name: string): Entry | undefined => {
    const base = baseName(name);
    const entry = base === undefined ? undefined : byName.get(base);
    if (entry !== undefined) revisions.set(name, entry);
    return entry;
  };

  const named = (model: string): Entry | undefined => byName.get(model) ?? revisions.get(model) ?? revisionOf(model);

  return {
    digest,
    taskUnits,
    parts,
    find(model, at) {
      const entry = named(model) ?? fallback;
      return entry === null ? undefined : modelAt(entry, at);
    },
    named(text, at) {
      const entry = named(text);
      return entry && modelAt(entry, at);
    },
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
 * Returns the model at an instant: the last span that has begun. Spans are few, ascend and cover all time. Allocates
 * nothing.
 */
function modelAt(entry: Entry, at: number): CatalogueModel {
  const { spans } = entry;
  for (let index = spans.length - 1; index >= 0; index -= 1) {
    const span = spans[index];
    if (span !== undefined && span.start <= at) return span.model;
  }
  throw new Error(`invariant broken: no span of ${entry.id} holds at ${at}`);
}

const one: TaskQuantity = { field: null, otherwise: "1", most: "1" };

/**
 * Returns the task price for the type, or otherwise the price for all types. If a price for the type is stated but
 * not in force, the task has no price.
 */
function taskAt(entry: Entry, taskType: string | null, at: number): CatalogueTask {
  const { id, group, billsServerErrors } = modelAt(entry, at);
  const history =
    entry.tasks?.find((task) => task.taskType === taskType) ??
    entry.tasks?.find((task) => task.taskType === anyTaskType);
  const span = history?.spans.findLast(({ start }) => start <= at);
  return { id, group, billsServerErrors, price: span?.price ?? null, quantity: span?.quantity ?? one };
}

/**
 * Suffixes that name a dated or numbered snapshot of a model: `-2024-11-20`, `-20260101`, `@20260101`, `-0613`,
 * `-001`, `-latest`. Words such as `-mini` or `-audio-preview` name a different model, so they do not match.
 */
const revision = /^(.+?)(?:-(\d{4})-(\d{2})-(\d{2})|[-@](\d{4})(\d{2})(\d{2})|-(\d{2})(\d{2})|-0\d{2}|[-@]latest)$/;

const nameLengthMax = 128;

/** Returns the name without its date or revision; undefined if it has none. Removes at most one suffix. */
export function baseName(name: string): string | undefined {
  if (name.length > nameLengthMax) return undefined;
  const match = revision.exec(name);
  if (match === null) return undefined;
  const [, base, isoYear, isoMonth, isoDay, year, month, day, shortMonth, shortDay] = match;
  const datedYear = isoYear ?? year;
  if (datedYear !== undefined && (datedYear < "2020" || datedYear > "2099")) return undefined;
  const datedMonth = isoMonth ?? month ?? shortMonth;
  const datedDay = isoDay ?? day ?? shortDay;
  if (datedMonth !== undefined && (datedMonth < "01" || datedMonth > "12")) return undefined;
  if (datedDay !== undefined && (datedDay < "01" || datedDay > "31")) return undefined;
  return base;
}
