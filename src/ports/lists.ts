import type { Budget, BudgetWindow, Period, Span } from "../core/budget.ts";
import type { Caller, Scope } from "../core/scope.ts";
import type { Key, KeyState, Team } from "../core/keys.ts";
import type { PicoUsd } from "../core/money.ts";

/*
 * Lists that a person searches, sorts and pages. The ledger does all three: only the rows of the page leave the thread
 * or server that reads them.
 */

export const listOrders = ["asc", "desc"] as const;

/** Part of a list: the rows that match, in an order, after the last row of the previous page. */
export interface ListQuery<Sort extends string> {
  readonly at: number;
  /** Text that a name must contain. Letter case does not matter. */
  readonly search?: string | undefined;
  readonly sort: Sort;
  readonly order: (typeof listOrders)[number];
  /** 1 to 1000. */
  readonly limit: number;
  /** The `next` of the previous page of a query with the same order. */
  readonly after?: string | undefined;
}

/** Page of a list. Null if the query's cursor is not one of this list in this order. */
export type ListPage<Row> = { readonly rows: readonly Row[]; readonly next: string | null } | null;

/** Use of a key, a team or a model. */
export interface UsageSummary {
  /** Amount spent in the current calendar month. `requests` is for the same month. */
  readonly spent: PicoUsd;
  readonly requests: number;
  readonly lastUsedAt: number | null;
  /** Number of requests that were refused since the start of the day. */
  readonly refusedToday: number;
}

/**
 * A current window of a budget. `refusing`: true if the budget is hard and the window has nothing left, or refused a
 * request in the last 15 minutes.
 */
export interface RankedWindow extends BudgetWindow {
  readonly refusing: boolean;
}

interface Used {
  readonly usage: UsageSummary;
  /**
   * Fullest window of the budgets that apply; null if no budget applies. A refusing window counts as fuller than all
   * others.
   */
  readonly fullest: RankedWindow | null;
}

export const keySorts = ["created", "name", "spent", "share", "last_used"] as const;
export interface KeyListQuery extends ListQuery<(typeof keySorts)[number]> {
  /** States of the keys to list; at least one. All keys by default. */
  readonly states?: readonly KeyState[] | undefined;
  readonly team?: string | undefined;
}
export interface ListedKey extends Used {
  readonly key: Key;
}

export const teamSorts = ["name", "spent", "share", "last_used", "keys"] as const;
export interface TeamListQuery extends ListQuery<(typeof teamSorts)[number]> {
  /** Only the team with exactly this name. */
  readonly team?: string | undefined;
}
export interface ListedTeam extends Used {
  readonly team: Team;
  /** Names of its live keys, in the order of creation. */
  readonly liveKeys: readonly string[];
}

export const modelSorts = ["name", "spent", "requests", "last_used"] as const;
/** Query for the models that were requested in the last 90 days, and for the given priced models. */
export interface ModelListQuery extends ListQuery<(typeof modelSorts)[number]> {
  /** Models that have a price, with their groups. */
  readonly priced: readonly (readonly [model: string, group: string | null])[];
  /** Only the model with exactly this name. */
  readonly model?: string | undefined;
}
export interface ListedModel {
  readonly model: string;
  readonly group: string | null;
  readonly isPriced: boolean;
  /** `lastUsedAt` is the start of a quarter hour or, for a use before yesterday, the start of a day. */
  readonly usage: UsageSummary;
}

interface BudgetFilter {
  readonly scope?: Scope | undefined;
  readonly period?: Period | undefined;
}

export const windowSorts = ["created", "share", "spent", "limit", "scope"] as const;
/**
 * Query for the current windows of budgets. A live key that has spent nothing also has a window in `each-…` budgets.
 */
export interface WindowListQuery extends ListQuery<(typeof windowSorts)[number]>, BudgetFilter {
  readonly refusing?: boolean | undefined;
}

export const budgetSorts = ["share", "spent", "limit", "scope"] as const;
/** Query for budgets, each with the sums of all its current windows. */
export interface BudgetListQuery extends ListQuery<(typeof budgetSorts)[number]>, BudgetFilter {
  /** True for budgets with a window that is refusing, 80% used, or at the budget's warning. */
  readonly atRisk?: boolean | undefined;
}
export interface RankedBudget extends Span {
  readonly budget: Budget;
  /** Number of current windows. `refusing` is the number of those that refuse requests. */
  readonly windows: number;
  readonly refusing: number;
  /** Sums of the windows. */
  readonly spent: PicoUsd;
  readonly held: PicoUsd;
  /** The three fullest windows that a request has opened. Refusing windows come first. */
  readonly fullest: readonly RankedWindow[];
}

/** One of a budget's windows, past or present. */
export interface PastWindow extends Span {
  readonly spent: PicoUsd;
  readonly requests: number;
}

export interface ListQueries {
  listKeys(query: KeyListQuery): Promise<ListPage<ListedKey>>;
  listTeams(query: TeamListQuery): Promise<ListPage<ListedTeam>>;
  listModels(query: ModelListQuery): Promise<ListPage<ListedModel>>;
  listWindows(query: WindowListQuery): Promise<ListPage<RankedWindow>>;
  listBudgets(query: BudgetListQuery): Promise<ListPage<RankedBudget>>;
  /** Returns the use of the key with this id. */
  usageOf(key: string, at: number): Promise<UsageSummary>;
  /**
   * Returns current windows of the budgets that apply only to some requests of a caller, because they depend on the
   * model, user or tag. Returns at most the three fullest windows of each budget. Leaves out budgets by user or tag,
   * unless each of their windows limits a single key or, for a caller without a key, the budget names a team.
   */
  requestWindows(caller: Caller, at: number): Promise<readonly RankedWindow[]>;
  /**
   * Returns at most 24 current windows, fullest first, of the budgets with a condition on the model that one of these
   * models meets. Returns at most three windows of each budget.
   */
  modelWindows(models: readonly string[], at: number): Promise<readonly RankedWindow[]>;
  /** Adds `refusing` to these windows. */
  ranked(windows: readonly BudgetWindow[], at: number): Promise<readonly RankedWindow[]>;
  /**
   * Returns the latest windows of a scope, newest first, with the sums of their posted charges. `subject`: a subject of
   * an `each-…` scope; absent for all subjects together.
   */
  pastWindows(
    scope: Scope,
    of: { readonly period: Period; readonly subject?: string | undefined; readonly at: number; readonly limit: number },
  ): Promise<readonly PastWindow[]>;
}
