import { parseRate, parseUsd, type PicoUsd, type PicoUsdPerToken } from "../core/money.ts";
import type { PriceVersion, Rates } from "../core/price.ts";
import { parentClass, tokenClasses, type TokenClass } from "../core/usage.ts";
import { invariant } from "../core/assert.ts";
import type { Effect } from "./effects.ts";
import type { Block, Decided } from "./read.ts";
import type { StatedFactors } from "./schema.ts";

/** Fraction of the official price that is charged. For example, "0.75" is 750_000 millionths. */
export interface Fraction extends Decided<string> {
  readonly millionths: bigint;
  /** The statement that contains the fraction, in messages: `group "half"`, "gateway" or "change". */
  readonly by: string;
  readonly effect: Effect;
}

const million = 1_000_000n;

/** Rates by class; a class without a rate is absent. */
export type DecidedRates = Readonly<Partial<Record<TokenClass, Decided<string>>>>;

/** Rates of one tier: the provider's official rates and the gateway's absolute rates. */
export interface DecidedSides {
  readonly official: DecidedRates;
  readonly gateway: DecidedRates;
}

/** Classes of cached tokens, whose rate a statement about many models can set. */
export const cacheClasses = ["cached_input", "cache_write", "cache_write_1h"] as const;

/** Terms of a class of cached tokens that are rules; other terms are amounts. */
export const cacheWords: ReadonlySet<unknown> = new Set(["official", "input"]);

/** What determines a charged rate that a tier does not state. */
export interface ShareTerms {
  /** Id of the model, for faults. */
  readonly model: string;
  /** Null if no fraction applies. */
  readonly fraction: Fraction | null;
  /** The group that a change assigns to the model; null if none does. */
  readonly assigned: Decided<string> | null;
  /** `official`, `input` or a rate, by class. */
  readonly cacheTerms: Readonly<Partial<Record<TokenClass, Decided<string>>>>;
}

/**
 * Rule for the charged rate of a class: a stated rate, a fraction of the official rate, or the charged rate of another
 * class. `by`: the statement that chose the other class; null if it is the parent class.
 */
type Rule =
  | { readonly kind: "stated"; readonly rate: Decided<string> }
  | { readonly kind: "share"; readonly fraction: Fraction; readonly official: Decided<string> }
  | { readonly kind: "parent"; readonly of: TokenClass; readonly by: Decided<string> | null };

/** Resolved rates, or the reasons why some classes have no exact rate. */
type RatesResult =
  | { readonly ok: true; readonly rates: Rates }
  | { readonly ok: false; readonly faults: readonly RateFault[] };

/** A class without a rule for its charged rate, or one whose fraction of the official rate is not exact. */
type RateFault =
  | { readonly kind: "none"; readonly class: TokenClass }
  | { readonly kind: "inexact"; readonly report: () => void };

/** Factor of each class, multiplied by `factorUnit`. */
export type RateFactors = Readonly<Record<TokenClass, bigint>>;

/** Two factors in millionths multiply to this unit. */
const factorUnit = million * million;

export const standardFactors = Object.fromEntries(
  tokenClasses.map((name) => [name, factorUnit]),
) as unknown as RateFactors;

/** Returns the product of factors and stated ones. A class without a factor has that of its parent class. */
export function withFactors(before: RateFactors, stated: StatedFactors): RateFactors {
  const own: Partial<Record<TokenClass, bigint>> = {};
  for (const name of tokenClasses) {
    const parent = parentClass[name];
    const text = typeof stated === "string" ? stated : stated[name];
    const inherited = parent === null ? million : (own[parent] ?? million);
    own[name] = text === undefined ? inherited : rateOf(text);
  }
  return Object.fromEntries(
    tokenClasses.map((name) => [name, (before[name] * (own[name] ?? million)) / million]),
  ) as unknown as RateFactors;
}

/** Multiplies a rate. Rounds up, so that rounding never makes a hold or a charge too low. */
function times(rate: bigint, factor: bigint): PicoUsdPerToken {
  return ((rate * factor + factorUnit - 1n) / factorUnit) as PicoUsdPerToken;
}

/**
 * Returns the official rates. A class without a rate has that of its parent class. `input` and `output` always have
 * one.
 */
export function listRates(official: DecidedRates, factors: RateFactors = standardFactors): Rates {
  const rates: Partial<Record<TokenClass, PicoUsdPerToken>> = {};
  for (const name of tokenClasses) {
    const parent = parentClass[name];
    const inherited = official[name] === undefined && parent !== null ? rates[parent] : undefined;
    rates[name] = inherited ?? times(rateOf(official[name]?.value), factors[name]);
  }
  return rates as Rates;
}

/**
 * Returns the rule that sets the charged rate of a class; null if there is none. The tier's absolute rate takes
 * precedence, then the term of a class of cached tokens, then the fraction of the official rate, then the charged rate
 * of the parent class. Without a term, cached input is charged as input.
 */
export function rateRule(name: TokenClass, { official, gateway }: DecidedSides, terms: ShareTerms): Rule | null {
  const stated = gateway[name];
  if (stated !== undefined) return { kind: "stated", rate: stated };
  const term = terms.cacheTerms[name] ?? null;
  const word = term?.value ?? (name === "cached_input" ? "input" : "official");
  if (word === "input") return { kind: "parent", of: "input", by: term };
  if (word !== "official" && term !== null) return { kind: "stated", rate: term };
  const listed = official[name];
  if (terms.fraction !== null && listed !== undefined)
    return { kind: "share", fraction: terms.fraction, official: listed };
  const parent = parentClass[name];
  return parent === null ? null : { kind: "parent", of: parent, by: null };
}

/**
 * Returns the charged rate of each class according to `rateRule`. Child classes do not repeat the fault of their parent.
 * A class that is charged as another one has the factor of the other.
 */
export function chargedRates(
  sides: DecidedSides,
  terms: ShareTerms,
  factors: RateFactors = standardFactors,
): RatesResult {
  const rates: Partial<Record<TokenClass, PicoUsdPerToken>> = {};
  const faults: RateFault[] = [];
  for (const name of tokenClasses) {
    const rule = rateRule(name, sides, terms);
    if (rule === null) {
      faults.push({ class: name, kind: "none" });
    } else if (rule.kind === "stated") rates[name] = times(rateOf(rule.rate.value), factors[name]);
    else if (rule.kind === "share") {
      const { official, fraction } = rule;
      const exact = shareOf(rateOf(official.value), fraction);
      if (exact === undefined)
        faults.push({ kind: "inexact", report: () => reportInexact(official, fraction, terms.model) });
      else rates[name] = times(exact, factors[name]);
    } else {
      const rate = rates[rule.of];
      if (rate !== undefined) rates[name] = rate;
    }
  }
  return faults.length === 0 ? { ok: true, rates: rates as Rates } : { ok: false, faults };
}

/** An amount per request, call or task: the provider's price and, if stated, the gateway's. */
export interface DecidedAmount {
  readonly official: Decided<string>;
  readonly gateway?: Decided<string> | undefined;
}

/**
 * Returns the gateway's amount if one is stated; otherwise the fraction of the official amount. Without a fraction, or
 * if that fraction is not exact, reports a fault and returns undefined. `field`: name of the field for the gateway's
 * amount.
 */
export function chargedUsd(
  { official, gateway }: DecidedAmount,
  { model, fraction, assigned }: Omit<ShareTerms, "cacheTerms">,
  field = "gateway",
): PicoUsd | undefined {
  if (gateway !== undefined) return usdOf(gateway.value);
  if (fraction === null) {
    reportUncharged(official.block, assigned, `no charged price; name a group with a fraction, or state ${field}`);
    return undefined;
  }
  const share = shareOf(usdOf(official.value), fraction);
  if (share === undefined) reportInexact(official, fraction, model);
  return share as PicoUsd | undefined;
}

/**
 * Reports an amount without a fraction: at the amount, or once at a change of a later layer that assigns a group without
 * a fraction to the models.
 */
export function reportUncharged(block: Block, assigned: ShareTerms["assigned"], message: string): void {
  if (assigned === null || assigned.block.layer === block.layer) block.report(message);
  else
    assigned.block.report(
      `group "${assigned.value}" states no fraction, which its models need; state one there or under \`gateway\``,
    );
}

/** Reports a fraction that is not exact: at the amount, or once at the fraction if a later layer states the fraction. */
function reportInexact(amount: Decided<string>, fraction: Fraction, model: string): void {
  const { value, block, by, effect } = fraction;
  if (block.layer > amount.block.layer) effect.missExactly(fraction, amount.value, model);
  else
    amount.block.report(
      `${value} of ${amount.value} (${by}) cannot be represented exactly; state the rate under gateway`,
    );
}

/** Parses an amount that the schema has validated. */
export function usdOf(text: string): PicoUsd {
  const amount = parseUsd(text);
  invariant(amount !== undefined, "an amount passed the schema");
  return amount;
}

const freeRates = Object.fromEntries(tokenClasses.map((name) => [name, 0n])) as unknown as Rates;

/** The tier of a price per request or task, whose tokens cost nothing. */
export const freeTiers: PriceVersion["tiers"] = [{ fromPromptTokens: 0, charged: freeRates, list: freeRates }];

function shareOf(amount: bigint, { millionths }: Fraction): bigint | undefined {
  const product = amount * millionths;
  return product % million === 0n ? product / million : undefined;
}

/** Parses a rate or fraction that the schema has validated. For a fraction, the result is in millionths. */
export function rateOf(text: string | undefined): PicoUsdPerToken {
  const rate = text === undefined ? undefined : parseRate(text);
  invariant(rate !== undefined, "a rate passed the schema");
  return rate;
}
