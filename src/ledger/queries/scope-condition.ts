import type { Span } from "../../core/budget.ts";
import { isRunSession, sessionTag } from "../../core/keys.ts";
import { conditionsOf, eachOf, isRolledUp, type Condition, type Dimension, type Scope } from "../../core/scope.ts";
import { endOfTime, type LaterCharges } from "../rows/budgets.ts";
import type { Dialect } from "./dialects.ts";
import type { Statement } from "./query.ts";

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
