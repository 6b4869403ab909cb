import { sessionTag } from "../../core/keys.ts";
import { callerOfRow, type CountedRow } from "../rows/budgets.ts";
import { isPeriod, type Period, type Span } from "../../core/budget.ts";
import {
  anchorOf,
  anchorsOf,
  appliesTo,
  isRolledUp,
  parseScope,
  subjectsOf,
  type Caller,
  type Scope,
} from "../../core/scope.ts";
import type { ChargeRow } from "../charge-columns.ts";
import type { Calendar } from "../../ports/calendar.ts";
import { rowsOf, type Query } from "../queries/query.ts";
import { Feed } from "./feed.ts";
import type { Report } from "./findings.ts";

interface Budget {
  readonly seq: number;
  readonly scope: Scope;
  readonly period: Period;
  readonly name: string;
  /**
   * Instant from which windows must be complete: in each span that starts then or later, every subject with charges has
   * a window. Null if no such instant is known.
   */
  readonly completeFrom: number | null;
}

/** Stored budget, which may be invalid. */
interface BudgetText {
  readonly seq: bigint;
  readonly scope: string;
  readonly period: string;
  readonly complete_from: bigint | null;
}

interface PendingCharge extends CountedRow {
  readonly seq: number;
  readonly id: string;
  readonly at: number;
  readonly hold: bigint;
  /** Row numbers of the windows linked to the charge, in ascending order, such as "1,2". */
  readonly links: string;
}

/** Posted charge, with the values that decide which budgets count it. */
type PostedCharge = CountedRow & Pick<ChargeRow, "session" | "formula" | "adjusts">;

/** Budget with the windows of its latest span, by subject. */
interface OpenBudget extends Budget {
  readonly windows: Map<string, OpenWindow>;
  start: number;
  end: number | null;
}

/** Window with the sums of the charges read so far. */
interface OpenWindow {
  /** Null for a window that is not stored although it must be. */
  readonly seq: number | null;
  readonly storedSpent: bigint;
  readonly storedHeld: bigint;
  spent: bigint;
  held: bigint;
}

interface WindowRow {
  readonly seq: bigint;
  readonly budget: bigint;
  readonly subject: string;
  readonly starts_at: bigint;
  readonly ends_at: bigint | null;
  readonly carried: bigint;
  readonly spent: bigint;
  readonly held: bigint;
}

/**
 * Compares windows with the sums of their charges, in order of time. Keeps only the windows of each budget's latest
 * span. Reports a missing window only in a span with complete windows (`completeFrom`), because there the next
 * request would create it with sums of 0. In any other span, the next request would create it with the sums of its
 * charges.
 */
export class WindowCheck {
  readonly #calendar: Calendar;
  readonly #report: Report;
  readonly #budgets: ReadonlyMap<number, OpenBudget>;
  /** Budgets whose windows can be summed from rollups, by anchor (`anchorOf`). */
  readonly #rolledUp = new Map<string, OpenBudget[]>();
  /** All other budgets, by anchor. */
  readonly #others = new Map<string, OpenBudget[]>();
  readonly #stored = new Feed<WindowRow>(
    "select seq, budget, subject, starts_at, ends_at, spent, held, carried from windows order by starts_at",
  );
  /** False if a budget is invalid. The expected links of a charge to that budget's windows are then unknown. */
  readonly #comparesLinks: boolean;

  /** Prepares the check. `budgets`: all budgets of the ledger. Reports the invalid ones. */
  constructor(calendar: Calendar, budgets: readonly BudgetText[], report: Report) {
    this.#calendar = calendar;
    this.#report = report;
    const sound = validBudgets(budgets, report).map((budget): OpenBudget => ({
      ...budget,
      windows: new Map(),
      start: -1,
      end: null,
    }));
    this.#budgets = new Map(sound.map((budget) => [budget.seq, budget]));
    for (const budget of sound) {
      const group = isRolledUp(budget.scope) ? this.#rolledUp : this.#others;
      const anchor = anchorOf(budget.scope);
      const anchored = group.get(anchor);
      if (anchored === undefined) group.set(anchor, [budget]);
      else anchored.push(budget);
    }
    this.#comparesLinks = sound.length === budgets.length;
  }

  /** Distinct periods of the budgets. */
  get periods(): readonly Period[] {
    return [...new Set([...this.#budgets.values()].map(({ period }) => period))];
  }

  /**
   * Opens the windows that start before an instant. A budget's next span closes the previous one, so callers must
   * first add all charges of the previous span.
   */
  *openUntil(end: number): Query<void> {
    for (;;) {
      if (this.#stored.isUsedUp) yield* this.#stored.fill();
      const row = this.#stored.next;
      if (row === undefined || row.starts_at >= end) return;
      this.#openWindow(row);
      this.#stored.advance();
    }
  }

  /**
   * Adds the posted amount of a key, team and catalogue model (`entry`) to the windows that can be summed from rollups.
   */
  addSum(key: string, team: string | null, entry: string, at: number, spent: bigint): void {
    const caller = { key, team, models: [entry] };
    const budgets = under(this.#rolledUp, anchorsOf(caller));
    for (const window of this.#windowsOf(budgets, caller, at)) window.spent += spent;
  }

  /** Adds a posted charge to the windows that cannot be summed from rollups. Ignores carried sums. */
  addCharge(charge: PostedCharge, at: number, spent: bigint): void {
    const { key, team, end_user: user, session, formula, adjusts } = charge;
    if (this.#others.size === 0 || (formula === "adjustment" && adjusts === null)) return;
    const tags = session === null ? {} : { [sessionTag]: session };
    const budgets = under(this.#others, anchorsOf({ key, team, user, tags }));
    if (budgets.length === 0) return;
    for (const window of this.#windowsOf(budgets, callerOfRow(charge), at)) window.spent += spent;
  }

  /** Adds the hold of a pending charge to its windows, and checks the charge's links to them. */
  hold(charge: PendingCharge): void {
    const caller = callerOfRow(charge);
    const anchors = anchorsOf(caller);
    const budgets = [...under(this.#rolledUp, anchors), ...under(this.#others, anchors)];
    const windows = this.#windowsOf(budgets, caller, charge.at);
    for (const window of windows) window.held += charge.hold;
    if (!this.#comparesLinks) return;
    const expected = windows
      .flatMap(({ seq }) => seq ?? [])
      .sort((a, b) => a - b)
      .join(",");
    if (expected === charge.links) return;
    const text = (seqs: string) => (seqs === "" ? "no window" : `windows ${seqs.replaceAll(",", ", ")}`);
    this.#report({
      kind: "link",
      id: charge.id,
      expected: text(expected),
      found: text(charge.links),
      derived: { of: "links", charge: charge.seq },
    });
  }

  /** Compares the remaining windows. Callers must first add all charges. */
  *end(): Query<void> {
    yield* this.openUntil(Number.POSITIVE_INFINITY);
    for (const budget of this.#budgets.values()) this.#compareAll(budget);
  }

  #openWindow(row: WindowRow): void {
    const seq = Number(row.seq);
    const derived = { of: "window", seq } as const;
    const budget = this.#budgets.get(Number(row.budget));
    const start = Number(row.starts_at);
    if (budget === undefined) {
      this.#report({
        kind: "budget",
        id: String(row.budget),
        expected: `the budget of window ${seq}`,
        found: "no budget",
        derived,
      });
      return;
    }
    const end = row.ends_at === null ? null : Number(row.ends_at);
    const span = spanAt(this.#calendar, budget.period, start);
    if (span === null || span.start !== start || span.end !== end) {
      const id = windowId(budget, row.subject, start);
      const expected = span === null ? "a start between 1970 and 9999" : spanText(span);
      this.#report({ kind: "window", id, expected, found: spanText({ start, end }), derived });
      return;
    }
    if (budget.start !== start) {
      this.#compareAll(budget);
      budget.start = start;
      budget.end = end;
    }
    budget.windows.set(row.subject, {
      seq,
      storedSpent: row.spent,
      storedHeld: row.held,
      spent: isRolledUp(budget.scope) ? 0n : row.carried,
      held: 0n,
    });
  }

  /** Returns the windows that apply to a caller at an instant, among these budgets. Includes missing windows. */
  #windowsOf(budgets: readonly OpenBudget[], caller: Caller, at: number): OpenWindow[] {
    const windows: OpenWindow[] = [];
    for (const budget of budgets) {
      if (!appliesTo(budget.scope, caller) || !this.#isOpenAt(budget, at)) continue;
      for (const subject of subjectsOf(budget.scope, caller)) {
        const window = budget.windows.get(subject) ?? lostWindow(budget);
        if (window === null) continue;
        budget.windows.set(subject, window);
        windows.push(window);
      }
    }
    return windows;
  }

  /**
   * Returns true if the open span of a budget contains an instant. If the instant is in a later span whose windows
   * must be stored but are not, opens that span and returns true.
   */
  #isOpenAt(budget: OpenBudget, at: number): boolean {
    if (budget.start !== -1 && (budget.end === null || at < budget.end)) return true;
    if (budget.completeFrom === null || at < budget.completeFrom) return false;
    const span = spanAt(this.#calendar, budget.period, at);
    if (span === null || span.start < budget.completeFrom) return false;
    this.#compareAll(budget);
    budget.start = span.start;
    budget.end = span.end;
    return true;
  }

  /** Compares the open windows of a budget with their stored sums, and closes them. */
  #compareAll(budget: OpenBudget): void {
    for (const [subject, { seq, spent, held, storedSpent, storedHeld }] of budget.windows) {
      if (spent === storedSpent && held === storedHeld) continue;
      const named = { kind: "window", id: windowId(budget, subject, budget.start) } as const;
      if (seq === null) {
        const derived = { of: "lost_window", budget: budget.seq, id: named.id } as const;
        this.#report({ ...named, expected: `spent ${spent}, held ${held}`, found: "no window", derived });
        continue;
      }
      const of = { ...named, derived: { of: "window", seq } } as const;
      if (spent !== storedSpent) this.#report({ ...of, expected: `spent ${spent}`, found: `spent ${storedSpent}` });
      if (held !== storedHeld) this.#report({ ...of, expected: `held ${held}`, found: `held ${storedHeld}` });
    }
    budget.windows.clear();
  }
}

/** Returns the budgets with one of these anchors. */
function under(budgets: ReadonlyMap<string, readonly OpenBudget[]>, anchors: readonly string[]): readonly OpenBudget[] {
  return anchors.flatMap((anchor) => budgets.get(anchor) ?? []);
}

/** Returns a window with sums of 0 for a subject whose window is not stored; null if it need not be stored. */
function lostWindow({ completeFrom, start }: OpenBudget): OpenWindow | null {
  if (completeFrom === null || start < completeFrom) return null;
  return { seq: null, storedSpent: 0n, storedHeld: 0n, spent: 0n, held: 0n };
}

function windowId({ name }: Budget, subject: string, start: number): string {
  return [name, subject, instant(start)].filter((part) => part !== "").join(" ");
}

export function* readBudgetTexts(): Query<readonly BudgetText[]> {
  return yield* rowsOf<BudgetText>({
    sql: "select seq, scope, period, complete_from from budgets order by seq",
    values: [],
  });
}

/** Returns the budgets with a valid scope and period. Reports all others. */
export function validBudgets(budgets: readonly BudgetText[], report?: Report): Budget[] {
  return budgets.flatMap(({ seq: stored, scope: text, period, complete_from: from }) => {
    const scope = parseScope(text);
    const seq = Number(stored);
    const name = `${text}/${period}`;
    if (scope !== undefined && isPeriod(period))
      return [{ seq, scope, period, name, completeFrom: from === null ? null : Number(from) }];
    report?.({
      kind: "budget",
      id: String(seq),
      expected: "a budget with a valid scope and period",
      found: name,
      derived: null,
    });
    return [];
  });
}

/**
 * Returns the span that contains an instant; null for an instant before 1970 or after the start of 9999, as in a
 * corrupted row.
 */
export function spanAt(calendar: Calendar, period: Period, at: number): Span | null {
  return at >= 0 && at <= latestInstant ? calendar.spanOf(period, at) : null;
}

const latestInstant = Date.parse("9999-01-01T00:00:00Z");

function spanText({ start, end }: Span): string {
  return `${instant(start)} to ${end === null ? "no end" : instant(end)}`;
}

/** Formats a time. Formats an invalid time, as in a corrupted row, as a number. */
function instant(at: number): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at) : date.toISOString();
}
