import type { serviceTierNames } from "../../core/rate-variants.ts";
import type { StatedRates } from "../schema.ts";
import { parseDocument } from "yaml";
import { messageOf, type OrProblem } from "../../core/fault.ts";
import { formatRate, formatUsd, type PicoUsd, type PicoUsdPerToken } from "../../core/money.ts";

/** Rates of prompts with at least `from_prompt_tokens` tokens. */
interface TableTier {
  readonly from_prompt_tokens: number;
  readonly official: StatedRates;
}

/** Price from an external table, converted to the fields of a price file. */
export interface TablePrice {
  /** ISO day on which the price begins; null if the table states none. */
  readonly from: string | null;
  /** Exactly one of `official` and `perRequest` is not null. */
  readonly official: StatedRates | null;
  readonly tiers: readonly TableTier[];
  /** Price of one request, in USD. */
  readonly perRequest: string | null;
  /** Fee in USD for one hosted tool call, by the type of its item; absent if the table states none. */
  readonly fees?: Readonly<Record<string, string>>;
}

/** Rates of short prompts (`official`), and of longer prompts by their size (`tiers`). */
export interface TieredRates {
  readonly official: StatedRates;
  readonly tiers: readonly TableTier[];
}

/** Rates of the service tiers that the table states, by name. */
export type TableServiceTiers = Readonly<Partial<Record<ServiceTierName, TieredRates>>>;

export type ServiceTierName = (typeof serviceTierNames)[number];

export interface TableModel {
  readonly id: string;
  /** Name of the family in Farebox's price files. */
  readonly provider: string;
  /** Other exact names of the model. */
  readonly names: readonly string[];
  /** Returns true if the table's pattern for this model matches the name. */
  matches(name: string): boolean;
  /** Largest number of tokens of a prompt and its answer; null if the table states none. */
  readonly contextTokens: number | null;
  /** Largest number of output tokens of an answer; null if the table states none. */
  readonly maxOutputTokens: number | null;
  /** Prices in ascending order of their days; only the first price may have no day. */
  readonly prices: readonly TablePrice[];
  /** Returns the service tiers of the price in force on an ISO day. */
  serviceTiers(day: string): TableServiceTiers;
}

/** Model that is not proposed, with the reason. */
export interface LeftOutModel {
  readonly model: string;
  readonly why: string;
}

export interface ReadTable {
  readonly models: readonly TableModel[];
  readonly leftOut: readonly LeftOutModel[];
  /** Names of all providers in the file. */
  readonly providers: readonly string[];
}

export type TableResult = OrProblem<{ table: ReadTable }>;

/**
 * Returns true for a provider to import. `name`: its name in the table. `family`: the name of its family in Farebox.
 */
export type WantsProvider = (name: string, family: string) => boolean;

export type Fields = Readonly<Record<string, unknown>>;

/** Parses a positive whole number that `readTree` left as text. Returns null for any other value. */
export function countOf(value: unknown): number | null {
  return typeof value === "string" && /^\d{1,9}$/.test(value) && Number(value) > 0 ? Number(value) : null;
}

/** Price from a table, or the reason why the price cannot be imported. */
export type PriceResult = TablePrice | string;

/** Names of families in Farebox, by their names in the tables. Contains only names that differ. */
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
 * Removes rates of 0, except the output rate, if the input rate is above 0. A rate of 0 then probably means that the
 * rate is unknown: for example, no provider offers cache writes for free.
 */
function withoutZeros(rates: StatedRates): StatedRates {
  if (rates.input === undefined || rates.input === "0.00") return rates;
  return Object.fromEntries(Object.entries(rates).filter(([name, rate]) => name === "output" || rate !== "0.00"));
}

/**
 * Converts rates by prompt size to tiers. `bySize`: rates by the smallest prompt to which they apply, in tokens; 0 for
 * short prompts. A class that a tier does not state gets the rate of the tier below.
 */
export function inTiers(bySize: ReadonlyMap<number, StatedRates>): TieredRates {
  const official = withoutZeros(bySize.get(0) ?? {});
  const tiers: TableTier[] = [];
  for (const [from, changed] of [...bySize].filter(([size]) => size > 0).sort(([a], [b]) => a - b)) {
    const below = tiers.at(-1)?.official ?? official;
    tiers.push({ from_prompt_tokens: from, official: withoutZeros(Object.assign({}, below, changed)) });
  }
  return { official, tiers };
}

/**
 * Returns the reason why rates cannot be imported; undefined if they can. Input and output must have rates, as for
 * every chat model. If both rates are 0, the price is probably unknown.
 */
export function faultOfRates({ input, output }: StatedRates): string | undefined {
  if (input === undefined || output === undefined)
    return `no price of ${input === undefined ? "input" : "output"} tokens: not a chat model`;
  return input === "0.00" && output === "0.00"
    ? "a price of 0 may mean that the price is unknown; if the model is free, state its price yourself"
    : undefined;
}

type TreeResult = OrProblem<{ value: unknown }>;

/** Parses JSON or YAML. Keeps numbers as text, because conversion to floating point could change them. */
export function readTree(text: string): TreeResult {
  return /^\s*[[{]/.test(text) ? readJson(text) : readYaml(text);
}

function readJson(text: string): TreeResult {
  const asWritten = (_: string, value: unknown, context?: { readonly source?: string }) =>
    typeof value === "number" ? (context?.source ?? String(value)) : value;
  try {
    return { ok: true, value: JSON.parse(text, asWritten) };
  } catch (error) {
    return { ok: false, problem: messageOf(error) };
  }
}

function readYaml(text: string): TreeResult {
  const document = parseDocument(text, { schema: "failsafe", prettyErrors: false });
  const [error] = document.errors;
  return error === undefined ? { ok: true, value: document.toJS() } : { ok: false, problem: error.message };
}

/**
 * Converts USD per 10^unit tokens to USD per 1M tokens. Accepts a decimal with an optional exponent. Returns undefined
 * if the result is not exact.
 */
export function rateOf(decimal: string, unit: 0 | 6): string | undefined {
  const value = scaled(decimal, 6 + (6 - unit));
  return value === undefined ? undefined : formatRate(value as PicoUsdPerToken);
}

/** Converts USD per thousand requests to USD per request. Returns undefined if the result is not exact. */
export function usdOfThousand(decimal: string): string | undefined {
  const value = scaled(decimal, 12 - 3);
  return value === undefined ? undefined : formatUsd(value as PicoUsd);
}

/** Returns the decimal times 10^places; undefined if the product is not a whole number. */
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
