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

/** A budget with its row number. */
export interface StoredBudget extends Budget {
  readonly seq: number;
}

/** In place of "no end" in comparisons. */
export const endOfTime = Number.MAX_SAFE_INTEGER;

/** A row of `budgets`, read with safe integers. */
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

/** The charges of a scope, as a condition with its parameters. `subject` tells members of an `eachKey` scope apart. */
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

/** A copy that no later movement changes. */
export function snapshot({ budget, subject, start, end, spent, held }: BudgetWindow): BudgetWindow {
  return { budget: withoutSeq(budget), subject, start, end, spent, held };
}

/** A budget as the port shows it. */
export function withoutSeq({ id, scope, period, mode, limit, warnPercent }: Budget): Budget {
  return { id, scope, period, mode, limit, warnPercent };
}
