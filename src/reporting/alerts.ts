import { z } from "zod";
import type { Message, MessageState, Outbox } from "../ports/outbox.ts";
import type { AlertMessage } from "../wire/alert-message.ts";
import { isoTime } from "./names.ts";

export const alertQuerySchema = z.strictObject({
  limit: z.coerce.number().int().min(1).max(1000).default(100),
  /** The id of the last alert of the page before. */
  cursor: z.string().max(100).optional(),
});

export type AlertQuery = z.output<typeof alertQuerySchema>;

/** An alert as it was sent, with what became of its webhook. */
export interface AlertJson extends AlertMessage {
  readonly delivery: {
    /** `unsent`: no webhook was set when it arose. */
    readonly state: MessageState;
    readonly tries: number;
    readonly next_try_at: string | null;
    readonly ended_at: string | null;
    readonly last_error: string | null;
  };
}

export interface AlertsJson {
  readonly alerts: readonly AlertJson[];
  readonly next: string | null;
}

/** The alerts of the last days, newest first; an unknown cursor has no page. */
export async function listAlerts(
  { outbox }: { readonly outbox: Outbox },
  { limit, cursor }: AlertQuery,
): Promise<AlertsJson> {
  const found = await outbox.list({ kind: "alert", limit: limit + 1, ...(cursor !== undefined && { after: cursor }) });
  const alerts = found.slice(0, limit).map(alertJson);
  return { alerts, next: found.length > limit ? (alerts.at(-1)?.id ?? null) : null };
}

function alertJson({ payload, state, tries, nextTryAt, endedAt, lastError }: Message): AlertJson {
  const delivery = {
    state,
    tries,
    next_try_at: isoOrNull(nextTryAt),
    ended_at: isoOrNull(endedAt),
    last_error: lastError,
  };
  return { ...(JSON.parse(payload) as AlertMessage), delivery };
}

function isoOrNull(at: number | null): string | null {
  return at === null ? null : isoTime(at);
}
