import { fareboxAdmin } from "../../core/keys.ts";
import { invariant } from "../../core/assert.ts";
import { budgetRemoveEntry, budgetSetEntry } from "../../core/audit.ts";
import { formatScope, type Budget } from "../../core/budget.ts";
import type { Ledger } from "../../ports/ledger.ts";
import { rowOf, write, type BudgetStep, type Query } from "../queries/query.ts";
import { budgetOf, withoutSeq, type BudgetRow, type StoredBudget } from "../rows/budgets.ts";
import { recordAudit } from "./audit.ts";
import { keyNames } from "./keys.ts";
import type { Table } from "./table.ts";

/** Locks all budgets until the transaction ends. A change takes this lock before any row lock. */
export function* lockBudgets(): Query<void> {
  yield { budgets: "lock" } satisfies BudgetStep;
}

function* findBudget(scope: string, period: string): Query<StoredBudget | undefined> {
  const sql = "select * from budgets where scope = ? and period = ?";
  const row = yield* rowOf<BudgetRow>({ sql, values: [scope, period] });
  return row && budgetOf(row);
}

/** Adds or changes a budget, and opens its current windows from the charges. Needs the budgets' lock. */
export function* putBudget(
  { scope, period, mode, limit, warnPercent }: Omit<Budget, "id">,
  at: number,
): Query<StoredBudget> {
  yield* write(
    `insert into budgets (scope, period, mode, amount_limit, warn_percent) values (?, ?, ?, ?, ?)
     on conflict (scope, period) do update set mode = excluded.mode, amount_limit = excluded.amount_limit, warn_percent = excluded.warn_percent`,
    formatScope(scope),
    period,
    mode,
    limit,
    warnPercent,
  );
  const budget = yield* findBudget(formatScope(scope), period);
  invariant(budget !== undefined, "a budget that was set is there");
  yield { budgets: "open", budget, at } satisfies BudgetStep;
  return budget;
}

/** Removes a budget with its windows and returns it; undefined if there is none. Needs the budgets' lock. */
export function* dropBudget(scope: string, period: string): Query<StoredBudget | undefined> {
  const budget = yield* findBudget(scope, period);
  if (budget === undefined) return undefined;
  yield { budgets: "close", budget } satisfies BudgetStep;
  yield* write("delete from budgets where seq = ?", budget.seq);
  return budget;
}

export const budgets: Table<Pick<Ledger, "setBudget" | "removeBudget">, "setBudget" | "removeBudget"> = {
  queries: {},
  announces: true,
  writes: {
    *setBudget(budget, at, by = fareboxAdmin) {
      yield* lockBudgets();
      const before = yield* findBudget(formatScope(budget.scope), budget.period);
      const stored = yield* putBudget(budget, at);
      yield* recordAudit(budgetSetEntry(stored, before, yield* keyNames(stored), { at, by }));
      return withoutSeq(stored);
    },
    *removeBudget(scope, period, at, by = fareboxAdmin) {
      yield* lockBudgets();
      const before = yield* dropBudget(scope, period);
      if (before === undefined) return false;
      yield* recordAudit(budgetRemoveEntry(before, yield* keyNames(before), { at, by }));
      return true;
    },
  },
};
