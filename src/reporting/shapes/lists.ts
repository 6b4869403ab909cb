import { z } from "zod";
import { count, next, text, textOrNull, time, timeOrNull, usd, type Shape } from "./fields.ts";
import { budgetFields, standingSchema, subjectFields } from "./budgets.ts";
import { keySchema, teamWithKeysSchema } from "./keys.ts";

/* Lists that the server searches, sorts and pages. */

const usage = z.strictObject({ spent_usd: usd, requests: count, last_used_at: timeOrNull, refused_today: count }).meta({
  description: "Spending and requests of this calendar month, last use, and requests refused since the start of today.",
});
const usedPercent = z
  .number()
  .meta({ description: "Percentage of the limit that is spent or held, rounded down to 0.1." });
const refusing = z.boolean().meta({
  description: "True if the budget is hard and has nothing left, or refused a request in the last 15 minutes.",
});

/** State of a budget in one of its windows, with the values that decide its rank. */
const rankedStandingSchema = standingSchema.extend({ used_percent: usedPercent, refusing });
export type RankedStandingJson = Shape<typeof rankedStandingSchema>;

const { scope, period, mode, limit_usd } = budgetFields;
const fullest = z
  .strictObject({
    scope,
    ...subjectFields,
    period,
    mode,
    limit_usd,
    spent_usd: usd,
    held_usd: usd,
    used_percent: usedPercent,
    refusing,
    resets_at: timeOrNull,
  })
  .nullable()
  .meta({ description: "The fullest window of the budgets that apply, refusing ones first; null without a budget." });
export type FullestJson = Shape<typeof fullest>;

const listedKeySchema = keySchema.extend({ usage, fullest });
export type ListedKeyJson = Shape<typeof listedKeySchema>;
export const keyListSchema = z.strictObject({ keys: z.array(listedKeySchema), next });
export type KeyListJson = Shape<typeof keyListSchema>;
export const keyDetailsSchema = keySchema.extend({ usage, budgets: z.array(rankedStandingSchema) });
export type KeyDetailsJson = Shape<typeof keyDetailsSchema>;

const liveKeys = count.meta({ description: "Number of live keys of the team." });
const listedTeamSchema = teamWithKeysSchema.extend({ live_keys: liveKeys, usage, fullest });
export type ListedTeamJson = Shape<typeof listedTeamSchema>;
export const teamListSchema = z.strictObject({ teams: z.array(listedTeamSchema), next });
export type TeamListJson = Shape<typeof teamListSchema>;
export const teamDetailsSchema = teamWithKeysSchema.extend({
  live_keys: liveKeys,
  usage,
  budgets: z.array(rankedStandingSchema).meta({ description: "Budgets of the team and of all requests." }),
});
export type TeamDetailsJson = Shape<typeof teamDetailsSchema>;

const listedModelSchema = z.strictObject({
  model: text.meta({ description: "Name as requests state it." }),
  group: textOrNull,
  priced: z.boolean(),
  priced_as: textOrNull.meta({ description: "Id of the model in the price files that the name finds; null if none." }),
  usage,
});
export type ListedModelJson = Shape<typeof listedModelSchema>;
export const modelDetailsSchema = listedModelSchema.extend({
  budgets: z.array(rankedStandingSchema).meta({
    description:
      "The 24 fullest windows of the budgets whose scope has a condition on the model, at most three of each budget.",
  }),
});
export type ModelDetailsJson = Shape<typeof modelDetailsSchema>;
export const modelListSchema = z.strictObject({ models: z.array(listedModelSchema), next });
export type ModelListJson = Shape<typeof modelListSchema>;

export const budgetListSchema = z.strictObject({ budgets: z.array(rankedStandingSchema), next });
export type BudgetListJson = Shape<typeof budgetListSchema>;

/** Budget with the sums of all its current windows. */
export const rankedBudgetSchema = z.strictObject({
  ...budgetFields,
  windows: count.meta({
    description: "Number of current windows: one for each subject if the scope has `each-…`, otherwise 1.",
  }),
  refusing: count.meta({ description: "Number of windows that refuse requests." }),
  used_percent: z.number().meta({ description: "Percentage of the fullest window, rounded down to 0.1." }),
  spent_usd: usd.meta({ description: "Sum of all current windows." }),
  held_usd: usd.meta({ description: "Sum of all current windows." }),
  resets_at: timeOrNull,
  fullest: z
    .array(rankedStandingSchema)
    .meta({ description: "The three fullest windows in which a request was made, refusing ones first." }),
});
export type RankedBudgetJson = Shape<typeof rankedBudgetSchema>;
export const rankedBudgetListSchema = z.strictObject({ budgets: z.array(rankedBudgetSchema), next });
export type RankedBudgetListJson = Shape<typeof rankedBudgetListSchema>;

export const budgetHistorySchema = z.strictObject({
  windows: z
    .array(z.strictObject({ starts_at: time, ends_at: timeOrNull, spent_usd: usd, requests: count }))
    .meta({ description: "At most 24 windows, newest first." }),
});
export type BudgetHistoryJson = Shape<typeof budgetHistorySchema>;
