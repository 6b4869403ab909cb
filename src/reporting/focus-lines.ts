import { assertNever } from "../core/assert.ts";
import type { Charge } from "../core/charge.ts";
import { itemize, type Billing, type CostItem, type RunPrice } from "../core/cost.ts";
import { noMoney, subtract, sum, usd, type PicoUsd } from "../core/money.ts";
import type { PriceVersion } from "../core/price.ts";
import { completionTotal, promptTotal, type TokenClass } from "../core/usage.ts";
import type { Calendar } from "../ports/calendar.ts";

/** Quantity that a line of a charge measures. */
export type Meter = TokenClass | "request" | "minimum" | "fee" | "assumed" | "stated" | "adjustment" | "carried";

/**
 * Line of a charge in FOCUS: a quantity with two unit prices. `contracted` is the gateway's price, `list` is the
 * official one. The quantity is a whole number. If the unit is USD, the quantity is in pico-USD, and each unit price is
 * USD 1 or 0.
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
  /** Price of a run's own model; absent for lines at the price of the charge. */
  readonly own?: RunPrice;
}

/**
 * Sum of the lines of several charges. The lines have the same meter and prices, and the charges agree in all other
 * columns.
 */
export type FocusRow = RowIdentity &
  Omit<FocusLine, "quantity" | "consumed" | "own"> & {
    quantity: bigint;
    consumed: bigint | null;
    readonly isToken: boolean;
  };

const oneUsd = usd("1");

/** Returns the exact cost of a quantity at a unit price. */
export function costAt(unit: FocusLine["unit"], quantity: bigint, price: PicoUsd): PicoUsd {
  return (unit === "USD" ? (quantity * price) / oneUsd : quantity * price) as PicoUsd;
}

/**
 * Returns lines that add up exactly to a posted charge's cost and list cost; null for a charge without a cost. If the
 * amounts do not follow from the price, returns lines that state the ledger's amounts; `verify` reports such a charge.
 */
export function focusLines(charge: Charge, { price, billing }: Priced): FocusLine[] | null {
  const { cost } = charge;
  if (cost === null || charge.formula === null) return null;
  const listCost = charge.listCost ?? noMoney;
  switch (charge.formula) {
    case "tokens":
    case "per_request": {
      const items = price === undefined ? [] : itemize(price, charge.tokens, billing);
      const isWhole =
        sum(items.map((item) => item.cost)) === cost && sum(items.map((item) => item.listCost)) === listCost;
      if (isWhole && price !== undefined) return items.map((item) => itemLine(item, price));
      return statedLines("stated", cost, listCost, tokensOf(charge));
    }
    case "assumed":
      return statedLines("assumed", cost, listCost, tokensOf(charge));
    case "task":
      return statedLines("stated", cost, listCost, tokensOf(charge));
    case "adjustment":
      return charge.route === "carried"
        ? statedLines("carried", cost, listCost, tokensOf(charge))
        : statedLines("adjustment", cost, listCost, null);
    case "unpriced":
      return null;
    default:
      return assertNever(charge.formula);
  }
}

function itemLine(item: CostItem, price: PriceVersion): FocusLine {
  const tierFrom = (item.price?.version ?? price).tiers.length > 1 ? item.tierFrom : null;
  const line = { meter: item.class, tool: item.tool ?? null, tierFrom, ...(item.price && { own: item.price }) };
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
    return { ...line, unit: "USD", quantity: item.cost, contracted: oneUsd, list: noMoney, consumed };
  const [contracted, list] = [item.rate as bigint as PicoUsd, (item.listRate ?? 0n) as bigint as PicoUsd];
  return { ...line, unit: "Tokens", quantity: BigInt(item.tokens), contracted, list, consumed };
}

/**
 * Returns lines for amounts that do not follow from a price per token or request. If the two amounts are
 * equal or one of them is 0, the quantity is the amount, and each unit price is USD 1 or 0. Otherwise the unit prices
 * are the amounts without their sign, and the quantity is 1, or -1 for a credit, because FOCUS requires prices above
 * zero. Amounts with opposite signs get a line each.
 */
function statedLines(meter: Meter, cost: PicoUsd, list: PicoUsd, consumed: bigint | null): FocusLine[] {
  const line = { meter, tool: null, consumed, tierFrom: null };
  const inUsd = { ...line, unit: "USD" } as const;
  if (list === cost) return [{ ...inUsd, quantity: cost, contracted: oneUsd, list: oneUsd }];
  if (list === 0n) return [{ ...inUsd, quantity: cost, contracted: oneUsd, list: noMoney }];
  if (cost === 0n) return [{ ...inUsd, quantity: list, contracted: noMoney, list: oneUsd }];
  if (cost > 0n && list > 0n) return [{ ...line, unit: "Units", quantity: 1n, contracted: cost, list }];
  if (cost < 0n && list < 0n)
    return [{ ...line, unit: "Units", quantity: -1n, contracted: negated(cost), list: negated(list) }];
  return [
    ...statedLines(meter, cost, noMoney, consumed),
    ...statedLines(meter, noMoney, list, consumed === null ? null : 0n),
  ];
}

function negated(amount: PicoUsd): PicoUsd {
  return subtract(noMoney, amount);
}

function tokensOf({ tokens }: Charge): bigint {
  return BigInt(promptTotal(tokens) + completionTotal(tokens));
}

/** Price of a charge's lines. */
export interface Priced {
  readonly price: PriceVersion | undefined;
  readonly priceId: string | null;
  /** Terms of the charge with the runs of the model. */
  readonly billing: Billing;
}

/** Returns the identity of a charge's row for runs at the price of their own model. */
export function identityAt({ id, version }: RunPrice, identity: RowIdentity): RowIdentity {
  return { ...identity, pricedModel: version.model, group: version.group, priceId: id };
}

/**
 * Prefix for names of labels. FOCUS has one column for all kinds of tags, and requires a prefix for every kind except
 * one. A tag's name cannot have this prefix, because it contains no colon.
 */
const labelPrefix = "label:";

export type RowIdentity = Readonly<ReturnType<typeof identityOf>>;

/** Returns the values that all charges of a row share. `day`: their charge period. Times are in milliseconds. */
export function identityOf(
  charge: Charge,
  { price, priceId }: Omit<Priced, "billing">,
  day: { readonly start: number; readonly end: number },
  calendar: Calendar,
) {
  // A correction is billed in the month in which it is made, but its charge period is the day of the corrected charge.
  const billedAt = charge.formula === "adjustment" ? Math.max(charge.endedAt ?? charge.at, charge.at) : charge.at;
  const month = calendar.spanOf("1mo", billedAt);
  const labels = Object.entries(charge.labels).map(([name, value]) => [labelPrefix + name, value] as const);
  const tags = [...Object.entries(charge.tags), ...labels].sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    /** Charge period: the part of the day that the export covers. The day is in the calendar's time zone. */
    periodStart: day.start,
    periodEnd: day.end,
    /** Billing period. */
    monthStart: month.start,
    monthEnd: month.end ?? month.start,
    key: charge.key,
    team: charge.team,
    /** Model as the request named it; `pricedModel` is the model id in its price. */
    model: charge.model,
    pricedModel: price?.model ?? charge.model,
    group: charge.group,
    priceId,
    /** Service tier; null for the standard tier. */
    serviceTier: charge.billing.serviceTier,
    source: charge.source,
    /** Names of doubts, separated by spaces; null if there are none. */
    doubts: charge.doubts.join(" ") || null,
    /** True for a correction that was made in a later month than the corrected charge. */
    isLate: month.start > charge.at,
    /** Tags and labels as a JSON object; null if there are none. */
    tags: tags.length === 0 ? null : JSON.stringify(Object.fromEntries(tags)),
    user: charge.user,
  };
}
