import { z } from "zod";
import { sources } from "../../core/charge.ts";
import { doubts, tokenClasses } from "../../core/usage.ts";
import { taskFailures, taskStatuses } from "../../core/tasks.ts";
import { count, next, text, textOrNull, time, timeOrNull, tokens, usd, usdOrNull, type Shape } from "./fields.ts";

const textAs = (description: string) => text.meta({ description });
const textOrNullAs = (description: string) => textOrNull.meta({ description });
const usdOrNullAs = (description: string) => usdOrNull.meta({ description });

export const chargeSchema = z.strictObject({
  request_id: textAs("The `x-farebox-request-id` that the client got."),
  gateway_request_id: textOrNullAs("The gateway's own id of the request, where its answer states one."),
  time: time.meta({ description: "Time of admission." }),
  key: textOrNullAs("The key's name; null for a caller without one."),
  team: textOrNullAs("The team that the key was in at that time."),
  route: textAs("The pattern of its path."),
  model: textAs("The requested model."),
  served_model: textOrNullAs("The model that the answer names."),
  group: textOrNullAs("The group of the price file that priced it; `default` for a ceiling price."),
  state: z
    .enum(["pending", "posted", "voided"])
    .meta({ description: "Pending until it is settled, with an amount (posted) or without one (voided)." }),
  source: z.enum(sources).nullable().meta({ description: "Source of the amount; null until it is posted." }),
  stream: z.boolean().meta({ description: "True for a stream." }),
  status: z.int().nullable().meta({ description: "The status that the client got." }),
  tokens: tokens.meta({ description: "Tokens that were charged for, in disjoint classes." }),
  cost_usd: usdOrNullAs("Cost at the gateway; null without a price, and until it is posted."),
  list_cost_usd: usdOrNullAs("The same tokens at the official price."),
  minimum_applied: z.boolean().meta({ description: "True if a minimum charge raised the cost." }),
  hold_usd: usdOrNullAs("Hold of the request before it was forwarded."),
  held_for: z
    .strictObject({ output_tokens: count.nullable(), by: text })
    .nullable()
    .meta({ description: "Output tokens that the hold covers, and the field or bound that decided them." }),
  output_cap: count.nullable().meta({ description: "The maximum that an output cap wrote into the request." }),
  fitted: count.nullable().meta({ description: "The maximum that was written into the request to fit its budget." }),
  overage_usd: usd.meta({ description: "Posted amount above the hold." }),
  price_version: textOrNullAs("Price of its cost."),
  duration_ms: z.number().nullable().meta({ description: "From arrival to the end of the answer." }),
  first_token_ms: z.number().nullable().meta({ description: "From arrival to the first byte of the answer's body." }),
  tags: z.record(z.string(), z.string()).meta({ description: "The tags of its `x-farebox-tag` header." }),
  correction: z
    .strictObject({ of: text, by: textOrNull, at: time, why: textOrNull })
    .nullable()
    .meta({ description: "For a correction: the corrected charge, the author, the time and the reason." }),
  doubts: z
    .array(z.enum(doubts))
    .meta({ description: "Why the amount may differ from the gateway's bill; [] for no reason." }),
  cost_in_doubt_usd: usd.meta({ description: "All of the cost where there are doubts, else 0." }),
  service_tier: textOrNullAs("The service tier that answered; null for the standard one."),
  tool_calls: z.record(z.string(), count).meta({ description: "Calls of hosted tools by their type." }),
  delivered: z
    .strictObject({ input: count, output: count })
    .nullable()
    .meta({ description: "Tokens that were counted as they passed; null where none were." }),
  units: textOrNullAs("Units of the gateway that a task used, as a decimal; null for other charges and while it runs."),
  unit_type: textOrNullAs(
    'The type of these units, used_credits for the conversation family; "" where none is stated.',
  ),
  served_price_version: textOrNullAs("Price of the model that answered, if it is not the requested one."),
});
export type ChargeJson = Shape<typeof chargeSchema>;
export const chargeListSchema = z.strictObject({ charges: z.array(chargeSchema), next });
export type ChargeListJson = Shape<typeof chargeListSchema>;

const priceUsed = z
  .strictObject({
    model: text,
    from: text,
    source: text,
    fraction: textOrNull,
    minimum: z.strictObject({ tokens: count, usd }),
  })
  .nullable();
const perMillion = text
  .regex(/^\d+(\.\d+)?$/)
  .nullable()
  .meta({ description: "USD per 1M tokens; null where no tokens are priced." });
export const chargeDetailsSchema = chargeSchema.extend({
  corrections: z.array(chargeSchema),
  total_usd: usdOrNull,
  ended_at: timeOrNull,
  formula: z.enum(["tokens", "per_request", "task", "assumed", "adjustment", "unpriced"]).nullable(),
  reason: textOrNull,
  clamped: z.boolean(),
  retry: count,
  items: z
    .array(
      z.strictObject({
        class: z.enum([...tokenClasses, "request", "minimum", "fee"]),
        tool: textOrNull,
        tokens: count,
        usd_per_million: perMillion,
        cost_usd: usd,
        list_usd_per_million: perMillion,
        list_cost_usd: usd,
        tier_from: count,
      }),
    )
    .meta({ description: "The lines that add up to the cost; none where it is not made of tokens or a request." }),
  price: priceUsed,
  served_price: priceUsed.meta({
    description: "Price of the model that answered, if it is another one; the cost is the higher of both.",
  }),
  known: text.meta({ description: "Source of the amount, and reasons why it may differ from the bill." }),
});
export type ChargeDetailsJson = Shape<typeof chargeDetailsSchema>;

export const correctionMadeSchema = z.strictObject({
  repeated: z.boolean().meta({ description: "True if the same correction existed, so that nothing was changed." }),
  charge: chargeSchema,
  correction: chargeSchema,
});

export const liveSchema = z.strictObject({
  charges: z.array(chargeSchema),
  cursor: text.meta({ description: "For `after`." }),
});
export type LiveJson = Shape<typeof liveSchema>;

/** A task as an administrator sees it. It contains neither the request nor the result. */
export const taskSchema = z.strictObject({
  task_id: text,
  request_id: text.meta({ description: "The charge that pays for it." }),
  key: textOrNull,
  model: text,
  task_type: textOrNull,
  status: z.enum(taskStatuses),
  failure: z.enum(taskFailures).nullable(),
  created_at: time,
  started_at: timeOrNull,
  ended_at: timeOrNull,
  settled_at: timeOrNull,
  seen_at: time,
  next_look_at: timeOrNull,
  consumption: z.strictObject({ type: text, units: text, units_per_usd: textOrNull }).nullable(),
  quantity: textOrNull,
});
export type TaskJson = Shape<typeof taskSchema>;
export const taskListSchema = z.strictObject({ tasks: z.array(taskSchema), next });
