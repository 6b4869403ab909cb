import { formatUsd, parseSignedUsd, type PicoUsd } from "../core/money.ts";

const cent = 10n ** 10n;
const dime = 10n * cent;

/** An amount to read at a glance: whole cents from a dime on, three digits below. The exact one is in JSON and CSV. */
export function rounded(usd: string): string {
  const amount = parseSignedUsd(usd);
  if (amount === undefined) throw new RangeError(`not an amount of USD: ${usd}`);
  const size = amount < 0n ? -amount : amount;
  const step = size >= dime ? cent : 10n ** BigInt(Math.max(0, size.toString().length - 3));
  const nearest = ((size + step / 2n) / step) * step;
  return formatUsd((amount < 0n ? -nearest : nearest) as PicoUsd);
}
