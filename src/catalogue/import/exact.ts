import { parseDocument } from "yaml";
import { formatRate, formatUsd, type PicoUsd, type PicoUsdPerToken } from "../../core/money.ts";

export type TreeResult =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly problem: string };

/** Reads JSON or YAML with every number as the text that it is written in: as a float it would be another one. */
export function readTree(text: string): TreeResult {
  return /^\s*[[{]/.test(text) ? readJson(text) : readYaml(text);
}

function readJson(text: string): TreeResult {
  const asWritten = (_: string, value: unknown, context?: { readonly source?: string }) =>
    typeof value === "number" ? (context?.source ?? String(value)) : value;
  try {
    return { ok: true, value: JSON.parse(text, asWritten) };
  } catch (error) {
    return { ok: false, problem: error instanceof Error ? error.message : String(error) };
  }
}

function readYaml(text: string): TreeResult {
  const document = parseDocument(text, { schema: "failsafe", prettyErrors: false });
  const [error] = document.errors;
  return error === undefined ? { ok: true, value: document.toJS() } : { ok: false, problem: error.message };
}

/** USD per 1M tokens from a decimal, exponent allowed, that counts in USD per 10^unit tokens; undefined when not exact. */
export function rateOf(decimal: string, unit: 0 | 6): string | undefined {
  const value = scaled(decimal, 6 + (6 - unit));
  return value === undefined ? undefined : formatRate(value as PicoUsdPerToken);
}

/** USD for one request from USD for a thousand; undefined when not exact. */
export function usdOfThousand(decimal: string): string | undefined {
  const value = scaled(decimal, 12 - 3);
  return value === undefined ? undefined : formatUsd(value as PicoUsd);
}

/** The decimal times 10^places, where that is a whole number. */
function scaled(decimal: string, places: number): bigint | undefined {
  const match = /^(\d{1,40})(?:\.(\d{1,40}))?(?:[eE]([+-]?\d{1,2}))?$/.exec(decimal);
  if (match === null) return undefined;
  const [, whole = "", fraction = "", exponent = "0"] = match;
  const digits = BigInt(whole + fraction);
  const shift = places + Number(exponent) - fraction.length;
  if (shift >= 0) return digits * 10n ** BigInt(shift);
  const divisor = 10n ** BigInt(-shift);
  return digits % divisor === 0n ? digits / divisor : undefined;
}
