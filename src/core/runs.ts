import { standardBilling, type BilledRun, type Billing } from "./cost.ts";
import { inServiceTier, tierFor, type PriceVersion } from "./price.ts";
import { addUsage } from "./several-usages.ts";
import { noTokens, promptTotal, tokenClasses, type TokenCounts } from "./usage.ts";

/** Prices under which the tokens of a request may be charged, at one service tier. */
export interface RequestPrices {
  readonly prices: readonly PriceVersion[];
  readonly serviceTier: string | null;
}

/** Largest number of runs that a charge keeps apart. Only marginal tiers can have more. */
const runsMax = 64;

/** Runs of a request as they are charged. */
interface MergedRuns {
  /** Undefined if the tokens cost as much as those of one run. */
  readonly runs: readonly BilledRun[] | undefined;
  /** True if there were too many runs to keep apart, so that some cost as much as one run with a longer prompt. */
  readonly isRounded: boolean;
}

/**
 * Merges runs that have the same price and the same tier, so that a charge stores few of them. The cost stays exact. A
 * run that reaches a higher marginal tier stays apart, because its cost depends on its own prompt.
 */
export function mergeRuns(runs: readonly BilledRun[], terms: readonly RequestPrices[]): MergedRuns {
  const merged = new Map<string, BilledRun>();
  runs.forEach((run, index) => {
    const tiers = pricesOf(run, terms).map((price) => tierName(price, run.promptTokens));
    const isApart = tiers.includes(null);
    addRun(merged, `${run.price?.id ?? ""} ${isApart ? `run ${index}` : tiers.join(" ")}`, run, Math.max);
  });
  const isRounded = merged.size > runsMax;
  const kept = isRounded ? roundedRuns([...merged.values()]) : [...merged.values()];
  const [first, ...others] = kept;
  const isOne = first === undefined || (others.length === 0 && first.price === null && isInTierOfSum(first, terms));
  return { runs: isOne ? undefined : kept, isRounded };
}

function addRun(
  merged: Map<string, BilledRun>,
  name: string,
  run: BilledRun,
  promptOf: (one: number, other: number) => number,
): void {
  const known = merged.get(name);
  if (known === undefined) return void merged.set(name, run);
  const promptTokens = promptOf(known.promptTokens, run.promptTokens);
  merged.set(name, { ...known, tokens: sumOfTokens(known.tokens, run.tokens), promptTokens });
}

/** Merges the runs after the first ones into one run for each price, which costs at least as much. */
function roundedRuns(runs: readonly BilledRun[]): readonly BilledRun[] {
  const merged = new Map<string, BilledRun>();
  runs.forEach((run, index) => {
    const name = index < runsMax / 2 ? `run ${index}` : `price ${run.price?.id ?? ""}`;
    addRun(merged, name, { ...run, promptTokens: promptTotal(run.tokens) }, (one, other) => one + other);
  });
  return [...merged.values()];
}

function pricesOf({ price }: BilledRun, terms: readonly RequestPrices[]): readonly PriceVersion[] {
  return terms.flatMap(({ prices, serviceTier }) =>
    (price === null ? prices : [price.version]).map((each) => inServiceTier(each, serviceTier)),
  );
}

/** Returns the start of the tier that a prompt reaches; null if the prompt has tokens in several tiers. */
function tierName(price: PriceVersion, promptTokens: number): number | null {
  const { fromPromptTokens } = tierFor(price, promptTokens);
  return price.tierMode === "whole_request" || fromPromptTokens === 0 ? fromPromptTokens : null;
}

function isInTierOfSum(run: BilledRun, terms: readonly RequestPrices[]): boolean {
  const total = promptTotal(run.tokens);
  return pricesOf(run, terms).every((price) => tierFor(price, run.promptTokens) === tierFor(price, total));
}

function sumOfTokens(one: TokenCounts, other: TokenCounts): TokenCounts {
  return addUsage({ tokens: one, clamped: false }, { tokens: other, clamped: false }).tokens;
}

/** Returns the terms of an answer with its runs. */
export function billingOfRuns(
  billing: Billing | undefined,
  runs: readonly BilledRun[] | undefined,
): Billing | undefined {
  return runs === undefined ? billing : { ...(billing ?? standardBilling), runs };
}

/** Run of a charge as the ledger stores it. Price and model are null for the price of the request. */
export interface ChargeRun {
  readonly tokens: TokenCounts;
  /** Prompt tokens of the largest run, which decide the tier. */
  readonly promptTokens: number;
  readonly model: string | null;
  readonly priceId: string | null;
}

/** Returns the stored form of runs. It leaves out counts of 0. */
export function formatRuns(runs: readonly BilledRun[]): string {
  return JSON.stringify(
    runs.map(({ tokens, promptTokens, price }) => ({
      ...(price && { model: price.version.model, price: price.id }),
      prompt: promptTokens,
      tokens: Object.fromEntries(tokenClasses.filter((name) => tokens[name] > 0).map((name) => [name, tokens[name]])),
    })),
  );
}

const noRuns: readonly ChargeRun[] = [];

/** Parses the output of `formatRuns`. */
export function parseRuns(text: string | null): readonly ChargeRun[] {
  if (text === null) return noRuns;
  const stored: readonly {
    readonly model?: string;
    readonly price?: string;
    readonly prompt: number;
    readonly tokens: Partial<TokenCounts>;
  }[] = JSON.parse(text);
  return stored.map(({ model = null, price: priceId = null, prompt: promptTokens, tokens }) => ({
    tokens: { ...noTokens, ...tokens },
    promptTokens,
    model,
    priceId,
  }));
}

/** Returns the sum of the tokens of runs. */
export function tokensOfRuns(runs: readonly Pick<ChargeRun, "tokens">[]): TokenCounts {
  return runs.reduce((sum, { tokens }) => sumOfTokens(sum, tokens), noTokens);
}

/**
 * Returns the terms of a charge with its runs. `priceOf` returns the price of a run with its own model. Returns null if
 * one of these prices is missing.
 */
export function termsWithRuns(
  { billing, runs }: { readonly billing: Billing; readonly runs: readonly ChargeRun[] },
  priceOf: (run: { readonly model: string | null; readonly priceId: string }) => PriceVersion | null,
): Billing | null {
  if (runs.length === 0) return billing;
  const billed: BilledRun[] = [];
  for (const { tokens, promptTokens, model, priceId } of runs) {
    const version = priceId === null ? null : priceOf({ model, priceId });
    if (priceId !== null && version === null) return null;
    const price = priceId === null || version === null ? null : { id: priceId, version };
    billed.push({ tokens, promptTokens, price });
  }
  return { ...billing, runs: billed };
}
