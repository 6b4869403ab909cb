import { z } from "zod";
import { alertTypes } from "../../core/alerts.ts";
import { presets } from "../../core/price.ts";
import { count, next, text, textOrNull, time, timeOrNull, usdOrNull, type Shape } from "./fields.ts";
import { reconciliationSchema } from "./figures.ts";

/** Alert as it was sent, with the state of its delivery. */
const alertSchema = z.strictObject({
  id: text,
  type: z.enum(alertTypes),
  time,
  severity: z.enum(["warning", "critical"]),
  title: text,
  text,
  data: z.record(z.string(), z.union([text, z.number(), z.null()])),
  delivery: z.strictObject({
    state: z
      .enum(["waiting", "delivered", "given_up", "unsent"])
      .meta({ description: "`unsent`: no webhook was configured at the time of the alert." }),
    tries: count,
    next_try_at: timeOrNull,
    ended_at: timeOrNull,
    last_error: textOrNull,
  }),
});
export type AlertJson = Shape<typeof alertSchema>;
export const alertListSchema = z.strictObject({ alerts: z.array(alertSchema), next });
export type AlertListJson = Shape<typeof alertListSchema>;

export const healthSchema = z.strictObject({
  now: time,
  version: text,
  started_at: time,
  ready: z.boolean(),
  reconciliation: reconciliationSchema.nullable(),
  reconciliation_missing: textOrNull,
  pending: z.strictObject({
    count,
    oldest_at: timeOrNull,
    old: z.array(
      z.strictObject({
        request_id: text,
        key: textOrNull,
        held_since: time,
        hold_usd: usdOrNull,
        orphaned: z.boolean(),
      }),
    ),
  }),
  stream_bursts: z
    .array(
      z.strictObject({
        model: text,
        key: textOrNull,
        all_keys: z.boolean(),
        since: time,
        live_streams: count.meta({
          description:
            "Number of live streams since the last burst. The mark ends when it is an hour old and has three live streams, or after 30 days.",
        }),
      }),
    )
    .meta({ description: "Models whose streamed answers arrive all at once (bursts). Their answers are held whole." }),
  gateway: z.strictObject({
    since: time,
    requests: count,
    errors: count,
    by_status: z.record(z.string(), count),
    minutes: z.strictObject({ starts: z.array(time), requests: z.array(count), errors: z.array(count) }),
    last: z.array(z.strictObject({ request_id: text, time, model: textOrNull, status: z.int() })),
  }),
  alerts: z.strictObject({
    day: count.meta({ description: "Alerts of the last 24 hours." }),
    latest: z.array(alertSchema),
  }),
  prices: z.strictObject({
    preset: z.enum(presets),
    digest: text,
    models: count,
    reviewed_on: textOrNull,
    age_days: count.nullable(),
    review_due: z.boolean().meta({ description: "True if the newest review is more than 60 days old." }),
  }),
});
export type HealthJson = Shape<typeof healthSchema>;

const facts = z
  .record(z.string(), z.unknown())
  .nullable()
  .meta({ description: "The object before or after the change, without secrets; null if it did not exist." });
const auditEntrySchema = z.strictObject({
  id: z.int(),
  time,
  by: text,
  action: text,
  object: text,
  before: facts,
  after: facts,
});
export type AuditEntryJson = Shape<typeof auditEntrySchema>;
export const auditListSchema = z.strictObject({ entries: z.array(auditEntrySchema), next });
export type AuditListJson = Shape<typeof auditListSchema>;
