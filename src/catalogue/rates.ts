import { parseRate, parseUsd, type PicoUsd, type PicoUsdPerToken } from "../core/money.ts";
import type { Rates } from "../core/price.ts";
import { parentClass, tokenClasses, type TokenClass } from "../core/tokens.ts";
import { invariant } from "../core/assert.ts";
import type { StatedRates } from "./schema.ts";

/** A group's share of the official price, exact: 750_000 millionths is "0.75". */
export interface Fraction {
  readonly group: string;
  readonly text: string;
  readonly millionths: bigint;
}

const million = 1_000_000n;

/** What was worked out, or the class that has no exact rate and why. */
export type RatesResult =
  | { readonly ok: true; readonly rates: Rates }
  | { readonly ok: false; readonly class: TokenClass; readonly message: string };

export function readFraction(group: string, text: string): Fraction {
  return { group, text, millionths: rateOf(text) };
}

/** The official rates; a class that is left out takes its parent's. `input` and `output` are stated. */
export function listRates(official: StatedRates): Rates {
  return fill((name) => rateOf(official[name] ?? official[parentClass[name] ?? name]));
}

/**
 * What the gateway charges, class by class: its absolute rate; else, for cached input, the charged input rate; else
 * the official rate times the group's fraction; else the charged rate of the parent class.
 */
export function chargedRates(official: StatedRates, gateway: StatedRates, fraction: Fraction | null): RatesResult {
  const rates: Partial<Record<TokenClass, PicoUsdPerToken>> = {};
  for (const name of tokenClasses) {
    const absolute = gateway[name];
    const share = name === "cached_input" ? undefined : official[name];
    const parent = parentClass[name];
    if (absolute !== undefined) rates[name] = rateOf(absolute);
    else if (fraction !== null && share !== undefined) {
      const exact = shareOf(rateOf(share), fraction);
      if (exact === undefined) return { ok: false, class: name, message: inexact(share, fraction) };
      rates[name] = exact as PicoUsdPerToken;
    } else if (parent !== null) rates[name] = rates[parent] ?? rateOf(undefined);
    else return { ok: false, class: name, message: `no charged rate for ${name}; name a group, or state gateway.${name}` };
  }
  return { ok: true, rates: rates as Rates };
}

/** A share of a flat price in USD; undefined when it cannot be held exactly. */
export function chargedUsd(official: string, fraction: Fraction): PicoUsd | undefined {
  return shareOf(usdOf(official), fraction) as PicoUsd | undefined;
}

export function inexact(amount: string, fraction: Fraction): string {
  return `${fraction.text} of ${amount} (group "${fraction.group}") cannot be held exactly; state the rate under gateway`;
}

/** An amount that the schema has let through. */
export function usdOf(text: string): PicoUsd {
  const amount = parseUsd(text);
  invariant(amount !== undefined, "an amount passed the schema");
  return amount;
}

/** For prices of a request, beside which tokens cost nothing. */
export const freeRates: Rates = fill(() => 0n as PicoUsdPerToken);

function shareOf(amount: bigint, fraction: Fraction): bigint | undefined {
  const product = amount * fraction.millionths;
  return product % million === 0n ? product / million : undefined;
}

/** A rate that the schema has let through. */
function rateOf(text: string | undefined): PicoUsdPerToken {
  const rate = text === undefined ? undefined : parseRate(text);
  invariant(rate !== undefined, "a rate passed the schema");
  return rate;
}

function fill(rate: (name: TokenClass) => PicoUsdPerToken): Rates {
  return Object.fromEntries(tokenClasses.map((name) => [name, rate(name)])) as Record<TokenClass, PicoUsdPerToken>;
}
