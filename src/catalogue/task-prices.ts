import { compareDecimals, noMoney } from "../core/money.ts";
import type { PriceVersion } from "../core/price.ts";
import type { TaskHistory, TaskQuantity, TaskSpan } from "../ports/catalogue.ts";
import type { Block } from "./read.ts";
import { decideTask } from "./levels.ts";
import { chargedUsd, freeTiers, usdOf } from "./rates.ts";
import { pin, pricesInForce, type LevelsInTime, type ModelStatement, type PriceInForce } from "./resolve.ts";
import type { StatedTaskPrice } from "./schema.ts";

/** Returns the price history of each task type of a model. If the function reports faults, the result is incomplete. */
export function resolveTasks(statement: ModelStatement, levels: LevelsInTime): readonly TaskHistory[] {
  return Object.entries(statement.model.tasks ?? {}).map(([taskType, prices]) => {
    const spans: TaskSpan[] = [];
    for (const inForce of pricesInForce(prices, statement.block.at("tasks", taskType), levels)) {
      const version = versionOf(statement.id, taskType, inForce);
      if (version === undefined) continue;
      const quantity = quantityOf(inForce.price, inForce.block);
      spans.push({ start: inForce.validity.start, price: pin(version), quantity });
      if (inForce.endsAt !== null) spans.push({ start: inForce.endsAt, price: null, quantity });
    }
    return { taskType, spans };
  });
}

function versionOf(
  model: string,
  taskType: string,
  { price, validity, levels, block }: PriceInForce<StatedTaskPrice>,
): PriceVersion | undefined {
  if (!block.isReliable("official") || !block.isReliable("gateway")) return undefined;
  const stated = price.gateway === undefined ? undefined : { value: price.gateway, block: block.at("gateway") };
  const { fraction, gateway, source } = decideTask(model, { gateway: stated, source: price.source }, levels);
  const official = { value: price.official, block: block.at("official") };
  const charged = chargedUsd({ official, gateway }, { model, fraction, assigned: levels.assigned });
  if (charged === undefined) return undefined;
  return {
    model,
    group: levels.group,
    fraction: gateway === undefined ? (fraction?.value ?? null) : null,
    from: validity.from,
    until: validity.until,
    source,
    tierMode: "whole_request",
    tiers: freeTiers,
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
