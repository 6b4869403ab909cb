import { limitOf, refusingMs } from "../../core/budget.ts";
import {
  anchorOf,
  anchorsOf,
  appliesTo,
  eachOf,
  encodeValue,
  formatScope,
  isByUserOrTag,
  limitsModel,
  limitsOneKey,
  mayApplyTo,
  modelOfSubject,
  teamOfScope,
  type Caller,
  type Scope,
} from "../../core/scope.ts";
import { noMoney, type PicoUsd } from "../../core/money.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { BudgetListQuery, ListPage, RankedBudget, RankedWindow, WindowListQuery } from "../../ports/lists.ts";
import { budgetOf, withoutSeq, type BudgetRow, type StoredBudget } from "../rows/budgets.ts";
import { isAmong, type Dialect } from "./dialects.ts";
import { Conditions, containing, pageOf } from "./page.ts";
import { isLive } from "../tables/keys.ts";
import { raisedAmounts, readRaises, readRefusing, recentlyRefusing } from "./window-state.ts";
import { hasEachKey, hasEachModel, isEach, isEachScope, namesModel, scopeName, subjectName } from "./scope-sql.ts";
import { rowsOf, sumSql, type Query, type Statement } from "./query.ts";
import { nameOf, readStoredWindows, startOfWindow, startsOfWindows } from "./windows.ts";

const everything: Statement = { sql: "true", values: [] };

/**
 * SQL expression for the share of a window's limit that is spent or held. If the limit is 0 and has no raise, the
 * share is 1.
 */
const shareSql =
  "case when amount_limit = 0 and raised is null then 1e0 else (cast(spent as double precision) + held) / (amount_limit + coalesce(raised, 0)) end";
/**
 * SQL expression that is 1 if a window is refusing, otherwise 0. Must agree with `readRefusing`. Subtracts `held` from
 * the limit, because the sum of `spent` and `held` could overflow.
 */
const refusingSql =
  "cast(case when mode = 'hard' and (spent >= amount_limit + coalesce(raised, 0) - held or last >= ? and last >= starts_at) then 1 else 0 end as bigint)";
/**
 * SQL expression for the rank of a window. Refusing windows rank above all others. Otherwise, a larger share ranks
 * higher.
 */
export const rankSql =
  "case refusing when 1 then 1e6 else 0e0 end + case when share > 999999 then 999999e0 else share end";

const budgetColumns = "seq, scope, period, mode, amount_limit, warn_percent, is_raised, counts_since";

/** Selects the windows to read. */
interface WindowsOf {
  /**
   * Live keys to add to the windows of `each-key` budgets although they have no window: all, only those that may rank
   * above 0, or none.
   */
  readonly unused: "all" | "ranked" | "none";
  /** Condition for the budgets to read. */
  readonly only?: Statement;
  /** True to add `scope_name`, which has the name of a key instead of its id, and `is_by_key`. */
  readonly isNamed?: boolean;
}

/** SQL condition that a budget has a separate window for the key in `keys`. */
const isMember = "(scope = 'each-key' or scope = 'team:' || keys.team || ' each-key')";

/**
 * Returns the statement that selects the current windows, with `share` and `refusing`. The sums of a window are 0 until
 * a hold opens it.
 */
export function rankedWindows(
  dialect: Dialect,
  calendar: Calendar,
  at: number,
  { unused, only = everything, isNamed = false }: WindowsOf,
): Statement {
  const columns = `${budgetColumns}, starts_at ${isNamed ? ", scope_name, is_by_key" : ""}`;
  const refused = recentlyRefusing(at);
  const raised = raisedAmounts(at);
  const parts = [
    { sql: "select * from used", values: [] },
    ...{ all: unusedKeys(dialect, at, "true"), ranked: unusedRanked(dialect, at, refused), none: [] }[unused],
  ];
  return {
    sql: `select opened.*, ${shareSql} as share, ${refusingSql} as refusing from (
        with current as (
          select ${budgetColumns}, ${startOfWindow} as starts_at ${isNamed ? `, ${scopeName(dialect)} as scope_name, ${hasEachKey} as is_by_key` : ""} from budgets where ${only.sql}
        ), used as (
          select ${columns}, coalesce(subject, '') as subject, coalesce(all_spent, 0) as spent, coalesce(all_held, 0) as held
          from (${dialect.windowsOfCurrent}) opened where subject is not null or not (${isEachScope})
        )
        ${parts.map(({ sql }) => sql).join(" union all ")}
      ) opened left join (${refused.sql}) refused on of_scope = scope and of_period = period and of_subject = subject
        left join (${raised.sql}) raised on raised_budget = seq and raised_subject = subject`,
    values: [
      at - refusingMs,
      ...startsOfWindows(calendar, at),
      ...only.values,
      ...parts.flatMap(({ values }) => values),
      ...refused.values,
      ...raised.values,
    ],
  };
}

/**
 * Returns the statements that select live keys without a window in `each-key` budgets. `condition` selects the budgets.
 */
function unusedKeys(dialect: Dialect, at: number, condition: string): readonly Statement[] {
  // Two joins with budgets as the outer table. For one join with an `or`, databases compare all budgets with all keys.
  const isOfTeam = "current.scope like 'team:% each-key' and current.scope = 'team:' || keys.team || ' each-key'";
  return ["current.scope = 'each-key'", isOfTeam].map((isOf) => ({
    sql: `select current.*, keys.id as subject, 0 as spent, 0 as held from current cross join keys
      where ${condition} and ${isOf} and ${isLive} and ${dialect.hasNoWindow}`,
    values: [at],
  }));
}

/**
 * Returns the statements that select the live keys without a window that may rank above 0: the limit is 0, or the key
 * was refused recently.
 */
function unusedRanked(dialect: Dialect, at: number, refused: Statement): readonly Statement[] {
  return [
    ...unusedKeys(dialect, at, "amount_limit = 0"),
    {
      sql: `select current.*, keys.id as subject, 0 as spent, 0 as held from (${refused.sql}) refused
        join current on scope = of_scope and period = of_period and amount_limit <> 0 join keys on keys.id = of_subject
        where ${isMember} and ${isLive} and ${dialect.hasNoWindow}`,
      values: [...refused.values, at],
    },
  ];
}

interface WindowSumsRow {
  readonly subject: string;
  readonly spent: PicoUsd;
  readonly held: PicoUsd;
  readonly refusing: bigint;
}

/** Returns a function that converts the sums of a budget's window to a `RankedWindow`. */
function* windowReader(
  calendar: Calendar,
  at: number,
): Query<(budget: StoredBudget, row: WindowSumsRow) => RankedWindow> {
  const raisesOf = yield* readRaises(at);
  return (budget, { subject, spent, held, refusing }) => ({
    budget: withoutSeq(budget),
    subject,
    ...calendar.spanOf(budget.period, at),
    spent,
    held,
    raises: raisesOf({ seq: budget.seq, subject }),
    refusing: Number(refusing) === 1,
  });
}

/**
 * Returns the statement that selects the windows of the budgets that `only` selects, by default those with the scope
 * and period of the query. With `isNamed`, the statement applies `search` and adds `scope_name` and `subject_name`,
 * which have the names of keys instead of ids.
 */
function filteredWindows(
  dialect: Dialect,
  calendar: Calendar,
  { at, search, ...filter }: Pick<WindowListQuery, "at" | "search" | "scope" | "period">,
  { unused, only = filterOf(filter), isNamed }: WindowsOf,
): Statement {
  if (isNamed !== true) return rankedWindows(dialect, calendar, at, { unused, only });
  const windows = rankedWindows(dialect, calendar, at, { unused, only, isNamed });
  const found = containing("scope_name || ' ' || subject_name", search);
  return {
    sql: `select * from (
        select ranked.*, ${subjectName} as subject_name
        from (${windows.sql}) ranked left join keys on keys.id = case when is_by_key then ${dialect.firstWord("subject")} end
      ) named where ${found.sql}`,
    values: [...windows.values, ...found.values],
  };
}

/** Returns the SQL condition for budgets with this scope and period. Ignores a value that is undefined. */
function filterOf({ scope, period }: Pick<WindowListQuery, "scope" | "period">): Statement {
  return new Conditions().add("scope = ?", scope && formatScope(scope)).add("period = ?", period);
}

/** Implements `ListQueries.listWindows`. */
export function* readWindowList(
  dialect: Dialect,
  calendar: Calendar,
  query: WindowListQuery,
): Query<ListPage<RankedWindow>> {
  const windows = filteredWindows(dialect, calendar, query, {
    unused: "all",
    isNamed: isSearch(query) || query.sort === "scope",
  });
  const window = [
    ["seq", "integer"],
    ["subject", "text"],
  ] as const;
  const page = yield* pageOf<BudgetRow & WindowSumsRow, WindowListQuery["sort"]>(
    {
      sql: `select *, ${rankSql} as rank from (${windows.sql}) windows ${query.refusing === true ? "where refusing = 1" : ""}`,
      values: windows.values,
      sorts: {
        created: window,
        share: [["rank", "real"], ...window],
        spent: [["spent", "integer"], ...window],
        limit: [["amount_limit", "integer"], ...window],
        scope: [["scope_name", "text"], ["period", "text"], ["subject_name", "text"], ...window],
      },
    },
    query,
  );
  const windowOf = yield* windowReader(calendar, query.at);
  return page && { ...page, rows: page.rows.map((row) => windowOf(budgetOf(row), row)) };
}

interface BudgetSumsRow extends BudgetRow, Omit<WindowSumsRow, "subject"> {
  readonly windows: bigint;
}

/**
 * Share of the limit from which every budget is at risk. A budget with a lower warning share is at risk from that
 * share.
 */
const atRiskShare = 0.8;
const fullestMax = 3;

/** Implements `ListQueries.listBudgets`. */
export function* readBudgetList(
  dialect: Dialect,
  calendar: Calendar,
  query: BudgetListQuery,
): Query<ListPage<RankedBudget>> {
  const sums = isSearch(query) ? foundSums(dialect, calendar, query) : allSums(dialect, calendar, query);
  const found = containing(scopeName(dialect), query.search);
  const filter = filterOf(query);
  const budget = [["seq", "integer"]] as const;
  const isAtRisk = `(refusing > 0 or share >= ${atRiskShare} or share * 100 >= warn_percent)`;
  const page = yield* pageOf<BudgetSumsRow, BudgetListQuery["sort"]>(
    {
      // The join keeps budgets without sums, because an each-key budget has no window if there are no keys.
      sql: `select * from (
          select ${budgetColumns}, ${scopeName(dialect)} as scope_name, coalesce(windows, 0) as windows,
            coalesce(refusing, 0) as refusing, coalesce(spent, 0) as spent, coalesce(held, 0) as held,
            coalesce(share, 0e0) as share, coalesce(rank, 0e0) as rank
          from budgets left join (${sums.sql}) sums on of_budget = seq where ${filter.sql}
        ) summed
        where (windows > 0 or ${found.sql}) and ${query.atRisk === true ? isAtRisk : "true"}`,
      values: [...sums.values, ...filter.values, ...found.values],
      sorts: {
        share: [["rank", "real"], ...budget],
        spent: [["spent", "integer"], ...budget],
        limit: [["amount_limit", "integer"], ...budget],
        scope: [["scope_name", "text"], ["period", "text"], ...budget],
      },
    },
    query,
  );
  if (page === null) return null;
  const fullestWindows = yield* fullestOf(dialect, calendar, query, page.rows);
  const windowOf = yield* windowReader(calendar, query.at);
  return {
    ...page,
    rows: page.rows.map((row) => {
      const stored = budgetOf(row);
      return {
        budget: withoutSeq(stored),
        ...calendar.spanOf(stored.period, query.at),
        windows: Number(row.windows),
        refusing: Number(row.refusing),
        spent: row.spent,
        held: row.held,
        fullest: fullestWindows(row).map((window) => windowOf(stored, window)),
      };
    }),
  };
}

/** Returns true if the query searches the names for a text. */
function isSearch({ search }: Pick<WindowListQuery, "search">): boolean {
  return search !== undefined && search !== "";
}

const windowSumsSql = `count(*) as windows, ${sumSql("refusing")} as refusing, ${sumSql("spent")} as spent, ${sumSql("held")} as held, max(share) as share, max(${rankSql}) as rank`;

/** Returns the statement that sums, for each budget, the windows that the search finds. */
function foundSums(dialect: Dialect, calendar: Calendar, query: BudgetListQuery): Statement {
  const { sql, values } = filteredWindows(dialect, calendar, query, { unused: "all", isNamed: true });
  return {
    sql: `select seq as of_budget, ${windowSumsSql} from (${sql}) windows group by seq`,
    values,
  };
}

/**
 * Returns the statement that sums all windows of each budget. There may be many keys without a window, and most of them
 * have rank 0. The statement counts those keys instead of listing them.
 */
function allSums(dialect: Dialect, calendar: Calendar, query: BudgetListQuery): Statement {
  const { at } = query;
  const only = filterOf(query);
  const windows = rankedWindows(dialect, calendar, at, { unused: "ranked", only });
  const summed = ["windows", "refusing", "spent", "held", "used", "members"].map(
    (name) => `${sumSql(name)} as ${name}`,
  );
  const withUnused = (share: string) => `case when ${share} < 0 and members > used then 0e0 else ${share} end`;
  return {
    sql: `select of_budget, windows - used + members as windows, refusing, spent, held, ${withUnused("share")} as share, ${withUnused("rank")} as rank
      from (
        select of_budget, ${summed.join(", ")}, max(share) as share, max(rank) as rank
        from (
          select windows.seq as of_budget, ${windowSumsSql}, ${sumSql(`case when keys.id is not null and ${isMember} and ${isLive} then 1 else 0 end`)} as used, 0 as members
          from (${windows.sql}) windows left join keys on keys.id = subject group by windows.seq
          union all
          select seq, 0, 0, 0, 0, null, null, 0, live from (
            select 'each-key' as of_scope, count(*) as live from keys where ${isLive}
            union all select 'team:' || team || ' each-key', count(*) from keys where ${isLive} and team is not null group by team
          ) members join budgets on scope = of_scope
        ) parts group by of_budget
      ) sums`,
    values: [at, ...windows.values, at, at],
  };
}

/**
 * Returns a function that returns the fullest windows of a budget, at most `fullestMax`. Omits windows that no request
 * has opened.
 */
function* fullestOf(
  dialect: Dialect,
  calendar: Calendar,
  query: BudgetListQuery,
  budgets: readonly BudgetSumsRow[],
): Query<(row: BudgetSumsRow) => readonly WindowSumsRow[]> {
  const withSubjects = budgets.filter(({ scope }) => isEach(scope));
  if (withSubjects.length === 0) return onlyWindow;
  const windows = filteredWindows(dialect, calendar, query, {
    unused: "none",
    only: withSeqs(
      dialect,
      withSubjects.map(({ seq }) => seq),
    ),
    isNamed: isSearch(query),
  });
  const rows = yield* rowsOf<WindowSumsRow & Pick<BudgetRow, "seq">>({
    sql: `select * from (
        select seq, subject, spent, held, refusing, row_number() over (partition by seq order by ${rankSql} desc, subject) as place from (${windows.sql}) windows
      ) placed where place <= ${fullestMax} order by seq, place`,
    values: windows.values,
  });
  const bySeq = Map.groupBy(rows, ({ seq }) => seq);
  return (row) => (isEach(row.scope) ? (bySeq.get(row.seq) ?? []) : onlyWindow(row));
}

/** Returns the only window of a budget without subjects; an empty list if the budget has none. */
function onlyWindow(row: BudgetSumsRow): readonly WindowSumsRow[] {
  return row.windows > 0n ? [{ ...row, subject: "" }] : [];
}

/**
 * Returns a function that returns the fullest window among the budgets that may apply to a caller; null if there is
 * none. Windows of single users and tags count only for the key or team that their budget names.
 */
export function* readFullest(
  dialect: Dialect,
  calendar: Calendar,
  callers: readonly Caller[],
  at: number,
): Query<(caller: Caller) => RankedWindow | null> {
  const anchors = [...new Set(callers.flatMap(anchorsOf))];
  const budgets = yield* budgetsAt(dialect, anchors);
  const subjects = ["", ...callers.map(({ key }) => key)];
  const storedByName = yield* readStoredWindows(dialect, calendar, { anchors, subjects }, at);
  const fullestByName = yield* fullestRows(
    dialect,
    calendar,
    { callers, budgets: budgets.filter(hasMany), most: 1 },
    at,
  );
  const windowOf = yield* windowReader(calendar, at);
  const ranked = yield* readRefusing(at);
  const anchored = Map.groupBy(budgets, ({ scope }) => anchorOf(scope));
  return (caller) => {
    const windows = anchorsOf(caller)
      .flatMap((anchor) => anchored.get(anchor) ?? [])
      .filter(({ scope }) => concerns(scope, caller))
      .flatMap((budget): RankedWindow[] => {
        const subject = isEachKeyIn(budget.scope) ? caller.key : "";
        const name = nameOf(budget.seq, subject);
        if (hasMany(budget)) return (fullestByName.get(name) ?? []).map((row) => windowOf(budget, row));
        const { spent, held } = storedByName.get(name) ?? { spent: noMoney, held: noMoney };
        return [ranked(windowOf(budget, { subject, spent, held, refusing: 0n }))];
      });
    return fullest(windows);
  };
}

/** Implements `ListQueries.requestWindows`. */
export function* readRequestWindows(
  dialect: Dialect,
  calendar: Calendar,
  caller: Caller,
  at: number,
): Query<readonly RankedWindow[]> {
  const { key, team } = caller;
  const owner = key === "" ? `team:${team}` : `key:${key}`;
  const stored = yield* budgetsAt(dialect, anchorsOf(caller), {
    // Budgets on a user are stored under the user (`anchorOf`), even if they also name a key or a team.
    sql: `anchor >= 'user:' and anchor < 'user;' and ${dialect.position("cast(? as text)", "' ' || scope || ' '")} > 0`,
    values: [` ${owner} `],
  });
  const budgets = stored.filter(({ scope }) => concerns(scope, caller) && !appliesTo(scope, caller));
  const rows = yield* fullestRows(dialect, calendar, { callers: [caller], budgets, most: fullestMax }, at);
  const windowOf = yield* windowReader(calendar, at);
  const ranked = yield* readRefusing(at);
  return budgets.flatMap((budget) => {
    const subject = isEachKeyIn(budget.scope) ? caller.key : "";
    const found = rows.get(`${budget.seq} ${subject}`);
    if (found !== undefined) return found.map((row) => windowOf(budget, row));
    if (hasMany(budget)) return [];
    return [ranked(windowOf(budget, { subject, spent: noMoney, held: noMoney, refusing: 0n }))];
  });
}

/** Largest number of windows that `readModelWindows` returns. */
const modelWindowsMax = 24;

/** Implements `ListQueries.modelWindows`. */
export function* readModelWindows(
  dialect: Dialect,
  calendar: Calendar,
  models: readonly string[],
  at: number,
): Query<readonly RankedWindow[]> {
  const stored = yield* rowsOf<BudgetRow>({
    sql: `select ${budgetColumns} from budgets where ${namesModel} order by seq`,
    values: [],
  });
  const budgets = new Map(
    stored
      .map(budgetOf)
      .filter(({ scope }) => limitsModel(scope, models))
      .map((budget) => [budget.seq, budget]),
  );
  if (budgets.size === 0) return [];
  const windows = rankedWindows(dialect, calendar, at, { unused: "ranked", only: withSeqs(dialect, budgets.keys()) });
  const isOfModels = models.map(() => `${dialect.position("cast(? as text)", "' ' || subject || ' '")} > 0`);
  const rows = yield* rowsOf<WindowSumsRow & { readonly seq: bigint }>({
    sql: `select seq, subject, spent, held, refusing from (
        select windows.*, row_number() over (partition by seq order by ${rankSql} desc, subject) as place
        from (${windows.sql}) windows where not (${hasEachModel}) or ${isOfModels.join(" or ")}
      ) placed where place <= ? order by ${rankSql} desc, seq, place`,
    values: [...windows.values, ...models.map((model) => ` ${encodeValue(model)} `), fullestMax],
  });
  const windowOf = yield* windowReader(calendar, at);
  return rows
    .flatMap((row) => {
      const budget = budgets.get(Number(row.seq));
      return budget === undefined ? [] : windowOf(budget, row);
    })
    .filter(({ budget: { scope }, subject }) => {
      const model = modelOfSubject(scope, subject);
      return model === null || models.includes(model);
    })
    .slice(0, modelWindowsMax);
}

/** Returns the SQL condition for budgets with these values of `seq`. */
function withSeqs({ textsOf }: Dialect, seqs: Iterable<number | bigint>): Statement {
  return {
    sql: `seq in (select cast(value as bigint) from ${textsOf})`,
    values: [JSON.stringify(Array.from(seqs, String))],
  };
}

/** Returns the budgets with one of these anchors (`anchorOf`), and those that match the condition `others`. */
function* budgetsAt(dialect: Dialect, anchors: readonly string[], others?: Statement): Query<readonly StoredBudget[]> {
  const rows = yield* rowsOf<BudgetRow>({
    sql: `select ${budgetColumns} from budgets where ${dialect.isIn("anchor")} ${others === undefined ? "" : `or ${others.sql}`} order by seq`,
    values: [JSON.stringify(anchors), ...(others?.values ?? [])],
  });
  return rows.map(budgetOf);
}

/** Returns true if a key may have several windows in a budget. */
const hasMany = ({ scope }: StoredBudget) => eachOf(scope).some((each) => each !== "key");
const isEachKeyIn = (scope: Scope) => eachOf(scope).includes("key");

/**
 * Returns true if a budget may refuse requests of a caller, and its windows do not also belong to users and tags of
 * other callers.
 */
function concerns(scope: Scope, caller: Caller): boolean {
  if (!mayApplyTo(scope, caller)) return false;
  return !isByUserOrTag(scope) || limitsOneKey(scope) || (caller.key === "" && teamOfScope(scope) !== null);
}

/**
 * Returns the fullest current windows of budgets, at most `most` for each budget and key. The map is keyed by `seq`, a
 * space and the key's id, which is "" for a budget without `each-key`.
 */
function* fullestRows(
  dialect: Dialect,
  calendar: Calendar,
  {
    callers,
    budgets,
    most,
  }: { readonly callers: readonly Caller[]; readonly budgets: readonly StoredBudget[]; readonly most: number },
  at: number,
): Query<ReadonlyMap<string, readonly WindowSumsRow[]>> {
  if (budgets.length === 0) return new Map();
  const windows = rankedWindows(dialect, calendar, at, {
    unused: "none",
    only: withSeqs(
      dialect,
      budgets.map(({ seq }) => seq),
    ),
  });
  const owner = `case when ${hasEachKey} then ${dialect.firstWord("subject")} else '' end`;
  const rows = yield* rowsOf<WindowSumsRow & { readonly seq: bigint; readonly owner: string }>({
    sql: `select * from (
        select seq, owner, subject, spent, held, refusing, row_number() over (partition by seq, owner order by ${rankSql} desc, subject) as place
        from (select windows.*, ${owner} as owner from (${windows.sql}) windows) owned where ${isAmong(dialect, "owner")}
      ) placed where place <= ? order by seq, place`,
    values: [...windows.values, JSON.stringify(["", ...callers.map(({ key }) => key)]), most],
  });
  return Map.groupBy(rows, ({ seq, owner: of }) => `${seq} ${of}`);
}

function fullest(windows: readonly RankedWindow[]): RankedWindow | null {
  return windows.reduce<RankedWindow | null>(
    (most, each) => (most === null || isFuller(each, most) ? each : most),
    null,
  );
}

/** Returns true if a window ranks above another. Compares shares exactly. */
function isFuller(a: RankedWindow, b: RankedWindow): boolean {
  if (a.refusing !== b.refusing) return a.refusing;
  const [limitA, limitB] = [limitOf(a), limitOf(b)];
  if (limitA === 0n || limitB === 0n) return limitA === 0n && limitB !== 0n && b.spent + b.held < limitB;
  return (a.spent + a.held) * limitB > (b.spent + b.held) * limitA;
}
