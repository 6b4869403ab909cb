import { z } from "zod";
import { adminRoles, keyStates } from "../../core/keys.ts";
import { periods } from "../../core/budget.ts";
import {
  count,
  hostedTools,
  limits,
  models,
  next,
  outputCap,
  text,
  textOrNull,
  time,
  timeOrNull,
  type Shape,
} from "./fields.ts";
import { subjectFields, standingSchema, raiseRequestSchema } from "./budgets.ts";

export const whoamiSchema = z.strictObject({ name: text, role: z.enum(adminRoles), expires_at: timeOrNull });

const adminFields = {
  id: text,
  name: text,
  role: z.enum(adminRoles),
  created_at: time,
  expires_at: timeOrNull,
  revoked_at: timeOrNull,
};
export const adminSchema = z.strictObject({ ...adminFields, state: z.enum(["live", "expired", "revoked"]) });
export type AdminJson = Shape<typeof adminSchema>;
export const adminListSchema = z.strictObject({ admins: z.array(adminSchema), next });
export type AdminListJson = Shape<typeof adminListSchema>;
export const newAdminJsonSchema = z.strictObject({
  ...adminFields,
  token: text.meta({ description: "The token. It is not stored and cannot be shown again." }),
});
export type NewAdminJson = Shape<typeof newAdminJsonSchema>;

/** Values by which budgets and reports group the requests of a key. */
const keyValues = {
  labels: z.record(text, text).meta({ description: "Labels of the key. Each of its charges stores them." }),
  tags: z
    .record(text, text)
    .meta({ description: "Tags of all requests of the key. They replace the values that a request states." }),
  user: textOrNull.meta({
    description: "User of all requests of the key. It replaces the user that a request names. Null for none.",
  }),
  requires: z.array(text).meta({ description: "Values that each request must name: `user` and `tag:NAME`." }),
};

const keyFields = {
  id: text,
  name: text,
  team: textOrNull,
  models,
  limits,
  output_cap: outputCap,
  hosted_tools: hostedTools,
  ...keyValues,
  created_at: time,
  expires_at: timeOrNull,
  revoked_at: timeOrNull,
  suspended_at: timeOrNull,
  rotated_at: timeOrNull,
  previous_valid_until: timeOrNull,
};
const secret = text.meta({ description: "The key itself, shown only in this answer." });

export const keySchema = z.strictObject({ ...keyFields, state: z.enum(keyStates) });
export type KeyJson = Shape<typeof keySchema>;
export const newKeyJsonSchema = z.strictObject({ ...keyFields, key: secret });
export type NewKeyJson = Shape<typeof newKeyJsonSchema>;
export const rotatedKeySchema = z.strictObject({
  id: text,
  name: text,
  key: secret,
  previous_valid_until: timeOrNull,
});
export type RotatedKeyJson = Shape<typeof rotatedKeySchema>;

const teamFields = { name: text, models, limits, output_cap: outputCap, hosted_tools: hostedTools, created_at: time };
export const teamSchema = z.strictObject(teamFields);
export const teamWithKeysSchema = z.strictObject({
  ...teamFields,
  keys: z.array(text).meta({ description: "Names of the live keys of the team." }),
});
export const removedSchema = z.strictObject({ removed: z.literal(true) });

const ownLimit = z
  .strictObject({ scope: text, limit: count, remaining: count, resets_in_seconds: count.nullable() })
  .nullable();
/** A key's view of itself. */
export const meSchema = z.strictObject({
  key: z
    .strictObject({ id: text, name: text, team: textOrNull, models, ...keyValues, expires_at: timeOrNull })
    .nullable(),
  limits: z.strictObject({ rpm: ownLimit, tpm: ownLimit, parallel: ownLimit }),
  output_cap: outputCap,
  fitted: z
    .strictObject({ request_id: text, time, model: text, max_output_tokens: count })
    .nullable()
    .meta({ description: "The last request whose output was limited to fit a budget." }),
  budgets: z.array(standingSchema).meta({
    description:
      "Budgets whose amounts the key may see. A budget with a window for each model, user or tag appears with its three fullest windows.",
  }),
  blocked: z
    .array(
      z.strictObject({
        scope: text,
        subject: subjectFields.subject,
        period: z.enum(periods),
        resets_at: timeOrNull,
        refused_today: count,
      }),
    )
    .meta({
      description:
        "Hard budgets that have nothing left, or refused a request of this key in the last 15 minutes. `refused_today` counts this key's requests.",
    }),
  raise_requests: z.array(raiseRequestSchema).meta({ description: "The key's last 10 raise requests, newest first." }),
});
export type MeJson = Shape<typeof meSchema>;

const signedIn = { expires_at: time, time_zone: text, version: text };
/** Dashboard session of a browser. */
export const sessionSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("none") }),
  z.strictObject({ kind: z.literal("admin"), name: text, role: z.enum(adminRoles), ...signedIn }),
  z.strictObject({ kind: z.literal("key"), name: textOrNull, team: textOrNull, role: z.null(), ...signedIn }),
]);
export type DashboardSession = Shape<typeof sessionSchema>;
