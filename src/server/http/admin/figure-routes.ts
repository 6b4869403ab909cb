import { z } from "zod";
import { failure } from "../../../admin/result.ts";
import { alertQuerySchema, listAlerts } from "../../../reporting/alerts.ts";
import { auditJson, readAuditCursor } from "../../../reporting/audit.ts";
import { balanceJson, burnPerHour } from "../../../reporting/balance.ts";
import { readDimensions, runReport } from "../../../reporting/report.ts";
import { isoTimeOrNull, keyNames } from "../../../reporting/names.ts";
import { pricedModel, pricesJson } from "../../../reporting/prices.ts";
import {
  groupsExplaining,
  reconciliationJson,
  runReconciliation,
  whyNotReconciled,
} from "../../../reporting/reconciliation.ts";
import { readAccount } from "../../../wire/account.ts";
import { balanceSchema, reconciliationSchema, reportSchema } from "../../../reporting/shapes/figures.ts";
import { alertListSchema, auditListSchema } from "../../../reporting/shapes/health.ts";
import { whoamiSchema } from "../../../reporting/shapes/keys.ts";
import { priceListSchema, pricedModelSchema } from "../../../reporting/shapes/prices.ts";
import { atOf, cursor, instant, limitOf } from "./fields.ts";
import { found, route, type AdminRoute, type RouteTools } from "./route.ts";

const dimensions = "key, team, model, group, day, hour and tag:NAME";

const usageQuery = z.strictObject({
  by: z
    .string()
    .refine(
      (text) => readDimensions(text) !== undefined,
      `must be a list of ${dimensions}, each at most once, separated by commas`,
    )
    .default("model")
    .meta({ description: `Dimensions of the rows: ${dimensions}, separated by commas.`, example: "key,model" }),
  since: instant.default("7d"),
  until: instant.default("0s"),
});

const auditQuery = z.strictObject({
  since: instant.optional(),
  until: instant.optional(),
  limit: limitOf(100),
  cursor: cursor.optional(),
});

/** Returns the half-open span of two validated fields; null if it ends before it begins. */
function spanOf({ since, until }: { readonly since: string; readonly until: string }, tools: RouteTools) {
  const span = { since: atOf(since, tools), until: atOf(until, tools) };
  return span.until < span.since ? null : span;
}

const backwards = failure("invalid", "until must not be before since");

export const figureRoutes: readonly AdminRoute[] = [
  route("GET /whoami", {
    role: "viewer",
    summary: "The admin of this token",
    answer: whoamiSchema,
    handle: async ({ caller: { name, role, expiresAt } }) =>
      found({ name, role, expires_at: isoTimeOrNull(expiresAt) }),
  }),
  route("GET /usage", {
    role: "viewer",
    summary: "Sums of charges",
    query: usageQuery,
    answer: reportSchema,
    handle: async (tools, { query }) => {
      const span = spanOf(query, tools);
      if (span === null) return backwards;
      const by = readDimensions(query.by) ?? [];
      const nameOf = by.includes("key") ? await keyNames(tools.keys) : (id: string) => id;
      return found(await runReport({ ledger: tools.ledger, nameOf }, { by, ...span }));
    },
  }),
  route("GET /prices", {
    role: "viewer",
    summary: "Every model with its price in force",
    answer: priceListSchema,
    handle: async ({ catalogue, clock }) => found(pricesJson(catalogue(), clock.now())),
  }),
  route("GET /prices/{model}", {
    role: "viewer",
    summary: "One model, by its id or an alias, with its price in force",
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
    summary: "Balance of the gateway's account, and the time that it lasts",
    answer: balanceSchema,
    handle: async ({ account, accountTtlMs, ledger, clock }) => {
      const [record, burn] = await Promise.all([account(), burnPerHour(ledger, clock.now())]);
      if (record === undefined)
        return { ok: false, kind: "no_gateway", message: "the gateway gives no account record now" };
      return found(
        balanceJson(readAccount(record.body), burn, {
          fetchedAt: record.fetchedAt,
          now: clock.now(),
          ttlMs: accountTtlMs,
        }),
      );
    },
  }),
  route("GET /reconciliation", {
    role: "viewer",
    summary: "The ledger compared with the gateway's account, by its samples",
    query: z.strictObject({ since: instant.default("7d"), until: instant.default("0s") }),
    answer: reconciliationSchema,
    handle: async (tools, { query }) => {
      const span = spanOf(query, tools);
      if (span === null) return backwards;
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
    summary: "Alerts of the last days with the state of their delivery, newest first, in pages",
    query: alertQuerySchema,
    answer: alertListSchema,
    handle: async ({ outbox }, { query }) => found(await listAlerts({ outbox }, query)),
  }),
  route("GET /audit", {
    role: "viewer",
    summary: "The audit log, newest first, in pages",
    query: auditQuery,
    answer: auditListSchema,
    handle: async (tools, { query: { since, until, limit, cursor: from } }) => {
      const after = from === undefined ? undefined : readAuditCursor(from);
      if (from !== undefined && after === undefined)
        return failure("invalid", "cursor must be the cursor that a list of the audit ended with");
      const page = await tools.audit.entries({
        limit,
        ...(since !== undefined && { since: atOf(since, tools) }),
        ...(until !== undefined && { until: atOf(until, tools) }),
        ...(after !== undefined && { after }),
      });
      return found(auditJson(page));
    },
  }),
];
