import { shortageOf, worstShortage, type BudgetWindow } from "../core/budget.ts";
import { noMoney, type PicoUsd } from "../core/money.ts";
import { mayBeFree } from "../core/price.ts";
import type { Refusal } from "../core/refusals.ts";
import type { Caller } from "../core/scope.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import type { Exchange } from "../ports/exchange.ts";
import type { BudgetStore } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import { readSender, type Authenticated, type SenderRules } from "./authenticate.ts";
import { budgetRefusal, type ShortageView } from "./hold.ts";

/**
 * Returns a refusal if a budget that does not depend on the request's body has nothing left; null otherwise. `isFree`:
 * true if requests of this kind may cost nothing.
 */
export type FindExhausted = (exchange: Exchange, who: Authenticated, isFree: boolean) => Promise<Refusal | null>;

interface ExhaustedDeps extends ShortageView, SenderRules {
  readonly windowsOf: BudgetStore["windowsOf"];
  readonly catalogue: () => Catalogue;
  readonly clock: Clock;
  readonly log: Log;
}

/** Smallest cost of a request that is not free. */
const leastCost = 1n as PicoUsd;

/**
 * Creates the check of budgets that precedes the reading of a large body. It only protects the memory for bodies: the
 * hold decides about every request. So it admits whatever the hold might admit, even if the ledger does not answer.
 */
export function createExhaustedCheck(deps: ExhaustedDeps): FindExhausted {
  return async (exchange, who, isFree) => {
    const sender = readSender(exchange, who, null, deps);
    if (!sender.ok) return null;
    const { tags } = sender;
    // Without a user in the headers, the body may name one.
    const user = sender.user ?? (deps.storedUser === null ? null : undefined);
    const caller: Caller = { ...who.caller, tags, user };
    let windows: readonly BudgetWindow[];
    try {
      windows = await deps.windowsOf(caller, deps.clock.now());
    } catch (error) {
      deps.log.debug({ request_id: exchange.id, err: error }, "budgets could not be read before the body");
      return null;
    }
    const mayCostNothing = isFree || (windows.some(hasExactlyNothing) && hasFreePrice(deps.catalogue()));
    const shortages = windows.flatMap((window) => {
      const shortage = shortageOf(window, mayCostNothing ? noMoney : leastCost);
      return shortage?.exhausted === true ? [shortage] : [];
    });
    const worst = worstShortage(shortages);
    if (worst === null) return null;
    return { code: "budget_exceeded", beforeBody: true, ...(await budgetRefusal(deps, worst, caller)) };
  };
}

/** Returns true for a hard window with nothing left, in which a request without a cost still fits. */
function hasExactlyNothing(window: BudgetWindow): boolean {
  return shortageOf(window, leastCost)?.exhausted === true && shortageOf(window, noMoney)?.exhausted !== true;
}

/** Returns true if a request may cost nothing under any price of the catalogue. */
function hasFreePrice(catalogue: Catalogue): boolean {
  return catalogue
    .histories()
    .some(
      ({ spans, tasks = [] }) =>
        spans.some(({ model: { price } }) => price !== null && mayBeFree(price.version)) ||
        tasks.some((task) => task.spans.some(({ price }) => price !== null && mayBeFree(price.version))),
    );
}
