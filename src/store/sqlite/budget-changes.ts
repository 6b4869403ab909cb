import { budgetRemoveEntry, budgetSetEntry } from "../../core/audit.ts";
import { formatScope, type Budget } from "../../core/budget.ts";
import type { RemoveBudgetCommand, SetBudgetCommand } from "../commands.ts";
import { keyNames } from "../tables/keys.ts";
import { recordAudit } from "../tables/audit.ts";
import { answerEach } from "./answer.ts";
import { readBudget, type WindowBook } from "./budgets.ts";
import type { Connection } from "./connection.ts";

/** Adds or changes a budget, and writes down who did. */
export function setBudget(db: Connection, windows: WindowBook, [, budget, at, by]: SetBudgetCommand): Budget {
  const before = readBudget(db, formatScope(budget.scope), budget.period);
  const stored = windows.setBudget(budget, at);
  answerEach(db, recordAudit(budgetSetEntry(stored, before, answerEach(db, keyNames(budget)), { at, by })));
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
  answerEach(db, recordAudit(budgetRemoveEntry(before, answerEach(db, keyNames(before)), { at, by })));
  return true;
}
