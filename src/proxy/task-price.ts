import type { PicoUsd } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import { scaledDecimal } from "../core/decimal.ts";
import { taskAmounts } from "../core/task-cost.ts";
import type { Catalogue, CatalogueTask, TaskQuantity } from "../ports/catalogue.ts";
import type { TaskRequest } from "../wire/task-request.ts";

/** What a task can cost at most, by the price in force when it was asked for. */
export interface TaskQuote {
  readonly request: TaskRequest;
  /** The admission's time, and so the charge's. Milliseconds since 1970 UTC. */
  readonly at: number;
  /** Undefined for a model that the catalogue does not know. */
  readonly model: CatalogueTask | undefined;
  /** All that it can cost by its price; null without one. */
  readonly hold: PicoUsd | null;
  /** False where it could cost more than `hold`. */
  readonly bounded: boolean;
  /** How many of what the price is for the request states; null where that is not known. */
  readonly quantity: string | null;
}

export type TaskPricing = { readonly ok: true; readonly quote: TaskQuote } | { readonly ok: false; readonly refusal: Refusal };

export type PriceTask = (request: TaskRequest, at: number) => TaskPricing;

/** The step that prices a task before it is made. */
export function createTaskPricer(parts: { readonly catalogue: () => Catalogue; readonly unpriced: "record" | "refuse" }): PriceTask {
  return (request, at) => {
    const model = parts.catalogue().findTask(request.model, request.taskType, at);
    const price = model?.price?.version.task;
    if (model === undefined || price === undefined) {
      if (parts.unpriced === "refuse") return { ok: false, refusal: { code: "model_not_priced", model: request.model, underBudget: false } };
      return { ok: true, quote: { request, at, model, hold: null, bounded: false, quantity: null } };
    }
    const { quantity, most } = quantityOf(request, model.quantity);
    const bound = most ?? quantity;
    const amounts = bound === null ? null : taskAmounts({ consumption: null, unitsPerUsd: null, quantity: bound }, price);
    return { ok: true, quote: { request, at, model, hold: amounts?.charged ?? null, bounded: amounts !== null, quantity } };
  };
}

/**
 * What is asked for, and what is held for it where that may be more: without a clear statement, and for one beyond what the
 * gateway makes, it is the most that it makes.
 */
function quantityOf(request: TaskRequest, { field, otherwise, most }: TaskQuantity): { readonly quantity: string | null; readonly most: string | null } {
  const stated = field === null ? "absent" : request.stated(field);
  const quantity = stated === "absent" ? otherwise : stated === "unclear" ? null : stated;
  if (quantity === null) return { quantity, most };
  const isBeyond = most !== null && compare(quantity, most) > 0;
  return { quantity: isBeyond ? most : quantity, most: null };
}

function compare(one: string, other: string): number {
  const [a, b] = [scaledDecimal(one), scaledDecimal(other)];
  const difference = a.digits * b.scale - b.digits * a.scale;
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}
