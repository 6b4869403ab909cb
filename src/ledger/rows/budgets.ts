import { invariant } from "../../core/assert.ts";
import { isPeriod, type Budget, type BudgetMode, type BudgetWindow, type Raise, type Span } from "../../core/budget.ts";
import { parseScope, type Caller } from "../../core/scope.ts";
import type { PicoUsd } from "../../core/money.ts";
import type { ChargeRow } from "../charge-columns.ts";
import { countedFor } from "./charges.ts";

/** Budget with its row number. */
export interface StoredBudget extends Budget {
  readonly seq: number;
  /** True if the budget has raises, past or present. */
  readonly isRaised: boolean;
  /**
   * In spans that start at this time or later, each subject with charges has a window. Null if no such time is known.
   */
  completeFrom: number | null;
}

/** Window identified by its budget, subject and start. */
export interface NamedWindow extends Span {
  readonly budget: StoredBudget;
  readonly subject: string;
}

/** Returns true if each subject with charges in a span has a window. */
export function isComplete({ completeFrom }: StoredBudget, { start }: Span): boolean {
  return completeFrom !== null && start >= completeFrom;
}

/** Represents "no end" in comparisons with times. */
export const endOfTime = Number.MAX_SAFE_INTEGER;

/** Row of `budgets`, with integers read as bigints. */
export interface BudgetRow {
  readonly seq: bigint;
  readonly scope: string;
  readonly period: string;
  readonly mode: BudgetMode;
  readonly amount_limit: bigint;
  readonly warn_percent: bigint | null;
  readonly is_raised: bigint;
  readonly complete_from: bigint | null;
  readonly counts_since: bigint | null;
}

export function budgetOf(row: BudgetRow): StoredBudget {
  const scope = parseScope(row.scope);
  invariant(
    scope !== undefined && isPeriod(row.period),
    `budget ${row.seq} must have a valid scope and period, not ${row.scope}/${row.period}`,
  );
  return {
    seq: Number(row.seq),
    id: `${row.scope}/${row.period}`,
    scope,
    period: row.period,
    mode: row.mode,
    limit: row.amount_limit as PicoUsd,
    warnPercent: row.warn_percent === null ? null : Number(row.warn_percent),
    ...(row.counts_since !== null && { countsSince: Number(row.counts_since) }),
    isRaised: row.is_raised !== 0n,
    completeFrom: row.complete_from === null ? null : Number(row.complete_from),
  };
}

/** Row of `raises`, with integers read as bigints. */
export interface RaiseRow {
  readonly amount: bigint;
  readonly starts_at: bigint;
  readonly until: bigint | null;
}

export function raiseOf({ amount, starts_at: from, until }: RaiseRow): Raise {
  return { amount: amount as PicoUsd, from: Number(from), until: until === null ? null : Number(until) };
}

/** State of `charges` at an instant, which identifies the charges that were posted later. */
export interface LaterCharges {
  /** Greatest `seq` of a charge; 0 if there were no charges. */
  readonly upTo: number;
  /** JSON array with the `seq` of each pending charge. */
  readonly pending: string;
}

/** Sums of a new budget's windows at an earlier instant, and the state of `charges` at that instant. */
export interface SpentBefore extends LaterCharges {
  /** Span of the windows. The ledger's time zone may have changed since that instant, and then the spans differ. */
  readonly span: Span;
  /** JSON array of pairs. Each pair has a subject, and its amount in pico-USD as text. */
  readonly spent: string;
  /**
   * Version of the sums at that instant. If the version has changed since, a later sum must not continue from these
   * sums.
   */
  readonly sumsVersion: number;
}

/** Columns of `charges` by which budgets count a charge. */
export const countedColumns = ["key", "team", "model", "tags", "labels", "end_user", "entry", "entries"] as const;

export type CountedRow = Pick<ChargeRow, (typeof countedColumns)[number]>;

/** Returns the caller of a charge: its key, its team, and the other values by which budgets count it. */
export function callerOfRow(row: CountedRow): Caller {
  return { key: row.key, team: row.team, ...countedFor(row) };
}

/** Returns a copy of a window. Later holds and settlements do not change the copy. */
export function snapshot({ budget, subject, start, end, spent, held, raises }: BudgetWindow): BudgetWindow {
  return { budget: withoutSeq(budget), subject, start, end, spent, held, raises };
}

/** Returns a budget without its row number. */
export function withoutSeq({ id, scope, period, mode, limit, warnPercent, countsSince }: Budget): Budget {
  return { id, scope, period, mode, limit, warnPercent, ...(countsSince !== undefined && { countsSince }) };
}
