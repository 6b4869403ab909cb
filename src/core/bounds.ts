import { add, larger, noMoney, priceOf, type PicoUsd, type PicoUsdPerToken } from "./money.ts";
import { firstTokenOf, inServiceTier, type PriceTier, type PriceVersion, type Rates } from "./price.ts";
import {
  anyServiceTier,
  serviceTierNames,
  standardRates,
  variantName,
  type FactorTerm,
  type RateTerms,
} from "./rate-variants.ts";
import { scaleTokens, type Permille, type TokenClass } from "./usage.ts";

/** Size of a request, as the wire layer measures it. */
export interface RequestSize {
  /** Number of UTF-8 bytes of the JSON text. Leaves out the payloads of parts that have separate bounds. */
  readonly textBytes: number;
  readonly messages: number;
  readonly tools: number;
  /** Most tokens that the gateway's own instructions add, such as those around tools; none unless stated. */
  readonly instructionTokens?: number;
  readonly imageParts: number;
  readonly audioParts: number;
  readonly fileParts: number;
  /** Number of prompts in the request, each with its own context; 1 unless stated. */
  readonly prompts?: number;
  /** Number of requested choices (`n`), at least 1. */
  readonly choices: number;
  /**
   * Largest maximum of output tokens that the request states; null if it states none. Infinity if a stated maximum is
   * malformed or not plausible: the model's maximum then applies. 0 if the endpoint generates no text.
   */
  readonly outputMax: number | null;
  /**
   * Number of UTF-8 bytes of the predicted answer in the request. The gateway bills the rejected part of the prediction
   * as output, for each choice.
   */
  readonly predictedBytes?: number;
  /**
   * Fields that may add tokens that the request does not show. With such a field, the hold covers the whole context.
   */
  readonly unboundedFields: readonly string[];
}

/** Model sizes that the catalogue states. */
export interface ModelLimits {
  readonly contextTokens: number;
  readonly outputTokensMax: number;
  /** Largest number of tokens for one byte of text, in thousandths. */
  readonly tokensPerByte: Permille;
  /** Largest number of tokens of one part; null if the catalogue states no bound. */
  readonly imagePartTokens: number | null;
  readonly audioPartTokens: number | null;
  readonly filePartTokens: number | null;
}

/**
 * Tokens that the chat template adds for the start of the reply, each message and each tool. The numbers are generous,
 * because they are bounds and not counts.
 */
const templateTokens = { reply: 3, message: 8, tool: 16 } as const;

/**
 * Returns the largest number of prompt tokens that this request can be charged for, without tokenizing the prompt. The
 * number is at most the model's context for each prompt.
 */
export function promptBound(size: RequestSize, model: ModelLimits): number {
  const most = model.contextTokens * (size.prompts ?? 1);
  if (size.unboundedFields.length > 0) return most;
  const parts = partTokens(size, model);
  if (parts === null) return most;
  const text = scaleTokens(size.textBytes, model.tokensPerByte);
  return Math.min(text + templateBound(size) + parts, most);
}

function templateBound(size: RequestSize): number {
  return (
    templateTokens.reply * (size.prompts ?? 1) +
    templateTokens.message * size.messages +
    templateTokens.tool * size.tools +
    (size.instructionTokens ?? 0)
  );
}

/**
 * Largest text that a provider adds around the tools of a request, in tokens. ASSUMPTION: above the published numbers of
 * Anthropic, 313 to 804.
 */
export const toolTextTokens = 1000;

/**
 * Returns the largest number of prompt tokens for a model whose tokenizer is not published, without images, audio and
 * files. `words`: tokens of the prompt's ASCII words as another tokenizer counts them; `wordBytes`: their bytes. The
 * words have at most `errorFactor` times as many tokens. Everything else is bounded by its bytes, because digits, signs,
 * spaces in a row and other scripts may have as many tokens as bytes.
 */
export function promptBoundByWords(
  size: RequestSize,
  { tokensPerByte, errorFactor }: Pick<ModelLimits, "tokensPerByte"> & { readonly errorFactor: Permille },
  { words, wordBytes }: { readonly words: number; readonly wordBytes: number },
): number {
  const others = scaleTokens(Math.max(size.textBytes - wordBytes, 0), tokensPerByte);
  const unstated = size.tools > 0 && size.instructionTokens === undefined ? toolTextTokens : 0;
  return scaleTokens(words, errorFactor) + others + templateBound(size) + unstated;
}

/**
 * Returns the tokens of image, audio and file parts according to the catalogue's bounds; null if a part has no bound.
 */
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
 * Returns the largest number of completion tokens of all choices together. A stated limit above the model's maximum
 * counts as the maximum.
 */
export function outputBound(size: RequestSize, model: ModelLimits): number {
  return Math.min(size.outputMax ?? model.outputTokensMax, model.outputTokensMax) * size.choices;
}

/** Returns the largest number of completion tokens for a rejected prediction, for all choices together. */
export function predictedBound({ predictedBytes = 0, choices }: RequestSize, { tokensPerByte }: ModelLimits): number {
  return scaleTokens(predictedBytes, tokensPerByte) * choices;
}

/**
 * Returns the highest cost over all prompt sizes up to the bound, but at least the price's minimum. Considers each tier
 * that the bound reaches, with the largest prompt in that tier. Prices each token in the most expensive possible class.
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
    const next = price.tiers[index + 1];
    const end = next === undefined ? Infinity : firstTokenOf(price, next);
    const inTier = Math.min(tokens, end) - firstTokenOf(price, tier);
    if (inTier > 0) total = add(total, priceOf(inTier, highestRate(tier.charged, classes)));
  });
  return total;
}

/**
 * Returns the highest cost that the price's minimum can cause. A request with fewer tokens can cost more, because the
 * minimum prices the missing tokens at the output rate.
 */
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

/** Terms of a request that affect its price, in addition to its size. */
export interface RequestTerms extends RateTerms {
  /** Requested hosted tools; null if there are none. */
  readonly hostedTools: HostedTools | null;
}

export interface HostedTools {
  /** Item type of the tool calls in an answer, for each of `fields`. */
  readonly calls: readonly string[];
  /** Request fields that ask for the tools. */
  readonly fields: readonly string[];
  /** True if the answer shows each call. */
  readonly areShown: boolean;
  /**
   * Largest number of calls of all tools together that the request states; null if it states none. Undefined if no
   * field of the request can limit the calls.
   */
  readonly callsMax: number | "malformed" | null | undefined;
  /** True if the tools themselves limit their calls, so that no model needs to obey `max_tool_calls`. */
  readonly areLimited?: boolean;
  /** Most tokens that a call of a tool without a fee adds, by item type; Infinity for as many as the context has. */
  readonly freeCalls?: Readonly<Record<string, number>>;
}

export const plainTerms: RequestTerms = { ...standardRates, hostedTools: null };

/** Returns true if a price has rates for a variant. Every price has standard rates. */
export function hasVariant({ serviceTiers }: PriceVersion, variant: string | null): boolean {
  return variant === null || (serviceTiers !== undefined && Object.hasOwn(serviceTiers, variant));
}

/**
 * Returns the prices of all variants by which the gateway may bill the request: the standard rates, and those of each
 * part of the terms, because the gateway may grant only some of them.
 */
export function variantsToHold(price: PriceVersion, terms: RateTerms): readonly PriceVersion[] {
  if (price.serviceTiers === undefined || variantName(terms) === null) return [price];
  const tiers = terms.serviceTier === anyServiceTier ? serviceTierNames : [terms.serviceTier];
  const orStandard = (values: readonly (string | null)[]) => new Set([null, ...values]);
  const names = new Set<string>();
  for (const serviceTier of orStandard(tiers))
    for (const speed of orStandard([terms.speed]))
      for (const inferenceGeo of orStandard([terms.inferenceGeo])) {
        const name = variantName({ serviceTier, speed, inferenceGeo });
        if (name !== null && hasVariant(price, name)) names.add(name);
      }
  return [price, ...[...names].map((name) => inServiceTier(price, name))];
}

/**
 * Returns the fields of a request whose values could cost more than the known rates. Flex never costs more than the
 * standard tier.
 */
export function unboundedTerms(price: PriceVersion, terms: RateTerms): ("service_tier" | FactorTerm)[] {
  const { serviceTier, speed, inferenceGeo } = terms;
  const isTierBounded = serviceTier === anyServiceTier || serviceTier === "flex" || hasVariant(price, serviceTier);
  return [
    ...(isTierBounded ? [] : (["service_tier"] as const)),
    ...(hasVariant(price, speed) ? [] : (["speed"] as const)),
    ...(hasVariant(price, inferenceGeo) ? [] : (["inference_geo"] as const)),
  ];
}

/** Upper bounds for the calls of hosted tools in a request, and for their cost. */
export interface ToolBound {
  readonly calls: number;
  /** True if the request itself states the number of calls. */
  readonly isStated: boolean;
  /** Fee for one call of the most expensive tool. */
  readonly feePerCall: PicoUsd;
  readonly inputTokensPerCall: number;
}

/** Largest plausible number of calls of all hosted tools in a request. */
export const plausibleCallsMax = 1000;

/**
 * Returns the bound for hosted tools, or the request fields that prevent a bound. `callsUnstated`: number of calls to
 * assume if the request states no maximum; 0 for no bound.
 */
export function toolBoundOf(
  { calls, fields, callsMax, areLimited = false, freeCalls = {} }: HostedTools,
  { price, obeysMaxToolCalls }: { readonly price: PriceVersion; readonly obeysMaxToolCalls: boolean },
  callsUnstated: number,
): ToolBound | readonly string[] {
  const { fees = {} } = price;
  const isLimited = areLimited || obeysMaxToolCalls;
  if (!isLimited || callsMax === undefined || (callsMax === null && callsUnstated === 0)) return fields;
  const feeOf = (kind: string) => {
    if (Object.hasOwn(fees, kind)) return fees[kind];
    return withoutFee(Object.hasOwn(freeCalls, kind) ? freeCalls[kind] : undefined);
  };
  const unpriced = fields.filter((_, index) => feeOf(calls[index] ?? "") === undefined);
  if (unpriced.length > 0) return unpriced;
  const toolFees = calls.map(feeOf).filter((fee) => fee !== undefined);
  if (callsMax === "malformed" || (callsMax ?? 0) > plausibleCallsMax) return ["max_tool_calls"];
  return {
    calls: callsMax ?? callsUnstated,
    isStated: callsMax !== null,
    feePerCall: toolFees.reduce((most, { charged }) => (charged > most ? charged : most), 0n as PicoUsd),
    inputTokensPerCall: Math.max(0, ...toolFees.map(({ inputTokens }) => inputTokens)),
  };
}

function withoutFee(inputTokens: number | undefined) {
  return inputTokens === undefined ? undefined : { charged: noMoney, inputTokens };
}

/**
 * Returns the largest number of prompt tokens of a request with tool calls. After each call, the model reads the prompt
 * again, with the results of all calls so far, but never more than its context.
 */
export function promptWithCalls(
  promptTokens: number,
  { calls, inputTokensPerCall }: ToolBound,
  contextTokens: number,
): number {
  const added = calls === 0 ? 0 : ((calls * (calls + 1)) / 2) * inputTokensPerCall;
  return Math.min(promptTokens * (calls + 1) + added, Math.max(promptTokens, contextTokens) * (calls + 1));
}

/** APIs that answer with text whose length the request can limit. */
export type TextApi = "chat" | "completions" | "responses";

/** Largest output cap: more tokens than any model generates. */
export const outputCapMax = 100_000_000;

/** Returns the smallest of several caps; null if there are none. */
export function smallestCap(...caps: readonly (number | null | undefined)[]): number | null {
  const stated = caps.filter((cap) => cap != null);
  return stated.length === 0 ? null : Math.min(...stated);
}

/** Explanation of how a hold was computed, for people. */
export interface HoldBasis {
  /**
   * Source of the output bound: the request field that states the maximum (such as `max_tokens`), a field that may add
   * tokens that the request does not show (such as `thinking`), `unknown_field`, `output_cap`, `fitted`, `slice`,
   * `default` (of the endpoint), `model` or `request_price`.
   */
  readonly by: string;
  /** Number of output tokens of all choices; null if the price does not depend on tokens. */
  readonly outputTokens: number | null;
  /** Maximum for each choice that Farebox injected because of an output cap; null if it injected none. */
  readonly outputCap: number | null;
  /** Maximum for each choice that Farebox injected to fit the budget; null if it injected none. */
  readonly fitted: number | null;
}
