import type { Source } from "../core/charge.ts";
import { formatUsd, type PicoUsd } from "../core/money.ts";
import type { Cell } from "./csv.ts";
import { costAt, type FocusLine, type Meter } from "./focus-lines.ts";
import type { NameOf } from "./names.ts";

export const focusVersions = ["1.2", "1.3"] as const;
export type FocusVersion = (typeof focusVersions)[number];

/** Values for the export that the ledger does not contain. */
export interface FocusOptions {
  readonly version: FocusVersion;
  /** Name of the gateway, which issues the invoice. */
  readonly provider: string;
  readonly billingAccount: string;
  /** Returns the maker of a model, by the model id in its price; undefined if the maker is unknown. */
  readonly publisherOf: (model: string) => string | undefined;
}

/**
 * Sum of the lines of several charges. The lines have the same meter and prices, and the charges agree in all other columns.
 * Times are in milliseconds.
 */
export interface FocusRow extends Omit<FocusLine, "quantity" | "consumed"> {
  quantity: bigint;
  consumed: bigint | null;
  /** Charge period: the part of a day in the time zone that the export covers. */
  readonly periodStart: number;
  readonly periodEnd: number;
  /** Billing period. */
  readonly monthStart: number;
  readonly monthEnd: number;
  /** Id of the key; "" if there is none. */
  readonly key: string;
  readonly team: string | null;
  /** Model as the request named it; `pricedModel` is the model id in its price. */
  readonly model: string;
  readonly pricedModel: string;
  readonly group: string | null;
  readonly priceId: string | null;
  /** Service tier; null for the standard tier. */
  readonly serviceTier: string | null;
  readonly source: Source | null;
  /** Names of doubts, separated by spaces; null if there are none. */
  readonly doubts: string | null;
  /** True for a correction that was made in a later month than the corrected charge. */
  readonly isLate: boolean;
  /** Tags as a JSON object; null if there are none. */
  readonly tags: string | null;
  readonly isToken: boolean;
}

interface Surroundings {
  readonly options: FocusOptions;
  readonly nameOf: NameOf;
}

type Column = (row: FocusRow, around: Surroundings) => Cell;

const meterNames: Readonly<Record<Meter, string>> = {
  input: "Input Tokens",
  cached_input: "Cached Input Tokens",
  cache_write: "Cache Write Tokens",
  cache_write_1h: "One-Hour Cache Write Tokens",
  audio_input: "Audio Input Tokens",
  image_input: "Image Input Tokens",
  output: "Output Tokens",
  reasoning: "Reasoning Tokens",
  audio_output: "Audio Output Tokens",
  image_output: "Image Output Tokens",
  request: "Requests",
  minimum: "Minimum Charge",
  fee: "Hosted Tool Calls",
  assumed: "Assumed Cost",
  stated: "Stated Cost",
  adjustment: "Correction",
  carried: "Pruned Usage",
};

const isUsage = (row: FocusRow) => row.meter !== "adjustment";
const skuId = (row: FocusRow) => `${row.pricedModel}/${row.tool ?? row.meter}`;
const consumedUnit = (row: FocusRow) => (row.unit === "Requests" ? "Requests" : "Tokens");
const billed: Column = (row) => formatUsd(costAt(row.unit, row.quantity, row.contracted));
const provider: Column = (_, { options }) => options.provider;

/** Columns of the specification, in its alphabetical order. */
const standard = {
  BilledCost: billed,
  BillingAccountId: (_, { options }) => options.billingAccount,
  BillingAccountName: (_, { options }) => options.billingAccount,
  BillingCurrency: () => "USD",
  BillingPeriodEnd: (row) => focusTime(row.monthEnd, "end"),
  BillingPeriodStart: (row) => focusTime(row.monthStart, "start"),
  ChargeCategory: (row) => (isUsage(row) ? "Usage" : "Adjustment"),
  ChargeClass: (row) => (row.isLate ? "Correction" : null),
  ChargeDescription: (row) => describe(row),
  ChargeFrequency: (row) => (isUsage(row) ? "Usage-Based" : "One-Time"),
  ChargePeriodEnd: (row) => focusTime(row.periodEnd, "end"),
  ChargePeriodStart: (row) => focusTime(row.periodStart, "start"),
  ConsumedQuantity: (row) => (row.consumed === null ? null : String(row.consumed)),
  ConsumedUnit: (row) => (row.consumed === null ? null : consumedUnit(row)),
  ContractedCost: billed,
  ContractedUnitPrice: (row) => formatUsd(row.contracted),
  EffectiveCost: billed,
  HostProviderName: provider,
  InvoiceId: () => null,
  InvoiceIssuerName: provider,
  ListCost: (row) => formatUsd(costAt(row.unit, row.quantity, row.list)),
  ListUnitPrice: (row) => formatUsd(row.list),
  PricingCategory: (row) => (isUsage(row) ? "Standard" : null),
  PricingQuantity: (row) => (row.unit === "USD" ? formatUsd(row.quantity as PicoUsd) : String(row.quantity)),
  PricingUnit: (row) => row.unit,
  ProviderName: provider,
  PublisherName: (row, { options }) => options.publisherOf(row.pricedModel) ?? options.provider,
  ServiceCategory: () => "AI and Machine Learning",
  ServiceName: () => "Model API",
  ServiceProviderName: provider,
  ServiceSubcategory: () => "Generative AI",
  SkuId: skuId,
  SkuMeter: (row) => meterNames[row.meter],
  SkuPriceDetails: (row) =>
    JSON.stringify({
      x_Model: row.pricedModel,
      x_TierFromPromptTokens: row.tierFrom ?? undefined,
      x_ServiceTier: row.serviceTier ?? undefined,
    }),
  SkuPriceId: (row) =>
    [
      row.priceId ?? "stated",
      ...(row.serviceTier === null ? [] : [row.serviceTier]),
      row.tierFrom ?? 0,
      skuId(row),
      row.unit,
    ].join("/"),
  SubAccountId: (row) => (row.key === "" ? null : row.key),
  SubAccountName: (row, { nameOf }) => nameOf(row.key),
  Tags: (row) => row.tags,
} satisfies Record<string, Column>;

/** Custom columns, for values that have no column in FOCUS. */
const custom = {
  x_Doubts: (row) => row.doubts,
  x_Group: (row) => row.group,
  x_Model: (row) => row.model,
  x_PriceVersion: (row) => row.priceId,
  x_Source: (row) => row.source,
  x_Team: (row) => row.team,
  x_TierFromPromptTokens: (row) => row.tierFrom,
  x_TokenClass: (row) => (row.isToken ? row.meter : null),
} satisfies Record<string, Column>;

const columns: Readonly<Record<string, Column>> = { ...standard, ...custom };

/** Columns that version 1.3 adds to replace ProviderName and PublisherName. It still has the old columns too. */
const since13 = new Set(["HostProviderName", "ServiceProviderName"]);

export function focusColumns(version: FocusVersion): string[] {
  return Object.keys(columns).filter((name) => version === "1.3" || !since13.has(name));
}

export function cellsOf(row: FocusRow, around: Surroundings & { readonly columns: readonly string[] }): Cell[] {
  return around.columns.map((name) => columns[name]?.(row, around) ?? null);
}

function describe(row: FocusRow): string {
  const tier = row.tierFrom === null || row.tierFrom === 0 ? "" : `, prompts from ${row.tierFrom} tokens on`;
  return `${row.model}: ${meterNames[row.meter]}${tier}`;
}

/**
 * Formats an instant in whole seconds, as FOCUS requires. Rounds a start down and an end up, so that the period covers all
 * of the export.
 */
function focusTime(at: number, edge: "start" | "end"): string {
  const seconds = edge === "start" ? Math.floor(at / 1000) : Math.ceil(at / 1000);
  return new Date(seconds * 1000).toISOString().replace(".000Z", "Z");
}
