import { z } from "zod";
import { failure } from "../../../admin/result.ts";
import { alertQuerySchema, listAlerts } from "../../../reporting/alerts.ts";
import { auditCsv } from "../../../reporting/list-csv.ts";
import { auditJson, readAuditCursor } from "../../../reporting/audit.ts";
import { meantDimension, readDimensions, runReport } from "../../../reporting/report.ts";
import { isoTimeOrNull } from "../../../core/time.ts";
import { keyNames } from "../../../reporting/names.ts";
import { pricedModel, pricesJson } from "../../../reporting/prices.ts";
import {
  groupsExplaining,
  reconciliationJson,
  runReconciliation,
  whyNotReconciled,
} from "../../../reporting/reconciliation.ts";
import { balanceSchema, reconciliationSchema, reportSchema } from "../../../reporting/shapes/figures.ts";
import { alertListSchema, auditListSchema } from "../../../reporting/shapes/health.ts";
import { whoamiSchema } from "../../../reporting/shapes/keys.ts";
import { priceListSchema, pricedModelSchema } from "../../../reporting/shapes/prices.ts";
import { cursor, instant, limitOf, name, search, spanOf } from "./fields.ts";
import { balanceIn } from "./overview-routes.ts";
import { found, route, type AdminRoute } from "./route.ts";

const dimensions = "key, team, model, group, day, hour and tag:NAME";

const usageQuery = z.strictObject({
  by: z
    .string()
    .refine((text) => readDimensions(text) !== undefined, {
      error: ({ input }) =>
        `must be a list of ${dimensions}, each at most once, separated by commas${meantDimension(input)}`,
    })
    .default("model")
    .meta({ description: `Dimensions of the rows: ${dimensions}, separated by commas.`, example: "key,model" }),
  since: instant.default("7d"),
  until: instant.default("0s"),
});

const auditQuery = z.strictObject({
  q: search.meta({ description: "Text that the object, the author or the action must contain, in any letter case." }),
  object: name.optional().meta({ description: "Only changes of this object.", example: "key:alice" }),
  about: name.optional().meta({
    description: "Only changes of this key or team, and of the budgets whose scope names it.",
    example: "key:alice",
  }),
  since: instant.optional(),
  until: instant.optional(),
  limit: limitOf(100),
  cursor: cursor.optional(),
});

export const figureRoutes: readonly AdminRoute[] = [
  route("GET /whoami", {
    role: "viewer",
    summary: "Name, role and expiry of the admin that sends the request",
    answer: whoamiSchema,
    handle: async ({ caller: { name, role, expiresAt } }) =>
      found({ name, role, expires_at: isoTimeOrNull(expiresAt) }),
  }),
  route("GET /usage", {
    role: "viewer",
    summary: "Sums of charges by key, team, model, group, day, hour or tag",
    query: usageQuery,
    answer: reportSchema,
    handle: async (tools, { query }) => {
      const span = spanOf(query, tools);
      if (!span.ok) return span;
      const by = readDimensions(query.by) ?? [];
      const nameOf = by.includes("key") ? await keyNames(tools.keys) : (id: string) => id;
      return found(await runReport({ ...tools, nameOf }, { by, since: span.since, until: span.until }));
    },
  }),
  route("GET /prices", {
    role: "viewer",
    summary: "Every model with its current price",
    answer: priceListSchema,
    handle: async ({ catalogue, clock }) => found(pricesJson(catalogue(), clock.now())),
  }),
  route("GET /prices/{model}", {
    role: "viewer",
    summary: "One model, by its id or an alias, with its current price",
    answer: pricedModelSchema,
    handle: async ({ catalogue, clock }, { params: [name = ""] }) => {
      const model = catalogue().find(name, clock.now());
      return model === undefined
        ? failure("not_found", `no price file names the model ${JSON.stringify(name)}`)
        : found(pricedModel(model));
    },
  }),
  route("GET /balance", {
    role: "viewer",
    summary: "Balance of the gateway's account, and how long it lasts",
    answer: balanceSchema,
    handle: async (tools) => {
      const balance = await balanceIn(tools.account(), tools.ledger, tools);
      if (balance !== null) return found(balance);
      return { ok: false, kind: "no_gateway", message: "the gateway returned no account record; try again later" };
    },
  }),
  route("GET /reconciliation", {
    role: "viewer",
    summary: "Comparison of the ledger with samples of the gateway's account",
    query: z.strictObject({ since: instant.default("7d"), until: instant.default("0s") }),
    answer: reconciliationSchema,
    handle: async (tools, { query }) => {
      const span = spanOf(query, tools);
      if (!span.ok) return span;
      const result = await runReconciliation(tools, { since: span.since, until: span.until + 1 });
      if (!result.ok) return failure("refused", whyNotReconciled(result.reason));
      const { reconciliation } = result;
      return found(
        reconciliationJson(reconciliation, await groupsExplaining(tools.ledger, tools.catalogue(), reconciliation)),
      );
    },
  }),
  route("GET /alerts", {
    role: "viewer",
    summary: "Recent alerts with the state of their delivery, newest first, in pages",
    query: alertQuerySchema,
    answer: alertListSchema,
    handle: async ({ outbox }, { query }) => found(await listAlerts({ outbox }, query)),
  }),
  route("GET /audit", {
    role: "viewer",
    summary: "The audit log, newest first, in pages",
    query: auditQuery,
    answer: auditListSchema,
    csv: auditCsv,
    handle: async (tools, { query: { since, until, q, limit, cursor: from, object, about } }) => {
      const span = spanOf({ since, until }, tools);
      if (!span.ok) return span;
      const after = from === undefined ? undefined : readAuditCursor(from);
      if (from !== undefined && after === undefined)
        return failure("invalid", "cursor must be the cursor of an earlier list of the audit");
      const page = await tools.audit.entries({
        limit,
        object,
        about,
        search: q,
        ...(span.since !== undefined && { since: span.since }),
        ...(span.until !== undefined && { until: span.until }),
        ...(after !== undefined && { after }),
      });
      return found(auditJson(page));
    },
  }),
];
