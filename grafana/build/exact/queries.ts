import type { Dialect } from "./dialects.ts";

/*
 * Queries of the ledger's tables, in the SQL that SQLite and PostgreSQL have in common. `$__from`, `$__to` (milliseconds
 * since 1970) and `$__interval_ms` are Grafana's own variables, which it replaces with numbers.
 */

/** Value of a variable if everything is chosen, as SQL text. */
export const everyValue = "'(all)'";

/**
 * Queries for the values of the filter variables. Names of keys and teams contain no quote. Clients choose the names of models, so
 * names with a quote are left out, because Grafana does not escape quotes as SQL does.
 */
export const filterValues = {
  team: "select distinct team from keys where team is not null order by 1",
  key: "select name from keys order by 1",
  model: "select distinct model from rollup_day where model not like '%''%' order by 1",
};

/** Returns the condition for rows of a table that the variables choose. The query must join the table with `keys`. */
function chosen(table: string): string {
  const columns = { team: `${table}.team`, key: "keys.name", model: `${table}.model` };
  return Object.entries(columns)
    .map(([name, column]) => `(${everyValue} in (\${${name}:singlequote}) or ${column} in (\${${name}:singlequote}))`)
    .join("\n    and ");
}

/**
 * Charges of the chosen teams, keys and models, in the quarter hours that the dashboard's time range touches, as in
 * `farebox report`. For days that `db prune` has emptied, carried sums count at noon.
 */
const spending = `with everything as (
  select starts_at as at, key, team, model, source, requests, cost, list_cost, in_doubt
  from rollup_quarter
  where starts_at >= $__from / 900000 * 900000 and starts_at < $__to and starts_at >= (select quarters_from from meta)
  union all
  select admitted_at, key, coalesce(team, ''), model, source,
    case when carried.charge is not null then carried.requests when formula = 'adjustment' then 0 else 1 end, coalesce(cost, 0), coalesce(list_cost, 0), in_doubt
  from charges left join carried on carried.charge = charges.seq
  where state = 'posted' and admitted_at >= $__from and admitted_at < $__to and admitted_at < (select quarters_from from meta)
), spending as (
  select everything.* from everything left join keys on keys.id = everything.key
  where ${chosen("everything")}
)`;

const inRange = "admitted_at >= $__from and admitted_at < $__to";
const keyName = "coalesce(keys.name, nullif(key, ''), '(no key)')";

/** Returns the query of one amount over the time range. */
export const total = (dialect: Dialect, amount: string) => `${spending}
select ${dialect.usd(`coalesce(sum(${amount}), 0)`)} as usd from spending`;

export const requests = `${spending}
select cast(coalesce(sum(requests), 0) as bigint) as requests from spending`;

export const heldNow = (dialect: Dialect) =>
  `select ${dialect.usd("coalesce(sum(hold), 0)")} as usd from charges where state = 'pending'`;

/** Returns the query of the cost of each model or team in each interval of the chart. */
export const overTime = (dialect: Dialect, column: "model" | "team") => `${spending}
select ${dialect.time("(at - at % $__interval_ms)")} as time, coalesce(nullif(${column}, ''), '(no ${column})') as ${column}, ${dialect.usdNumber("sum(cost)")} as usd
from spending group by 1, 2 order by 1, 2`;

const sums = (dialect: Dialect) => `cast(sum(requests) as bigint) as "Requests", ${dialect.usd("sum(cost)")} as "Spent",
  ${dialect.usd("sum(list_cost)")} as "List price", ${dialect.usd("(sum(list_cost) - sum(cost))")} as "Saved"`;

/** Returns the query of the sums for each value of a column, highest cost first. */
export const by = (dialect: Dialect, column: "model" | "team" | "source", title: string) => `${spending}
select coalesce(nullif(${column}, ''), '(no ${column})') as "${title}", ${sums(dialect)}
from spending group by ${column} order by sum(cost) desc, 1 limit 100`;

export const byKey = (dialect: Dialect) => `${spending}
select ${keyName} as "Key", ${sums(dialect)}
from spending left join keys on keys.id = spending.key group by key, keys.name order by sum(cost) desc, 1 limit 100`;

export const byDay = (dialect: Dialect) => `select day as "Day", ${sums(dialect)}
from rollup_day left join keys on keys.id = rollup_day.key
where day >= ${dialect.date("$__from")} and ${chosen("rollup_day")} group by day order by day desc limit 100`;

export const charges = (
  dialect: Dialect,
) => `select ${dialect.time("admitted_at")} as time, charges.id as "Request", ${keyName} as "Key", model as "Model",
  state as "State", source as "Source", ${dialect.usd("cost")} as "Cost", ${dialect.usd("list_cost")} as "List price", ${dialect.usd("hold")} as "Hold"
from charges left join keys on keys.id = charges.key
where ${inRange} and ${chosen("charges")} order by admitted_at desc, charges.seq desc limit 100`;

/** Returns the query of the windows at the end of the time range, sorted by the used part of their limits. */
export const windows = (dialect: Dialect) => `select
  case when scope like 'key:%' then 'key:' || coalesce(owner.name, substr(scope, 5))
    when subject <> '' then scope || '=' || coalesce(member.name, subject) else scope end as "Scope",
  period as "Period", mode as "Mode", ${dialect.usd("amount_limit")} as "Limit", ${dialect.usd("spent")} as "Spent", ${dialect.usd("held")} as "Held",
  ${dialect.usd("(amount_limit - spent - held)")} as "Remaining", ${dialect.time("starts_at")} as "Starts", ${dialect.time("ends_at")} as "Ends"
from windows join budgets on budgets.seq = windows.budget
  left join keys owner on 'key:' || owner.id = scope left join keys member on member.id = subject
where starts_at <= $__to and (ends_at is null or ends_at > $__to)
order by 1.0 * spent / nullif(amount_limit, 0) desc nulls last, 1, 2 limit 500`;

export const pendingHolds = (
  dialect: Dialect,
) => `select ${dialect.time("admitted_at")} as time, charges.id as "Request", ${keyName} as "Key", model as "Model", ${dialect.usd("hold")} as "Hold"
from charges left join keys on keys.id = charges.key
where state = 'pending' order by admitted_at, charges.seq limit 100`;

export const overages = (
  dialect: Dialect,
) => `select ${dialect.time("admitted_at")} as time, charges.id as "Request", ${keyName} as "Key", model as "Model",
  ${dialect.usd("hold")} as "Hold", ${dialect.usd("cost")} as "Cost", ${dialect.usd("overage")} as "Overage"
from charges left join keys on keys.id = charges.key
where ${inRange} and overage > 0 order by admitted_at desc, charges.seq desc limit 100`;

export const corrections = (
  dialect: Dialect,
) => `select ${dialect.time("ended_at")} as time, adjusts as "Corrects", ${keyName} as "Key", model as "Model",
  ${dialect.usd("cost")} as "Amount", reason as "Why", adjusted_by as "By"
from charges left join keys on keys.id = charges.key
where adjusts is not null and ended_at >= $__from and ended_at < $__to order by ended_at desc, charges.seq desc limit 100`;
