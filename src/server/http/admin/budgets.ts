import { z } from "zod";
import { removeBudget, scopeFilter, setBudget } from "../../../admin/budget-changes.ts";
import { periodSchema, warnPercentSchema } from "../../../admin/fields.ts";
import { findKeyIfNamed } from "../../../admin/key-changes.ts";
import { resolveSubject } from "../../../admin/raises.ts";
import { failure } from "../../../admin/result.ts";
import { scopeForms } from "../../../admin/scopes.ts";
import { budgetDetails } from "../../../core/audit.ts";
import { usedPercent } from "../../../core/budget.ts";
import { formatUsd, parseUsd } from "../../../core/money.ts";
import { everyRequest, isEachKey, keyOfScope, namedScope } from "../../../core/scope.ts";
import { isoTime, isoTimeOrNull } from "../../../core/time.ts";
import { budgetSorts, type PastWindow, type RankedBudget, windowSorts } from "../../../ports/lists.ts";
import type { Store } from "../../../ports/stores.ts";
import { budgetsCsv } from "../../../reporting/list-csv.ts";
import { keyNamesOf, type NameOf } from "../../../reporting/names.ts";
import { setBudgetSchema } from "../../../reporting/shapes/budgets.ts";
import { removedSchema } from "../../../reporting/shapes/keys.ts";
import {
  type BudgetHistoryJson,
  budgetHistorySchema,
  budgetListSchema,
  type RankedBudgetJson,
  rankedBudgetListSchema,
} from "../../../reporting/shapes/lists.ts";
import { keysIn, rankedStanding } from "../../../reporting/standing.ts";
import { listFields } from "./fields.ts";
import { answered, found, routesFor, type Timed, type WithPrices, type WithUsers, wrongCursor } from "./route.ts";

export const scope = z
  .string()
  .min(1)
  .max(1000)
  .meta({ description: `${scopeForms}.`, example: "key:alice" });
export const period = periodSchema.meta({ description: "`total`, or a calendar window in the server's time zone." });

const limitShape = 'must be an amount in USD as a string such as "5" or "2.50", below 9 million';

const newBudget = z.strictObject({
  scope,
  period,
  limit_usd: z
    .string(limitShape)
    .refine((text) => parseUsd(text) !== undefined, limitShape)
    .meta({ description: "USD as a decimal string.", example: "25" }),
  mode: z.enum(["hard", "soft"], "must be hard or soft").default("hard"),
  warn_percent: warnPercentSchema,
  shared: z.boolean().default(false).meta({
    description: "true permits a hard budget on a user or tag without a key or team. Any key can use up such a budget.",
  }),
});

const windowList = listFields(windowSorts, ["created", "scope"]);
const rankedList = listFields(budgetSorts, ["scope"]);
const budgetFilter = { scope: scope.optional(), period: period.optional() };
/** Largest number of windows in a budget's history. */
const historyMax = 24;

/** Stores and services that the routes of budgets use. */
interface Tools extends Pick<Store, "ledger" | "lists" | "keys">, Timed, WithPrices, WithUsers {}

const route = routesFor<Tools>();

export const budgetRoutes = [
  route("GET /budgets", {
    role: "viewer",
    summary: "Current windows of budgets, searched, sorted and in pages",
    answer: budgetListSchema,
    query: z.strictObject({
      ...windowList.fields,
      ...budgetFilter,
      refusing: z
        .literal("true", "must be true")
        .optional()
        .meta({ description: "true for windows that refuse requests." }),
    }),
    handle: async (tools, { query: { scope: asked, period: of, refusing, ...query } }) => {
      const filter = await scopeFilter(asked, tools);
      if (!filter.ok) return filter;
      const page = await tools.lists.listWindows({
        ...windowList.queryOf(query, tools.clock.now()),
        scope: filter.scope,
        period: of,
        refusing: refusing !== undefined,
      });
      if (page === null) return wrongCursor("budgets");
      const nameOf = await keyNamesOf(tools.keys, keysIn(page.rows));
      return found({ budgets: page.rows.map((window) => rankedStanding(window, nameOf)), next: page.next });
    },
  }),
  route("GET /budgets/ranked", {
    role: "viewer",
    summary: "Budgets with their current windows, one row for each budget; refusing and full budgets first",
    answer: rankedBudgetListSchema,
    csv: budgetsCsv,
    query: z.strictObject({ ...rankedList.fields, ...budgetFilter }),
    handle: async (tools, { query: { scope: asked, period: of, ...query } }) => {
      const filter = await scopeFilter(asked, tools);
      if (!filter.ok) return filter;
      const page = await tools.lists.listBudgets({
        ...rankedList.queryOf(query, tools.clock.now()),
        scope: filter.scope,
        period: of,
      });
      if (page === null) return wrongCursor("budgets");
      const nameOf = await keyNamesOf(tools.keys, keysInRanked(page.rows));
      return found({ budgets: page.rows.map((row) => rankedBudgetJson(row, nameOf)), next: page.next });
    },
  }),
  route("GET /budgets/history", {
    role: "viewer",
    summary: "Spending in the latest 24 windows of a scope and period",
    answer: budgetHistorySchema,
    query: z.strictObject({
      scope: scope.default("all"),
      period: period.default("1d"),
      key: z
        .string()
        .max(200)
        .optional()
        .meta({ description: "A key's name or id, for one key of the scope `each-key` or `each-key:TEAM`." }),
      subject: z
        .string()
        .max(1000)
        .optional()
        .meta({ description: "One subject of an `each-…` scope, such as `user=u_42` or `key=alice tag:session=s1`." }),
    }),
    handle: async (tools, { query }) => {
      const [filter, named] = await Promise.all([
        scopeFilter(query.scope, tools),
        findKeyIfNamed(tools.keys, query.key),
      ]);
      if (!filter.ok) return filter;
      if (!named.ok) return named;
      if (named.key !== undefined && (filter.scope === undefined || !isEachKey(filter.scope)))
        return failure("invalid", "key is only for the scopes each-key and each-key:TEAM", "key");
      const historyScope = filter.scope ?? everyRequest;
      const chosen = query.subject === undefined ? null : await resolveSubject(historyScope, query.subject, tools);
      if (chosen?.ok === false) return chosen;
      return found(
        budgetHistoryJson(
          await tools.lists.pastWindows(historyScope, {
            period: query.period,
            subject: chosen?.subject ?? named.key?.id,
            at: tools.clock.now(),
            limit: historyMax,
          }),
        ),
      );
    },
  }),
  route("PUT /budgets", {
    role: "editor",
    summary: "Add a budget, or change the budget with the same scope and period",
    body: newBudget,
    answer: setBudgetSchema,
    handle: async (tools, { body: { limit_usd: limit, warn_percent: warnPercent, ...body } }) => {
      const catalogueInForce = async () => tools.catalogue();
      const set = await setBudget({ ...tools, catalogueInForce }, { ...body, limit, warnPercent });
      if (!set.ok) return set;
      const nameOf = await keyNamesOf(tools.keys, [keyOfScope(set.budget.scope)]);
      return found({ ...budgetDetails(set.budget, nameOf), note: set.note });
    },
  }),
  route("DELETE /budgets", {
    role: "editor",
    summary: "Remove a budget; its charges stay in the ledger",
    query: z.strictObject({ scope, period }),
    answer: removedSchema,
    handle: async (tools, { query }) => answered(await removeBudget(tools, query), () => ({ removed: true as const })),
  }),
];

/**
 * Returns the ids of the keys that budgets and their fullest windows name. Includes the budgets, because a budget may
 * have no window yet.
 */
export function keysInRanked(ranked: readonly RankedBudget[]): (string | null)[] {
  return ranked.flatMap(({ budget: { scope }, fullest }) => [keyOfScope(scope), ...keysIn(fullest)]);
}

export function rankedBudgetJson(ranked: RankedBudget, nameOf: NameOf): RankedBudgetJson {
  const { budget, windows, refusing, spent, held, end, fullest } = ranked;
  return {
    scope: namedScope(budget.scope, nameOf),
    period: budget.period,
    mode: budget.mode,
    limit_usd: formatUsd(budget.limit),
    warn_percent: budget.warnPercent,
    windows,
    refusing,
    used_percent: fullest.length === 0 && budget.limit === 0n ? 100 : Math.max(0, ...fullest.map(usedPercent)),
    spent_usd: formatUsd(spent),
    held_usd: formatUsd(held),
    resets_at: isoTimeOrNull(end),
    fullest: fullest.map((window) => rankedStanding(window, nameOf)),
  };
}

function budgetHistoryJson(windows: readonly PastWindow[]): BudgetHistoryJson {
  return {
    windows: windows.map(({ start, end, spent, requests }) => ({
      starts_at: isoTime(start),
      ends_at: isoTimeOrNull(end),
      spent_usd: formatUsd(spent),
      requests,
    })),
  };
}
