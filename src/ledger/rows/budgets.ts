import { invariant } from "../../core/assert.ts";
import { isPeriod, type Budget, type BudgetMode, type BudgetWindow, type Raise, type Span } from "../../core/budget.ts";
import { isRunSession, sessionTag } from "../../core/keys.ts";
import {
  conditionsOf,
  eachOf,
  isRolledUp,
  parseScope,
  type Caller,
  type Condition,
  type Dimension,
  type Scope,
} from "../../core/scope.ts";
import type { PicoUsd } from "../../core/money.ts";
import type { Dialect } from "../queries/dialects.ts";
import type { ChargeRow } from "../charge-columns.ts";
import type { Statement } from "../queries/query.ts";
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

/** Returns an SQL condition for the charges of a window, or for its rows of a rollup. */
export function scopeCondition(
  dialect: Dialect,
  scope: Scope,
  subject: string,
  of: "charges" | "rollup" = "charges",
): Statement {
  const conditions = conditionsOf(scope, subject).map(({ dimension, name, value }, index): Statement => {
    if (dimension === "model") return modelCondition(dialect, value, scope.conditions[index]?.value !== null, of);
    const { sql, values } = valueOf(dialect, dimension, name, value);
    return value === ""
      ? { sql: `coalesce(${sql}, '') = ''`, values }
      : { sql: `${sql} = ?`, values: [...values, value] };
  });
  return {
    sql: [...conditions.map(({ sql }) => sql), ...withoutCarried(scope)].join(" and ") || "true",
    values: conditions.flatMap(({ values }) => values),
  };
}

/** Returns a condition that excludes carried sums; no condition if they have all values on which the scope depends. */
function withoutCarried(scope: Scope): readonly string[] {
  return isRolledUp(scope) ? [] : ["route <> 'carried'"];
}

/** State of `charges` at an instant, which identifies the charges that were posted later. */
export interface LaterCharges {
  /** Greatest `seq` of a charge; 0 if there were no charges. */
  readonly upTo: number;
  /** JSON array with the `seq` of each pending charge. */
  readonly pending: string;
}

/**
 * Returns a statement that selects the charges of a span that count for a subject, or for any subject (null). Its
 * columns are `seq`, `admitted_at`, `state`, `cost`, `hold` and `subject`. A charge has one row for each subject for
 * which it counts.
 */
export function chargesBySubject(
  dialect: Dialect,
  scope: Scope,
  subject: string | null,
  { start, end }: Span,
  which: "all" | "pending" | LaterCharges = "all",
): Statement {
  const { named, counted } = subjectAndCondition(dialect, scope, subject, "charges");
  const [charges, isCounted, values]: [string, string, Statement["values"]] =
    which === "all"
      ? ["charges", "state <> 'voided'", []]
      : which === "pending"
        ? [dialect.pendingCharges, "state = 'pending'", []]
        : [laterCharges(dialect), "state = 'posted'", [which.upTo, which.pending]];
  const byModel = `(
    select charges.*, coalesce(entry, model) as one from ${charges} where entries is null and ${isCounted}
    union all select charges.*, value from ${dialect.pendingCharges}, ${dialect.textsIn("entries")} where state = 'pending' and entries is not null
  ) charges`;
  const isByModel = subject === null && eachOf(scope).includes("model");
  return {
    sql: `select seq, admitted_at, state, cost, hold, ${named.sql} as subject from ${isByModel ? byModel : charges}
      where ${isCounted} and ${counted.sql} and admitted_at >= ? and admitted_at < ?`,
    values: [...named.values, ...values, ...counted.values, start, end ?? endOfTime],
  };
}

/** Returns an SQL subquery for the charges whose `seq` is greater than a value or in a list. */
function laterCharges(dialect: Dialect): string {
  return `(
    with later as materialized (
      select * from charges ${dialect.bySeq} where seq > ? union all select * from charges where ${dialect.isIn("seq", "bigint")}
    )
    select * from later
  ) charges`;
}

/**
 * Returns two SQL expressions on charges or on rows of a rollup. `named` is the subject of a row. `counted` is the
 * condition that the row counts for `subject`, or for any subject if `subject` is null.
 */
export function subjectAndCondition(
  dialect: Dialect,
  scope: Scope,
  subject: string | null,
  of: "charges" | "rollup",
): { readonly named: Statement; readonly counted: Statement } {
  if (subject !== null) {
    const named = { sql: "cast(? as text)", values: [subject] };
    return { named, counted: scopeCondition(dialect, scope, subject, of) };
  }
  const each = scope.conditions.filter(({ value }) => value === null);
  const stated = { conditions: scope.conditions.filter(({ value }) => value !== null) };
  const { sql, values } = scopeCondition(dialect, stated, "", of);
  const hasKey = each.some(({ dimension }) => dimension === "key");
  return {
    named: subjectIn(dialect, each, of === "rollup" ? "entry" : "one"),
    counted: { sql: [...(hasKey ? ["key <> ''"] : []), ...withoutCarried(scope), sql].join(" and "), values },
  };
}

/** Returns the SQL expression for a charge's subject, in the format of `subjectsOf`. */
function subjectIn(dialect: Dialect, each: readonly Condition[], model: string): Statement {
  const parts = each.map(({ dimension, name }): Statement => {
    if (dimension === "model") return { sql: model, values: [] };
    const { sql, values } = valueOf(dialect, dimension, name, null);
    return { sql: `coalesce(${sql}, '')`, values };
  });
  return {
    sql: parts.map(({ sql }) => `replace(replace(${sql}, '%', '%25'), ' ', '%20')`).join(" || ' ' || ") || "''",
    values: parts.flatMap(({ values }) => values),
  };
}

/**
 * Returns the SQL expression for a charge's value of a dimension. `value`: the only value to compare with; null for
 * any.
 */
function valueOf(
  dialect: Dialect,
  dimension: Exclude<Dimension, "model">,
  name: string,
  value: string | null,
): Statement {
  if (dimension === "label") return dialect.member("labels", name);
  // Of all tags, only ids of run sessions have a separate column, which has an index.
  if (dimension === "tag" && !(value !== null && name === sessionTag && isRunSession(value)))
    return dialect.member("tags", name);
  return { sql: { team: "team", key: "key", user: "end_user", tag: "session" }[dimension], values: [] };
}

/**
 * Returns the condition that a charge's model, or any of a pending charge's models, has a name or matches a pattern.
 */
function modelCondition(dialect: Dialect, value: string, isPattern: boolean, of: "charges" | "rollup"): Statement {
  const matches = (sql: string) =>
    isPattern && value.includes("*") ? dialect.matches(sql, value) : { sql: `${sql} = ?`, values: [value] };
  if (of === "rollup") return matches("entry");
  const one = matches("coalesce(entry, model)");
  const any = matches("value");
  return {
    sql: `(${one.sql} or entries is not null and exists (select 1 from ${dialect.textsIn("entries")} where ${any.sql}))`,
    values: [...one.values, ...any.values],
  };
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
