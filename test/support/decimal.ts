/** An exact decimal for checking written numbers: a whole number and the number of its digits after the point. */
export interface Decimal {
  readonly digits: bigint;
  readonly scale: number;
}

/** Returns undefined for a text that is not a plain decimal. */
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
