import { invariant } from "../../core/assert.ts";
import {
  isPeriod,
  parseScope,
  type Budget,
  type BudgetMode,
  type BudgetWindow,
  type Scope,
} from "../../core/budget.ts";
import type { PicoUsd } from "../../core/money.ts";

/** Budget with its row number. */
export interface StoredBudget extends Budget {
  readonly seq: number;
}

/** Represents "no end" in comparisons. */
export const endOfTime = Number.MAX_SAFE_INTEGER;

/** Row of `budgets`, read with safe integers. */
export interface BudgetRow {
  readonly seq: bigint;
  readonly scope: string;
  readonly period: string;
  readonly mode: BudgetMode;
  readonly amount_limit: bigint;
  readonly warn_percent: bigint | null;
}

export function budgetOf(row: BudgetRow): StoredBudget {
  const scope = parseScope(row.scope);
  invariant(scope !== undefined && isPeriod(row.period), `budget ${row.seq} has a scope and a period`);
  return {
    seq: Number(row.seq),
    id: `${row.scope}/${row.period}`,
    scope,
    period: row.period,
    mode: row.mode,
    limit: row.amount_limit as PicoUsd,
    warnPercent: row.warn_percent === null ? null : Number(row.warn_percent),
  };
}

/**
 * Returns an SQL condition for a scope's charges, with its parameters. `subject` selects one member of an `eachKey`
 * scope.
 */
export function scopeCondition(
  scope: Scope,
  subject: string,
): { readonly sql: string; readonly values: readonly string[] } {
  switch (scope.kind) {
    case "all":
      return { sql: "true", values: [] };
    case "team":
      return { sql: "team = ?", values: [scope.team] };
    case "key":
      return scope.session === undefined
        ? { sql: "key = ?", values: [scope.key] }
        : { sql: "key = ? and session = ?", values: [scope.key, scope.session] };
    case "eachKey":
      return scope.team === null
        ? { sql: "key = ?", values: [subject] }
        : { sql: "key = ? and team = ?", values: [subject, scope.team] };
  }
}

/** Returns a copy that later movements do not change. */
export function snapshot({ budget, subject, start, end, spent, held }: BudgetWindow): BudgetWindow {
  return { budget: withoutSeq(budget), subject, start, end, spent, held };
}

/** Returns a budget without its row number. */
export function withoutSeq({ id, scope, period, mode, limit, warnPercent }: Budget): Budget {
  return { id, scope, period, mode, limit, warnPercent };
}
