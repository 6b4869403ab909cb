import { assertNever } from "../core/assert.ts";
import type { Charge, Formula } from "../core/charge.ts";
import { costWithinRange } from "../core/cost.ts";
import type { PicoUsd } from "../core/money.ts";
import type { PriceVersion } from "../core/price.ts";

interface Mismatch {
  readonly expected: string;
  readonly found: string;
}

/** Where a charge's state and amounts do not follow from its formula and inputs. `priceOf` answers null for a lost price. */
export function recompute(charge: Charge, priceOf: (id: string) => PriceVersion | null): Mismatch[] {
  const mismatches: Mismatch[] = [];
  const differ = (name: string, expected: unknown, found: unknown) => {
    if (expected !== found) mismatches.push({ expected: `${name} ${String(expected)}`, found: `${name} ${String(found)}` });
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
  const amounts = amountsOf(charge, charge.formula, priceOf);
  if (amounts === null) return [...mismatches, { expected: "its stored price", found: `no price ${charge.priceId}` }];
  differ("cost", amounts.cost, charge.cost);
  differ("list cost", amounts.list, charge.listCost);
  differ("minimum applied", amounts.minimumApplied, charge.minimumApplied);
  const { hold } = charge;
  differ("overage", hold === null || amounts.cost === null || amounts.cost <= hold ? 0n : amounts.cost - hold, charge.overage);
  return mismatches;
}

interface Amounts {
  readonly cost: PicoUsd | null;
  readonly list: PicoUsd | null;
  readonly minimumApplied: boolean;
}

function amountsOf(charge: Charge, formula: Formula, priceOf: (id: string) => PriceVersion | null): Amounts | null {
  switch (formula) {
    case "tokens":
    case "per_request": {
      const price = charge.priceId === null ? null : priceOf(charge.priceId);
      if (price === null || (price.perRequest !== null) !== (formula === "per_request")) return null;
      const cost = costWithinRange(price, charge.tokens);
      return cost && { cost: cost.charged, list: cost.list, minimumApplied: cost.minimumApplied };
    }
    case "assumed":
      return { cost: charge.hold, list: charge.hold, minimumApplied: false };
    case "unpriced":
      return { cost: null, list: null, minimumApplied: false };
    case "task":
    case "adjustment":
      return { cost: charge.cost, list: charge.listCost, minimumApplied: false };
    default:
      return assertNever(formula);
  }
}
