import { budgetRemoveEntry, budgetSetEntry } from "../../core/audit.ts";
import { formatScope, type Budget } from "../../core/budget.ts";
import { budgetId, type RemoveBudgetCommand, type SetBudgetCommand } from "../commands.ts";
import { recordAudit } from "./audit-entries.ts";
import { readBudgets, type WindowBook } from "./budgets.ts";
import type { Connection } from "./connection.ts";
import { keyNamesIn } from "./keys.ts";

/** Adds or changes a budget, and writes down who did. */
export function setBudget(db: Connection, windows: WindowBook, [, budget, at, by]: SetBudgetCommand): Budget {
  const before = findBudget(db, budgetId(formatScope(budget.scope), budget.period));
  const stored = windows.setBudget(budget, at);
  recordAudit(db, budgetSetEntry(stored, before, keyNamesIn(db), { at, by }));
  return stored;
}

/** Removes a budget, and writes down who did; false when there is none. */
export function removeBudget(db: Connection, windows: WindowBook, [, scope, period, at, by]: RemoveBudgetCommand): boolean {
  const before = findBudget(db, `${scope}/${period}`);
  if (before === undefined || !windows.removeBudget(scope, period)) return false;
  recordAudit(db, budgetRemoveEntry(before, keyNamesIn(db), { at, by }));
  return true;
}

function findBudget(db: Connection, wanted: string): Budget | undefined {
  return readBudgets(db).find(({ id }) => id === wanted);
}
