import type { Budget, BudgetWindow, Caller } from "../core/budget.ts";
import type { Charge } from "../core/charge.ts";
import type { PriceVersion } from "../core/price.ts";
import type { OldHold } from "../ports/ledger.ts";

/*
 * Short reads, as the stores over the queue ask for them: of a file they are answered at once, of a server later.
 */

export type Later<T> = T | Promise<T>;

/** See the ledger's port. */
export interface ShortQueries {
  charge(id: string): Later<Charge | undefined>;
  price(id: string): Later<PriceVersion | undefined>;
  pending(): Later<{ readonly count: number; readonly oldestAt: number | null }>;
  oldHolds(before: number): Later<readonly OldHold[]>;
  budgets(): Later<readonly Budget[]>;
  windowsOf(caller: Caller, at: number): Later<readonly BudgetWindow[]>;
}
