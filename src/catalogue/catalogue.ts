import { LRUCache } from "lru-cache";
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
 * Largest number of cached names of dated or numbered models. The cache needs a limit because clients choose the names.
 */
const revisionsMax = 1000;

export function catalogueOf(data: CatalogueData): LoadedCatalogue {
  const { entries, byName, fallback, taskUnits, taskTimeLimits, routes, digest } = data;
  const revisions = new LRUCache<string, ModelHistory>({ max: revisionsMax });

  const revisionOf = (name: string): ModelHistory | undefined => {
    const base = baseName(name);
    const entry = base === undefined ? undefined : byName.get(base);
    if (entry !== undefined) revisions.set(name, entry);
    return entry;
  };

  const named = (model: string): ModelHistory | undefined =>
    byName.get(model) ?? revisions.get(model) ?? revisionOf(model);

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

/**
 * Matches a name with the suffix of a dated or numbered snapshot: `-2024-11-20`, `-20260101`, `@20260101`, `-0613`,
 * `-001` or `-latest`. Does not match words such as `-mini` or `-audio-preview`, which name a different model.
 */
const revision = /^(.+?)(?:-(\d{4})-(\d{2})-(\d{2})|[-@](\d{4})(\d{2})(\d{2})|-(\d{2})(\d{2})|-0\d{2}|[-@]latest)$/;

const nameLengthMax = 128;

/**
 * Returns the name without its date or revision; undefined for a name without such a suffix. Removes at most one
 * suffix.
 */
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
