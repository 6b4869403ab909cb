import { everyRequest, isEachKey, keyOfScope } from "../../../core/scope.ts";
import { z } from "zod";
import { removeBudget, scopeFilter, setBudget } from "../../../admin/budgets.ts";
import { listCharges, showCharge } from "../../../admin/charge-lists.ts";
import { correctCharge } from "../../../admin/corrections.ts";
import { findKeyIfNamed } from "../../../admin/keys.ts";
import { listRefusals } from "../../../admin/refusal-lists.ts";
import { resolveSubject } from "../../../admin/raises.ts";
import { periodSchema, warnPercentSchema } from "../../../admin/fields.ts";
import { failure } from "../../../admin/result.ts";
import { budgetDetails } from "../../../core/audit.ts";
import { scopeForms } from "../../../admin/scopes.ts";
import { noMoney, parseSignedUsd, parseUsd } from "../../../core/money.ts";
import { budgetSorts, windowSorts } from "../../../ports/lists.ts";
import { chargeDetailsJson, chargeJson, chargesJson } from "../../../reporting/charges.ts";
import { budgetsCsv, chargesCsv, refusalsCsv } from "../../../reporting/list-csv.ts";
import { keyNamesIn, keyNamesOf } from "../../../reporting/names.ts";
import { budgetHistoryJson, keysIn, keysInRanked, rankedBudgetJson, rankedStanding } from "../../../reporting/lists.ts";
import { refusalCausesJson, refusalsJson } from "../../../reporting/refusals.ts";
import {
  chargeDetailsSchema,
  chargeListSchema,
  correctionMadeSchema,
  refusalCausesSchema,
  refusalListSchema,
} from "../../../reporting/shapes/charges.ts";
import { removedSchema, setBudgetSchema } from "../../../reporting/shapes/keys.ts";
import { budgetHistorySchema, budgetListSchema, rankedBudgetListSchema } from "../../../reporting/shapes/lists.ts";
import {
  askedCauses,
  askedCharges,
  askedRefusals,
  causeQuery,
  chargeQuery,
  listFields,
  refusalQuery,
} from "./fields.ts";
import { answered, found, route, wrongCursor, type AdminRoute } from "./route.ts";

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

export const budgetRoutes: readonly AdminRoute[] = [
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
      const models = async () =>
        tools
          .catalogue()
          .list(tools.clock.now())
          .map(({ id }) => id);
      const set = await setBudget({ ...tools, models }, { ...body, limit, warnPercent });
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

const amountShape = 'must be an amount in USD as a string such as "0.25" or "-0.05", not zero and below 9 million';

const correction = z.strictObject({
  amount_usd: z
    .string(amountShape)
    .refine((text) => (parseSignedUsd(text) ?? noMoney) !== noMoney, amountShape)
    .meta({ description: "Amount that is added to the charge's cost; below zero for a credit.", example: "-0.05" }),
  why: z.string().meta({ description: "The reason, stored with the correction." }),
});

export const chargeRoutes: readonly AdminRoute[] = [
  route("GET /charges", {
    role: "viewer",
    summary: "Charges, filtered, sorted by time or cost, in pages",
    query: chargeQuery,
    answer: chargeListSchema,
    csv: chargesCsv,
    handle: async (tools, { query }) => {
      const read = askedCharges(query, tools);
      if (!read.ok) return read;
      const listed = await listCharges(tools, query.key, read.asked);
      return listed.ok ? found(chargesJson(listed.page, await keyNamesIn(tools.keys, listed.page.charges))) : listed;
    },
  }),
  route("GET /charges/{request_id}", {
    role: "viewer",
    summary: "One charge with its corrections",
    answer: chargeDetailsSchema,
    handle: async ({ ledger, keys }, { params: [id = ""] }) => {
      const shown = await showCharge(ledger, id);
      if (!shown.ok) return shown;
      return found(
        chargeDetailsJson(shown.charge, shown.corrections, await keyNamesIn(keys, [shown.charge]), shown.prices),
      );
    },
  }),
  route("POST /charges/{request_id}/corrections", {
    role: "editor",
    summary: "Add a correction to a charge, as a separate row; repeating a correction changes nothing",
    body: correction,
    answer: correctionMadeSchema,
    handle: async (tools, { params: [id = ""], body: { amount_usd: amount, why } }) => {
      const made = await correctCharge(tools, { id, amount, why, by: tools.by });
      if (!made.ok) return made;
      const nameOf = await keyNamesIn(tools.keys, [made.charge]);
      return found({
        repeated: made.repeated,
        charge: chargeJson(made.charge, nameOf),
        correction: chargeJson(made.correction, nameOf),
      });
    },
  }),
];

export const refusalRoutes: readonly AdminRoute[] = [
  route("GET /refusals", {
    role: "viewer",
    summary: "Refused requests, searched, sorted and in pages; equal refusals within a minute share one row",
    query: refusalQuery,
    answer: refusalListSchema,
    csv: refusalsCsv,
    handle: async (tools, { query }) => {
      const read = askedRefusals(query, tools);
      if (!read.ok) return read;
      const listed = await listRefusals(tools, read.asked);
      return listed.ok ? found(refusalsJson(listed.page, await keyNamesIn(tools.keys, listed.page.refusals))) : listed;
    },
  }),
  route("GET /refusals/causes", {
    role: "viewer",
    summary: "Refused requests counted by key, code and budget window, latest first",
    query: causeQuery,
    answer: refusalCausesSchema,
    handle: async (tools, { query }) => {
      const read = askedCauses(query, tools);
      if (!read.ok) return read;
      const named = await findKeyIfNamed(tools.keys, query.key);
      if (!named.ok) return named;
      const made = await tools.refusals.causes({ ...read.asked, key: named.key?.id });
      return found(refusalCausesJson(made, await keyNamesIn(tools.keys, made.causes)));
    },
  }),
];
