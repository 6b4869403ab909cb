import { compareDecimals, noMoney } from "../core/money.ts";
import type { PriceVersion } from "../core/price.ts";
import type { TaskHistory, TaskQuantity, TaskSpan } from "../ports/catalogue.ts";
import type { Block } from "./read.ts";
import { chargedUsd, freeRates, usdOf, type Fraction } from "./rates.ts";
import { pin, validities, type ModelStatement, type Validity } from "./resolve.ts";
import type { StatedTaskPrice } from "./schema.ts";

/** Returns the price history of each task type of a model. If the function reports faults, the result is incomplete. */
export function resolveTasks(statement: ModelStatement, fraction: Fraction | null): readonly TaskHistory[] {
  return Object.entries(statement.model.tasks ?? {}).map(([taskType, prices]) => {
    const block = statement.block.at("tasks", taskType);
    return { taskType, spans: spansOf(statement, taskType, { prices, fraction, block }) };
  });
}

interface Stated {
  /** Prices in ascending order; undefined for a price that was removed because of a fault. */
  readonly prices: readonly (StatedTaskPrice | undefined)[];
  readonly fraction: Fraction | null;
  readonly block: Block;
}

function spansOf(statement: ModelStatement, taskType: string, { prices, fraction, block }: Stated): TaskSpan[] {
  const times = validities(prices, block);
  return prices.flatMap((price, index): TaskSpan[] => {
    const validity = times[index];
    if (price === undefined || validity === undefined) return [];
    const version = versionOf(statement, taskType, { price, validity, fraction, block: block.at(index) });
    if (version === undefined) return [];
    const quantity = quantityOf(price, block.at(index));
    const ends =
      index === prices.length - 1 && validity.end !== null ? [{ start: validity.end, price: null, quantity }] : [];
    return [{ start: validity.start, price: pin(version), quantity }, ...ends];
  });
}

function versionOf(
  { id, model }: ModelStatement,
  taskType: string,
  {
    price,
    validity,
    fraction,
    block,
  }: { price: StatedTaskPrice; validity: Validity; fraction: Fraction | null; block: Block },
): PriceVersion | undefined {
  if (!block.isReliable("official") || !block.isReliable("gateway")) return undefined;
  const charged = chargedUsd(price, fraction, block.at("official"));
  if (charged === undefined) return undefined;
  return {
    model: id,
    group: model.group ?? null,
    fraction: price.gateway === undefined ? (fraction?.text ?? null) : null,
    from: price.from,
    until: validity.until,
    source: price.source,
    tierMode: "whole_request",
    tiers: [{ fromPromptTokens: 0, charged: freeRates, list: freeRates }],
    perRequest: null,
    minimum: { tokens: 0, usd: noMoney },
    task: { taskType, per: price.per ?? "task", charged, list: usdOf(price.official) },
  };
}

/**
 * Returns the rule for the number of priced units in a task. A price for the whole task has one unit. For other prices,
 * a field of the request states the number.
 */
function quantityOf(price: StatedTaskPrice, block: Block): TaskQuantity {
  if ((price.per ?? "task") === "task") {
    for (const field of ["field", "default", "max"] as const) {
      if (price[field] !== undefined)
        block
          .at(field)
          .report(
            `has no meaning for a price of the whole task; leave "${field}" out, or write per: second or per: piece`,
          );
    }
    return { field: null, otherwise: "1", most: "1" };
  }
  if (price.field === undefined && block.isReliable("field")) {
    block.report(
      `"field" is missing; write which field of the task's input states the ${price.per}s, such as duration`,
    );
  }
  const { default: otherwise, max } = price;
  if (otherwise !== undefined && max !== undefined && compareDecimals(otherwise, max) > 0)
    block.at("default").report(`is above max; write at most ${max}`);
  return { field: price.field ?? null, otherwise: otherwise ?? null, most: max ?? null };
}
