import { budgetRemoveEntry, budgetSetEntry } from "../../core/audit.ts";
import { formatScope, type Budget } from "../../core/budget.ts";
import type { RemoveBudgetCommand, SetBudgetCommand } from "../commands.ts";
import { recordAudit } from "./audit-entries.ts";
import { readBudget, type WindowBook } from "./budgets.ts";
import type { Connection } from "./connection.ts";
import { keyNamesIn } from "./keys.ts";

/** Adds or changes a budget, and writes down who did. */
export function setBudget(db: Connection, windows: WindowBook, [, budget, at, by]: SetBudgetCommand): Budget {
  const before = readBudget(db, formatScope(budget.scope), budget.period);
  const stored = windows.setBudget(budget, at);
  recordAudit(db, budgetSetEntry(stored, before, keyNamesIn(db), { at, by }));
  return stored;
}

/** Removes a budget, and writes down who did; false when there is none. */
export function removeBudget(
  db: Connection,
  windows: WindowBook,
  [, scope, period, at, by]: RemoveBudgetCommand,
): boolean {
  const before = readBudget(db, scope, period);
  if (before === undefined || !windows.removeBudget(scope, period)) return false;
  recordAudit(db, budgetRemoveEntry(before, keyNamesIn(db), { at, by }));
  return true;
}
