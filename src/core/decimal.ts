/** An exact number of at least 0, with a fraction. */
interface Scaled {
  readonly digits: bigint;
  /** Ten to the power of the number of digits after the point. */
  readonly scale: bigint;
}

const number = /^(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?$/;
/** Longer numbers are no real consumption. */
const digitsMax = 40;

/**
 * Returns a number of at least 0 in plain digits without needless zeros: "1.50e2" is "150". Never uses a floating-point
 * number. Undefined for anything else, and for too many digits.
 */
export function plainDecimal(text: string): string | undefined {
  const match = number.exec(text.trim());
  if (match === null || text.length > 2 * digitsMax) return undefined;
  const [, whole = "", fraction = "", exponent = "0"] = match;
  const point = whole.length + Number(exponent);
  if (Math.abs(point) > digitsMax) return undefined;
  const digits = (whole + fraction)
    .padStart(whole.length + fraction.length + Math.max(0, -point), "0")
    .padEnd(point, "0");
  const cut = Math.max(point, 0);
  const before = digits.slice(0, cut).replace(/^0+(?=\d)/, "") || "0";
  const after = digits.slice(cut).replace(/0+$/, "");
  const plain = after === "" ? before : `${before}.${after}`;
  return plain.length > digitsMax ? undefined : plain;
}

/**
 * Returns a plain decimal for computation. Throws RangeError on anything else, because it was checked when it was read.
 */
export function scaledDecimal(text: string): Scaled {
  const plain = plainDecimal(text);
  if (plain === undefined) throw new RangeError(`not a plain decimal: ${text}`);
  const [whole = "", fraction = ""] = plain.split(".");
  return { digits: BigInt(whole + fraction), scale: 10n ** BigInt(fraction.length) };
}

/** Returns the quotient of two numbers of at least 0, rounded up. */
export function divideUp(dividend: bigint, divisor: bigint): bigint {
  return (dividend + divisor - 1n) / divisor;
}
