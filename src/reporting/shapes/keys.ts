import { z } from "zod";
import { adminRoles, keyStates } from "../../core/keys.ts";
import { periods } from "../../core/budget.ts";
import {
  count,
  limits,
  models,
  next,
  outputCap,
  text,
  textOrNull,
  time,
  timeOrNull,
  usd,
  type Shape,
} from "./fields.ts";

export const whoamiSchema = z.strictObject({ name: text, role: z.enum(adminRoles), expires_at: timeOrNull });

const keyFields = {
  id: text,
  name: text,
  team: textOrNull,
  models,
  limits,
  output_cap: outputCap,
  created_at: time,
  expires_at: timeOrNull,
  revoked_at: timeOrNull,
  rotated_at: timeOrNull,
  previous_valid_until: timeOrNull,
};
const secret = text.meta({ description: "The key itself, shown only in this answer." });

export const keySchema = z.strictObject({ ...keyFields, state: z.enum(keyStates) });
export type KeyJson = Shape<typeof keySchema>;
export const keyListSchema = z.strictObject({ keys: z.array(keySchema), next });
export type KeyListJson = Shape<typeof keyListSchema>;
export const newKeySchema = z.strictObject({ ...keyFields, key: secret });
export type NewKeyJson = Shape<typeof newKeySchema>;
export const rotatedKeySchema = z.strictObject({
  id: text,
  name: text,
  key: secret,
  previous_valid_until: timeOrNull,
});
export type RotatedKeyJson = Shape<typeof rotatedKeySchema>;

const teamFields = { name: text, models, limits, output_cap: outputCap, created_at: time };
export const teamSchema = z.strictObject(teamFields);
export const teamWithKeysSchema = z.strictObject({
  ...teamFields,
  keys: z.array(text).meta({ description: "Names of its live keys." }),
});
export type TeamJson = Shape<typeof teamWithKeysSchema>;
export const teamListSchema = z.strictObject({ teams: z.array(teamWithKeysSchema) });

export type TeamListJson = Shape<typeof teamListSchema>;

export const removedSchema = z.strictObject({ removed: z.literal(true) });

const budgetFields = {
  scope: text,
  period: z.enum(periods),
  mode: z.enum(["hard", "soft"]),
  limit_usd: usd,
  warn_percent: z.int().nullable(),
};
export const setBudgetSchema = z.strictObject({
  ...budgetFields,
  note: textOrNull.meta({ description: "A hint at a likely mistake; null for none." }),
});
export type SetBudgetJson = Shape<typeof setBudgetSchema>;
/** A budget in one of its windows. `key` names the window's key if each key has its own window. */
export const standingSchema = z.strictObject({
  ...budgetFields,
  key: textOrNull,
  spent_usd: usd,
  held_usd: usd,
  remaining_usd: usd,
  starts_at: time,
  resets_at: timeOrNull,
});
export type StandingJson = Shape<typeof standingSchema>;
export const budgetListSchema = z.strictObject({ budgets: z.array(standingSchema), next });
export type BudgetListJson = Shape<typeof budgetListSchema>;
export const keyWithBudgetsSchema = keySchema.extend({ budgets: z.array(standingSchema) });

const ownLimit = z
  .strictObject({ scope: text, limit: count, remaining: count, resets_in_seconds: count.nullable() })
  .nullable();
/** A key's view of itself. */
export const meSchema = z.strictObject({
  key: z.strictObject({ id: text, name: text, team: textOrNull, models, expires_at: timeOrNull }).nullable(),
  limits: z.strictObject({ rpm: ownLimit, tpm: ownLimit, parallel: ownLimit }),
  output_cap: outputCap,
  fitted: z
    .strictObject({ request_id: text, time, model: text, max_output_tokens: count })
    .nullable()
    .meta({ description: "The last request that got a maximum so that it fits a budget." }),
  budgets: z.array(standingSchema),
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
