import { divideUp, scaledDecimal } from "./decimal.ts";
import { picoUsdMax, usd, type PicoUsd } from "./money.ts";
import type { TaskPrice } from "./price.ts";
import type { Consumption } from "./tasks.ts";

/** What the amounts of a task follow from: with these they can be computed again. */
export interface TaskInputs {
  readonly consumption: Consumption | null;
  /** Units of that consumption for one USD; null where its units stay raw. */
  readonly unitsPerUsd: string | null;
  /** How many of what the price is for; null where the price does not count. */
  readonly quantity: string | null;
}

export interface TaskAmounts {
  readonly charged: PicoUsd;
  readonly list: PicoUsd;
}

/**
 * What a task costs: by its consumption where its unit is known, else by its price. The list cost is the official price,
 * else the same as the cost, so that no saving is claimed that cannot be shown. Null where neither says it, or it is more
 * than 64 bits of pico-USD hold. A part of a pico-USD counts as a whole one.
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
