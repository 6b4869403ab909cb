import { fareboxAdmin } from "../../core/keys.ts";
import { invariant } from "../../core/assert.ts";
import { budgetRaiseEntry, budgetRemoveEntry, budgetSetEntry } from "../../core/audit.ts";
import { type Budget } from "../../core/budget.ts";
import { anchorOf, formatScope, isOfSession, isRolledUp, type Scope } from "../../core/scope.ts";
import { picoUsdMax } from "../../core/money.ts";
import type { Ledger, NewRaise, RaiseResult } from "../../ports/ledger.ts";
import { rowOf, rowsOf, write, type BudgetStep, type Query } from "../queries/query.ts";
import { budgetOf, withoutSeq, type SpentBefore, type BudgetRow, type StoredBudget } from "../rows/budgets.ts";
import { recordAudit } from "./audit.ts";
import { keyNames } from "./keys.ts";
import { insert, type Table } from "./table.ts";

/** Locks all budgets until the transaction ends. A transaction must take this lock before any row lock. */
export function* lockBudgets(): Query<void> {
  yield { budgets: "lock" } satisfies BudgetStep;
}

/** Returns the budget of a scope and period; undefined if there is none. */
export function* findBudget(scope: string, period: string): Query<StoredBudget | undefined> {
  const sql = "select * from budgets where scope = ? and period = ?";
  const row = yield* rowOf<BudgetRow>({ sql, values: [scope, period] });
  return row && budgetOf(row);
}

function* isCurrent({ sumsVersion }: SpentBefore): Query<boolean> {
  return (
    (yield* rowOf<object>({ sql: "select 1 from meta where sums_version = ?", values: [sumsVersion] })) !== undefined
  );
}

/** Half a day, in milliseconds. A carried sum has the time of noon on the day whose charges it replaces. */
const halfDayMs = 43_200_000;

/** Returns the SQL expression for the time from which a new budget counts charges; `null` if it counts all. */
function countsSince(scope: Scope): string {
  if (isRolledUp(scope) || isOfSession(scope)) return "null";
  return `(select max(since) from (
    select users_since as since from meta
    union all select max(admitted_at) + ${halfDayMs} from charges where route = 'carried'
  ) known)`;
}

/**
 * Adds or changes a budget, and opens its current windows with the sums of their charges. Returns the budget. `before`:
 * sums computed before the transaction; ignored if they are outdated. The caller must call `lockBudgets` first.
 */
export function* putBudget(
  { scope, period, mode, limit, warnPercent }: Omit<Budget, "id">,
  at: number,
  before: SpentBefore | null = null,
): Query<StoredBudget> {
  yield* write(
    `insert into budgets (scope, anchor, period, mode, amount_limit, warn_percent, counts_since) values (?, ?, ?, ?, ?, ?, ${countsSince(scope)})
     on conflict (scope, period) do update set mode = excluded.mode, amount_limit = excluded.amount_limit, warn_percent = excluded.warn_percent`,
    formatScope(scope),
    anchorOf(scope),
    period,
    mode,
    limit,
    warnPercent,
  );
  const budget = yield* findBudget(formatScope(scope), period);
  invariant(budget !== undefined, `the budget ${formatScope(scope)}/${period} must exist after it was set`);
  const known = before !== null && (yield* isCurrent(before)) ? before : null;
  yield { budgets: "open", budget, at, before: known } satisfies BudgetStep;
  return budget;
}

/** Adds a raise. The caller must call `lockBudgets` first. */
export function* addRaise(
  raise: NewRaise,
  { at, by }: { readonly at: number; readonly by: string },
): Query<RaiseResult> {
  const { scope, period, subject, amount, from, until, why } = raise;
  const budget = yield* findBudget(scope, period);
  if (budget === undefined) return { ok: false, reason: "no_such_budget" };
  const raised = yield* rowsOf<{ amount: bigint }>({
    sql: "select amount from raises where budget = ? and subject = ? and (until is null or until > ?)",
    values: [budget.seq, subject, at],
  });
  if (raised.reduce((total, each) => total + each.amount, budget.limit + amount) > picoUsdMax)
    return { ok: false, reason: "too_large" };
  const row = { budget: budget.seq, subject, amount, starts_at: from, until, why, made_at: at, made_by: by };
  yield* insert("raises", row);
  yield* write("update budgets set is_raised = 1 where seq = ?", budget.seq);
  yield { budgets: "raise", budget: { ...budget, isRaised: true }, subject, at } satisfies BudgetStep;
  yield* recordAudit(budgetRaiseEntry(budget, raise, yield* keyNames(budget, subject), { at, by }));
  return { ok: true, budget: withoutSeq(budget) };
}

/**
 * Removes a budget with its windows. Returns the budget; undefined if there is none. The caller must call `lockBudgets`
 * first.
 */
export function* dropBudget(scope: string, period: string): Query<StoredBudget | undefined> {
  const budget = yield* findBudget(scope, period);
  if (budget === undefined) return undefined;
  yield { budgets: "close", budget } satisfies BudgetStep;
  for (const table of ["raises", "raise_requests"]) yield* write(`delete from ${table} where budget = ?`, budget.seq);
  yield* write("delete from budgets where seq = ?", budget.seq);
  return budget;
}

interface BudgetWrites extends Pick<Ledger, "removeBudget" | "raiseBudget"> {
  /** `before`: sums of the budget's windows that were computed before this transaction, if any. */
  setBudget(...args: [...Parameters<Ledger["setBudget"]>, before?: SpentBefore | null]): Promise<Budget>;
}

export const budgets: Table<BudgetWrites, keyof BudgetWrites> = {
  queries: {},
  announces: true,
  writes: {
    *setBudget(budget, at, by = fareboxAdmin, before = null) {
      yield* lockBudgets();
      const former = yield* findBudget(formatScope(budget.scope), budget.period);
      const stored = yield* putBudget(budget, at, before);
      yield* recordAudit(budgetSetEntry(stored, former, yield* keyNames(stored), { at, by }));
      return withoutSeq(stored);
    },
    *removeBudget(scope, period, at, by = fareboxAdmin) {
      yield* lockBudgets();
      const before = yield* dropBudget(scope, period);
      if (before === undefined) return false;
      yield* recordAudit(budgetRemoveEntry(before, yield* keyNames(before), { at, by }));
      return true;
    },
    *raiseBudget(raise, at, by = fareboxAdmin) {
      yield* lockBudgets();
      return yield* addRaise(raise, { at, by });
    },
  },
};
