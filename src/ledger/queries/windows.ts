import { isAlertDue } from "../../core/alerts.ts";
import { periods, type BudgetWindow } from "../../core/budget.ts";
import { anchorsOf, appliesTo, hasSubjects, isByUserOrTag, subjectsOf, type Caller } from "../../core/scope.ts";
import { noMoney, type PicoUsd } from "../../core/money.ts";
import type { Calendar } from "../../ports/calendar.ts";
import {
  budgetOf,
  endOfTime,
  isComplete,
  snapshot,
  type BudgetRow,
  type NamedWindow,
  type StoredBudget,
} from "../rows/budgets.ts";
import { scopeCondition } from "./scope-condition.ts";
import { marks } from "../tables/table.ts";
import type { Dialect } from "./dialects.ts";
import { rowsOf, sumSql, type Query } from "./query.ts";
import { isByUserOrTagSql } from "./scope-sql.ts";
import { readRaises } from "./window-state.ts";

/** Returns all budgets in order of creation. */
export function* readBudgets(): Query<readonly StoredBudget[]> {
  return (yield* rowsOf<BudgetRow>({ sql: "select * from budgets order by seq", values: [] })).map(budgetOf);
}

/** Returns the budgets with one of these anchors (`anchorsOf`), in order of creation. */
export function* readAnchored(anchors: readonly string[]): Query<readonly StoredBudget[]> {
  const sql = `select * from budgets where anchor in (${marks(anchors)}) order by seq`;
  return (yield* rowsOf<BudgetRow>({ sql, values: anchors })).map(budgetOf);
}

/**
 * Returns the budgets that apply to a caller, in order of creation. Takes no longer if there are many other budgets.
 */
function* readBudgetsOf(caller: Caller): Query<readonly StoredBudget[]> {
  return (yield* readAnchored(anchorsOf(caller))).filter(({ scope }) => appliesTo(scope, caller));
}

/**
 * SQL expression for the start of a budget's current window. `startsOfWindows` returns the values of its placeholders.
 */
export const startOfWindow = `case period ${periods.map((period) => `when '${period}' then cast(? as bigint)`).join(" ")} end`;

export function startsOfWindows(calendar: Calendar, at: number): number[] {
  return periods.map((period) => calendar.spanOf(period, at).start);
}

type Sums = Pick<BudgetWindow, "spent" | "held">;

interface StoredWindow extends Sums {
  readonly win: bigint;
  readonly budget: bigint;
  readonly subject: string;
}

/**
 * Returns the stored windows of these subjects at an instant, in the budgets with one of these anchors (`anchorsOf`).
 * The map is keyed by `nameOf`.
 */
export function* readStoredWindows(
  dialect: Dialect,
  calendar: Calendar,
  { anchors, subjects }: { readonly anchors: readonly string[]; readonly subjects: readonly string[] },
  at: number,
): Query<ReadonlyMap<string, StoredWindow>> {
  const rows = yield* rowsOf<StoredWindow>({
    sql: `select windows.seq as win, budget, subject, spent, held
      from budgets join windows on budget = budgets.seq and starts_at = ${startOfWindow} and ${dialect.isIn("subject")}
      where ${dialect.isIn("anchor")}`,
    values: [...startsOfWindows(calendar, at), JSON.stringify([...new Set(subjects)]), JSON.stringify(anchors)],
  });
  return new Map(rows.map((row) => [nameOf(row.budget, row.subject), row]));
}

/** Returns a name that identifies a window among all windows at one instant. */
export function nameOf(budget: number | bigint, subject: string): string {
  return `${budget} ${subject}`;
}

/**
 * Returns the windows that apply to a caller at an instant, in the order of their budgets. The second member of each
 * pair is the stored window; undefined if there is none.
 */
export function* readNamedWindows(
  dialect: Dialect,
  calendar: Calendar,
  caller: Caller,
  at: number,
): Query<readonly (readonly [NamedWindow, StoredWindow | undefined])[]> {
  const windows = (yield* readBudgetsOf(caller)).flatMap((budget) =>
    subjectsOf(budget.scope, caller).map((subject): NamedWindow => ({
      budget,
      subject,
      ...calendar.spanOf(budget.period, at),
    })),
  );
  const subjects = windows.map(({ subject }) => subject);
  const stored = yield* readStoredWindows(dialect, calendar, { anchors: anchorsOf(caller), subjects }, at);
  return windows.map((window) => [window, stored.get(nameOf(window.budget.seq, window.subject))]);
}

/** Implements `BudgetStore.windowsOf`. */
export function* readWindowsOf(
  dialect: Dialect,
  calendar: Calendar,
  caller: Caller,
  at: number,
): Query<readonly BudgetWindow[]> {
  return yield* withSums(dialect, yield* readNamedWindows(dialect, calendar, caller, at), at);
}

/** Implements `BudgetStore.windows`. */
export function* readWindows(
  dialect: Dialect,
  calendar: Calendar,
  at: number,
  { byUserOrTag } = { byUserOrTag: true },
): Query<readonly BudgetWindow[]> {
  const budgets = (yield* readBudgets()).filter(({ scope }) => byUserOrTag || !isByUserOrTag(scope));
  const rows = yield* rowsOf<Sums & { readonly budget: bigint; readonly subject: string }>({
    sql: `with current as (
        select seq, ${startOfWindow} as starts_at from budgets where ${byUserOrTag ? "true" : `not ${isByUserOrTagSql}`}
      )
      select seq as budget, subject, all_spent as spent, all_held as held from (${dialect.windowsOfCurrent}) opened
      where subject is not null order by seq, subject`,
    values: startsOfWindows(calendar, at),
  });
  const stored = Map.groupBy(rows, ({ budget }) => Number(budget));
  const windows = budgets.flatMap((budget): (readonly [NamedWindow, Sums | undefined])[] => {
    const span = calendar.spanOf(budget.period, at);
    const sums = stored.get(budget.seq) ?? [];
    if (sums.length === 0 && !hasSubjects(budget.scope)) return [[{ budget, subject: "", ...span }, undefined]];
    return sums.map((row) => [{ budget, subject: row.subject, ...span }, row]);
  });
  return yield* withSums(dialect, windows, at);
}

/** Implements `BudgetStore.windowsToAlert`. */
export function* readWindowsToAlert(
  dialect: Dialect,
  calendar: Calendar,
  at: number,
  limit: number,
): Query<readonly BudgetWindow[]> {
  const windows = yield* readWindows(dialect, calendar, at);
  const keys: string[] = [];
  const collectKey = (key: string) => {
    keys.push(key);
    return true;
  };
  // `collectKey` returns true for every key, so this loop only collects the keys of all alerts.
  for (const window of windows) isAlertDue(window, collectKey);
  const rows = yield* rowsOf<{ key: string }>({
    sql: `select dedupe_key as key from outbox where ${dialect.isIn("dedupe_key")}`,
    values: [JSON.stringify(keys)],
  });
  const alerted = new Set(rows.map(({ key }) => key));
  return windows.filter((window) => isAlertDue(window, (key) => alerted.has(key))).slice(0, limit);
}

/** Returns windows with their sums and raises. For a window that is not stored, sums its charges. */
function* withSums(
  dialect: Dialect,
  windows: readonly (readonly [NamedWindow, Sums | undefined])[],
  at: number,
): Query<readonly BudgetWindow[]> {
  const missing = windows.flatMap(([window, sums]) => (sums === undefined ? [window] : []));
  const summed = yield* sumCharges(
    dialect,
    missing.filter((window) => !isComplete(window.budget, window)),
  );
  const raisesOf = yield* readRaises(at);
  return windows.map(([window, stored]) => {
    const { spent, held } = stored ?? summed.get(window) ?? { spent: noMoney, held: noMoney };
    const { budget, subject } = window;
    return snapshot({ ...window, spent, held, raises: raisesOf({ seq: budget.seq, subject }) });
  });
}

/** Returns the sums of the charges that count in windows. Windows with the same SQL condition share a statement. */
function* sumCharges(dialect: Dialect, windows: readonly NamedWindow[]): Query<ReadonlyMap<NamedWindow, Sums>> {
  const summed = new Map<NamedWindow, Sums>();
  const conditions = windows.map((window) => ({
    window,
    ...scopeCondition(dialect, window.budget.scope, window.subject),
  }));
  for (const [condition, group] of Map.groupBy(conditions, ({ sql }) => sql)) {
    const names = (group[0]?.values ?? []).map((_, index) => `value_${index}`);
    // A subquery for each window lets the planner use an index. A subquery can return only one value, so both sums are
    // one text.
    const rows = yield* rowsOf<{ place: bigint; sums: string }>({
      sql: `with wanted as materialized (
          select cast(value ->> 0 as bigint) as place, cast(value ->> 1 as bigint) as since, cast(value ->> 2 as bigint) as until
            ${names.map((name, index) => `, value ->> ${index + 3} as ${name}`).join("")}
          from ${dialect.eachOf}
        )
        select place, (
          select ${sumSql("cost")} || ' ' || ${sumSql("case state when 'pending' then hold end")}
          from charges where ${withNames(condition, names)} and admitted_at >= since and admitted_at < until
        ) as sums from wanted`,
      values: [
        JSON.stringify(
          group.map(({ window: { start, end }, values }, place) => [place, start, end ?? endOfTime, ...values]),
        ),
      ],
    });
    for (const { place, sums } of rows) {
      const [spent = "", held = ""] = sums.split(" ");
      const window = group[Number(place)]?.window;
      if (window !== undefined) summed.set(window, { spent: BigInt(spent) as PicoUsd, held: BigInt(held) as PicoUsd });
    }
  }
  return summed;
}

/** Replaces every `?` with the next name. */
function withNames(sql: string, names: readonly string[]): string {
  const remaining = names.values();
  return sql.replaceAll("?", () => remaining.next().value ?? "?");
}
