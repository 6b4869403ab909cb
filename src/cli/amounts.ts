import { formatUsd, parseSignedUsd, type PicoUsd } from "../core/money.ts";

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

/** Returns a count with its noun: "1 charge", "2 charges". */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
