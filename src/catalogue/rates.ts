import { parseRate, parseUsd, type PicoUsd, type PicoUsdPerToken } from "../core/money.ts";
import type { Rates } from "../core/price.ts";
import { parentClass, statedClass, tokenClasses, type TokenClass } from "../core/usage.ts";
import { invariant } from "../core/assert.ts";
import type { RateRule } from "../ports/catalogue.ts";
import type { Block } from "./read.ts";
import type { StatedRates } from "./schema.ts";

/** Fraction of the official price that a group charges. For example, "0.75" is 750_000 millionths. */
export interface Fraction {
  readonly group: string;
  readonly text: string;
  readonly millionths: bigint;
}

const million = 1_000_000n;

/** Rates in a price file: the provider's official rates and the gateway's absolute rates. */
export interface StatedSides {
  readonly official: StatedRates;
  readonly gateway: StatedRates;
}

/** Resolved rates, or the reasons why some classes have no exact rate. */
type RatesResult =
  | { readonly ok: true; readonly rates: Rates }
  | { readonly ok: false; readonly faults: readonly RateFault[] };

interface RateFault {
  readonly class: TokenClass;
  /**
   * `none`: the files state no charged rate for the class. `inexact`: the group's fraction of the class's official rate
   * cannot be represented exactly.
   */
  readonly kind: "none" | "inexact";
  readonly message: string;
}

export function readFraction(group: string, text: string): Fraction {
  return { group, text, millionths: rateOf(text) };
}

/**
 * Returns the official rates. A class that the file does not state has the rate of its parent class. `input` and
 * `output` are always stated.
 */
export function listRates(official: StatedRates): Rates {
  return fill((name) => rateOf(official[statedClass(name, official)]));
}

/**
 * Returns the rule that sets the charged rate of a class; null if there is none. The gateway's absolute rate takes
 * precedence, then the group's fraction of the official rate, then the charged rate of the parent class. The fraction
 * does not apply to cached input.
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
 * Returns the charged rate of each class according to `rateRule`. Child classes do not repeat the fault of their parent.
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
 * Returns the gateway's amount if the file states it; otherwise the group's fraction of the official amount. Without a
 * group, or if that fraction is not exact, reports a fault and returns undefined. `field`: name of the field for the
 * gateway's amount.
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
  return `${fraction.text} of ${amount} (group "${fraction.group}") cannot be represented exactly; state the rate under gateway`;
}

/** Parses an amount that the schema has validated. */
export function usdOf(text: string): PicoUsd {
  const amount = parseUsd(text);
  invariant(amount !== undefined, "an amount passed the schema");
  return amount;
}

/** Rates of 0 for a price per request or task, because its tokens cost nothing. */
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
