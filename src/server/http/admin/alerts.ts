import { z } from "zod";
import { isoTimeOrNull } from "../../../core/time.ts";
import type { Message, Outbox } from "../../../ports/outbox.ts";
import type { Store } from "../../../ports/stores.ts";
import { type AlertJson, type AlertListJson, alertListSchema } from "../../../reporting/shapes/health.ts";
import type { AlertMessage } from "../../../wire/alert-message.ts";
import { found, routesFor } from "./route.ts";

const alertQuerySchema = z.strictObject({
  limit: z.coerce.number().int().min(1).max(1000).default(100),
  /** Id of the last alert of the previous page. */
  cursor: z.string().max(100).optional(),
});

type AlertQuery = z.output<typeof alertQuerySchema>;

const route = routesFor<Pick<Store, "outbox">>();

export const alertRoutes = [
  route("GET /alerts", {
    role: "viewer",
    summary: "Recent alerts with the state of their delivery, newest first, in pages",
    query: alertQuerySchema,
    answer: alertListSchema,
    handle: async ({ outbox }, { query }) => found(await listAlerts({ outbox }, query)),
  }),
];

/** Returns a page of recent alerts, newest first. The page is empty for an unknown cursor. */
export async function listAlerts(
  { outbox }: { readonly outbox: Outbox },
  { limit, cursor }: AlertQuery,
): Promise<AlertListJson> {
  const found = await outbox.list({ kind: "alert", limit: limit + 1, ...(cursor !== undefined && { after: cursor }) });
  const alerts = found.slice(0, limit).map(alertJson);
  return { alerts, next: found.length > limit ? (alerts.at(-1)?.id ?? null) : null };
}

function alertJson({ payload, state, tries, nextTryAt, endedAt, lastError }: Message): AlertJson {
  const delivery = {
    state,
    tries,
    next_try_at: isoTimeOrNull(nextTryAt),
    ended_at: isoTimeOrNull(endedAt),
    last_error: lastError,
  };
  return { ...(JSON.parse(payload) as AlertMessage), delivery };
}
