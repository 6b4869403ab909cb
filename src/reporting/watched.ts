import { limitOf, type BudgetWindow } from "../core/budget.ts";
import type { Charge } from "../core/charge.ts";
import { noMoney, stepsOf, type PicoUsd } from "../core/money.ts";
import { dayMs, minuteMs } from "../core/time.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { KeyStore } from "../ports/stores.ts";
import type { BudgetStore, LedgerQueries } from "../ports/ledger.ts";
import { refusalsWrittenMs, type RefusalRow, type Refusals } from "../ports/refusals.ts";
import type { RecentCursor, RecentQuery } from "../ports/spend.ts";
import { keysIn } from "./standing.ts";
import { keyNamesOf } from "./names.ts";
import { runOutlook } from "./outlook.ts";
import type { SpendMemory } from "./spend-memory.ts";

/** Dependencies of `watchedSums`. */
interface WatchTools {
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
  /** Last reported state of each charge, by id. The oldest entries are removed. */
  readonly #reported = new Map<string, string>();

  constructor(ledger: LedgerQueries, filter: WatchFilter) {
    this.#ledger = ledger;
    this.#filter = filter;
  }

  /**
   * Returns charges that are new or have changed state since the last call, oldest first. The first call returns the
   * last `count` charges.
   */
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

/**
 * Largest number of charges to remember. It must exceed the number that a poll returns. Otherwise a state could be
 * reported twice.
 */
const rememberedMax = 6_000;

/** Largest number of refusals that are kept. */
const refusalsKept = 100;

/** Refusals that are shown among the requests. */
export interface WatchedRefusals {
  /** Newest refusals of the last 24 hours. Refusals within a minute that differ only in their time are one row. */
  readonly rows: readonly RefusalRow[];
  /** Number of requests that were refused today, of any key, team and model. */
  readonly today: number;
}

/** Polls for refusals. */
export class RefusalWatch {
  readonly #refusals: Pick<Refusals, "list" | "count">;
  readonly #calendar: Calendar;
  readonly #filter: WatchFilter;
  #polledAt = -Infinity;
  #latest: WatchedRefusals = { rows: [], today: 0 };

  constructor(
    { refusals, calendar }: { readonly refusals: Pick<Refusals, "list" | "count">; readonly calendar: Calendar },
    filter: WatchFilter,
  ) {
    this.#refusals = refusals;
    this.#calendar = calendar;
    this.#filter = filter;
  }

  /** Returns the refusals. Reads them again only after `refusalsWrittenMs`, the pause between two writes of a proxy. */
  async poll(now: number): Promise<WatchedRefusals> {
    if (Math.abs(now - this.#polledAt) < refusalsWrittenMs) return this.#latest;
    this.#polledAt = now;
    const { rows: known } = this.#latest;
    // A proxy may add to the rows of the last two minutes.
    const since = (known[0]?.minute ?? now - dayMs) - minuteMs;
    const [page, counts] = await Promise.all([
      this.#refusals.list({ ...this.#filter, since, limit: refusalsKept }),
      this.#refusals.count({ since: this.#calendar.spanOf("1d", now).start, until: now, by: [] }),
    ]);
    const older = known.filter(({ minute }) => minute < since);
    this.#latest = {
      rows: [...(page?.refusals ?? []), ...older].slice(0, refusalsKept),
      today: counts.reduce((sum, { count }) => sum + count, 0),
    };
    return this.#latest;
  }
}

/** Totals and budgets that are shown above the list of requests. */
export type WatchedSums = Awaited<ReturnType<typeof watchedSums>>;

/**
 * Returns the totals and budgets above the list of requests. `budgetsMax`: largest number of budgets that fit on the
 * screen.
 */
export async function watchedSums({ ledger, keys, memory, calendar }: WatchTools, now: number, budgetsMax: number) {
  const [{ today, month, forecast }, pending, windows] = await Promise.all([
    runOutlook({ ledger, memory, calendar }, now),
    ledger.pending(),
    ledger.windows(now),
  ]);
  const budgets = windows.toSorted((a, b) => fullness(b) - fullness(a)).slice(0, budgetsMax);
  return {
    today: today.sums,
    month: month.sums,
    /** Forecast of this month's spending at the rate of the last seven days; null if nothing was spent. */
    monthEnd: forecast?.monthEnd ?? null,
    running: pending.count,
    /** Budgets in their current windows, fullest first. */
    budgets,
    nameOf: await keyNamesOf(keys, keysIn(budgets)),
  };
}

/** Returns the sum of the spent and held amounts in thousandths of the limit, at most 1000; 1000 for a limit of 0. */
function fullness(window: BudgetWindow): number {
  const limit = limitOf(window);
  if (limit <= noMoney) return 1000;
  return stepsOf((window.spent + window.held) as PicoUsd, limit, 1000);
}
