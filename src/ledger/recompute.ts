import { assertNever } from "../core/assert.ts";
import { sources, type Charge, type Source } from "../core/charge.ts";
import { costWithinRange, type ChargePrices, type Formula } from "../core/cost.ts";
import type { PicoUsd } from "../core/money.ts";
import type { PriceVersion } from "../core/price.ts";
import { termsWithRuns, tokensOfRuns } from "../core/runs.ts";
import { noTokens, promptClasses, promptTotal, tokenClasses } from "../core/usage.ts";
import { taskAmounts, type TaskInputs } from "../core/task-settlement.ts";

interface Mismatch {
  readonly expected: string;
  readonly found: string;
}

/** Amounts of a charge, and the inputs from which `recompute` computes them again. */
export type AuditedCharge = Pick<
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
  | "runs"
  | "delivered"
>;

const fromTokens: readonly Source[] = ["reported", "counted", "partial"];

/**
 * Sources that each formula allows. If a counted amount is above the hold, the cost is the hold, and the formula is
 * `assumed`.
 */
const sourcesOf: Readonly<Record<Formula, readonly Source[]>> = {
  tokens: fromTokens,
  per_request: fromTokens,
  assumed: ["assumed", "counted", "partial"],
  unpriced: sources,
  task: sources,
  adjustment: sources,
};

/** Function that returns the inputs of a charge with formula `task` from the task's row; null if the row is missing. */
type TaskInputsOf = (charge: string) => TaskInputs | null;

/**
 * Returns the differences between a charge and the result of its formula. `priceOf` returns null for a missing price.
 */
export function recompute(
  charge: AuditedCharge,
  priceOf: (id: string) => PriceVersion | null,
  inputsOf: TaskInputsOf,
): Mismatch[] {
  const mismatches: Mismatch[] = [];
  const compare = (name: string, expected: unknown, found: unknown) => {
    if (expected !== found)
      mismatches.push({ expected: `${name} ${String(expected)}`, found: `${name} ${String(found)}` });
  };
  compare("ended", charge.state !== "pending", charge.endedAt !== null);
  compare("has a formula", charge.state === "posted", charge.formula !== null);
  compare("has a source", charge.state === "posted", charge.source !== null);
  if (charge.state !== "posted" || charge.formula === null) {
    compare("cost", null, charge.cost);
    compare("list cost", null, charge.listCost);
    compare("overage", 0n, charge.overage);
    return mismatches;
  }
  const allowed = sourcesOf[charge.formula] ?? [];
  if (charge.source !== null && !allowed.includes(charge.source)) {
    mismatches.push({
      expected: `source ${allowed.join(" or ")} for formula ${charge.formula}`,
      found: `source ${charge.source}`,
    });
  }
  // An unknown formula cannot be recomputed.
  if (allowed.length === 0) return mismatches;
  compare("has a cost", charge.formula !== "unpriced", charge.cost !== null);
  const amounts =
    charge.formula === "task" ? taskAmountsOf(charge, priceOf, inputsOf) : amountsOf(charge, charge.formula, priceOf);
  if (amounts === null) {
    const isTask = charge.formula === "task";
    return [
      ...mismatches,
      {
        expected: isTask
          ? "the usage or price of its task"
          : `the stored price ${charge.priceId} for formula ${charge.formula}`,
        found: "none",
      },
    ];
  }
  compare("cost", amounts.cost, charge.cost);
  compare("list cost", amounts.list, charge.listCost);
  compare("minimum applied", amounts.minimumApplied, charge.minimumApplied);
  if (charge.runs.length > 0) {
    const sum = tokensOfRuns(charge.runs);
    for (const name of tokenClasses) compare(`tokens of ${name}`, sum[name], charge.tokens[name]);
  }
  const delivered = costOfDelivered(charge, priceOf);
  if (delivered !== null && charge.cost !== null && delivered > charge.cost) {
    mismatches.push({ expected: `cost at least ${delivered} for the delivered tokens`, found: `cost ${charge.cost}` });
  }
  const { hold } = charge;
  compare(
    "overage",
    hold === null || amounts.cost === null || amounts.cost <= hold ? 0n : amounts.cost - hold,
    charge.overage,
  );
  return mismatches;
}

/** Returns the cost of the delivered tokens; null if unknown. The cost of the charge must not be lower. */
function costOfDelivered(charge: AuditedCharge, priceOf: (id: string) => PriceVersion | null): PicoUsd | null {
  const { delivered, tokens } = charge;
  const prices = delivered === null || charge.cost === null ? null : pricesOf(charge, priceOf);
  if (delivered === null || prices === null) return null;
  // A prompt of the same size is the one that the gateway stated, with its cached tokens.
  const prompt = { ...noTokens, input: delivered.input };
  if (promptTotal(tokens) === delivered.input) for (const name of promptClasses) prompt[name] = tokens[name];
  return costWithinRange(prices, { ...prompt, output: delivered.output }, charge.billing)?.charged ?? null;
}

/** Returns the stored prices that a charge names; null if one of them is missing. */
function pricesOf(
  { priceId, servedPriceId }: AuditedCharge,
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
  charge: AuditedCharge,
  priceOf: (id: string) => PriceVersion | null,
  inputsOf: TaskInputsOf,
): Amounts | null {
  const inputs = inputsOf(charge.id);
  const price = charge.priceId === null ? null : (priceOf(charge.priceId)?.task ?? null);
  const amounts = inputs && taskAmounts(inputs, price);
  return amounts && { cost: amounts.charged, list: amounts.list, minimumApplied: false };
}

function amountsOf(
  charge: AuditedCharge,
  formula: Exclude<Formula, "task">,
  priceOf: (id: string) => PriceVersion | null,
): Amounts | null {
  switch (formula) {
    case "tokens":
    case "per_request": {
      const prices = pricesOf(charge, priceOf);
      const billing = termsWithRuns(charge, ({ priceId }) => priceOf(priceId));
      const cost = prices && billing && costWithinRange(prices, charge.tokens, billing);
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
