import { parseRate, parseUsd, type PicoUsd, type PicoUsdPerToken } from "../core/money.ts";
import type { Rates } from "../core/price.ts";
import { parentClass, statedClass, tokenClasses, type TokenClass } from "../core/usage.ts";
import { invariant } from "../core/assert.ts";
import type { RateRule } from "../ports/catalogue.ts";
import type { Block } from "./read.ts";
import type { StatedRates } from "./schema.ts";

/** A group's exact fraction of the official price: 750_000 millionths is "0.75". */
export interface Fraction {
  readonly group: string;
  readonly text: string;
  readonly millionths: bigint;
}

const million = 1_000_000n;

/** The provider's official rates and the gateway's absolute rates, as stated by a file. */
export interface StatedSides {
  readonly official: StatedRates;
  readonly gateway: StatedRates;
}

/** Resolved rates, or the classes without an exact rate and the reasons. */
type RatesResult =
  | { readonly ok: true; readonly rates: Rates }
  | { readonly ok: false; readonly faults: readonly RateFault[] };

interface RateFault {
  readonly class: TokenClass;
  /**
   * `none`: the files do not say what the class is charged. `inexact`: the fraction of its official rate cannot be
   * represented exactly.
   */
  readonly kind: "none" | "inexact";
  readonly message: string;
}

export function readFraction(group: string, text: string): Fraction {
  return { group, text, millionths: rateOf(text) };
}

/**
 * Returns the official rates. A class that the file leaves out has its parent's rate. `input` and `output` are always
 * stated.
 */
export function listRates(official: StatedRates): Rates {
  return fill((name) => rateOf(official[statedClass(name, official)]));
}

/**
 * Returns the rule for a class; null if there is none. The gateway's absolute rate comes first, then the group's
 * fraction of the official rate, then the charged rate of the parent class. Cached input skips the fraction.
 */
export function rateRule(name: TokenClass, stated: StatedSides, fraction: Fraction | null): RateRule | null {
  const { official, gateway } = stated;
  if (gateway[name] !== undefined) return { kind: "stated" };
  if (fraction !== null && name !== "cached_input" && official[name] !== undefined)
    return { kind: "share", fraction: fraction.text };
  const parent = parentClass[name];
  return parent === null ? null : { kind: "parent", of: parent };
}

/**
 * Returns the charged rates by class according to `rateRule`. A parent's fault is not reported again for its
 * children.
 */
export function chargedRates(stated: StatedSides, fraction: Fraction | null): RatesResult {
  const { official, gateway } = stated;
  const rates: Partial<Record<TokenClass, PicoUsdPerToken>> = {};
  const faults: RateFault[] = [];
  for (const name of tokenClasses) {
    const rule = rateRule(name, stated, fraction);
    if (rule === null)
      faults.push({
        class: name,
        kind: "none",
        message: `no charged rate for ${name}; name a group, or state gateway.${name}`,
      });
    else if (rule.kind === "stated") rates[name] = rateOf(gateway[name]);
    else if (rule.kind === "share" && fraction !== null) {
      const exact = shareOf(rateOf(official[name]), fraction);
      if (exact === undefined)
        faults.push({ class: name, kind: "inexact", message: inexact(official[name] ?? "", fraction) });
      else rates[name] = exact as PicoUsdPerToken;
    } else if (rule.kind === "parent") {
      const rate = rates[rule.of];
      if (rate !== undefined) rates[name] = rate;
    }
  }
  return faults.length === 0 ? { ok: true, rates: rates as Rates } : { ok: false, faults };
}

/**
 * Returns the gateway's amount, or otherwise the group's fraction of the official amount. If neither exists, reports
 * a fault that names `field`, the field for the gateway's amount, and returns undefined.
 */
export function chargedUsd(
  { official, gateway }: { readonly official: string; readonly gateway?: string | undefined },
  fraction: Fraction | null,
  block: Block,
  field = "gateway",
): PicoUsd | undefined {
  if (gateway !== undefined) return usdOf(gateway);
  const share = fraction === null ? undefined : shareOf(usdOf(official), fraction);
  if (share === undefined)
    block.report(fraction === null ? `no charged price; name a group, or state ${field}` : inexact(official, fraction));
  return share as PicoUsd | undefined;
}

function inexact(amount: string, fraction: Fraction): string {
  return `${fraction.text} of ${amount} (group "${fraction.group}") cannot be held exactly; state the rate under gateway`;
}

/** Parses an amount that the schema has validated. */
export function usdOf(text: string): PicoUsd {
  const amount = parseUsd(text);
  invariant(amount !== undefined, "an amount passed the schema");
  return amount;
}

/** Rates of a price for requests or tasks, whose tokens cost nothing. */
export const freeRates: Rates = fill(() => 0n as PicoUsdPerToken);

function shareOf(amount: bigint, fraction: Fraction): bigint | undefined {
  const product = amount * fraction.millionths;
  return product % million === 0n ? product / million : undefined;
}

/** Parses a rate that the schema has validated. */
function rateOf(text: string | undefined): PicoUsdPerToken {
  const rate = text === undefined ? undefined : parseRate(text);
  invariant(rate !== undefined, "a rate passed the schema");
  return rate;
}

function fill(rate: (name: TokenClass) => PicoUsdPerToken): Rates {
  return Object.fromEntries(tokenClasses.map((name) => [name, rate(name)])) as Record<TokenClass, PicoUsdPerToken>;
}
