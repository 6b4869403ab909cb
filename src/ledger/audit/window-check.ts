import {
  isOfSession,
  isPeriod,
  parseScope,
  subjectOf,
  appliesTo,
  type Caller,
  type Period,
  type Scope,
  type Span,
} from "../../core/budget.ts";
import type { Calendar } from "../../ports/calendar.ts";
import { rowsOf, type Query } from "../queries/query.ts";
import { Feed } from "./feed.ts";
import type { Report } from "./findings.ts";

interface Budget {
  readonly seq: number;
  readonly scope: Scope;
  readonly period: Period;
  readonly name: string;
}

/** A budget as stored, even if corrupted. */
export interface BudgetText {
  readonly seq: bigint;
  readonly scope: string;
  readonly period: string;
}

interface PendingCharge {
  readonly seq: number;
  readonly id: string;
  readonly key: string;
  readonly team: string | null;
  readonly session: string | null;
  readonly at: number;
  readonly hold: bigint;
  /** The windows that it is linked to, in their order: "1,2". */
  readonly links: string;
}

/** A stored window with the sums of the charges so far. */
interface OpenWindow {
  readonly seq: number;
  readonly id: string;
  readonly end: number | null;
  readonly storedSpent: bigint;
  readonly storedHeld: bigint;
  spent: bigint;
  held: bigint;
}

/** Selects among the windows that apply to a caller. */
type Which = "all" | "of its session";

interface WindowRow {
  readonly seq: bigint;
  readonly budget: bigint;
  readonly subject: string;
  readonly starts_at: bigint;
  readonly ends_at: bigint | null;
  readonly spent: bigint;
  readonly held: bigint;
}

/**
 * Compares windows with the sums of their charges, both in the order of time. Keeps only the open window of each budget and
 * subject. A missing window is no difference: its first use creates it.
 */
export class WindowCheck {
  readonly #calendar: Calendar;
  readonly #report: Report;
  readonly #budgets: ReadonlyMap<number, Budget>;
  readonly #stored = new Feed<WindowRow>(
    "select seq, budget, subject, starts_at, ends_at, spent, held from windows order by starts_at",
  );
  /** The links to the windows of a budget that cannot be read are unknown. */
  readonly #comparesLinks: boolean;
  readonly #open = new Map<string, OpenWindow>();
  /** Names of the open windows, by caller. */
  readonly #names = new Map<string, readonly string[]>();

  /** `budgets`: all budgets. */
  constructor(calendar: Calendar, budgets: readonly BudgetText[], report: Report) {
    this.#calendar = calendar;
    this.#report = report;
    const sound = soundBudgets(budgets, report);
    this.#budgets = new Map(sound.map((budget) => [budget.seq, budget]));
    this.#comparesLinks = sound.length === budgets.length;
  }

  /** The periods of the budgets: their windows begin and end where these do. */
  get periods(): readonly Period[] {
    return [...new Set([...this.#budgets.values()].map(({ period }) => period))];
  }

  /** Opens the windows that begin before an instant. */
  *openUntil(end: number): Query<void> {
    for (;;) {
      if (this.#stored.isUsedUp) yield* this.#stored.fill();
      const row = this.#stored.next;
      if (row === undefined || row.starts_at >= end) return;
      this.#take(row);
      this.#stored.advance();
    }
  }

  /** Adds what charges of a key at an instant have spent, except to windows of sessions. */
  spend(key: string, team: string | null, at: number, spent: bigint): void {
    for (const window of this.#of({ key, team }, at)) window.spent += spent;
  }

  /** Adds to the windows of a session what one of its charges has spent. */
  spendInSession(key: string, session: string, at: number, spent: bigint): void {
    for (const window of this.#of({ key, team: null, session }, at, "of its session")) window.spent += spent;
  }

  /** Adds a pending charge's hold, and compares which windows the charge is linked to. */
  hold(charge: PendingCharge): void {
    const windows = this.#of(charge, charge.at);
    for (const window of windows) window.held += charge.hold;
    if (!this.#comparesLinks) return;
    const expected = windows
      .map(({ seq }) => seq)
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

  *end(): Query<void> {
    yield* this.openUntil(Number.POSITIVE_INFINITY);
    for (const window of this.#open.values()) this.#conclude(window);
  }

  #of(caller: Caller, at: number, which: Which = "all"): OpenWindow[] {
    const windows: OpenWindow[] = [];
    for (const name of this.#namesOf(caller, which)) {
      const window = this.#open.get(name);
      if (window !== undefined && (window.end === null || at < window.end)) windows.push(window);
    }
    return windows;
  }

  #namesOf({ key, team, session = null }: Caller, which: Which): readonly string[] {
    const caller = { key, team, session };
    const name = `${key}\0${team ?? ""}\0${session ?? ""}\0${which}`;
    let names = this.#names.get(name);
    if (names === undefined) {
      names = [...this.#budgets.values()]
        .filter(({ scope }) => appliesTo(scope, caller) && (which === "all" || isOfSession(scope)))
        .map(({ seq, scope }) => `${seq} ${subjectOf(scope, caller)}`);
      this.#names.set(name, names);
    }
    return names;
  }

  #take(row: WindowRow): void {
    const seq = Number(row.seq);
    const derived = { of: "window", seq } as const;
    const budget = this.#budgets.get(Number(row.budget));
    const start = Number(row.starts_at);
    if (budget === undefined) {
      this.#report({
        kind: "budget",
        id: String(row.budget),
        expected: "the budget of a window",
        found: `window ${seq}`,
        derived,
      });
      return;
    }
    const id = [budget.name, row.subject, instant(start)].filter((part) => part !== "").join(" ");
    const end = row.ends_at === null ? null : Number(row.ends_at);
    const span = spanAt(this.#calendar, budget.period, start);
    if (span === null || span.start !== start || span.end !== end) {
      const expected = span === null ? "an instant" : spanText(span);
      this.#report({ kind: "window", id, expected, found: spanText({ start, end }), derived });
      return;
    }
    const name = `${budget.seq} ${row.subject}`;
    const before = this.#open.get(name);
    if (before !== undefined) this.#conclude(before);
    this.#open.set(name, { seq, id, end, storedSpent: row.spent, storedHeld: row.held, spent: 0n, held: 0n });
  }

  #conclude({ seq, id, spent, held, storedSpent, storedHeld }: OpenWindow): void {
    const derived = { of: "window", seq } as const;
    if (spent !== storedSpent)
      this.#report({ kind: "window", id, expected: `spent ${spent}`, found: `spent ${storedSpent}`, derived });
    if (held !== storedHeld)
      this.#report({ kind: "window", id, expected: `held ${held}`, found: `held ${storedHeld}`, derived });
  }
}

export function* readBudgetTexts(): Query<readonly BudgetText[]> {
  return yield* rowsOf<BudgetText>({ sql: "select seq, scope, period from budgets order by seq", values: [] });
}

/** Budgets whose scope and period can be read; the others are reported. */
export function soundBudgets(budgets: readonly BudgetText[], report?: Report): Budget[] {
  return budgets.flatMap(({ seq: stored, scope: text, period }) => {
    const scope = parseScope(text);
    const seq = Number(stored);
    const name = `${text}/${period}`;
    if (scope !== undefined && isPeriod(period)) return [{ seq, scope, period, name }];
    report?.({
      kind: "budget",
      id: String(seq),
      expected: "a budget with a scope and a period",
      found: name,
      derived: null,
    });
    return [];
  });
}

/** The span that holds an instant; null where a corrupted row has none. */
export function spanAt(calendar: Calendar, period: Period, at: number): Span | null {
  return at >= 0 && at <= latestInstant ? calendar.spanOf(period, at) : null;
}

const latestInstant = Date.parse("9999-01-01T00:00:00Z");

function spanText({ start, end }: Span): string {
  return `${instant(start)} to ${end === null ? "the end" : instant(end)}`;
}

/** Formats a time; shows an invalid one of a corrupted row as it is. */
function instant(at: number): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? String(at) : date.toISOString();
}
