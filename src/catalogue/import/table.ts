import type { serviceTierNames } from "../../core/price.ts";
import type { StatedRates } from "../schema.ts";
import { parseDocument } from "yaml";
import { formatRate, formatUsd, type PicoUsd, type PicoUsdPerToken } from "../../core/money.ts";

/** A price as stated by an external table, converted to the fields of a price file. */
export interface TablePrice {
  /** ISO day; null if the table states none. */
  readonly from: string | null;
  /** Exactly one of `official` and `perRequest` is not null. */
  readonly official: StatedRates | null;
  readonly tiers: readonly { readonly from_prompt_tokens: number; readonly official: StatedRates }[];
  /** Price of one request, in USD. */
  readonly perRequest: string | null;
  /** Fee in USD for one hosted tool call, by the type of its item; absent if the table states none. */
  readonly fees?: Readonly<Record<string, string>>;
}

/** Rates of service tiers by name, if the table states them. */
export type TableServiceTiers = Readonly<
  Partial<Record<ServiceTierName, Pick<TablePrice, "tiers"> & { readonly official: StatedRates }>>
>;

export type ServiceTierName = (typeof serviceTierNames)[number];

export interface TableModel {
  readonly id: string;
  /** Name of the family in Farebox's price files. */
  readonly provider: string;
  /** Other exact names of the model. */
  readonly names: readonly string[];
  matches(name: string): boolean;
  readonly contextTokens: number | null;
  readonly maxOutputTokens: number | null;
  /** Prices in ascending order; only the first may have no day. */
  readonly prices: readonly TablePrice[];
  /** Returns the service tiers of the price in force on an ISO day. */
  serviceTiers(day: string): TableServiceTiers;
}

/** A model that is not proposed, and why. */
export interface LeftOut {
  readonly model: string;
  readonly why: string;
}

export interface ReadTable {
  readonly models: readonly TableModel[];
  readonly leftOut: readonly LeftOut[];
  /** All providers in the file, by the file's names. */
  readonly providers: readonly string[];
}

export type TableResult =
  | { readonly ok: true; readonly table: ReadTable }
  | { readonly ok: false; readonly problem: string };

/** Selects providers by their name in the file and by the family's name in Farebox. */
export type WantsProvider = (name: string, family: string) => boolean;

export type Fields = Readonly<Record<string, unknown>>;

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Parses a positive whole number that `readTree` left as text; null for any other value. */
export function countOf(value: unknown): number | null {
  return typeof value === "string" && /^\d{1,9}$/.test(value) && Number(value) > 0 ? Number(value) : null;
}

/** A price of the table, or a sentence that explains why it cannot be imported. */
export type PriceResult = TablePrice | string;

/** Families that have a different name in Farebox. */
const families: Readonly<Record<string, string>> = {
  gemini: "google",
  "x-ai": "xai",
  moonshotai: "moonshot",
  zai: "zhipu",
  dashscope: "qwen",
};

/** Returns the Farebox name of a provider's family. */
export function familyOf(provider: string): string {
  return families[provider] ?? provider;
}

/**
 * Removes rates of 0 if the prompt has a price, because they more likely mean "unknown". For example, no provider
 * offers cache writes for free. Keeps the output rate.
 */
export function withoutZeros(rates: StatedRates): StatedRates {
  if (rates.input === undefined || rates.input === "0.00") return rates;
  return Object.fromEntries(Object.entries(rates).filter(([name, rate]) => name === "output" || rate !== "0.00"));
}

/**
 * Returns why rates cannot be imported; undefined if they can. A chat model has both rates, and two rates of 0
 * probably mean that the price is unknown.
 */
export function faultOfRates({ input, output }: StatedRates): string | undefined {
  if (input === undefined || output === undefined)
    return `no price of ${input === undefined ? "input" : "output"} tokens: not a chat model`;
  return input === "0.00" && output === "0.00"
    ? "a price of 0 may be a missing one; state it yourself if it is free"
    : undefined;
}

type TreeResult = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly problem: string };

/** Parses JSON or YAML. Numbers stay text, because conversion to floating point could change them. */
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

/**
 * Converts a decimal, with an optional exponent, from USD per 10^unit tokens to USD per 1M tokens; undefined if the
 * result is not exact.
 */
export function rateOf(decimal: string, unit: 0 | 6): string | undefined {
  const value = scaled(decimal, 6 + (6 - unit));
  return value === undefined ? undefined : formatRate(value as PicoUsdPerToken);
}

/** Converts USD per thousand requests to USD per request; undefined if the result is not exact. */
export function usdOfThousand(decimal: string): string | undefined {
  const value = scaled(decimal, 12 - 3);
  return value === undefined ? undefined : formatUsd(value as PicoUsd);
}

/** Returns the decimal times 10^places; undefined if that is not a whole number. */
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
