import { add, larger, noMoney, priceOf, type PicoUsd, type PicoUsdPerToken } from "./money.ts";
import { inServiceTier, type PriceTier, type PriceVersion, type Rates } from "./price.ts";
import { scaleTokens, type Permille, type TokenClass } from "./usage.ts";

/** Size of a request as the wire layer reads it. */
export interface RequestSize {
  /** UTF-8 bytes of the JSON text, without the payloads of parts that have bounds of their own. */
  readonly textBytes: number;
  readonly messages: number;
  readonly tools: number;
  readonly imageParts: number;
  readonly audioParts: number;
  readonly fileParts: number;
  /** Prompts in one request, each with its own context; 1 unless given. */
  readonly prompts?: number;
  /** Choices asked for (`n`), at least 1. */
  readonly choices: number;
  /**
   * Largest stated maximum. Null when absent, infinite (the model's maximum) when malformed or absurd, 0 where nothing
   * is generated.
   */
  readonly outputLimit: number | null;
  /** UTF-8 bytes of a predicted answer. Rejected prediction is billed as output of each choice. */
  readonly predictedBytes?: number;
  /** Fields that can cost money and have no bound in the catalogue. */
  readonly unboundedFields: readonly string[];
}

/** Model sizes that the catalogue states. */
export interface ModelLimits {
  readonly contextTokens: number;
  readonly outputTokensMax: number;
  /** Most tokens that one byte of text can become, in thousandths. */
  readonly tokensPerByte: Permille;
  /** Most tokens of one part; null where the catalogue states no bound. */
  readonly imagePartTokens: number | null;
  readonly audioPartTokens: number | null;
  readonly filePartTokens: number | null;
}

/** Template tokens that surround the text: the reply's primer, each message, each tool. Generous: a bound, not a count. */
const templateTokens = { reply: 3, message: 8, tool: 16 } as const;

/**
 * Returns the most prompt tokens this request can be charged for, without tokenizing it; at most the model's context.
 */
export function promptBound(size: RequestSize, model: ModelLimits): number {
  const most = model.contextTokens * (size.prompts ?? 1);
  if (size.unboundedFields.length > 0) return most;
  const parts = partTokens(size, model);
  if (parts === null) return most;
  const text = scaleTokens(size.textBytes, model.tokensPerByte);
  const template =
    templateTokens.reply * (size.prompts ?? 1) +
    templateTokens.message * size.messages +
    templateTokens.tool * size.tools;
  return Math.min(text + template + parts, most);
}

/** Returns the tokens of image, audio and file parts by the catalogue's bounds; null when one of them has no bound. */
export function partTokens(size: RequestSize, model: ModelLimits): number | null {
  if (size.imageParts + size.audioParts + size.fileParts === 0) return 0;
  const kinds: [number, number | null][] = [
    [size.imageParts, model.imagePartTokens],
    [size.audioParts, model.audioPartTokens],
    [size.fileParts, model.filePartTokens],
  ];
  let total = 0;
  for (const [count, bound] of kinds) {
    if (count === 0) continue;
    if (bound === null) return null;
    total += count * bound;
  }
  return total;
}

/**
 * Returns the most completion tokens of all choices together. A stated limit above the model's own counts as the
 * model's.
 */
export function outputBound(size: RequestSize, model: ModelLimits): number {
  return Math.min(size.outputLimit ?? model.outputTokensMax, model.outputTokensMax) * size.choices;
}

/** Returns the most completion tokens of a rejected prediction, for all choices together. */
export function predictedBound({ predictedBytes = 0, choices }: RequestSize, { tokensPerByte }: ModelLimits): number {
  return scaleTokens(predictedBytes, tokensPerByte) * choices;
}

/**
 * Returns the highest cost over all prompt sizes up to the bound, at least the minimum. Tries every reachable tier at
 * its top, with each token at the most expensive class it can have.
 */
export function worstCase(
  price: PriceVersion,
  bound: { readonly promptTokens: number; readonly outputTokens: number },
  classes: { readonly prompt: readonly TokenClass[]; readonly completion: readonly TokenClass[] },
): PicoUsd {
  if (price.perRequest !== null) return larger(price.perRequest.charged, price.minimum.usd);
  let worst = noMoney;
  price.tiers.forEach((tier, index) => {
    if (tier.fromPromptTokens > bound.promptTokens) return;
    const top = Math.min(bound.promptTokens, (price.tiers[index + 1]?.fromPromptTokens ?? Infinity) - 1);
    const prompt = promptWorst(price, tier, top, classes.prompt);
    const output = priceOf(bound.outputTokens, highestRate(tier.charged, classes.completion));
    worst = larger(worst, add(prompt, output));
  });
  return larger(worst, minimumWorst(price, bound, classes));
}

function promptWorst(price: PriceVersion, reached: PriceTier, tokens: number, classes: readonly TokenClass[]): PicoUsd {
  if (price.tierMode === "whole_request") return priceOf(tokens, highestRate(reached.charged, classes));
  let total = noMoney;
  price.tiers.forEach((tier, index) => {
    const end = price.tiers[index + 1]?.fromPromptTokens ?? Infinity;
    const inTier = Math.min(tokens, end) - tier.fromPromptTokens;
    if (inTier > 0) total = add(total, priceOf(inTier, highestRate(tier.charged, classes)));
  });
  return total;
}

/** A short answer can cost more than a long one: a minimum fills its shortfall at the output rate. */
function minimumWorst(
  price: PriceVersion,
  bound: { readonly promptTokens: number },
  { prompt, completion }: { readonly prompt: readonly TokenClass[]; readonly completion: readonly TokenClass[] },
): PicoUsd {
  const { minimum } = price;
  if (minimum.tokens === 0) return minimum.usd;
  const classes: TokenClass[] = [...prompt, ...completion, "output"];
  const reachable = price.tiers.filter((tier) => tier.fromPromptTokens <= bound.promptTokens);
  const rate = reachable.reduce<bigint>((top, tier) => {
    const here = highestRate(tier.charged, classes);
    return here > top ? here : top;
  }, 0n);
  return larger(priceOf(minimum.tokens, rate as PicoUsdPerToken), minimum.usd);
}

function highestRate(rates: Rates, classes: readonly TokenClass[]): PicoUsdPerToken {
  let top = 0n;
  for (const name of classes) if (rates[name] > top) top = rates[name];
  return top as PicoUsdPerToken;
}

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
  /** Fee of the most expensive tool. */
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

/** APIs whose answers are text with a length that the request can limit. */
export type TextApi = "chat" | "completions" | "responses";

/** The largest output cap: more tokens than any model writes. */
export const outputCapMax = 100_000_000;

/** The smallest of several caps; null for none. */
export function smallestCap(...caps: readonly (number | null | undefined)[]): number | null {
  const stated = caps.filter((cap) => cap != null);
  return stated.length === 0 ? null : Math.min(...stated);
}

/** Basis of a hold, for people. */
export interface HoldBasis {
  /**
   * Source of the output bound: a field of the request (`max_tokens`, or one that hides the output, such as
   * `thinking`), `unknown_field`, `output_cap`, `fitted`, `slice`, `default` (of the endpoint), `model` or
   * `request_price`.
   */
  readonly by: string;
  /** Output tokens of all choices; null where the price does not depend on tokens. */
  readonly outputTokens: number | null;
  /** The maximum for each choice that an output cap wrote into the request; null for none. */
  readonly outputCap: number | null;
  /** The maximum for each choice that was written so that the request fits its budget; null for none. */
  readonly fitted: number | null;
}
