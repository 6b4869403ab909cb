import { divideUp, scaledDecimal } from "./decimal.ts";
import { picoUsdMax, usd, type PicoUsd } from "./money.ts";
import type { TaskPrice } from "./price.ts";
import type { Consumption } from "./tasks.ts";

/** Inputs of a task's amounts, to recompute them. */
export interface TaskInputs {
  readonly consumption: Consumption | null;
  /** Units of the consumption for one USD; null where units stay raw. */
  readonly unitsPerUsd: string | null;
  /** Count of the price's unit; null where the price does not count. */
  readonly quantity: string | null;
}

export interface TaskAmounts {
  readonly charged: PicoUsd;
  readonly list: PicoUsd;
}

/**
 * Returns the cost of a task: by its consumption if its unit is known, else by its price. The list cost is the official
 * price, else the cost itself, so that no unproven saving is shown. Null where neither is known, or beyond 64 bits.
 * Parts of a pico-USD are rounded up.
 */
export function taskAmounts(
  { consumption, unitsPerUsd, quantity }: TaskInputs,
  price: TaskPrice | null,
): TaskAmounts | null {
  const priced =
    price === null || quantity === null
      ? null
      : { charged: times(price.charged, quantity), list: times(price.list, quantity) };
  const reported = consumption === null || unitsPerUsd === null ? null : usdOfUnits(consumption.units, unitsPerUsd);
  const charged = reported ?? priced?.charged;
  if (charged === undefined) return null;
  const list = priced?.list ?? charged;
  return charged > picoUsdMax || list > picoUsdMax ? null : { charged: charged as PicoUsd, list: list as PicoUsd };
}

const oneUsd = usd("1");

function usdOfUnits(units: string, unitsPerUsd: string): bigint {
  const { digits, scale } = scaledDecimal(units);
  return divideUp(digits * oneUsd, scale * BigInt(unitsPerUsd));
}

function times(amount: PicoUsd, quantity: string): bigint {
  const { digits, scale } = scaledDecimal(quantity);
  return divideUp(amount * digits, scale);
}
