import { z } from "zod";
import type { Message, Outbox } from "../ports/outbox.ts";
import type { AlertMessage } from "../wire/alert-message.ts";
import { isoTimeOrNull } from "../core/time.ts";
import type { AlertJson, AlertListJson } from "./shapes/health.ts";

export const alertQuerySchema = z.strictObject({
  limit: z.coerce.number().int().min(1).max(1000).default(100),
  /** Id of the last alert of the previous page. */
  cursor: z.string().max(100).optional(),
});

export type AlertQuery = z.output<typeof alertQuerySchema>;

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
