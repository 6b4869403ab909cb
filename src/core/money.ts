/** Amount as an integer in units of 1e-12 USD. USD 0.15 per 1M tokens is exactly 150_000n for each token. */
export type PicoUsd = bigint & { readonly unit: "picoUSD" };

/** Rate in pico-USD for each token. Exact for USD per 1M tokens with up to six decimals. */
export type PicoUsdPerToken = bigint & { readonly unit: "picoUSD/token" };

export const noMoney = 0n as PicoUsd;

/** Largest amount that a 64-bit column holds, about USD 9.2 million. */
export const picoUsdMax = (2n ** 63n - 1n) as PicoUsd;

const usdDecimals = 12;
const rateDecimals = 6;
const amountText = /^(\d{1,12})(?:\.(\d{1,12}))?$/;

/** Returns a plain decimal times 10^decimals; undefined if it is malformed or has more decimals. */
function scaled(text: string, decimals: number): bigint | undefined {
  const match = amountText.exec(text);
  if (match === null) return undefined;
  const fraction = (match[2] ?? "").replace(/0+$/, "");
  if (fraction.length > decimals) return undefined;
  return BigInt((match[1] ?? "0") + fraction.padEnd(decimals, "0"));
}

/**
 * Parses an amount in USD such as "5" or "0.00125". Returns undefined if the text is malformed or the amount cannot
 * be represented exactly.
 */
export function parseUsd(text: string): PicoUsd | undefined {
  const value = scaled(text, usdDecimals);
  return value === undefined || value > picoUsdMax ? undefined : (value as PicoUsd);
}

/** Parses the same amounts as `parseUsd`, with an optional sign before the digits: "-0.05", "+2". */
export function parseSignedUsd(text: string): PicoUsd | undefined {
  const amount = parseUsd(text.replace(/^[+-]/, ""));
  return amount !== undefined && text.startsWith("-") ? (-amount as PicoUsd) : amount;
}

/** Parses an amount that is written in code. Throws a RangeError if it is malformed. */
export function usd(text: string): PicoUsd {
  const value = parseUsd(text);
  if (value === undefined) throw new RangeError(`not an amount of USD: ${text}`);
  return value;
}

/**
 * Parses a rate in USD per 1M tokens such as "0.075". Returns undefined if it is malformed or has more than six
 * decimals.
 */
export function parseRate(text: string): PicoUsdPerToken | undefined {
  return scaled(text, rateDecimals) as PicoUsdPerToken | undefined;
}

/**
 * Formats an amount in USD exactly, with at least two decimals and no unnecessary zeros: "22.50", "0.00125", "-1.00".
 */
export function formatUsd(amount: PicoUsd): string {
  return formatScaled(amount, usdDecimals);
}

export function formatUsdOrNull(amount: PicoUsd | null): string | null {
  return amount === null ? null : formatUsd(amount);
}

/** Formats a rate in USD per 1M tokens: "2.50". */
export function formatRate(rate: PicoUsdPerToken): string {
  return formatScaled(rate, rateDecimals);
}

function formatScaled(value: bigint, decimals: number): string {
  const digits = (value < 0n ? -value : value).toString().padStart(decimals + 1, "0");
  const point = digits.length - decimals;
  let end = digits.length;
  while (end > point + 2 && digits[end - 1] === "0") end--;
  return `${value < 0n ? "-" : ""}${digits.slice(0, point)}.${digits.slice(point, end)}`;
}

/** Returns USD as a floating-point number. Only for Prometheus and charts, never for arithmetic. */
export function usdNumber(amount: PicoUsd): number {
  return Number(formatUsd(amount));
}

export function add(a: PicoUsd, b: PicoUsd): PicoUsd {
  return (a + b) as PicoUsd;
}

export function subtract(a: PicoUsd, b: PicoUsd): PicoUsd {
  return (a - b) as PicoUsd;
}

export function sum(amounts: Iterable<PicoUsd>): PicoUsd {
  let total = 0n;
  for (const amount of amounts) total += amount;
  return total as PicoUsd;
}

export function larger(a: PicoUsd, b: PicoUsd): PicoUsd {
  return a > b ? a : b;
}

export function smaller(a: PicoUsd, b: PicoUsd): PicoUsd {
  return a < b ? a : b;
}

/** Returns the number of a bar's `steps` that `part` fills, rounded down. `whole` fills all of them. */
export function stepsOf(part: PicoUsd, whole: PicoUsd, steps: number): number {
  if (part <= 0n || whole <= 0n) return 0;
  return Math.min(steps, Number((part * BigInt(steps)) / whole));
}

/** Returns the exact price of a number of tokens. Throws a RangeError if the price exceeds 64 bits. */
export function priceOf(tokens: number, rate: PicoUsdPerToken): PicoUsd {
  const amount = BigInt(tokens) * rate;
  if (amount > picoUsdMax) throw new RangeError("amount beyond 64 bits");
  return amount as PicoUsd;
}

/** An exact number of at least 0: `digits` divided by `scale`. */
interface Scaled {
  readonly digits: bigint;
  /** Ten to the power of the number of decimals. */
  readonly scale: bigint;
}

const numberText = /^(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?$/;
/** Largest number of digits in a number that the gateway states. No plausible consumption has more. */
const digitsMax = 40;

/**
 * Returns a number of at least 0 in plain digits without unnecessary zeros: "1.50e2" becomes "150". Never uses a
 * floating-point number. Returns undefined for other text and for numbers with too many digits.
 */
export function plainDecimal(text: string): string | undefined {
  const match = numberText.exec(text.trim());
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

/** Parses a plain decimal for exact arithmetic. Throws a RangeError for other text: callers have checked the text. */
export function scaledDecimal(text: string): Scaled {
  const plain = plainDecimal(text);
  if (plain === undefined) throw new RangeError(`not a plain decimal: ${text}`);
  const [whole = "", fraction = ""] = plain.split(".");
  return { digits: BigInt(whole + fraction), scale: 10n ** BigInt(fraction.length) };
}

/** Compares two plain decimals exactly. Returns a number below, equal to or above 0. */
export function compareDecimals(one: string, other: string): number {
  const [a, b] = [scaledDecimal(one), scaledDecimal(other)];
  const difference = a.digits * b.scale - b.digits * a.scale;
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

/** Returns the quotient of two numbers of at least 0, rounded up. */
export function divideUp(dividend: bigint, divisor: bigint): bigint {
  return (dividend + divisor - 1n) / divisor;
}
