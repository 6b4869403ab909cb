import type { Preset } from "../src/core/price.ts";
import type { TokenCounts } from "../src/core/usage.ts";

/** Price files in force: the edition from 1 to 3, the preset, and whether the user's files are among them. */
export interface Prices {
  readonly edition: 1 | 2 | 3;
  readonly preset: Preset;
  readonly isOwn: boolean;
}

/** Rates in USD per 1M tokens for prompts of at least `from` tokens. */
interface Rates {
  readonly from: number;
  readonly input: number;
  readonly cached: number;
  readonly written: number;
  readonly output: number;
}

/** What a request costs, as a person reads it in the price files. Computed without the product's code. */
export interface Tariff {
  /** Ascending; the first begins at 0. */
  readonly tiers: readonly [Rates, ...Rates[]];
  /** True if each part of the prompt has the rates of its own tier. */
  readonly isMarginal: boolean;
  readonly minimum: Minimum;
}

interface Minimum {
  readonly tokens: number;
  readonly usd: number;
}

const noMinimum: Minimum = { tokens: 0, usd: 0 };

/** Official rates of input and output in the first edition. Those of the other editions are two and three times as high. */
const officialRates: Readonly<Record<string, readonly [input: number, output: number]>> = {
  plain: [2, 10],
  private: [3, 12],
  thinker: [4, 20],
  "bill-errors": [2, 8],
  minimum: [2, 8],
  tiered: [2, 8],
};

/** What the user's file of an edition decides for a model. Anything else is decided by the shipped files and the preset. */
interface OwnTerms {
  readonly share?: number;
  /** Rate of tokens read from a cache. */
  readonly cached?: number | "official" | "input";
  /** Rate of tokens written to a cache; that of input if absent. */
  readonly written?: number;
  readonly officialOutput?: number;
  readonly output?: number;
  readonly minimum?: Minimum;
  /** Official rates of the higher tiers. */
  readonly tiers?: readonly (readonly [from: number, input: number, output: number])[];
  readonly isMarginal?: boolean;
}

type OwnFile = (model: string, day: string) => OwnTerms;

const ownFiles: Readonly<Record<Prices["edition"], OwnFile>> = {
  1: (model, day) => ({
    cached: "official",
    minimum: { tokens: 0, usd: 0.0012 },
    ...(model === "plain" && {
      officialOutput:
        day < "2026-03-29" ? 10 : day < "2026-10-25" ? 12 : day < "2026-11-01" ? 14 : day < "2026-11-21" ? 16 : 18,
    }),
    ...(model === "tiered" && {
      isMarginal: true,
      tiers: [
        [45, 4, 12],
        [60, 6, 18],
      ],
    }),
  }),
  2: (model, day) => ({
    ...(model.startsWith("p") && day >= "2026-11-01"
      ? { share: 1.1, cached: "input", minimum: { tokens: 50, usd: 0.0004 } }
      : { cached: 0.5, written: 1, ...(model !== "plain" && { minimum: { tokens: 150, usd: 0 } }) }),
    ...(model === "private" && day >= "2026-03-29" && { officialOutput: 30 }),
  }),
  3: (model, day) => ({
    share: 0.5,
    ...(model !== "plain" && { cached: 0.25 }),
    ...(model.includes("in") && day >= "2026-10-25"
      ? { output: 20, minimum: { tokens: 0, usd: 0.0012 } }
      : { minimum: model === "plain" ? { tokens: 200, usd: 0 } : { tokens: 30, usd: 0.0001 } }),
    ...(model === "thinker" && { output: 40 }),
    ...(model === "tiered" && day >= "2026-03-29" && { isMarginal: true, tiers: [[70, 20, 60]] }),
  }),
};

/** Returns the tariff of a model at an instant. */
export function tariffOf(model: string, { edition, preset, isOwn }: Prices, at: number): Tariff {
  const isOfficial = preset === "official";
  const [input = 0, output = 0] = officialRates[model] ?? [];
  const own = isOwn ? ownFiles[edition](model, new Date(at).toISOString().slice(0, 10)) : {};
  const share = own.share ?? (model === "plain" && !isOfficial ? 0.5 : 1);
  const shippedTiers = model === "tiered" ? [[60, 6 * edition, 18 * edition] as const] : [];
  const ratesOf = (from: number, officialInput: number, officialOutput: number): Rates => {
    const charged = share * officialInput;
    const rule = own.cached ?? (isOfficial ? "official" : "input");
    // Only the first tier has an official rate of cached tokens.
    const officialCached = from === 0 ? share * edition : charged;
    return {
      from,
      input: charged,
      cached: rule === "input" ? charged : rule === "official" ? officialCached : rule,
      written: own.written ?? charged,
      output: (from === 0 ? own.output : undefined) ?? share * officialOutput,
    };
  };
  return {
    tiers: [
      ratesOf(0, input * edition, own.officialOutput ?? output * edition),
      ...(own.tiers ?? shippedTiers).map((tier) => ratesOf(...tier)),
    ],
    isMarginal: own.isMarginal ?? false,
    minimum: own.minimum ?? (model === "minimum" && !isOfficial ? { tokens: 40, usd: 0.0002 } : noMinimum),
  };
}

/** Returns what the runs of a request cost, in pico-USD. The minimum applies to all of them together. */
export function costUnderTariff(tariff: Tariff, runs: readonly TokenCounts[]): bigint {
  const { minimum } = tariff;
  const prompt = runs.reduce((sum, run) => sum + promptOf(run), 0);
  const completion = runs.reduce((sum, run) => sum + completionOf(run), 0);
  const missing = Math.max(minimum.tokens - prompt - completion, 0);
  const filled = BigInt(missing) * perToken(tierAt(tariff, prompt).output);
  const cost = runs.reduce((sum, run) => sum + costOfRun(tariff, run), filled);
  const least = perToken(minimum.usd) * 1_000_000n;
  return cost < least ? least : cost;
}

function tierAt({ tiers }: Tariff, tokenNumber: number): Rates {
  return tiers.findLast(({ from }) => from <= tokenNumber) ?? tiers[0];
}

function promptOf(tokens: TokenCounts): number {
  return tokens.cached_input + tokens.cache_write + tokens.input;
}

function completionOf(tokens: TokenCounts): number {
  return tokens.output + tokens.reasoning;
}

/** Adds up the prompt token by token. */
function costOfRun(tariff: Tariff, tokens: TokenCounts): bigint {
  const prompt = promptOf(tokens);
  const reached = tierAt(tariff, prompt);
  let cost = 0n;
  for (let number = 1; number <= prompt; number++) {
    const tier = tariff.isMarginal ? tierAt(tariff, number) : reached;
    const isCached = number <= tokens.cached_input;
    const isWritten = !isCached && number <= tokens.cached_input + tokens.cache_write;
    cost += perToken(isCached ? tier.cached : isWritten ? tier.written : tier.input);
  }
  return cost + BigInt(completionOf(tokens)) * perToken(reached.output);
}

/** Returns pico-USD per token. */
function perToken(usdPerMillion: number): bigint {
  return BigInt(Math.round(usdPerMillion * 1_000_000));
}
