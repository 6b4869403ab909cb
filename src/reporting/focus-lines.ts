import { assertNever } from "../core/assert.ts";
import type { Charge } from "../core/charge.ts";
import { itemise, type CostItem } from "../core/cost.ts";
import { noMoney, subtract, sum, usd, type PicoUsd } from "../core/money.ts";
import type { PriceVersion } from "../core/price.ts";
import { completionTotal, promptTotal, type TokenClass } from "../core/usage.ts";

/** What a line of a charge measures. */
export type Meter = TokenClass | "request" | "minimum" | "fee" | "assumed" | "stated" | "adjustment" | "carried";

/**
 * One line of a charge in FOCUS: a quantity at a contracted unit price (the gateway's) and a list unit price (the official
 * one). A quantity is a whole number. In USD it is in pico-USD, at a unit price of 1 or 0.
 */
export interface FocusLine {
  readonly meter: Meter;
  /** Type of the hosted tool, for a fee. */
  readonly tool: string | null;
  readonly unit: "Tokens" | "Requests" | "USD" | "Units";
  readonly quantity: bigint;
  readonly contracted: PicoUsd;
  readonly list: PicoUsd;
  /** Actual usage: tokens, requests at a flat price, or calls of a tool. Null for a line that is not usage. */
  readonly consumed: bigint | null;
  /** Prompt size at which the price's tier begins, in tokens; null if it has no tiers. */
  readonly tierFrom: number | null;
}

const one = usd("1");

/** Returns the exact cost of a quantity at a unit price. */
export function costAt(unit: FocusLine["unit"], quantity: bigint, price: PicoUsd): PicoUsd {
  return (unit === "USD" ? (quantity * price) / one : quantity * price) as PicoUsd;
}

/**
 * Returns lines that add up exactly to a posted charge's cost and list cost; null for a charge without a cost. A charge that
 * does not follow from its price has one line with the ledger's amounts; `verify` reports such a charge.
 */
export function focusLines(charge: Charge, price: PriceVersion | undefined): FocusLine[] | null {
  const { cost } = charge;
  if (cost === null || charge.formula === null) return null;
  const listCost = charge.listCost ?? noMoney;
  switch (charge.formula) {
    case "tokens":
    case "per_request": {
      const items = price === undefined ? [] : itemise(price, charge.tokens, charge.billing);
      const isWhole =
        sum(items.map((item) => item.cost)) === cost && sum(items.map((item) => item.listCost)) === listCost;
      if (isWhole && price !== undefined) return items.map((item) => itemLine(item, price));
      return stated("stated", cost, listCost, tokensOf(charge));
    }
    case "assumed":
      return stated("assumed", cost, listCost, tokensOf(charge));
    case "task":
      return stated("stated", cost, listCost, tokensOf(charge));
    case "adjustment":
      return charge.route === "carried"
        ? stated("carried", cost, listCost, tokensOf(charge))
        : stated("adjustment", cost, listCost, null);
    case "unpriced":
      return null;
    default:
      return assertNever(charge.formula);
  }
}

function itemLine(item: CostItem, price: PriceVersion): FocusLine {
  const tierFrom = price.tiers.length > 1 ? item.tierFrom : null;
  const line = { meter: item.class, tool: item.tool ?? null, tierFrom };
  if (item.class === "request") {
    return {
      ...line,
      unit: "Requests",
      quantity: 1n,
      contracted: item.cost,
      list: item.listCost,
      consumed: 1n,
      tierFrom: null,
    };
  }
  if (item.class === "fee") {
    const calls = BigInt(item.tokens);
    const [contracted, list] = [(item.cost / calls) as PicoUsd, (item.listCost / calls) as PicoUsd];
    return { ...line, unit: "Requests", quantity: calls, contracted, list, consumed: calls, tierFrom: null };
  }
  const consumed = item.class === "minimum" ? 0n : BigInt(item.tokens);
  if (item.rate === null)
    return { ...line, unit: "USD", quantity: item.cost, contracted: one, list: noMoney, consumed };
  const [contracted, list] = [item.rate as bigint as PicoUsd, (item.listRate ?? 0n) as bigint as PicoUsd];
  return { ...line, unit: "Tokens", quantity: BigInt(item.tokens), contracted, list, consumed };
}

/**
 * Returns lines for amounts that no price by token or request produces. If both unit prices can be 1 USD or 0, the quantity
 * is the amount. Otherwise it is one unit at that price (minus one for a credit), since FOCUS requires prices above zero.
 */
function stated(meter: Meter, cost: PicoUsd, list: PicoUsd, consumed: bigint | null): FocusLine[] {
  const line = { meter, tool: null, consumed, tierFrom: null };
  const inUsd = { ...line, unit: "USD" } as const;
  if (list === cost) return [{ ...inUsd, quantity: cost, contracted: one, list: one }];
  if (list === 0n) return [{ ...inUsd, quantity: cost, contracted: one, list: noMoney }];
  if (cost === 0n) return [{ ...inUsd, quantity: list, contracted: noMoney, list: one }];
  if (cost > 0n && list > 0n) return [{ ...line, unit: "Units", quantity: 1n, contracted: cost, list }];
  if (cost < 0n && list < 0n)
    return [{ ...line, unit: "Units", quantity: -1n, contracted: negated(cost), list: negated(list) }];
  return [...stated(meter, cost, noMoney, consumed), ...stated(meter, noMoney, list, consumed === null ? null : 0n)];
}

function negated(amount: PicoUsd): PicoUsd {
  return subtract(noMoney, amount);
}

function tokensOf({ tokens }: Charge): bigint {
  return BigInt(promptTotal(tokens) + completionTotal(tokens));
}
