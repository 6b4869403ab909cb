import { amountToHold, noRaises } from "../../core/budget.ts";
import { appliesTo, type Caller, anchorOf, anchorsOf, limitsUnbounded, subjectsOf } from "../../core/scope.ts";
import type { PicoUsd } from "../../core/money.ts";
import type { Calendar } from "../../ports/calendar.ts";
import { calendarOf } from "../../platform/clock.ts";
import { readBudgets } from "../queries/windows.ts";
import type { NamedWindow, StoredBudget } from "../rows/budgets.ts";
import { answer } from "./answer.ts";
import type { Database } from "./connection.ts";

/**
 * All budgets at one version, with the calendar of their windows. The database rejects a batch that was planned with an
 * older version, so changed budgets take effect without a notification.
 */
export class KnownBudgets {
  readonly version: bigint;
  readonly calendar: Calendar;
  readonly #bySeq: ReadonlyMap<number, StoredBudget>;
  readonly #anchored: ReadonlyMap<string, readonly StoredBudget[]>;

  constructor(version: bigint, calendar: Calendar, budgets: readonly StoredBudget[]) {
    this.version = version;
    this.calendar = calendar;
    this.#bySeq = new Map(budgets.map((budget) => [budget.seq, budget]));
    this.#anchored = Map.groupBy(budgets, ({ scope }) => anchorOf(scope));
  }

  bySeq(seq: number): StoredBudget | undefined {
    return this.#bySeq.get(seq);
  }

  /** Returns the windows that apply to a caller at an instant, in the order of their budgets. */
  windowsOf(caller: Caller, at: number): NamedWindow[] {
    return this.#applyingTo(caller).flatMap((budget) => {
      const { start, end } = this.calendar.spanOf(budget.period, at);
      return subjectsOf(budget.scope, caller).map((subject) => ({ budget, subject, start, end }));
    });
  }

  /** Returns true if a hard budget may limit a request of the caller whose cost is not bounded (`limitsUnbounded`). */
  hasHard(caller: Caller, anyModel: boolean): boolean {
    return this.#budgetsUnder(caller).some(
      ({ mode, scope }) => mode === "hard" && limitsUnbounded(scope, caller, anyModel),
    );
  }

  #budgetsUnder(caller: Caller): readonly StoredBudget[] {
    return anchorsOf(caller).flatMap((anchor) => this.#anchored.get(anchor) ?? []);
  }

  #applyingTo(caller: Caller): readonly StoredBudget[] {
    return this.#budgetsUnder(caller)
      .filter(({ scope }) => appliesTo(scope, caller))
      .sort((a, b) => a.seq - b.seq);
  }
}

/** Returns the result of `amountToHold` for windows whose sums only the database knows. */
export function amountUnder(
  windows: readonly NamedWindow[],
  whole: PicoUsd | null,
  firstSlice: PicoUsd | null,
): PicoUsd | null {
  const unknown = 0n as PicoUsd;
  return amountToHold(
    windows.map((window) => ({ ...window, spent: unknown, held: unknown, raises: noRaises })),
    whole,
    firstSlice,
  );
}

/** Reads the current budgets. `calendar` is used if its time zone is the stored time zone, or if none is stored. */
export async function readKnownBudgets(database: Database, calendar: Calendar): Promise<KnownBudgets> {
  return database.transaction(async (db) => {
    const meta = await db.row<{ budgets_version: bigint; time_zone: string | null }>(
      "select budgets_version, time_zone from meta",
    );
    const zone = meta?.time_zone ?? calendar.timeZone;
    return new KnownBudgets(
      meta?.budgets_version ?? 0n,
      zone === calendar.timeZone ? calendar : calendarOf(zone),
      await answer(db, readBudgets()),
    );
  }, "snapshot");
}
