import { noMoney, scaledDecimal } from "../core/money.ts";
import type { PriceVersion } from "../core/price.ts";
import type { TaskHistory, TaskQuantity, TaskSpan } from "../ports/catalogue.ts";
import type { Block } from "./read.ts";
import { chargedUsd, freeRates, usdOf, type Fraction } from "./rates.ts";
import { pin, validities, type ModelStatement, type Validity } from "./resolve.ts";
import type { StatedTaskPrice } from "./schema.ts";

/** Returns the task prices of a model at all times. If it reports faults, the result is incomplete. */
export function resolveTasks(statement: ModelStatement, fraction: Fraction | null): readonly TaskHistory[] {
  return Object.entries(statement.model.tasks ?? {}).map(([taskType, prices]) => {
    const block = statement.block.at("tasks", taskType);
    return { taskType, spans: spansOf(statement, taskType, { prices, fraction, block }) };
  });
}

interface Stated {
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
  if (!block.reliable("official") || !block.reliable("gateway")) return undefined;
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

/** Returns how many units a task counts: one for a price of the whole task, otherwise the number in a request field. */
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
  if (price.field === undefined && block.reliable("field")) {
    block.report(
      `"field" is missing; write which field of the task's input states the ${price.per}s, such as duration`,
    );
  }
  const { default: otherwise, max } = price;
  if (otherwise !== undefined && max !== undefined && isMore(otherwise, max))
    block.at("default").report(`is above max, ${max}`);
  return { field: price.field ?? null, otherwise: otherwise ?? null, most: max ?? null };
}

function isMore(one: string, other: string): boolean {
  const [a, b] = [scaledDecimal(one), scaledDecimal(other)];
  return a.digits * b.scale > b.digits * a.scale;
}
