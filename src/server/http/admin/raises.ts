import { z } from "zod";
import { approveRaise, denyRaise, listRaiseRequests, type RaiseAsked } from "../../../admin/raise-requests.ts";
import { raiseBudget, topUpBudget, whyMax } from "../../../admin/raises.ts";
import { withAmountUsd } from "../../../admin/result.ts";
import { keyOfScope, keyOfSubject } from "../../../core/scope.ts";
import type { Store } from "../../../ports/stores.ts";
import { keyNamesOf } from "../../../reporting/names.ts";
import { raiseRequestListSchema, raiseRequestSchema, raiseSchema } from "../../../reporting/shapes/budgets.ts";
import { adminRaiseRequestJson, keysInRequest, raiseJson, raiseRequestJson } from "../../../reporting/standing.ts";
import { period, scope } from "./budgets.ts";
import { found, routesFor, type Timed, type WithUsers } from "./route.ts";

const amount = z.string().max(100).meta({ description: "USD as a decimal string, above 0.", example: "5" });
const until = z.string().max(100).optional().meta({
  description: "End of the raise, if it is before the end of the window: a duration from now, or an ISO 8601 instant.",
  example: "3h",
});
const why = z
  .string()
  .max(1000)
  .meta({ description: `Reason, at most ${whyMax} characters.` });

/** Stores and services that the routes of raises use. */
interface Tools extends Pick<Store, "ledger" | "keys" | "raiseRequests">, Timed, WithUsers {}

const route = routesFor<Tools>();

export const raiseRoutes = [
  route("POST /budgets/raises", {
    role: "editor",
    status: 201,
    summary: "Add an amount to the limit of a budget's current window, or to the limit of a budget per `total`",
    body: z.strictObject({
      scope,
      period: period.optional().meta({ description: "Optional if the scope has only one budget." }),
      subject: z.string().max(1000).optional().meta({
        description: "Subject of the window, for a scope with `each-…`, such as `alice` or `key=alice tag:session=s1`.",
      }),
      amount_usd: amount,
      until,
      why,
    }),
    answer: raiseSchema,
    handle: async (tools, { body: { amount_usd, ...body } }) => {
      const given = { ...body, amount: amount_usd };
      const made =
        body.period === "total" && body.until === undefined
          ? await topUpBudget(tools, given)
          : await raiseBudget(tools, given);
      if (!made.ok) return withAmountUsd(made);
      const { budget, raise } = made;
      const ids = [keyOfScope(budget.scope), keyOfSubject(budget.scope, raise.subject)];
      return found(raiseJson(budget, raise, await keyNamesOf(tools.keys, ids)));
    },
  }),
  route("GET /raises", {
    role: "viewer",
    summary: "The latest 200 requests for raises, newest first; with `open`, the latest 200 open requests",
    query: z.strictObject({
      open: z
        .literal("true", "must be true")
        .optional()
        .meta({ description: "true for open requests, which can be approved or denied." }),
    }),
    answer: raiseRequestListSchema,
    handle: async (tools, { query: { open } }) => {
      const listed = await listRaiseRequests(tools, { isOpen: open !== undefined });
      const ids = listed.flatMap(({ request }) => keysInRequest(request));
      const nameOf = await keyNamesOf(tools.keys, ids);
      const now = tools.clock.now();
      return found({ raises: listed.map((each) => adminRaiseRequestJson(each.request, each.spenders, nameOf, now)) });
    },
  }),
  route("POST /raises/{raise}/approve", {
    role: "editor",
    summary: "Approve a raise request, optionally with another amount or an earlier end",
    body: z.strictObject({ amount_usd: amount.optional(), until }),
    answer: raiseRequestSchema,
    handle: async (tools, { params: [id = ""], body }) => {
      const approved = await approveRaise(tools, id, { amount: body.amount_usd, until: body.until });
      return approved.ok ? replyToDecision(tools, approved) : withAmountUsd(approved);
    },
  }),
  route("POST /raises/{raise}/deny", {
    role: "editor",
    summary: "Deny a raise request",
    answer: raiseRequestSchema,
    handle: async (tools, { params: [id = ""] }) => replyToDecision(tools, await denyRaise(tools, id)),
  }),
];

async function replyToDecision({ keys, clock }: Pick<Tools, "keys" | "clock">, result: RaiseAsked) {
  if (!result.ok) return result;
  const nameOf = await keyNamesOf(keys, keysInRequest(result.request));
  return found(raiseRequestJson(result.request, nameOf, clock.now()));
}
