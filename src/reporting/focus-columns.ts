import { formatUsd, type PicoUsd } from "../core/money.ts";
import type { Cell } from "./csv.ts";
import { costAt, type FocusRow, type Meter } from "./focus-lines.ts";
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

interface ColumnContext {
  readonly options: FocusOptions;
  readonly nameOf: NameOf;
}

type Column = (row: FocusRow, context: ColumnContext) => Cell;

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

/** Columns of the FOCUS specification, in its alphabetical order. */
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
  x_User: (row) => row.user,
} satisfies Record<string, Column>;

const columns: Readonly<Record<string, Column>> = { ...standard, ...custom };

/**
 * Columns that version 1.3 adds to replace ProviderName and PublisherName. Version 1.3 still contains the replaced
 * columns.
 */
const since13 = new Set(["HostProviderName", "ServiceProviderName"]);

export function focusColumns(version: FocusVersion): string[] {
  return Object.keys(columns).filter((name) => version === "1.3" || !since13.has(name));
}

export function cellsOf(row: FocusRow, context: ColumnContext & { readonly columns: readonly string[] }): Cell[] {
  return context.columns.map((name) => columns[name]?.(row, context) ?? null);
}

function describe(row: FocusRow): string {
  const tier = row.tierFrom === null || row.tierFrom === 0 ? "" : `, prompts of at least ${row.tierFrom} tokens`;
  return `${row.model}: ${meterNames[row.meter]}${tier}`;
}

/**
 * Formats an instant in whole seconds, as FOCUS requires. Rounds a start down and an end up, because the period must
 * cover the whole export.
 */
function focusTime(at: number, edge: "start" | "end"): string {
  const seconds = edge === "start" ? Math.floor(at / 1000) : Math.ceil(at / 1000);
  return new Date(seconds * 1000).toISOString().replace(".000Z", "Z");
}
