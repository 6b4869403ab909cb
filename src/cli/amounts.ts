import { formatUsd, parseSignedUsd, type PicoUsd } from "../core/money.ts";

const cent = 10n ** 10n;
const dime = 10n * cent;

/**
 * Rounds an amount for display: to cents from USD 0.10, to three significant digits below. JSON and CSV keep the exact amount.
 */
export function rounded(usd: string): string {
  const amount = parseSignedUsd(usd);
  if (amount === undefined) throw new RangeError(`not an amount of USD: ${usd}`);
  const size = amount < 0n ? -amount : amount;
  const step = size >= dime ? cent : 10n ** BigInt(Math.max(0, size.toString().length - 3));
  const nearest = ((size + step / 2n) / step) * step;
  return formatUsd((amount < 0n ? -nearest : nearest) as PicoUsd);
}
