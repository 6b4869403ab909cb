import { keyStates, type Key } from "../../core/keys.ts";
import { appliesTo, parseScope } from "../../core/scope.ts";
import { noMoney, type PicoUsd } from "../../core/money.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type {
  KeyListQuery,
  ListedKey,
  ListedModel,
  ListedTeam,
  ListPage,
  ListQueries,
  ModelListQuery,
  TeamListQuery,
  UsageSummary,
} from "../../ports/lists.ts";
import { isLive, keyColumns, keyOf, stateConditions, type KeyRow } from "../tables/keys.ts";
import { teamColumns, teamOf, type TeamRow } from "../tables/teams.ts";
import {
  rankedWindows,
  rankSql,
  readBudgetList,
  readFullest,
  readModelWindows,
  readRequestWindows,
  readWindowList,
} from "./budget-lists.ts";
import { isAmong, type Dialect } from "./dialects.ts";
import { Conditions, containing, pageOf, type ListRows } from "./page.ts";
import { rowsOf, sumSql, withNumbers, type Query, type Value } from "./query.ts";
import { readPastWindows } from "./past-windows.ts";
import { readRefusing } from "./window-state.ts";
import {
  hasEachKey,
  isByUserOrTagSql,
  isOfSessionSql,
  keyOfWindow,
  namesKey,
  namesLabel,
  namesUser,
  teamOfScope,
} from "./scope-sql.ts";
import {
  lastUseOf,
  readLastUsesOfKeys,
  readLastUsesOfTeams,
  readRefusedToday,
  readSpentOfKeys,
  type PastUsage,
} from "./usage.ts";
import type { Steps } from "../tables/table.ts";

/** Returns the queries of `ListQueries`. */
export function listQueries(
  dialect: Dialect,
  calendar: Calendar,
  past: PastUsage,
): { readonly [Name in keyof ListQueries]: Steps<ListQueries[Name]> } {
  const tools: ListTools = { dialect, calendar, past };
  return {
    listKeys: (query) => readKeyList(tools, query),
    listTeams: (query) => readTeamList(tools, query),
    listModels: (query) => readModelList(tools, query),
    listWindows: (query) => readWindowList(dialect, calendar, query),
    listBudgets: (query) => readBudgetList(dialect, calendar, query),
    *usageOf(id, at) {
      return (yield* readUsageOfKeys(tools, [id], at))(id);
    },
    modelWindows: (models, at) => readModelWindows(dialect, calendar, models, at),
    requestWindows: (caller, at) => readRequestWindows(dialect, calendar, caller, at),
    *ranked(windows, at) {
      return windows.map(yield* readRefusing(at));
    },
    pastWindows: (scope, of) => readPastWindows(dialect, calendar, scope, of),
  };
}

interface ListTools {
  readonly dialect: Dialect;
  readonly calendar: Calendar;
  readonly past: PastUsage;
}

function* readKeyList(tools: ListTools, query: KeyListQuery): Query<ListPage<ListedKey>> {
  const { dialect, calendar } = tools;
  const { at, search, states = keyStates, team, sort } = query;
  const found = containing("name", search);
  const inStates = states.map((state) => stateConditions[state](at));
  const where = new Conditions()
    // With a plain `like`, PostgreSQL expects to find a single key, and would read the joined sums once for each found
    // key. With this form, it expects to find a third of all keys.
    .add(`case when ${found.sql} then 1 else 0 end > 0`, ...found.values)
    .add(`(${inStates.map(([sql]) => sql).join(" or ")})`, ...inStates.flatMap(([, ...instants]) => instants))
    .add("team = ?", team);
  const measure = yield* measureOfKeys(tools, sort, at);
  const bySeq = ["seq", "integer"] as const;
  const rows: ListRows<KeyListQuery["sort"]> = {
    sql: `select seq, ${keyColumns}, ${measure.column} as measure from keys ${measure.join} where ${where.sql}`,
    values: [...measure.values, ...where.values],
    sorts: {
      created: [bySeq],
      name: [["name", "text"]],
      spent: [["measure", "integer"], bySeq],
      share: [["measure", "real"], bySeq],
      last_used: [["measure", "integer"], bySeq],
    },
  };
  const page = yield* pageOf<KeyRow, KeyListQuery["sort"]>(rows, query);
  if (page === null) return null;
  const keys = page.rows.map((row) => keyOf(withNumbers(row) as unknown as KeyRow));
  const usageOf = yield* readUsageOfKeys(
    tools,
    keys.map(({ id }) => id),
    at,
  );
  const callerOf = ({ id, team: own, labels }: Key) => ({ key: id, team: own, labels });
  const fullestOf = yield* readFullest(dialect, calendar, keys.map(callerOf), at);
  return {
    ...page,
    rows: keys.map((key) => ({ key, usage: usageOf(key.id), fullest: fullestOf(callerOf(key)) })),
  };
}

function* readUsageOfKeys(
  { dialect, calendar }: ListTools,
  ids: readonly string[],
  at: number,
): Query<(id: string) => UsageSummary> {
  const spentOf = yield* readSpentOfKeys(dialect, calendar, ids, at);
  const lastUseOfKey = yield* readLastUsesOfKeys(dialect, ids);
  const refusedOf = yield* readRefusedToday(dialect, calendar, "key", ids, at);
  return (id) => {
    const { spent = noMoney, requests = 0n } = spentOf.get(id) ?? {};
    return { spent, requests: Number(requests), lastUsedAt: lastUseOfKey(id), refusedToday: refusedOf(id) };
  };
}

/** Value that determines the order of rows: an SQL column, and the join that provides it. */
interface Measure {
  readonly column: string;
  readonly join: string;
  readonly values: readonly Value[];
}

const noMeasure: Measure = { column: "0", join: "", values: [] };

/** Returns the column for a sort order of keys, with its join to `keys`. */
function* measureOfKeys(
  { dialect, calendar, past }: ListTools,
  sort: KeyListQuery["sort"],
  at: number,
): Query<Measure> {
  if (sort === "created" || sort === "name") return noMeasure;
  if (sort === "last_used") return { ...noMeasure, column: `coalesce(${lastUseOf("keys.id")}, 0)` };
  if (sort === "spent") {
    const spent = yield* past.thisMonth("key", at);
    return {
      column: "coalesce(usage.spent, 0)",
      join: `left join (${spent.sql}) usage on usage.who = keys.id`,
      values: spent.values,
    };
  }
  const isOfKeys = `not (${namesUser}) and not ${isOfSessionSql} and (${namesKey} or ${hasEachKey} or not ${isByUserOrTagSql})`;
  const labels = yield* labelsUnderBudgets(isOfKeys);
  const byLabel = labels.length > 0;
  const only = { sql: byLabel ? isOfKeys : `not (${namesLabel}) and ${isOfKeys}`, values: [] };
  const windows = rankedWindows(dialect, calendar, at, { unused: "ranked", only });
  const isOfKey = "(ranks.team is null or ranks.team = keys.team) and (ranks.key is null or ranks.key = keys.id)";
  const unlabelled = byLabel ? "labelled is null and" : "";
  return {
    column: "coalesce(fullest.rank, 0e0)",
    join: `left join (
        with ranks as (
          select case when scope like 'team:%' then ${teamOfScope(dialect)} end as team, ${keyOfWindow(dialect)} as key, ${rankSql} as rank
            ${byLabel ? `, case when ${namesLabel} then scope end as labelled` : ""}
          from (${windows.sql}) ranked
        )
        select key, max(rank) as rank from (
          select ranks.key, rank from ranks join keys on keys.id = ranks.key where ${unlabelled} (ranks.team is null or ranks.team = keys.team)
          union all select keys.id, rank from ranks join keys on keys.team = ranks.team where ${unlabelled} ranks.key is null
          union all select keys.id, rank from ranks cross join keys where ${unlabelled} ranks.team is null and ranks.key is null
          ${byLabel ? `union all select keys.id, rank from (${labelRanks(dialect)}) ranks join keys on keys.labels = ranks.labels and ${isOfKey}` : ""}
        ) applying group by key
      ) fullest on fullest.key = keys.id`,
    values: [...windows.values, ...(byLabel ? [JSON.stringify(labels)] : [])],
  };
}

/**
 * Returns the SQL that joins each set of key labels with the budgets on labels that apply to it. Selects the highest
 * rank of each such scope, by team and key.
 */
const labelRanks = (dialect: Dialect) => `
  select of_keys.labels, team, key, rank
  from (select labelled, team, key, max(rank) as rank from ranks where labelled is not null group by labelled, team, key) of_budgets
    cross join (select distinct labels from keys where labels is not null) of_keys
  where ${isAmong(dialect, "labelled || ' ' || of_keys.labels")}`;

/**
 * Returns the pairs of a budget scope on labels and a set of key labels that it applies to. `condition` selects the
 * budgets. A pair is text: the scope and the set as stored, separated by a space.
 */
function* labelsUnderBudgets(condition: string): Query<readonly string[]> {
  const budgets = yield* rowsOf<{ scope: string }>({
    sql: `select distinct scope from budgets where ${namesLabel} and ${condition}`,
    values: [],
  });
  if (budgets.length === 0) return [];
  const sets = yield* rowsOf<{ labels: string }>({
    sql: "select distinct labels from keys where labels is not null",
    values: [],
  });
  const callers = sets.map(({ labels }) => ({ key: "", team: null, text: labels, labels: JSON.parse(labels) }));
  return budgets.flatMap(({ scope }) => {
    const conditions = parseScope(scope)?.conditions.filter(({ dimension }) => dimension === "label") ?? [];
    return callers.filter((caller) => appliesTo({ conditions }, caller)).map(({ text }) => `${scope} ${text}`);
  });
}

interface ListedTeamRow extends TeamRow {
  readonly spent: PicoUsd;
  readonly requests: bigint;
  readonly measure: bigint | number;
}

function* readTeamList(tools: ListTools, query: TeamListQuery): Query<ListPage<ListedTeam>> {
  const { dialect, calendar, past } = tools;
  const { at, search, sort, team: only } = query;
  const found = containing("teams.name", search);
  const where = new Conditions().add(found.sql, ...found.values).add("teams.name = ?", only);
  const usage = yield* past.thisMonth("team", at);
  const measure = measureOfTeams(dialect, calendar, sort, at);
  const byName = ["name", "text"] as const;
  const rows: ListRows<TeamListQuery["sort"]> = {
    sql: `select ${teamColumns.replace("name", "teams.name as name")}, coalesce(spent, 0) as spent, coalesce(requests, 0) as requests, ${measure.column} as measure
      from teams left join (${usage.sql}) usage on who = teams.name ${measure.join}
      where ${where.sql}`,
    values: [...usage.values, ...measure.values, ...where.values],
    sorts: {
      name: [byName],
      spent: [["spent", "integer"], byName],
      share: [["measure", "real"], byName],
      last_used: [["measure", "integer"], byName],
      keys: [["measure", "integer"], byName],
    },
  };
  const page = yield* pageOf<ListedTeamRow, TeamListQuery["sort"]>(rows, query);
  if (page === null) return null;
  const names = page.rows.map(({ name }) => name);
  const lastUseOfTeam = yield* readLastUsesOfTeams(dialect, sort === "last_used" ? [] : names);
  const refusedOf = yield* readRefusedToday(dialect, calendar, "team", names, at);
  const callers = names.map((team) => ({ key: "", team }));
  const fullestOf = yield* readFullest(dialect, calendar, callers, at);
  const members = yield* rowsOf<{ team: string; name: string }>({
    sql: `select team, name from keys where ${isLive} and ${isAmong(dialect, "team")} order by seq`,
    values: [at, JSON.stringify(names)],
  });
  const membersOf = Map.groupBy(members, ({ team }) => team);
  return {
    ...page,
    rows: page.rows.map(({ spent, requests, measure, ...row }) => ({
      team: teamOf(withNumbers(row) as unknown as TeamRow),
      usage: {
        spent,
        requests: Number(requests),
        lastUsedAt: sort === "last_used" ? Number(measure) || null : lastUseOfTeam(row.name),
        refusedToday: refusedOf(row.name),
      },
      fullest: fullestOf({ key: "", team: row.name }),
      liveKeys: (membersOf.get(row.name) ?? []).map(({ name }) => name),
    })),
  };
}

/** Returns the column for a sort order of teams, with its join to `teams`. */
function measureOfTeams(dialect: Dialect, calendar: Calendar, sort: TeamListQuery["sort"], at: number): Measure {
  switch (sort) {
    case "name":
    case "spent":
      return noMeasure;
    case "keys":
      return {
        column: "coalesce(members.live, 0)",
        join: `left join (select team, count(*) as live from keys where ${isLive} group by team) members on members.team = teams.name`,
        values: [at],
      };
    case "last_used":
      return {
        column: "coalesce(members.last, 0)",
        join: `left join (select team, max(${lastUseOf("keys.id")}) as last from keys group by team) members on members.team = teams.name`,
        values: [],
      };
    case "share": {
      const only = {
        sql: `not (${namesKey}) and not (${namesLabel}) and not (${namesUser}) and not ${hasEachKey} and (scope like 'team:%' or not ${isByUserOrTagSql})`,
        values: [],
      };
      const windows = rankedWindows(dialect, calendar, at, { unused: "none", only });
      return {
        column: "coalesce(fullest.rank, 0e0)",
        join: `left join (
            with ranks as (
              select team, max(rank) as rank from (
                select case when scope like 'team:%' then ${teamOfScope(dialect)} end as team, ${rankSql} as rank from (${windows.sql}) ranked
              ) named group by team
            )
            select team, max(rank) as rank from (
              select team, rank from ranks where team is not null
              union all select name, rank from ranks cross join teams where team is null
            ) applying group by team
          ) fullest on fullest.team = teams.name`,
        values: windows.values,
      };
    }
  }
}

/** Number of days for which a model without a price stays in the list after its last request. */
const modelDays = 90;

interface ModelRow {
  readonly model: string;
  readonly price_group: string;
  readonly priced: bigint;
  readonly spent: PicoUsd;
  readonly requests: bigint;
  readonly last_day: string;
  readonly last_quarter: bigint;
}

function* readModelList(tools: ListTools, query: ModelListQuery): Query<ListPage<ListedModel>> {
  const { dialect, calendar, past } = tools;
  const { at, search, priced, model } = query;
  const found = containing("model", search);
  const where = new Conditions()
    .add("model <> ''")
    .add(found.sql, ...found.values)
    .add("model = ?", model);
  const spent = yield* past.thisMonth("model", at);
  const recent = yield* past.lastDays(modelDays, at);
  const yesterday = calendar.spanOf("1d", calendar.spanOf("1d", at).start - 1).start;
  const byModel = ["model", "text"] as const;
  const rows: ListRows<ModelListQuery["sort"]> = {
    sql: `select * from (
        select model, max(price_group) as price_group, cast(max(priced) as bigint) as priced, ${sumSql("spent")} as spent,
          ${sumSql("requests")} as requests, max(last_day) as last_day, max(last_quarter) as last_quarter
        from (
          select value ->> 0 as model, coalesce(value ->> 1, '') as price_group, 1 as priced, 0 as spent, 0 as requests, '' as last_day, 0 as last_quarter
          from ${dialect.eachOf} priced
          union all select who, '', 0, spent, requests, '', 0 from (${spent.sql}) spent
          union all select who, price_group, 0, 0, 0, last_day, 0 from (${recent.sql}) recent
          union all select model, '', 0, 0, 0, '', max(starts_at) from rollup_quarter where starts_at >= ? group by model
        ) parts group by model
      ) models where ${where.sql}`,
    values: [JSON.stringify(priced), ...spent.values, ...recent.values, yesterday, ...where.values],
    sorts: {
      name: [byModel],
      spent: [["spent", "integer"], byModel],
      requests: [["requests", "integer"], byModel],
      last_used: [["last_quarter", "integer"], ["last_day", "text"], byModel],
    },
  };
  const page = yield* pageOf<ModelRow, ModelListQuery["sort"]>(rows, query);
  if (page === null) return null;
  const names = page.rows.map((row) => row.model);
  const refusedOf = yield* readRefusedToday(dialect, calendar, "model", names, at);
  return {
    ...page,
    rows: page.rows.map((row) => ({
      model: row.model,
      group: row.price_group === "" ? null : row.price_group,
      isPriced: Number(row.priced) === 1,
      usage: {
        spent: row.spent,
        requests: Number(row.requests),
        lastUsedAt: row.last_day === "" ? null : Math.max(Number(row.last_quarter), calendar.startOfDate(row.last_day)),
        refusedToday: refusedOf(row.model),
      },
    })),
  };
}
