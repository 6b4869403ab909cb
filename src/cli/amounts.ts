import { formatUsd, parseSignedUsd, type PicoUsd } from "../core/money.ts";
import type { FiguresJson } from "../reporting/shapes/figures.ts";

const cent = 10n ** 10n;
const dime = 10n * cent;

/**
 * Rounds an amount for display: to cents if it is at least USD 0.10, otherwise to three significant digits. JSON and CSV keep
 * the exact amount.
 */
export function roundedUsd(usd: string): string {
  const amount = parseSignedUsd(usd);
  if (amount === undefined) throw new RangeError(`"${usd}" is not an amount in USD`);
  const size = amount < 0n ? -amount : amount;
  const step = size >= dime ? cent : 10n ** BigInt(Math.max(0, size.toString().length - 3));
  const nearest = ((size + step / 2n) / step) * step;
  return formatUsd((amount < 0n ? -nearest : nearest) as PicoUsd);
}

/**
 * Returns true if none of a row's requests has a price. Its cost is then unknown, so tables show `-` instead of an
 * amount.
 */
export function hasNoPrice({
  requests,
  unpriced_requests: unpriced,
  cost_usd: cost,
}: Pick<FiguresJson, "requests" | "unpriced_requests" | "cost_usd">): boolean {
  return unpriced > 0 && unpriced === requests && parseSignedUsd(cost) === 0n;
}

/** Returns a count with its noun: "1 charge", "2 charges". */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
