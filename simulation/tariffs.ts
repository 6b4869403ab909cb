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
  /** Rate of tokens that are written to a cache for an hour. */
  readonly hour: number;
  readonly output: number;
}

/** Thousandths by which a term of the answer multiplies the rates. */
interface Factors {
  readonly input: bigint;
  readonly cached: bigint;
  readonly output: bigint;
}

/** Terms of a bill, in addition to its tokens. */
export interface Terms {
  /** Searches that have a fee. */
  readonly searches: number;
  readonly speed: "fast" | null;
  readonly geo: "us" | null;
}

export const plainTerms: Terms = { searches: 0, speed: null, geo: null };

/** Tokens of one run of the model. `model`: id of its own model; null for the one that answers. */
export interface BilledRun {
  readonly tokens: TokenCounts;
  readonly model: string | null;
}

/** What a request costs, as a person reads it in the price files. Computed without the product's code. */
export interface Tariff {
  /** Ascending; the first begins at 0. */
  readonly tiers: readonly [Rates, ...Rates[]];
  /** True if each part of the prompt has the rates of its own tier. */
  readonly isMarginal: boolean;
  readonly minimum: Minimum;
  /** USD for each search; null if the price files state none. */
  readonly searchFee: number | null;
  /** Factors of each speed and region; a missing one is not in the price files. */
  readonly factors: Readonly<Partial<Record<"fast" | "us", Factors>>>;
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

/** Models that clients ask for with Messages. The first rates are those of the first edition. */
interface AgentModel {
  readonly input: number;
  readonly cached: number;
  readonly written: number;
  /** Null if the price files state none. */
  readonly hour: number | null;
  readonly output: number;
  /** Size of the prompt above which all rates are twice as high. */
  readonly doubledFrom: number | null;
  readonly searchFee: number | null;
  readonly terms: readonly ("fast" | "us")[];
}

export const agentModels: Readonly<Record<string, AgentModel>> = {
  opus: {
    input: 2,
    cached: 0.2,
    written: 2.5,
    hour: 4,
    output: 10,
    doubledFrom: 80,
    searchFee: 0.0003,
    terms: ["fast", "us"],
  },
  haiku: {
    input: 1,
    cached: 0.1,
    written: 1.25,
    hour: null,
    output: 5,
    doubledFrom: null,
    searchFee: null,
    terms: [],
  },
  fable: {
    input: 3,
    cached: 0.3,
    written: 3.75,
    hour: 6,
    output: 15,
    doubledFrom: null,
    searchFee: 0.0003,
    terms: ["us"],
  },
};

const factorsOf: Readonly<Record<"fast" | "us", Factors>> = {
  fast: { input: 2000n, cached: 1000n, output: 2000n },
  us: { input: 1100n, cached: 1100n, output: 1100n },
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

/** Returns true for a model of the group `full`. */
function isFull(model: string): boolean {
  return model !== "plain" && !Object.hasOwn(agentModels, model);
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
      : { cached: 0.5, written: 1, ...(isFull(model) && { minimum: { tokens: 150, usd: 0 } }) }),
    ...(model === "private" && day >= "2026-03-29" && { officialOutput: 30 }),
  }),
  3: (model, day) => ({
    share: 0.5,
    ...(isFull(model) && { cached: 0.25 }),
    ...(model.includes("in") && day >= "2026-10-25"
      ? { output: 20, minimum: { tokens: 0, usd: 0.0012 } }
      : { minimum: model === "plain" ? { tokens: 200, usd: 0 } : { tokens: 30, usd: 0.0001 } }),
    ...(model === "thinker" && { output: 40 }),
    ...(model === "tiered" && day >= "2026-03-29" && { isMarginal: true, tiers: [[70, 20, 60]] }),
  }),
};

/** Returns the tariff of a model at an instant. */
export function tariffOf(model: string, prices: Prices, at: number): Tariff {
  const agent = agentModels[model];
  if (agent !== undefined) return agentTariff(model, agent, prices, at);
  const { edition, preset, isOwn } = prices;
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
      hour: own.written ?? charged,
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
    searchFee: null,
    factors: {},
  };
}

/** Returns the tariff of a model for Messages. Its group charges cached tokens at their official rates. */
function agentTariff(model: string, agent: AgentModel, { edition, isOwn }: Prices, at: number): Tariff {
  const own = isOwn ? ownFiles[edition](model, new Date(at).toISOString().slice(0, 10)) : {};
  const share = (own.share ?? 1) * edition;
  const ratesOf = (from: number, times: number): Rates => {
    const all = share * times;
    const written = own.written ?? all * agent.written;
    return {
      from,
      input: all * agent.input,
      cached: typeof own.cached === "number" ? own.cached : all * agent.cached,
      written,
      hour: agent.hour === null ? written : all * agent.hour,
      output: all * agent.output,
    };
  };
  return {
    tiers: [ratesOf(0, 1), ...(agent.doubledFrom === null ? [] : [ratesOf(agent.doubledFrom, 2)])],
    isMarginal: false,
    minimum: own.minimum ?? noMinimum,
    searchFee: agent.searchFee === null ? null : agent.searchFee * share,
    factors: Object.fromEntries(agent.terms.map((name) => [name, factorsOf[name]])),
  };
}

/**
 * Returns what the runs of a request cost, in pico-USD. The minimum applies to all of them together. `tariffOfRun`
 * returns the tariff of a run's own model.
 */
export function costUnderTariff(
  tariff: Tariff,
  runs: readonly BilledRun[],
  terms: Terms,
  tariffOfRun: (model: string) => Tariff,
): bigint {
  const { minimum, searchFee } = tariff;
  const prompt = runs.reduce((sum, { tokens }) => sum + promptOf(tokens), 0);
  const completion = runs.reduce((sum, { tokens }) => sum + completionOf(tokens), 0);
  const missing = Math.max(minimum.tokens - prompt - completion, 0);
  const filled = BigInt(missing) * times(tierAt(tariff, prompt).output, "output", tariff, terms);
  const cost = runs.reduce(
    (sum, { tokens, model }) => sum + costOfRun(model === null ? tariff : tariffOfRun(model), tokens, terms),
    filled,
  );
  const least = picoOf(minimum.usd);
  return (cost < least ? least : cost) + BigInt(terms.searches) * picoOf(searchFee ?? 0);
}

function tierAt({ tiers }: Tariff, tokenNumber: number): Rates {
  return tiers.findLast(({ from }) => from <= tokenNumber) ?? tiers[0];
}

function promptOf(tokens: TokenCounts): number {
  return tokens.cached_input + tokens.cache_write + tokens.cache_write_1h + tokens.input;
}

function completionOf(tokens: TokenCounts): number {
  return tokens.output + tokens.reasoning;
}

/** Adds up the prompt token by token. */
function costOfRun(tariff: Tariff, tokens: TokenCounts, terms: Terms): bigint {
  const prompt = promptOf(tokens);
  const reached = tierAt(tariff, prompt);
  const [cachedEnd, writtenEnd] = [tokens.cached_input, tokens.cached_input + tokens.cache_write];
  const hourEnd = writtenEnd + tokens.cache_write_1h;
  let cost = 0n;
  for (let number = 1; number <= prompt; number++) {
    const tier = tariff.isMarginal ? tierAt(tariff, number) : reached;
    if (number <= cachedEnd) cost += times(tier.cached, "cached", tariff, terms);
    else
      cost += times(
        number <= writtenEnd ? tier.written : number <= hourEnd ? tier.hour : tier.input,
        "input",
        tariff,
        terms,
      );
  }
  return cost + BigInt(completionOf(tokens)) * times(reached.output, "output", tariff, terms);
}

/** Returns pico-USD per token, with the factors of the speed and the region that are in the price files. */
function times(usdPerMillion: number, of: keyof Factors, { factors }: Tariff, { speed, geo }: Terms): bigint {
  let rate = BigInt(Math.round(usdPerMillion * 1_000_000));
  for (const name of [speed, geo]) {
    const factor = name === null ? undefined : factors[name];
    if (factor !== undefined) rate = (rate * factor[of]) / 1000n;
  }
  return rate;
}

function picoOf(usd: number): bigint {
  return BigInt(Math.round(usd * 1_000_000)) * 1_000_000n;
}
