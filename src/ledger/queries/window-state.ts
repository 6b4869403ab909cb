import { isRefusing, noRaises, refusingMs, type BudgetWindow, type Raise } from "../../core/budget.ts";
import { raiseOf, type RaiseRow } from "../rows/budgets.ts";
import { rowsOf, type Query, type Statement } from "./query.ts";
import { formatScope } from "../../core/scope.ts";
import type { RankedWindow } from "../../ports/lists.ts";
import { minuteMs } from "../../core/time.ts";

/** SQL condition that a raise is in force at an instant. */
const isInForce = "starts_at <= ? and (until is null or until > ?)";

/** Returns the statement that sums the raises in force at an instant, for each budget and subject. */
export function raisedAmounts(at: number) {
  return {
    sql: `select budget as raised_budget, subject as raised_subject, cast(sum(amount) as bigint) as raised from raises
      where ${isInForce} group by budget, subject`,
    values: [at, at],
  };
}

/** Returns a function that returns the raises of a window that are in force at an instant. */
export function* readRaises(
  at: number,
): Query<(window: { readonly seq: number | bigint; readonly subject: string }) => readonly Raise[]> {
  const rows = yield* rowsOf<RaiseRow & { readonly budget: bigint; readonly subject: string }>({
    sql: `select budget, subject, amount, starts_at, until from raises where ${isInForce} order by seq`,
    values: [at, at],
  });
  const known = Map.groupBy(rows, ({ budget, subject }) => `${budget} ${subject}`);
  return ({ seq, subject }) => known.get(`${seq} ${subject}`)?.map(raiseOf) ?? noRaises;
}

/**
 * Returns the statement that selects the windows that recently refused requests. `last` is the time of the latest
 * refusal.
 */
export function recentlyRefusing(at: number): Statement {
  return {
    sql: `select scope as of_scope, period as of_period, coalesce(subject, '') as of_subject, max(last_at) as last
      from refusals where minute > ? and period is not null group by 1, 2, 3`,
    values: [at - refusingMs - minuteMs],
  };
}

interface RefusingRow {
  readonly of_scope: string;
  readonly of_period: string;
  readonly of_subject: string;
  readonly last: bigint;
}

/** Returns a function that adds `refusing` to a window. */
export function* readRefusing(at: number): Query<(window: BudgetWindow) => RankedWindow> {
  const rows = yield* rowsOf<RefusingRow>(recentlyRefusing(at));
  const lastOf = new Map(
    rows.map(({ of_scope, of_period, of_subject, last }) => [`${of_scope}/${of_period} ${of_subject}`, Number(last)]),
  );
  return (window) => {
    const { budget, subject } = window;
    const last = lastOf.get(`${formatScope(budget.scope)}/${budget.period} ${subject}`);
    return { ...window, refusing: isRefusing(window, last, at) };
  };
}
