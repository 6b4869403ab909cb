import { amountToHold, appliesTo, subjectOf, type Caller, type Span } from "../../core/budget.ts";
import type { PicoUsd } from "../../core/money.ts";
import type { Calendar } from "../../ports/calendar.ts";
import { calendarOf } from "../../platform/clock.ts";
import { budgetOf, type BudgetRow, type StoredBudget } from "../rows/budgets.ts";
import type { Database, Statements } from "./connection.ts";

/** Most callers whose budgets are cached. */
const callersKept = 20_000;

/** Window as a batch names it. The database finds or creates it. */
export interface NamedWindow extends Span {
  readonly budget: StoredBudget;
  readonly subject: string;
}

/**
 * All budgets at one version, with the time zone of their windows. The database applies a batch only if its version is
 * current, so a change takes effect without notifying anyone.
 */
export class KnownBudgets {
  readonly version: bigint;
  readonly calendar: Calendar;
  readonly #bySeq: ReadonlyMap<number, StoredBudget>;
  readonly #weighing = new Map<string, readonly StoredBudget[]>();

  constructor(version: bigint, calendar: Calendar, budgets: readonly StoredBudget[]) {
    this.version = version;
    this.calendar = calendar;
    this.#bySeq = new Map(budgets.map((budget) => [budget.seq, budget]));
  }

  bySeq(seq: number): StoredBudget | undefined {
    return this.#bySeq.get(seq);
  }

  /** Returns the windows that apply to a caller at an instant, in the order of their budgets. */
  windowsOf(caller: Caller, at: number): NamedWindow[] {
    return this.#weighingOn(caller).map((budget) => {
      const { start, end } = this.calendar.spanOf(budget.period, at);
      return { budget, subject: subjectOf(budget.scope, caller), start, end };
    });
  }

  #weighingOn(caller: Caller): readonly StoredBudget[] {
    const name = `${caller.key}\0${caller.team ?? ""}\0${caller.session ?? ""}`;
    let budgets = this.#weighing.get(name);
    if (budgets === undefined) {
      if (this.#weighing.size >= callersKept) this.#weighing.clear();
      budgets = [...this.#bySeq.values()].filter(({ scope }) => appliesTo(scope, caller));
      this.#weighing.set(name, budgets);
    }
    return budgets;
  }
}

/** Returns `amountToHold` for windows whose sums only the database knows. */
export function amountUnder(
  windows: readonly NamedWindow[],
  whole: PicoUsd | null,
  firstSlice: PicoUsd | null,
): PicoUsd | null {
  const unknown = 0n as PicoUsd;
  return amountToHold(
    windows.map((window) => ({ ...window, spent: unknown, held: unknown })),
    whole,
    firstSlice,
  );
}

/** Reads the current budgets; `calendar` is used if the ledger still has its time zone. */
export async function readKnownBudgets(database: Database, calendar: Calendar): Promise<KnownBudgets> {
  return database.transaction(async (db) => {
    const meta = await db.row<{ budgets_version: bigint; time_zone: string | null }>(
      "select budgets_version, time_zone from meta",
    );
    const zone = meta?.time_zone ?? calendar.timeZone;
    return new KnownBudgets(
      meta?.budgets_version ?? 0n,
      zone === calendar.timeZone ? calendar : calendarOf(zone),
      await readBudgets(db),
    );
  }, "snapshot");
}

/** Returns all budgets in order of creation. */
export async function readBudgets(db: Statements): Promise<StoredBudget[]> {
  return (await db.rows<BudgetRow>("select * from budgets order by seq")).map(budgetOf);
}
