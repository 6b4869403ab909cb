import { add, larger, noMoney, priceOf, type PicoUsd, type PicoUsdPerToken } from "./money.ts";
import { type PriceTier, type PriceVersion, type Rates } from "./price.ts";
import { scaleTokens, type Permille, type TokenClass } from "./tokens.ts";

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
