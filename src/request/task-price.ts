import { compareDecimals, type PicoUsd } from "../core/money.ts";
import type { OrRefused } from "../core/refusals.ts";
import { taskAmounts } from "../core/task-settlement.ts";
import type { Catalogue, CatalogueTask, TaskQuantity } from "../ports/catalogue.ts";
import type { StatedQuantity, TaskRequest } from "../wire/task-request.ts";

/** Largest possible cost of a task, by the price in force when its request arrived. */
export interface TaskQuote {
  readonly request: TaskRequest;
  /** Time of the admission and of the charge, in milliseconds since 1970 UTC. */
  readonly at: number;
  /** Requested model; undefined if the catalogue does not know it. */
  readonly model: CatalogueTask | undefined;
  /**
   * Every model that may run the task, with its name in the request or route. `id`: its id in the catalogue; undefined
   * if the catalogue does not know it.
   */
  readonly models: readonly { readonly name: string; readonly id: string | undefined }[];
  /** Ids of `models`, the most expensive model first. */
  readonly modelIds: readonly string[];
  /** True if the catalogue does not know one of `models`. Then any model may run the task. */
  readonly anyModel: boolean;
  /** Largest possible cost; null without a price or without a bound for the quantity. */
  readonly hold: PicoUsd | null;
  /** False if the task could cost more than `hold`. */
  readonly bounded: boolean;
  /** Number of priced units that the request asks for, stated or by default; null if it is not known. */
  readonly quantity: string | null;
}

export type TaskPricing = OrRefused<{ quote: TaskQuote }>;

export interface TaskPriceDeps {
  readonly catalogue: () => Catalogue;
  readonly unpriced: "record" | "refuse";
}

/** Prices a task before it is created, by the most expensive of the models that may run it. */
export function priceTask({ catalogue, unpriced }: TaskPriceDeps, request: TaskRequest, at: number): TaskPricing {
  const inForce = catalogue();
  const quotes = [request, ...request.others].map((named) => quoteFor(inForce, request, named, at));
  const top = quotes.reduce(moreExpensive);
  const modelIds = [...new Set([top, ...quotes].flatMap((each) => each.modelIds))];
  const anyModel = quotes.some((each) => each.anyModel);
  const quote = { ...top, models: quotes.flatMap(({ models }) => models), modelIds, anyModel };
  const isPriced = quote.model?.price?.version.task !== undefined;
  if (!isPriced && unpriced === "refuse")
    return { ok: false, refusal: { code: "model_not_priced", model: request.model, hardBudget: false } };
  return { ok: true, quote };
}

function quoteFor(
  catalogue: Catalogue,
  request: TaskRequest,
  asked: Pick<TaskRequest, "model" | "taskType">,
  at: number,
): TaskQuote {
  const model = catalogue.findTask(asked.model, asked.taskType, at);
  const named = {
    models: [{ name: asked.model, id: model?.id }],
    modelIds: [model?.id ?? asked.model],
    anyModel: model === undefined,
  };
  const price = model?.price?.version.task;
  if (model === undefined || price === undefined)
    return { request, at, model, ...named, hold: null, bounded: false, quantity: null };
  const { quantity, most } = quantityOf(request, model.quantity);
  const bound = most ?? quantity;
  const amounts = bound === null ? null : taskAmounts({ consumption: null, unitsPerUsd: null, quantity: bound }, price);
  return { request, at, model, ...named, hold: amounts?.charged ?? null, bounded: amounts !== null, quantity };
}

/** Returns the more expensive quote. A quote without a price or a bound counts as the most expensive. */
function moreExpensive(one: TaskQuote, other: TaskQuote): TaskQuote {
  if (one.hold === null || other.hold === null) return one.hold === null ? one : other;
  return other.hold > one.hold ? other : one;
}

interface AskedQuantity {
  /** Quantity that a creation asks for; null if it is not known. */
  readonly quantity: string | null;
  /** Largest possible quantity if `quantity` is not known; null if it is known or if nothing bounds it. */
  readonly most: string | null;
}

/** Returns the largest quantity that an element of the input asks for. */
function quantityOf(request: TaskRequest, task: TaskQuantity): AskedQuantity {
  const elements = task.field === null ? (["absent"] as const) : request.stated(task.field);
  return elements.map((stated) => askedBy(stated, task)).reduce(larger);
}

/**
 * Returns the stated or default quantity, up to the gateway's maximum. If the statement is unclear, the quantity is
 * unknown and the maximum is its bound.
 */
function askedBy(stated: StatedQuantity, { otherwise, most }: TaskQuantity): AskedQuantity {
  const quantity = stated === "absent" ? otherwise : stated === "unclear" ? null : stated;
  if (quantity === null) return { quantity, most };
  const isBeyond = most !== null && compareDecimals(quantity, most) > 0;
  return { quantity: isBeyond ? most : quantity, most: null };
}

/**
 * Returns the larger of two quantities. If either is unknown, the result is unknown. Its bound is the larger of the two
 * bounds; null if either has none. A known quantity is its own bound.
 */
function larger(one: AskedQuantity, other: AskedQuantity): AskedQuantity {
  if (one.quantity !== null && other.quantity !== null)
    return compareDecimals(one.quantity, other.quantity) < 0 ? other : one;
  const [a, b] = [one.most ?? one.quantity, other.most ?? other.quantity];
  return { quantity: null, most: a === null || b === null ? null : compareDecimals(a, b) < 0 ? b : a };
}
