import type { serviceTierNames } from "../../core/price.ts";
import type { StatedRates } from "../schema.ts";
import { parseDocument } from "yaml";
import { formatRate, formatUsd, type PicoUsd, type PicoUsdPerToken } from "../../core/money.ts";

/** A price as another table states it, in the words of a price file. */
export interface TablePrice {
  /** ISO day; null where the table gives none. */
  readonly from: string | null;
  /** Exactly one of `official` and `perRequest` is there. */
  readonly official: StatedRates | null;
  readonly tiers: readonly { readonly from_prompt_tokens: number; readonly official: StatedRates }[];
  /** USD. */
  readonly perRequest: string | null;
  /** USD of one call of a hosted tool, by the type of its item; absent for none that the table states. */
  readonly fees?: Readonly<Record<string, string>>;
}

/** Rates of service tiers by their name, as far as the table states them. */
export type TableServiceTiers = Readonly<
  Partial<Record<ServiceTierName, Pick<TablePrice, "tiers"> & { readonly official: StatedRates }>>
>;

export type ServiceTierName = (typeof serviceTierNames)[number];

export interface TableModel {
  readonly id: string;
  /** The family, by the name that it has here. */
  readonly provider: string;
  /** Other exact names of it. */
  readonly names: readonly string[];
  matches(name: string): boolean;
  readonly contextTokens: number | null;
  readonly maxOutputTokens: number | null;
  /** Ascending; only the first may have no day. */
  readonly prices: readonly TablePrice[];
  /** Returns the service tiers of the price in force on an ISO day. */
  serviceTiers(day: string): TableServiceTiers;
}

/** A model that is not proposed, and the reason. */
export interface LeftOut {
  readonly model: string;
  readonly why: string;
}

export interface ReadTable {
  readonly models: readonly TableModel[];
  readonly leftOut: readonly LeftOut[];
  /** All providers of the file, as it names them. */
  readonly providers: readonly string[];
}

export type TableResult =
  | { readonly ok: true; readonly table: ReadTable }
  | { readonly ok: false; readonly problem: string };

/** Selects providers of a file, by the file's name and by the family's name here. */
export type WantsProvider = (name: string, family: string) => boolean;

export type Fields = Readonly<Record<string, unknown>>;

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A whole number that the reader left as text; null for anything else. */
export function countOf(value: unknown): number | null {
  return typeof value === "string" && /^\d{1,9}$/.test(value) && Number(value) > 0 ? Number(value) : null;
}

/** A table's price, or a sentence on why it cannot be taken over. */
export type PriceResult = TablePrice | string;

/** The families that have another name here. */
const families: Readonly<Record<string, string>> = {
  gemini: "google",
  "x-ai": "xai",
  moonshotai: "moonshot",
  zai: "zhipu",
  dashscope: "qwen",
};

/** A family by its name here. */
export function familyOf(provider: string): string {
  return families[provider] ?? provider;
}

/** A rate of 0 beside a priced prompt is more likely unknown: written cache tokens that no list gives away, for one. */
export function withoutZeros(rates: StatedRates): StatedRates {
  if (rates.input === undefined || rates.input === "0.00") return rates;
  return Object.fromEntries(Object.entries(rates).filter(([name, rate]) => name === "output" || rate !== "0.00"));
}

/** Checks shared by both tables: a chat model has both rates, and one that costs nothing is more likely unknown. */
export function faultOfRates({ input, output }: StatedRates): string | undefined {
  if (input === undefined || output === undefined)
    return `no price of ${input === undefined ? "input" : "output"} tokens: not a chat model`;
  return input === "0.00" && output === "0.00"
    ? "a price of 0 may be a missing one; state it yourself if it is free"
    : undefined;
}

type TreeResult = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly problem: string };

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
