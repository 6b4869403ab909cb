import type { BudgetWindow } from "../core/budget.ts";
import type { Charge } from "../core/charge.ts";
import { noMoney, stepsOf, type PicoUsd } from "../core/money.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { KeyStore } from "../ports/key-store.ts";
import type { BudgetStore, LedgerQueries } from "../ports/ledger.ts";
import type { RecentCursor, RecentQuery } from "../ports/spend.ts";
import { keyNamesOf, type NameOf } from "./names.ts";
import { runOutlook } from "./outlook.ts";
import type { SpendMemory } from "./spend-memory.ts";

/** Stores and services of `watch`. */
export interface WatchTools {
  readonly ledger: LedgerQueries & BudgetStore;
  readonly keys: KeyStore;
  readonly memory: SpendMemory;
  readonly calendar: Calendar;
}

export type WatchFilter = Pick<RecentQuery, "key" | "team" | "model">;

/** Polls for charges that started or ended since the last poll. Reports each state of a charge once. */
export class RequestWatch {
  readonly #ledger: LedgerQueries;
  readonly #filter: WatchFilter;
  #cursor: RecentCursor | undefined;
  /** States of charges that were reported. The oldest are forgotten. */
  readonly #reported = new Map<string, string>();

  constructor(ledger: LedgerQueries, filter: WatchFilter) {
    this.#ledger = ledger;
    this.#filter = filter;
  }

  /** Returns new charges, oldest first. The first call returns the last `count` charges. */
  async poll(count: number): Promise<readonly Charge[]> {
    const after = this.#cursor === undefined ? {} : { after: this.#cursor };
    const { charges, cursor } = await this.#ledger.recent({
      ...this.#filter,
      ...after,
      limit: this.#cursor === undefined ? count : 1000,
    });
    this.#cursor = cursor;
    return charges.toReversed().filter(({ id, state }) => {
      if (this.#reported.get(id) === state) return false;
      this.#reported.delete(id);
      this.#reported.set(id, state);
      const [oldest] = this.#reported.keys();
      if (this.#reported.size > rememberedMax && oldest !== undefined) this.#reported.delete(oldest);
      return true;
    });
  }
}

/** Largest number of remembered charges. A poll covers fewer, so that none is reported twice. */
const rememberedMax = 6_000;

/** Figures above the list of requests. */
export interface WatchedSums {
  readonly today: { readonly cost: PicoUsd; readonly requests: number };
  readonly month: { readonly cost: PicoUsd; readonly requests: number };
  /** Forecast of this month's spending at the rate of the last seven days; null if nothing was spent. */
  readonly monthEnd: PicoUsd | null;
  readonly running: number;
  /** Budgets in their present windows, fullest first. */
  readonly budgets: readonly BudgetWindow[];
  readonly nameOf: NameOf;
}

/** Returns the figures above the list. `budgetsMax` is the largest number of budgets that fit on the screen. */
export async function watchedSums(
  { ledger, keys, memory, calendar }: WatchTools,
  now: number,
  budgetsMax: number,
): Promise<WatchedSums> {
  const [{ today, month, forecast }, pending, windows] = await Promise.all([
    runOutlook({ ledger, memory, calendar }, now),
    ledger.pending(),
    ledger.windows(now),
  ]);
  const budgets = windows.toSorted((a, b) => fullness(b) - fullness(a)).slice(0, budgetsMax);
  const named = budgets.flatMap(({ budget, subject }) => [
    subject,
    budget.scope.kind === "key" ? budget.scope.key : "",
  ]);
  return {
    today: today.sums,
    month: month.sums,
    monthEnd: forecast?.monthEnd ?? null,
    running: pending.count,
    budgets,
    nameOf: await keyNamesOf(keys, named),
  };
}

/** Returns the spent and held amounts in thousandths of the limit. */
function fullness({ spent, held, budget }: BudgetWindow): number {
  if (budget.limit <= noMoney) return 1000;
  return stepsOf((spent + held) as PicoUsd, budget.limit, 1000);
}
