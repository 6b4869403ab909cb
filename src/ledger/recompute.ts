import { assertNever } from "../core/assert.ts";
import { sources, type Charge, type Formula, type Source } from "../core/charge.ts";
import { costWithinRange, type ChargePrices } from "../core/cost.ts";
import type { PicoUsd } from "../core/money.ts";
import type { PriceVersion } from "../core/price.ts";
import { noTokens } from "../core/usage.ts";
import { taskAmounts, type TaskInputs } from "../core/task-settlement.ts";

interface Mismatch {
  readonly expected: string;
  readonly found: string;
}

/** Inputs of a charge's amounts, and the amounts. */
export type Audited = Pick<
  Charge,
  | "id"
  | "state"
  | "endedAt"
  | "priceId"
  | "hold"
  | "cost"
  | "listCost"
  | "overage"
  | "formula"
  | "source"
  | "minimumApplied"
  | "tokens"
  | "servedPriceId"
  | "billing"
  | "delivered"
>;

const fromTokens: readonly Source[] = ["reported", "counted", "partial"];

/** Possible sources of each formula's amount. If a counted amount exceeds the hold, the hold is charged as "assumed". */
const knownBy: Readonly<Record<Formula, readonly Source[]>> = {
  tokens: fromTokens,
  per_request: fromTokens,
  assumed: ["assumed", "counted", "partial"],
  unpriced: sources,
  task: sources,
  adjustment: sources,
};

/** Returns the inputs of a charge with the formula `task`, from the task's row; null if the row is lost. */
export type TaskInputsOf = (charge: string) => TaskInputs | null;

/** Returns differences between a charge and the result of its formula and inputs. `priceOf` returns null for a lost price. */
export function recompute(
  charge: Audited,
  priceOf: (id: string) => PriceVersion | null,
  inputsOf: TaskInputsOf,
): Mismatch[] {
  const mismatches: Mismatch[] = [];
  const differ = (name: string, expected: unknown, found: unknown) => {
    if (expected !== found)
      mismatches.push({ expected: `${name} ${String(expected)}`, found: `${name} ${String(found)}` });
  };
  differ("ended", charge.state !== "pending", charge.endedAt !== null);
  differ("has a formula", charge.state === "posted", charge.formula !== null);
  differ("has a source", charge.state === "posted", charge.source !== null);
  if (charge.state !== "posted" || charge.formula === null) {
    differ("cost", null, charge.cost);
    differ("list cost", null, charge.listCost);
    differ("overage", 0n, charge.overage);
    return mismatches;
  }
  const known = knownBy[charge.formula] ?? [];
  if (charge.source !== null && !known.includes(charge.source)) {
    mismatches.push({
      expected: `source ${known.join(" or ")} of formula ${charge.formula}`,
      found: `source ${charge.source}`,
    });
  }
  if (known.length === 0) return mismatches;
  differ("has a cost", charge.formula !== "unpriced", charge.cost !== null);
  const amounts =
    charge.formula === "task" ? taskAmountsOf(charge, priceOf, inputsOf) : amountsOf(charge, charge.formula, priceOf);
  if (amounts === null) {
    const isTask = charge.formula === "task";
    return [
      ...mismatches,
      {
        expected: isTask ? "what its task was charged by" : "its stored price",
        found: isTask ? "nothing" : `no price ${charge.priceId}`,
      },
    ];
  }
  differ("cost", amounts.cost, charge.cost);
  differ("list cost", amounts.list, charge.listCost);
  differ("minimum applied", amounts.minimumApplied, charge.minimumApplied);
  const delivered = costOfDelivered(charge, priceOf);
  if (delivered !== null && charge.cost !== null && delivered > charge.cost) {
    mismatches.push({ expected: `cost of at least ${delivered} for what was delivered`, found: `cost ${charge.cost}` });
  }
  const { hold } = charge;
  differ(
    "overage",
    hold === null || amounts.cost === null || amounts.cost <= hold ? 0n : amounts.cost - hold,
    charge.overage,
  );
  return mismatches;
}

/** Returns the cost of the delivered tokens, which must not exceed the charge; null for rows of earlier versions. */
function costOfDelivered(charge: Audited, priceOf: (id: string) => PriceVersion | null): PicoUsd | null {
  const prices = charge.delivered === null || charge.cost === null ? null : pricesOf(charge, priceOf);
  return prices && (costWithinRange(prices, { ...noTokens, ...charge.delivered }, charge.billing)?.charged ?? null);
}

/** Returns the prices that a charge names; null if one is lost. */
function pricesOf(
  { priceId, servedPriceId }: Audited,
  priceOf: (id: string) => PriceVersion | null,
): ChargePrices | null {
  const price = priceId === null ? null : priceOf(priceId);
  const servedPrice = servedPriceId === null ? null : priceOf(servedPriceId);
  return price === null || (servedPriceId !== null && servedPrice === null) ? null : { price, servedPrice };
}

interface Amounts {
  readonly cost: PicoUsd | null;
  readonly list: PicoUsd | null;
  readonly minimumApplied: boolean;
}

function taskAmountsOf(
  charge: Audited,
  priceOf: (id: string) => PriceVersion | null,
  inputsOf: TaskInputsOf,
): Amounts | null {
  const inputs = inputsOf(charge.id);
  const price = charge.priceId === null ? null : (priceOf(charge.priceId)?.task ?? null);
  const amounts = inputs && taskAmounts(inputs, price);
  return amounts && { cost: amounts.charged, list: amounts.list, minimumApplied: false };
}

function amountsOf(
  charge: Audited,
  formula: Exclude<Formula, "task">,
  priceOf: (id: string) => PriceVersion | null,
): Amounts | null {
  switch (formula) {
    case "tokens":
    case "per_request": {
      const prices = pricesOf(charge, priceOf);
      const cost = prices && costWithinRange(prices, charge.tokens, charge.billing);
      if (cost === null || cost.formula !== formula) return null;
      return { cost: cost.charged, list: cost.list, minimumApplied: cost.minimumApplied };
    }
    case "assumed":
      return { cost: charge.hold, list: charge.hold, minimumApplied: false };
    case "unpriced":
      return { cost: null, list: null, minimumApplied: false };
    case "adjustment":
      return { cost: charge.cost, list: charge.listCost, minimumApplied: false };
    default:
      return assertNever(formula);
  }
}
