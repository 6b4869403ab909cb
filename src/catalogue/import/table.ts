import type { serviceTierNames } from "../../core/price.ts";
import type { StatedRates } from "../schema.ts";

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
  /** Of the price in force on an ISO day. */
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
