/** Exact decimals, for checking what was written: a whole number and how many of its digits stand behind the point. */
export interface Decimal {
  readonly digits: bigint;
  readonly scale: number;
}

/** Undefined for what is no plain decimal. */
export function decimal(text: string): Decimal | undefined {
  const match = /^(-?\d+)(?:\.(\d+))?$/.exec(text);
  return match === null
    ? undefined
    : { digits: BigInt((match[1] ?? "") + (match[2] ?? "")), scale: match[2]?.length ?? 0 };
}

export function compare(a: Decimal, b: Decimal): bigint {
  return a.digits * 10n ** BigInt(b.scale) - b.digits * 10n ** BigInt(a.scale);
}

export function times(a: Decimal, b: Decimal): Decimal {
  return { digits: a.digits * b.digits, scale: a.scale + b.scale };
}
