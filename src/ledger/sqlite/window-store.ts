import { invariant } from "../../core/assert.ts";
import { noRaises, raisesIn, type BudgetWindow, type Raise, type Span } from "../../core/budget.ts";
import {
  type Caller,
  anchorsOf,
  appliesTo,
  hasClientSubjects,
  hasSubjects,
  limitsUnbounded,
  subjectsMaxDefault,
  subjectsOf,
} from "../../core/scope.ts";
import { noMoney, type PicoUsd } from "../../core/money.ts";
import type { Calendar } from "../../ports/calendar.ts";
import { sqliteDialect } from "../queries/dialects.ts";
import type { BudgetStep } from "../queries/query.ts";
import {
  budgetOf,
  endOfTime,
  isComplete,
  raiseOf,
  type BudgetRow,
  type RaiseRow,
  type StoredBudget,
  type SpentBefore,
} from "../rows/budgets.ts";
import { chargesBySubject } from "../queries/scope-condition.ts";
import { partsOfWindows } from "../queries/window-sums.ts";
import { readAnchored, readBudgets } from "../queries/windows.ts";
import { answerEach, prepared } from "./answer.ts";
import type { Connection, Statement } from "./connection.ts";

/** Returns the raises of a budget and subject, past and present. */
function readRaises(db: Connection, budget: StoredBudget, subject: string): readonly Raise[] {
  if (!budget.isRaised) return noRaises;
  return (
    prepared(db, "select amount, starts_at, until from raises where budget = ? and subject = ? order by seq").all(
      budget.seq,
      subject,
    ) as RaiseRow[]
  ).map(raiseOf);
}

/** Window in memory. `flush` writes its changed sums to its row. */
export interface OpenWindow extends BudgetWindow {
  readonly budget: StoredBudget;
  readonly seq: number;
  spent: PicoUsd;
  held: PicoUsd;
  raises: readonly Raise[];
  /** Raises of the budget and subject, past and present. */
  readonly allRaises: readonly Raise[];
  /** True if the sums differ from those of the row. */
  dirty: boolean;
}

/** Number of windows and anchors in memory above which the writer clears it between transactions. */
const windowsKept = 20_000;
/** Largest number of windows that one statement links a charge to. */
const linkedAtOnce = 50;
/** Largest sum of a window. Its negative is the smallest sum that the check of the table `windows` allows. */
const amountMax = 2n ** 63n - 2n;

/**
 * Budgets and windows in the memory of a writer. Writes each changed sum once per transaction. The writer must call
 * `forget` after a rollback, and whenever another connection may have written. Invariant: a window has the sums of all
 * charges in its scope and span. A new window starts with these sums, and the pending charges among them are linked to
 * it. If all charges of the span already have windows (`completeFrom`), a new window starts with 0. A settlement
 * changes the windows that its charge is linked to.
 */
export class WindowStore {
  readonly #db: Connection;
  readonly #calendar: Calendar;
  readonly #flushRollups: () => void;
  readonly #subjectsMax: number;
  readonly #select: Statement;
  readonly #selectOfCharge: Statement;
  readonly #insert: Statement;
  /** Statements that link a charge to windows, by the number of windows. */
  readonly #links: Statement[] = [];
  readonly #update: Statement;
  readonly #lastFrom: Statement;
  readonly #isKnownSubject: Statement;
  readonly #newSubjects: Statement;
  readonly #countSubjects: Statement;
  readonly #setComplete: Statement;
  readonly #selectBudget: Statement;
  /** Budgets that were used since the memory was cleared. Not all budgets, because there may be a hundred thousand. */
  readonly #budgets = new Map<number, StoredBudget>();
  /** Budgets by their anchor (`anchorOf`): the session, user, key or team that the scope names. */
  readonly #anchored = new Map<string, readonly StoredBudget[]>();
  /** Latest window of each budget and subject. Nearly every lookup finds its window here. */
  readonly #latest = new Map<StoredBudget, Map<string, OpenWindow>>();
  readonly #windows = new Map<string, OpenWindow>();
  #dirty: OpenWindow[] = [];
  #lateWindows = 0;

  /**
   * `flushRollups` writes the transaction's additions to the rollups. It is called before a new window sums the
   * rollups. `subjectsMax`: see `StoreOptions`.
   */
  constructor(db: Connection, calendar: Calendar, flushRollups: () => void, subjectsMax = subjectsMaxDefault) {
    this.#db = db;
    this.#subjectsMax = subjectsMax;
    this.#calendar = calendar;
    this.#flushRollups = flushRollups;
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
    this.#insert = db.prepare(
      "insert into windows (budget, subject, starts_at, ends_at, spent, held) values (?, ?, ?, ?, 0, 0) on conflict do nothing",
    );
    this.#lastFrom = db.prepare("select max(admitted_at) from charges where admitted_at >= ?").pluck();
    this.#isKnownSubject = db.prepare("select 1 from windows where budget = ? and subject = ? limit 1");
    this.#newSubjects = db.prepare("select day, subjects from new_subjects where key = ?");
    this.#countSubjects = db.prepare("insert or replace into new_subjects (key, day, subjects) values (?, ?, ?)");
    this.#setComplete = db.prepare("update budgets set complete_from = ? where seq = ?");
    this.#update = db.prepare("update windows set spent = ?, held = ? where seq = ?");
  }

  /**
   * Returns the windows that apply to a caller at an instant. Creates missing windows. Returns null if the caller names
   * too many new subjects.
   */
  open(caller: Caller, at: number): OpenWindow[] | null {
    const windows: OpenWindow[] = [];
    const missing: { readonly place: number; readonly budget: StoredBudget; readonly subject: string }[] = [];
    for (const budget of this.#applyingTo(caller)) {
      for (const subject of subjectsOf(budget.scope, caller)) {
        const window = this.#find(budget, subject, at);
        if (window === null) missing.push({ place: windows.length + missing.length, budget, subject });
        else windows.push(window);
      }
    }
    if (missing.length > 0 && !this.#admitsSubjects(caller.key, missing, at)) return null;
    for (const { place, budget, subject } of missing) windows.splice(place, 0, this.#create(budget, subject, at));
    this.applyRaises(windows, at);
    return windows;
  }

  /** Returns true if a hard budget may limit a caller's request without a bound on its cost (`limitsUnbounded`). */
  hasHard(caller: Caller, anyModel: boolean): boolean {
    return anchorsOf(caller).some((anchor) =>
      this.#budgetsUnder(anchor).some(({ mode, scope }) => mode === "hard" && limitsUnbounded(scope, caller, anyModel)),
    );
  }

  /** Counts the subjects that a key names for the first time. Returns false if there would be too many on one day. */
  #admitsSubjects(
    key: string,
    missing: readonly { readonly budget: StoredBudget; readonly subject: string }[],
    at: number,
  ): boolean {
    const added = new Set<string>();
    for (const { budget, subject } of missing) {
      if (!hasClientSubjects(budget.scope) || this.#isKnownSubject.get(budget.seq, subject) !== undefined) continue;
      added.add(subject);
    }
    if (added.size === 0) return true;
    const day = this.#calendar.dateOf(at);
    const latest = this.#newSubjects.get(key) as { day: string; subjects: number } | undefined;
    const before = latest === undefined || latest.day < day ? { day, subjects: 0 } : latest;
    if (before.subjects + added.size > this.#subjectsMax) return false;
    this.#countSubjects.run(key, before.day, before.subjects + added.size);
    return true;
  }

  /** Sets the raises of windows to those that are in force at an instant (`raisesIn`). */
  applyRaises(windows: readonly OpenWindow[], at: number): void {
    for (const window of windows)
      if (window.allRaises.length > 0) window.raises = raisesIn(window, window.allRaises, at);
  }

  /** Links a new charge to its windows. */
  link(charge: number, windows: readonly OpenWindow[]): void {
    for (let from = 0; from < windows.length; from += linkedAtOnce) {
      const values: number[] = [];
      for (const { seq } of windows.slice(from, from + linkedAtOnce)) values.push(charge, seq);
      this.#linkTo(values.length / 2).run(...values);
    }
  }

  /** Returns the statement that links a charge to a number of windows. */
  #linkTo(count: number): Statement {
    const rows = () => Array.from({ length: count }, () => "(?, ?)").join(", ");
    return (this.#links[count] ??= this.#db.prepare(`insert into charge_windows (charge, window) values ${rows()}`));
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

  /** Adds amounts to the sums of windows. Amounts may be negative. Throws RangeError if a sum would exceed 64 bits. */
  addTo(windows: readonly OpenWindow[], spent: bigint, held: bigint): void {
    for (const window of windows) {
      const spentNow = window.spent + spent;
      const heldNow = window.held + held;
      if (spentNow > amountMax || spentNow < -amountMax || heldNow > amountMax)
        throw new RangeError(`the sums of window ${window.seq} of budget ${window.budget.id} would exceed 64 bits`);
      invariant(heldNow >= 0n, `the held amount of window ${window.seq} must not be negative, but would be ${heldNow}`);
      window.spent = spentNow as PicoUsd;
      window.held = heldNow as PicoUsd;
      if (window.dirty) continue;
      window.dirty = true;
      this.#dirty.push(window);
    }
  }

  /** Writes all changed sums. */
  flush(): void {
    for (const window of this.#dirty) {
      this.#update.run(window.spent, window.held, window.seq);
      window.dirty = false;
    }
    this.#dirty = [];
  }

  /** Clears the memory, including changes that are not written yet. */
  forget(): void {
    this.#budgets.clear();
    this.#anchored.clear();
    this.#latest.clear();
    this.#windows.clear();
    this.#dirty = [];
  }

  /**
   * Counter that grows when charges that are already pending are linked to new windows. Cached lists of a charge's
   * windows are then outdated.
   */
  get lateWindows(): number {
    return this.#lateWindows;
  }

  /** True if the writer should clear the memory between transactions. */
  get isLarge(): boolean {
    return this.#windows.size + this.#anchored.size > windowsKept;
  }

  /** Opens or removes the windows of a budget. Before that, writes all changed sums and clears the memory. */
  applyStep(step: BudgetStep): void {
    if (step.budgets === "lock") return;
    this.flush();
    this.forget();
    const { budget } = step;
    if (step.budgets === "raise") return void this.#openMissing(this.#intern(budget), step.subject, step.at);
    if (step.budgets === "open") return this.#openAll(this.#intern(budget), step.at, step.before);
    this.#db
      .prepare("delete from charge_windows where window in (select seq from windows where budget = ?)")
      .run(budget.seq);
    this.#db.prepare("delete from windows where budget = ?").run(budget.seq);
  }

  /** Deletes all windows, and opens those that contain the instant `at`, with sums from the charges. */
  rebuild(at: number): void {
    this.forget();
    // Keeps carried sums only of windows without an end: in another time zone, the bounds of all other windows differ.
    const kept = this.#db
      .prepare("select budget, subject, starts_at, carried from windows where ends_at is null and carried <> 0")
      .safeIntegers()
      .all();
    this.#db.exec("delete from charge_windows; delete from windows; update budgets set complete_from = null");
    for (const budget of answerEach(this.#db, readBudgets())) this.#openAll(budget, at);
    const keep = this.#db.prepare(
      `insert into windows (budget, subject, starts_at, spent, held, carried) values (:budget, :subject, :starts_at, :carried, 0, :carried)
       on conflict (budget, subject, starts_at) do update set spent = spent + :carried, carried = :carried`,
    );
    for (const row of kept) keep.run(row);
  }

  /**
   * Opens the windows of all subjects with charges in the span that contains `at`. Does nothing if all of them exist.
   */
  #openAll(budget: StoredBudget, at: number, before: SpentBefore | null = null): void {
    const span = this.#calendar.spanOf(budget.period, at);
    if (isComplete(budget, span)) return;
    this.#openCharged(budget, hasSubjects(budget.scope) ? null : "", span, before);
    const last = this.#lastFrom.get(span.end ?? endOfTime) as number | null;
    const completeFrom = last === null ? span.start : (this.#calendar.spanOf(budget.period, last).end ?? endOfTime);
    budget.completeFrom = Math.min(budget.completeFrom ?? completeFrom, completeFrom);
    this.#setComplete.run(budget.completeFrom, budget.seq);
  }

  /**
   * Opens a subject's missing window of a span with its sums, and links the pending charges to it. If `subject` is
   * null, does the same for every subject with charges.
   */
  #openCharged(
    { seq, scope, period }: StoredBudget,
    subject: string | null,
    { start, end }: Span,
    before: SpentBefore | null = null,
  ): void {
    this.#flushRollups();
    const terms = { scope, period, subject, span: { start, end }, before };
    const parts = answerEach(this.#db, partsOfWindows(sqliteDialect, this.#calendar, terms));
    const pending = chargesBySubject(sqliteDialect, scope, subject, { start, end }, "pending");
    const [named, group] = subject === null ? ["subject", "group by subject order by subject"] : ["?", ""];
    prepared(
      this.#db,
      `insert into windows (budget, subject, starts_at, ends_at, spent, held)
       select ?, ${named}, ?, ?, coalesce(sum(spent), 0), coalesce(sum(held), 0)
       from (${parts.sql}) where true ${group} on conflict do nothing`,
    ).run(seq, ...(subject === null ? [] : [subject]), start, end, ...parts.values);
    const linked = prepared(
      this.#db,
      `insert into charge_windows (charge, window) select charge.seq, windows.seq
       from (${pending.sql}) charge
       join windows on budget = ? and windows.subject = charge.subject and starts_at = ?
       where true on conflict do nothing`,
    ).run(...pending.values, seq, start);
    if (linked.changes > 0) this.#lateWindows++;
  }

  #budget(seq: number): StoredBudget {
    const known = this.#budgets.get(seq);
    if (known !== undefined) return known;
    const row = this.#selectBudget.get(seq) as BudgetRow | undefined;
    invariant(row !== undefined, `budget ${seq} must exist, because a window belongs to it`);
    return this.#intern(budgetOf(row));
  }

  /** Returns the only object that represents a budget in memory. Keeps the given object if there was none. */
  #intern(budget: StoredBudget): StoredBudget {
    const known = this.#budgets.get(budget.seq);
    if (known !== undefined) return known;
    this.#budgets.set(budget.seq, budget);
    return budget;
  }

  #applyingTo(caller: Caller): readonly StoredBudget[] {
    // Loops, because this runs for each hold, and flatMap takes twice as long.
    const applying: StoredBudget[] = [];
    for (const anchor of anchorsOf(caller))
      for (const budget of this.#budgetsUnder(anchor)) if (appliesTo(budget.scope, caller)) applying.push(budget);
    return applying.sort((a, b) => a.seq - b.seq);
  }

  /** Returns the budgets with an anchor (`anchorOf`). */
  #budgetsUnder(anchor: string): readonly StoredBudget[] {
    const known = this.#anchored.get(anchor);
    if (known !== undefined) return known;
    const budgets = answerEach(this.#db, readAnchored([anchor])).map((budget) => this.#intern(budget));
    this.#anchored.set(anchor, budgets);
    return budgets;
  }

  #find(budget: StoredBudget, subject: string, at: number): OpenWindow | null {
    const latest = this.#latest.get(budget)?.get(subject);
    if (latest !== undefined && latest.start <= at && (latest.end === null || at < latest.end)) return latest;
    const span = this.#calendar.spanOf(budget.period, at);
    const known = this.#windows.get(windowName(budget, subject, span.start));
    if (known !== undefined) return this.#asLatest(known);
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

  /** Opens a missing window. Returns its row number if its sums are 0; null if the caller must read the sums. */
  #openMissing(budget: StoredBudget, subject: string, at: number): number | null {
    const span = this.#calendar.spanOf(budget.period, at);
    if (budget.completeFrom === null) this.#openAll(budget, at);
    if (!isComplete(budget, span)) this.#openCharged(budget, subject, span);
    const { changes, lastInsertRowid } = this.#insert.run(budget.seq, subject, span.start, span.end);
    return changes === 1 ? Number(lastInsertRowid) : null;
  }

  /** Creates a missing window. */
  #create(budget: StoredBudget, subject: string, at: number): OpenWindow {
    const seq = this.#openMissing(budget, subject, at);
    if (seq !== null) {
      const span = this.#calendar.spanOf(budget.period, at);
      const sums = { spent: noMoney, held: noMoney };
      return this.#keep({ budget, subject, ...span, seq, ...sums, dirty: false });
    }
    const opened = this.#find(budget, subject, at);
    invariant(opened !== null, `the window of ${budget.id} must exist after it was opened`);
    return opened;
  }

  #keep(known: Omit<OpenWindow, "raises" | "allRaises">): OpenWindow {
    const { budget, subject } = known;
    const window = { ...known, raises: noRaises, allRaises: readRaises(this.#db, budget, subject) };
    this.#windows.set(windowName(budget, subject, window.start), window);
    return this.#asLatest(window);
  }

  #asLatest(window: OpenWindow): OpenWindow {
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
