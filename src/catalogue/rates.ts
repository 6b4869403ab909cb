import { parseRate, parseUsd, type PicoUsd, type PicoUsdPerToken } from "../core/money.ts";
import type { Rates } from "../core/price.ts";
import { parentClass, statedClass, tokenClasses, type TokenClass } from "../core/usage.ts";
import { invariant } from "../core/assert.ts";
import type { RateRule } from "../ports/catalogue.ts";
import type { Block } from "./read.ts";
import type { StatedRates } from "./schema.ts";

/** A group's share of the official price, exact: 750_000 millionths is "0.75". */
export interface Fraction {
  readonly group: string;
  readonly text: string;
  readonly millionths: bigint;
}

const million = 1_000_000n;

/** The provider's list and the gateway's absolute rates, as a file states them. */
export interface StatedSides {
  readonly official: StatedRates;
  readonly gateway: StatedRates;
}

/** Resolved rates, or each class without an exact rate and the reason. */
type RatesResult =
  | { readonly ok: true; readonly rates: Rates }
  | { readonly ok: false; readonly faults: readonly RateFault[] };

interface RateFault {
  readonly class: TokenClass;
  /** `none`: nothing says what it is charged. `inexact`: the share of its official rate cannot be held. */
  readonly kind: "none" | "inexact";
  readonly message: string;
}

export function readFraction(group: string, text: string): Fraction {
  return { group, text, millionths: rateOf(text) };
}

/** The official rates; a class that is left out takes its parent's. `input` and `output` are stated. */
export function listRates(official: StatedRates): Rates {
  return fill((name) => rateOf(official[statedClass(name, official)]));
}

/**
 * Returns the rule of a class: the gateway's absolute rate; else, for cached input, the charged input rate; else the
 * group's share of the official rate; else the charged rate of the parent class. Null without any.
 */
export function rateRule(name: TokenClass, stated: StatedSides, fraction: Fraction | null): RateRule | null {
  const { official, gateway } = stated;
  if (gateway[name] !== undefined) return { kind: "stated" };
  if (fraction !== null && name !== "cached_input" && official[name] !== undefined)
    return { kind: "share", fraction: fraction.text };
  const parent = parentClass[name];
  return parent === null ? null : { kind: "parent", of: parent };
}

/** Returns the charged rates by class, as `rateRule` says. A class whose parent has a fault gets none of its own. */
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
 * Returns the gateway's amount, else the group's share of the official one. Undefined after a report, which names the
 * `field` of the gateway's amount.
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

/** An amount that the schema has let through. */
export function usdOf(text: string): PicoUsd {
  const amount = parseUsd(text);
  invariant(amount !== undefined, "an amount passed the schema");
  return amount;
}

/** Rates next to a price of requests, where tokens cost nothing. */
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
