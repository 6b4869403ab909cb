import type { PicoUsd } from "./money.ts";
import { inServiceTier, type PriceVersion } from "./price.ts";

/** Terms of a request that decide its price, in addition to its size. */
export interface RequestTerms {
  /** Requested service tier; null for none and for the standard one. */
  readonly serviceTier: string | null;
  /** Requested hosted tools; null for none. */
  readonly hostedTools: HostedTools | null;
}

export interface HostedTools {
  /** Types of their calls as items of an answer. */
  readonly calls: readonly string[];
  /** Fields that request them. */
  readonly fields: readonly string[];
  /** True if an answer shows each call. */
  readonly areShown: boolean;
  /** Most calls of all tools, as the request states it; null for none. Undefined where nothing could bound them. */
  readonly callsMax: number | "malformed" | null | undefined;
}

export const plainTerms: RequestTerms = { serviceTier: null, hostedTools: null };

/** The request leaves the tier to the gateway. */
export const anyServiceTier = "auto";

const standardTiers: ReadonlySet<string> = new Set(["", "default", "standard", "on_demand"]);
/** OpenAI has called its priority tier `fast` since October 2026, and takes both names. */
const otherNames: ReadonlyMap<string, string> = new Map([["fast", "priority"]]);

/** Returns a stated service tier under one name; null for the standard one. */
export function serviceTierOf(stated: unknown): string | null {
  if (stated === undefined || stated === null) return null;
  const name = typeof stated === "string" ? stated.toLowerCase() : "";
  if (typeof stated === "string" && standardTiers.has(name)) return null;
  return /^[a-z][a-z0-9_.-]{0,63}$/.test(name) ? (otherNames.get(name) ?? name) : "unknown";
}

/** Reports that a price has rates for a service tier; it always has standard rates. */
export function hasServiceTier({ serviceTiers }: PriceVersion, tier: string | null): boolean {
  return tier === null || (serviceTiers !== undefined && Object.hasOwn(serviceTiers, tier));
}

/** Returns the price in every service tier that the gateway may use for the request, the standard one included. */
export function tiersToHold(price: PriceVersion, stated: string | null): readonly PriceVersion[] {
  if (stated === null) return [price];
  const names = Object.keys(price.serviceTiers ?? {}).filter((name) => name === stated || stated === anyServiceTier);
  return [price, ...names.map((name) => inServiceTier(price, name))];
}

/** Reports that a tier could cost more than the known rates. Flex never costs more than the standard tier. */
export function isTierUnbounded(price: PriceVersion, stated: string | null): boolean {
  return stated !== anyServiceTier && stated !== "flex" && !hasServiceTier(price, stated);
}

/** Cost that calls of hosted tools can add to a request. */
export interface ToolBound {
  readonly calls: number;
  /** True if the request itself states the number of calls. */
  readonly isStated: boolean;
  /** Of the most expensive tool. */
  readonly feePerCall: PicoUsd;
  readonly inputTokensPerCall: number;
}

/** More calls than any request makes. */
const callsLimit = 1000;

/**
 * Returns the bound, or the fields that prevent one. `callsUnstated`: calls of a request that states none; 0 for no
 * bound.
 */
export function toolBoundOf(
  { calls, fields, callsMax }: HostedTools,
  { price, obeysMaxToolCalls }: { readonly price: PriceVersion; readonly obeysMaxToolCalls: boolean },
  callsUnstated: number,
): ToolBound | readonly string[] {
  const { fees = {} } = price;
  const own = calls
    .map((kind) => (Object.hasOwn(fees, kind) ? fees[kind] : undefined))
    .filter((fee) => fee !== undefined);
  const isKnown = obeysMaxToolCalls && own.length === calls.length && callsMax !== undefined;
  if (!isKnown || (callsMax === null && callsUnstated === 0)) return fields;
  if (callsMax === "malformed" || (callsMax ?? 0) > callsLimit) return ["max_tool_calls"];
  return {
    calls: callsMax ?? callsUnstated,
    isStated: callsMax !== null,
    feePerCall: own.reduce((most, { charged }) => (charged > most ? charged : most), 0n as PicoUsd),
    inputTokensPerCall: Math.max(0, ...own.map(({ inputTokens }) => inputTokens)),
  };
}

/** Returns the prompt tokens of all rounds: each call reads the prompt again, with the results of the calls before. */
export function promptWithCalls(promptTokens: number, { calls, inputTokensPerCall }: ToolBound): number {
  return promptTokens * (calls + 1) + ((calls * (calls + 1)) / 2) * inputTokensPerCall;
}
