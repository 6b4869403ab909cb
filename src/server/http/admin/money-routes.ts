import { z } from "zod";
import { listBudgets, removeBudget, setBudget } from "../../../admin/budgets.ts";
import { listCharges, showCharge } from "../../../admin/charge-lists.ts";
import { correctCharge } from "../../../admin/corrections.ts";
import { failure } from "../../../admin/result.ts";
import { budgetDetails } from "../../../core/audit.ts";
import type { Charge } from "../../../core/charge.ts";
import { periods, type BudgetWindow } from "../../../core/budget.ts";
import { noMoney, parseSignedUsd, parseUsd } from "../../../core/money.ts";
import type { KeyStore } from "../../../ports/key-store.ts";
import { chargeDetailsJson, chargeJson, chargesJson } from "../../../reporting/charges.ts";
import { keyNamesOf, type NameOf } from "../../../reporting/names.ts";
import { standingOf } from "../../../reporting/standing.ts";
import { chargeDetailsSchema, chargeListSchema, correctionMadeSchema } from "../../../reporting/shapes/charges.ts";
import { budgetListSchema, removedSchema, setBudgetSchema } from "../../../reporting/shapes/keys.ts";
import { atOf, chargeQuery, cursor, limitOf } from "./fields.ts";
import { answered, found, route, type AdminRoute } from "./route.ts";

const scope = z
  .string()
  .min(1)
  .max(200)
  .meta({ description: "all, key:NAME, team:NAME, each-key or each-key:TEAM.", example: "key:alice" });
const period = z
  .enum(periods, `must be one of ${periods.join(", ")}`)
  .meta({ description: "`total`, or a calendar window in the time zone." });
const share = "must be a whole number of percent from 1 to 100";

const limitShape = 'must be an amount of USD as a string such as "5" or "2.50", below 9 million';

const newBudget = z.strictObject({
  scope,
  period,
  limit_usd: z
    .string(limitShape)
    .refine((text) => parseUsd(text) !== undefined, limitShape)
    .meta({ description: "USD as a decimal string.", example: "25" }),
  mode: z.enum(["hard", "soft"], "must be hard or soft").default("hard"),
  warn_percent: z.int(share).min(1, share).max(100, share).nullable().default(null),
});

export const budgetRoutes: readonly AdminRoute[] = [
  route("GET /budgets", {
    role: "viewer",
    summary: "Budgets with spent, held and remaining amounts in their present windows, in pages",
    answer: budgetListSchema,
    query: z.strictObject({ limit: limitOf(100), cursor: cursor.optional() }),
    handle: async (tools, { query: { limit, cursor: after } }) => {
      const all = await listBudgets(tools);
      const last = after === undefined ? -1 : all.findIndex((window) => windowCursor(window) === after);
      if (after !== undefined && last === -1)
        return failure("invalid", "cursor must be the cursor that a list of budgets ended with");
      const shown = all.slice(last + 1, last + 1 + limit);
      const nameOf = await keyNamesOf(
        tools.keys,
        shown.flatMap(({ budget, subject }) => [subject, budget.scope.kind === "key" ? budget.scope.key : ""]),
      );
      const lastShown = last + limit < all.length - 1 ? shown.at(-1) : undefined;
      return found({
        budgets: shown.map((window) => standingOf(window, nameOf)),
        next: lastShown === undefined ? null : windowCursor(lastShown),
      });
    },
  }),
  route("PUT /budgets", {
    role: "editor",
    summary: "Add a budget, or change the one of the same scope and period",
    body: newBudget,
    answer: setBudgetSchema,
    handle: async (tools, { body: { limit_usd: limit, warn_percent: warnPercent, ...body } }) => {
      const set = await setBudget(tools, { ...body, limit, warnPercent });
      if (!set.ok) return set;
      const { scope: setScope } = set.budget;
      const nameOf = await keyNamesOf(tools.keys, setScope.kind === "key" ? [setScope.key] : []);
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

/** Returns a cursor that identifies a budget's window by budget and subject. */
function windowCursor({ budget, subject }: BudgetWindow): string {
  return Buffer.from(`${budget.id} ${subject}`).toString("base64url");
}

function namesIn(keys: KeyStore, charges: readonly Charge[]): Promise<NameOf> {
  return keyNamesOf(
    keys,
    charges.map(({ key }) => key),
  );
}

const amountShape = 'must be an amount of USD as a string such as "0.25" or "-0.05", not zero and below 9 million';

const correction = z.strictObject({
  amount_usd: z
    .string(amountShape)
    .refine((text) => (parseSignedUsd(text) ?? noMoney) !== noMoney, amountShape)
    .meta({ description: "Amount that is added to the charge's cost; below zero for a credit.", example: "-0.05" }),
  why: z.string().meta({ description: "The reason, kept with the correction." }),
});

export const chargeRoutes: readonly AdminRoute[] = [
  route("GET /charges", {
    role: "viewer",
    summary: "Charges, newest first, in pages",
    query: chargeQuery,
    answer: chargeListSchema,
    handle: async (tools, { query: { since, until, ...query } }) => {
      const span = {
        since: since === undefined ? since : atOf(since, tools),
        until: until === undefined ? until : atOf(until, tools),
      };
      const listed = await listCharges(tools, { ...query, ...span });
      return listed.ok ? found(chargesJson(listed.page, await namesIn(tools.keys, listed.page.charges))) : listed;
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
        chargeDetailsJson(shown.charge, shown.corrections, await namesIn(keys, [shown.charge]), shown.prices),
      );
    },
  }),
  route("POST /charges/{request_id}/corrections", {
    role: "editor",
    summary: "Correct a charge by an amount, as a row of its own; repeating a correction changes nothing",
    body: correction,
    answer: correctionMadeSchema,
    handle: async (tools, { params: [id = ""], body: { amount_usd: amount, why } }) => {
      const made = await correctCharge(tools, { id, amount, why, by: tools.by });
      if (!made.ok) return made;
      const nameOf = await namesIn(tools.keys, [made.charge]);
      return found({
        repeated: made.repeated,
        charge: chargeJson(made.charge, nameOf),
        correction: chargeJson(made.correction, nameOf),
      });
    },
  }),
];
