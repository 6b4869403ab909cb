import { scaledDecimal, type PicoUsd } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import { taskAmounts } from "../core/task-settlement.ts";
import type { Catalogue, CatalogueTask, TaskQuantity } from "../ports/catalogue.ts";
import type { Stated, TaskRequest } from "../wire/task-request.ts";

/** The most that a task can cost, by the price in force when it was asked for. */
export interface TaskQuote {
  readonly request: TaskRequest;
  /** The admission's time, and so the charge's. Milliseconds since 1970 UTC. */
  readonly at: number;
  /** Undefined for a model that the catalogue does not know. */
  readonly model: CatalogueTask | undefined;
  /** Every model that may make it, by its name in the request or its route, and by its id in the catalogue. */
  readonly models: readonly { readonly name: string; readonly id: string }[];
  /** All that it can cost by its price; null without one. */
  readonly hold: PicoUsd | null;
  /** False where it could cost more than `hold`. */
  readonly bounded: boolean;
  /** Number of priced units that the request states; null where that is not known. */
  readonly quantity: string | null;
}

export type TaskPricing =
  | { readonly ok: true; readonly quote: TaskQuote }
  | { readonly ok: false; readonly refusal: Refusal };

export interface TaskPriceDeps {
  readonly catalogue: () => Catalogue;
  readonly unpriced: "record" | "refuse";
}

/** Prices a task before it is made: by the most expensive of the models that may make it. */
export function priceTask({ catalogue, unpriced }: TaskPriceDeps, request: TaskRequest, at: number): TaskPricing {
  const inForce = catalogue();
  const quotes = [request, ...request.others].map((named) => quoteFor(inForce, request, named, at));
  const quote = { ...quotes.reduce(moreExpensive), models: quotes.flatMap(({ models }) => models) };
  const isPriced = quote.model?.price?.version.task !== undefined;
  if (!isPriced && unpriced === "refuse")
    return { ok: false, refusal: { code: "model_not_priced", model: request.model, underBudget: false } };
  return { ok: true, quote };
}

function quoteFor(
  catalogue: Catalogue,
  request: TaskRequest,
  named: Pick<TaskRequest, "model" | "taskType">,
  at: number,
): TaskQuote {
  const model = catalogue.findTask(named.model, named.taskType, at);
  const models = [{ name: named.model, id: model?.id ?? named.model }];
  const price = model?.price?.version.task;
  if (model === undefined || price === undefined)
    return { request, at, model, models, hold: null, bounded: false, quantity: null };
  const { quantity, most } = quantityOf(request, model.quantity);
  const bound = most ?? quantity;
  const amounts = bound === null ? null : taskAmounts({ consumption: null, unitsPerUsd: null, quantity: bound }, price);
  return { request, at, model, models, hold: amounts?.charged ?? null, bounded: amounts !== null, quantity };
}

/** Returns the more expensive quote. One without a price or a bound is more expensive than any other. */
function moreExpensive(one: TaskQuote, other: TaskQuote): TaskQuote {
  if (one.hold === null || other.hold === null) return one.hold === null ? one : other;
  return other.hold > one.hold ? other : one;
}

/** Quantity that a creation asks for, and the quantity to hold where that may be more; null where it is not known. */
interface Asked {
  readonly quantity: string | null;
  readonly most: string | null;
}

/** Returns what the most expensive element of the input asks for. */
function quantityOf(request: TaskRequest, task: TaskQuantity): Asked {
  const elements = task.field === null ? (["absent"] as const) : request.stated(task.field);
  return elements.map((stated) => askedBy(stated, task)).reduce(larger);
}

/** Without a clear statement, and for one beyond what the gateway makes, it is the most that it makes. */
function askedBy(stated: Stated, { otherwise, most }: TaskQuantity): Asked {
  const quantity = stated === "absent" ? otherwise : stated === "unclear" ? null : stated;
  if (quantity === null) return { quantity, most };
  const isBeyond = most !== null && compare(quantity, most) > 0;
  return { quantity: isBeyond ? most : quantity, most: null };
}

/** An element that is not clear leaves the whole unclear. */
function larger(one: Asked, other: Asked): Asked {
  if (one.quantity !== null && other.quantity !== null) return compare(one.quantity, other.quantity) < 0 ? other : one;
  const [a, b] = [one.most ?? one.quantity, other.most ?? other.quantity];
  return { quantity: null, most: a === null || b === null ? null : compare(a, b) < 0 ? b : a };
}

function compare(one: string, other: string): number {
  const [a, b] = [scaledDecimal(one), scaledDecimal(other)];
  const difference = a.digits * b.scale - b.digits * a.scale;
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}
