import { isAlertDue } from "../../core/alerts.ts";
import { subjectOf, type Budget, type BudgetWindow, type Caller, type Period, type Span } from "../../core/budget.ts";
import type { Charge, HoldKind } from "../../core/charge.ts";
import type { PicoUsd } from "../../core/money.ts";
import { parseCanonicalPrice, type PriceVersion } from "../../core/price.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { OldHold } from "../../ports/ledger.ts";
import type { ShortQueries } from "../queries/interfaces.ts";
import { snapshot, withoutSeq, type StoredBudget } from "../rows/budgets.ts";
import { chargeColumns, chargeOf, type ShownChargeRow } from "../rows/charges.ts";
import { readBudgets, readBudgetsOf, sumCharges } from "./budgets.ts";
import type { Connection, Statement } from "./connection.ts";
import { runsTask } from "../tables/tasks.ts";

/** Short queries of a file, on any connection. Each takes microseconds. */
export class SqliteQueries implements ShortQueries {
  readonly #db: Connection;
  readonly #calendar: Calendar;
  readonly #charge: Statement;
  readonly #pending: Statement;
  readonly #window: Statement;
  readonly #price: Statement;
  readonly #oldHolds: Statement;
  readonly #runningOwner: () => number | null;

  /** `runningOwner` returns the epoch of the proxy that runs on the file; null for none. */
  constructor(db: Connection, calendar: Calendar, runningOwner: () => number | null) {
    this.#db = db;
    this.#calendar = calendar;
    this.#runningOwner = runningOwner;
    this.#oldHolds = db
      .prepare(
        `select id, kind, admitted_at at, key, hold amount, owner from charges where state = 'pending' and admitted_at < ? and not ${runsTask}
         order by admitted_at, seq limit 1000`,
      )
      .safeIntegers();
    this.#charge = db.prepare(`select ${chargeColumns} from charges where id = ?`).safeIntegers();
    this.#pending = db.prepare("select count(*), min(admitted_at) from charges where state = 'pending'").raw();
    this.#price = db.prepare("select canonical from price_versions where id = ?").pluck();
    this.#window = db
      .prepare("select spent, held from windows where budget = ? and subject = ? and starts_at = ?")
      .safeIntegers();
  }

  charge(id: string): Charge | undefined {
    const row = this.#charge.get(id) as ShownChargeRow | undefined;
    return row && chargeOf(row);
  }

  price(id: string): PriceVersion | undefined {
    const canonical = this.#price.get(id) as string | undefined;
    return canonical === undefined ? undefined : parseCanonicalPrice(canonical);
  }

  pending(): { readonly count: number; readonly oldestAt: number | null } {
    const [count, oldestAt] = this.#pending.get() as [number, number | null];
    return { count, oldestAt };
  }

  oldHolds(before: number): readonly OldHold[] {
    const running = this.#runningOwner();
    const rows = this.#oldHolds.all(before) as {
      id: string;
      kind: HoldKind;
      at: bigint;
      key: string;
      amount: PicoUsd | null;
      owner: bigint;
    }[];
    return rows.map(({ owner, at, ...hold }) => ({ ...hold, at: Number(at), isOrphaned: Number(owner) !== running }));
  }

  budgets(): readonly Budget[] {
    return readBudgets(this.#db).map(withoutSeq);
  }

  windowsOf(caller: Caller, at: number): readonly BudgetWindow[] {
    const read = () =>
      readBudgetsOf(this.#db, caller).map((budget) => this.#windowOf(budget, subjectOf(budget.scope, caller), at));
    return this.#db.transaction(read)();
  }

  #windowOf(budget: StoredBudget, subject: string, at: number): BudgetWindow {
    const span = this.#calendar.spanOf(budget.period, at);
    const stored = this.#window.get(budget.seq, subject, span.start) as { spent: PicoUsd; held: PicoUsd } | undefined;
    return snapshot({ budget, subject, ...span, ...(stored ?? sumCharges(this.#db, budget.scope, subject, span)) });
  }
}

/** Returns every budget's window at the instant. A window that no hold has opened yet has the sums of its charges. */
export function readWindows(db: Connection, calendar: Calendar, at: number): readonly BudgetWindow[] {
  const select = db
    .prepare("select subject, spent, held from windows where budget = ? and starts_at = ? order by subject")
    .safeIntegers();
  const spans = new Map<Period, Span>();
  const spanOf = (period: Period): Span => {
    const span = spans.get(period) ?? calendar.spanOf(period, at);
    spans.set(period, span);
    return span;
  };
  const windowsOf = (budget: StoredBudget): BudgetWindow[] => {
    const span = spanOf(budget.period);
    const rows = select.all(budget.seq, span.start) as { subject: string; spent: PicoUsd; held: PicoUsd }[];
    if (rows.length === 0 && budget.scope.kind !== "eachKey") {
      return [snapshot({ budget, subject: "", ...span, ...sumCharges(db, budget.scope, "", span) })];
    }
    return rows.map((row) => snapshot({ budget, ...span, ...row }));
  };
  return db.transaction(() => readBudgets(db).flatMap(windowsOf))();
}

/** Returns windows with a due alert that is not in the outbox yet. */
export function readWindowsToAlert(
  db: Connection,
  calendar: Calendar,
  at: number,
  limit: number,
): readonly BudgetWindow[] {
  const known = db.prepare("select 1 from outbox where dedupe_key = ?").pluck();
  return readWindows(db, calendar, at)
    .filter((window) => isAlertDue(window, (key) => known.get(key) !== undefined))
    .slice(0, limit);
}
