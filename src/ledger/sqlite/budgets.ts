import { invariant } from "../../core/assert.ts";
import {
  scopesApplyingTo,
  subjectOf,
  type BudgetWindow,
  type Caller,
  type Scope,
  type Span,
} from "../../core/budget.ts";
import type { PicoUsd } from "../../core/money.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { BudgetStep } from "../queries/query.ts";
import { budgetOf, endOfTime, scopeCondition, type BudgetRow, type StoredBudget } from "../rows/budgets.ts";
import type { Connection, Statement } from "./connection.ts";

/** Returns all budgets in order of creation. */
export function readBudgets(db: Connection): StoredBudget[] {
  return (db.prepare("select * from budgets order by seq").safeIntegers().all() as BudgetRow[]).map(budgetOf);
}

/**
 * Returns the budgets that apply to a caller, in order of creation. The cost does not grow with the number of other
 * budgets.
 */
export function readBudgetsOf(db: Connection, caller: Caller): StoredBudget[] {
  const scopes = scopesApplyingTo(caller);
  const select = db.prepare(`select * from budgets where scope in (${scopes.map(() => "?").join(", ")}) order by seq`);
  return (select.safeIntegers().all(...scopes) as BudgetRow[]).map(budgetOf);
}

/** Statements by connection and text: preparing one takes longer than most sums, and there may be 100,000 budgets. */
const sumStatements = new WeakMap<Connection, Map<string, Statement>>();

function sumStatement(db: Connection, condition: string): Statement {
  let known = sumStatements.get(db);
  if (known === undefined) sumStatements.set(db, (known = new Map<string, Statement>()));
  let statement = known.get(condition);
  if (statement === undefined) {
    statement = db
      .prepare(
        `select coalesce(sum(cost), 0) spent, coalesce(sum(case state when 'pending' then hold end), 0) held
         from charges where ${condition} and admitted_at >= ? and admitted_at < ?`,
      )
      .safeIntegers();
    known.set(condition, statement);
  }
  return statement;
}

/** Returns the sums of a scope's charges in a span. Throws if a sum exceeds 64 bits. */
export function sumCharges(
  db: Connection,
  scope: Scope,
  subject: string,
  span: Span,
): { spent: PicoUsd; held: PicoUsd } {
  const condition = scopeCondition(scope, subject);
  const row = sumStatement(db, condition.sql).get(...condition.values, span.start, span.end ?? endOfTime) as {
    spent: bigint;
    held: bigint;
  };
  return { spent: row.spent as PicoUsd, held: row.held as PicoUsd };
}

/** Returns the subjects with charges in a span for an `eachKey` budget; the one subject "" for any other scope. */
export function subjectsOf(db: Connection, scope: Scope, span: Span): string[] {
  if (scope.kind !== "eachKey") return [""];
  const keys = db
    .prepare(
      `select distinct key from charges
       where key <> '' and state <> 'voided' and admitted_at >= ? and admitted_at < ? and team is coalesce(?, team) order by key`,
    )
    .pluck()
    .all(span.start, span.end ?? endOfTime, scope.team);
  return keys as string[];
}

/** A window in memory: `spent` and `held` are ahead of its row until `flush`. */
export interface OpenWindow extends BudgetWindow {
  readonly budget: StoredBudget;
  readonly seq: number;
  spent: PicoUsd;
  held: PicoUsd;
  dirty: boolean;
}

/** Most windows to keep in memory; the others are read again. */
const windowsKept = 20_000;
const amountMax = 2n ** 63n - 2n;

/**
 * Budgets and windows of a process's one writer. Keeps sums in memory between transactions and writes each once per
 * transaction; call `forget` after a rollback and whenever another connection may have written. Invariant: a window's
 * sums are those of all charges in its scope and span. A missing window is created by adding them up and linked to the
 * pending ones; a settlement moves the linked windows.
 */
export class WindowBook {
  readonly #db: Connection;
  readonly #calendar: Calendar;
  readonly #select: Statement;
  readonly #selectOfCharge: Statement;
  readonly #insert: Statement;
  readonly #link: Statement;
  readonly #update: Statement;
  readonly #selectBudget: Statement;
  /** Budgets seen so far, one object for each row. There may be a hundred thousand, so they are never all read. */
  readonly #budgets = new Map<number, StoredBudget>();
  readonly #weighing = new Map<string, readonly StoredBudget[]>();
  /** Latest window of a budget, by subject: it serves nearly every lookup. */
  readonly #latest = new Map<StoredBudget, Map<string, OpenWindow>>();
  readonly #windows = new Map<string, OpenWindow>();
  #dirty: OpenWindow[] = [];
  #lateWindows = 0;

  constructor(db: Connection, calendar: Calendar) {
    this.#db = db;
    this.#calendar = calendar;
    this.#select = db
      .prepare("select seq, spent, held from windows where budget = ? and subject = ? and starts_at = ?")
      .safeIntegers();
    this.#selectOfCharge = db
      .prepare(
        `select seq, budget, subject, starts_at, ends_at, spent, held
         from charge_windows join windows on windows.seq = charge_windows.window where charge = ? order by seq`,
      )
      .safeIntegers();
    this.#selectBudget = db.prepare("select * from budgets where seq = ?").safeIntegers();
    this.#link = db.prepare("insert into charge_windows (charge, window) values (?, ?)");
    this.#insert = db.prepare(
      "insert into windows (budget, subject, starts_at, ends_at, spent, held) values (?, ?, ?, ?, ?, ?)",
    );
    this.#update = db.prepare("update windows set spent = ?, held = ? where seq = ?");
  }

  /** Returns the windows that apply to a caller at an instant. Creates missing ones. */
  open(caller: Caller, at: number): OpenWindow[] {
    return this.#weighingOn(caller).map((budget) => {
      const subject = subjectOf(budget.scope, caller);
      return this.#find(budget, subject, at) ?? this.#create(budget, subject, this.#calendar.spanOf(budget.period, at));
    });
  }

  /** Returns the existing windows that apply to a caller at an instant. */
  existing(caller: Caller, at: number): OpenWindow[] {
    return this.#weighingOn(caller)
      .map((budget) => this.#find(budget, subjectOf(budget.scope, caller), at))
      .filter((window) => window !== null);
  }

  /** Links a new charge to its windows. */
  link(charge: number, windows: readonly OpenWindow[]): void {
    for (const window of windows) this.#link.run(charge, window.seq);
  }

  /** Returns the windows that a charge is linked to. */
  ofCharge(charge: number): OpenWindow[] {
    const rows = this.#selectOfCharge.all(charge) as LinkedRow[];
    return rows.map(({ seq, budget: budgetSeq, subject, starts_at, ends_at, spent, held }) => {
      const budget = this.#budget(Number(budgetSeq));
      const start = Number(starts_at);
      const end = ends_at === null ? null : Number(ends_at);
      const known = this.#windows.get(windowName(budget, subject, start));
      return known ?? this.#keep({ budget, subject, start, end, seq: Number(seq), spent, held, dirty: false });
    });
  }

  /**
   * Moves the sums of windows. Throws RangeError if one would exceed 64 bits; the caller must roll the transaction
   * back.
   */
  move(windows: readonly OpenWindow[], spent: bigint, held: bigint): void {
    for (const window of windows) {
      const spentNow = window.spent + spent;
      const heldNow = window.held + held;
      if (spentNow > amountMax || spentNow < -amountMax || heldNow > amountMax)
        throw new RangeError("sum of a budget window beyond 64 bits");
      invariant(heldNow >= 0n, `window ${window.seq} holds what is released`);
      window.spent = spentNow as PicoUsd;
      window.held = heldNow as PicoUsd;
      if (window.dirty) continue;
      window.dirty = true;
      this.#dirty.push(window);
    }
  }

  /** Writes every changed sum. */
  flush(): void {
    for (const window of this.#dirty) {
      this.#update.run(window.spent, window.held, window.seq);
      window.dirty = false;
    }
    this.#dirty = [];
  }

  /** Drops everything in memory. Changes that are not written yet are lost. */
  forget(): void {
    this.#budgets.clear();
    this.#weighing.clear();
    this.#latest.clear();
    this.#windows.clear();
    this.#dirty = [];
  }

  /** Number of windows created after charges in them were pending. A change means that remembered links are stale. */
  get lateWindows(): number {
    return this.#lateWindows;
  }

  /** True if memory should be cleared between transactions. */
  get isLarge(): boolean {
    return this.#windows.size + this.#weighing.size > windowsKept;
  }

  /** Opens or removes the windows of a budget. Flushes and forgets first. */
  carryOut(step: BudgetStep): void {
    if (step.budgets === "lock") return;
    this.flush();
    this.forget();
    const { budget } = step;
    if (step.budgets === "open") return this.#openAll(this.#known(budget), step.at);
    this.#db
      .prepare("delete from charge_windows where window in (select seq from windows where budget = ?)")
      .run(budget.seq);
    this.#db.prepare("delete from windows where budget = ?").run(budget.seq);
  }

  /** Rebuilds the windows that contain the instant from the charges. */
  rebuild(at: number): void {
    this.forget();
    this.#db.exec("delete from charge_windows; delete from windows");
    for (const budget of readBudgets(this.#db)) this.#openAll(this.#known(budget), at);
  }

  #openAll(budget: StoredBudget, at: number): void {
    const span = this.#calendar.spanOf(budget.period, at);
    for (const subject of subjectsOf(this.#db, budget.scope, span)) {
      if (this.#find(budget, subject, at) === null) this.#create(budget, subject, span);
    }
  }

  #budget(seq: number): StoredBudget {
    const known = this.#budgets.get(seq);
    if (known !== undefined) return known;
    const row = this.#selectBudget.get(seq) as BudgetRow | undefined;
    invariant(row !== undefined, `a window has budget ${seq}`);
    return this.#known(budgetOf(row));
  }

  /** Returns the one object for a budget, which its windows refer to. */
  #known(budget: StoredBudget): StoredBudget {
    const known = this.#budgets.get(budget.seq);
    if (known !== undefined) return known;
    this.#budgets.set(budget.seq, budget);
    return budget;
  }

  #weighingOn(caller: Caller): readonly StoredBudget[] {
    const name = `${caller.key}\0${caller.team ?? ""}\0${caller.session ?? ""}`;
    let budgets = this.#weighing.get(name);
    if (budgets === undefined) {
      budgets = readBudgetsOf(this.#db, caller).map((budget) => this.#known(budget));
      this.#weighing.set(name, budgets);
    }
    return budgets;
  }

  #find(budget: StoredBudget, subject: string, at: number): OpenWindow | null {
    const latest = this.#latest.get(budget)?.get(subject);
    if (latest !== undefined && latest.start <= at && (latest.end === null || at < latest.end)) return latest;
    const span = this.#calendar.spanOf(budget.period, at);
    const known = this.#windows.get(windowName(budget, subject, span.start));
    if (known !== undefined) return this.#keep(known);
    const row = this.#select.get(budget.seq, subject, span.start) as
      | { seq: bigint; spent: bigint; held: bigint }
      | undefined;
    if (row === undefined) return null;
    const { start, end } = span;
    return this.#keep({
      budget,
      subject,
      start,
      end,
      seq: Number(row.seq),
      spent: row.spent as PicoUsd,
      held: row.held as PicoUsd,
      dirty: false,
    });
  }

  #create(budget: StoredBudget, subject: string, span: Span): OpenWindow {
    const sums = sumCharges(this.#db, budget.scope, subject, span);
    const { start, end } = span;
    const { lastInsertRowid } = this.#insert.run(budget.seq, subject, start, end, sums.spent, sums.held);
    if (this.#linkPending(Number(lastInsertRowid), budget, subject, span) > 0) this.#lateWindows++;
    return this.#keep({ budget, subject, start, end, seq: Number(lastInsertRowid), ...sums, dirty: false });
  }

  /** Links the pending charges that are older than their window, so that their settlement moves it. */
  #linkPending(window: number, { scope }: StoredBudget, subject: string, { start, end }: Span): number {
    const condition = scopeCondition(scope, subject);
    return this.#db
      .prepare(
        `insert into charge_windows (charge, window) select seq, ? from charges
         where state = 'pending' and ${condition.sql} and admitted_at >= ? and admitted_at < ?`,
      )
      .run(window, ...condition.values, start, end ?? endOfTime).changes;
  }

  #keep(window: OpenWindow): OpenWindow {
    this.#windows.set(windowName(window.budget, window.subject, window.start), window);
    let latest = this.#latest.get(window.budget);
    if (latest === undefined) {
      latest = new Map();
      this.#latest.set(window.budget, latest);
    }
    latest.set(window.subject, window);
    return window;
  }
}

interface LinkedRow {
  readonly seq: bigint;
  readonly budget: bigint;
  readonly subject: string;
  readonly starts_at: bigint;
  readonly ends_at: bigint | null;
  readonly spent: PicoUsd;
  readonly held: PicoUsd;
}

function windowName(budget: StoredBudget, subject: string, start: number): string {
  return `${budget.seq} ${start} ${subject}`;
}
