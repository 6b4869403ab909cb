import { z } from "zod";
import { sources } from "../../core/charge.ts";
import { refusalCodes } from "../../core/refusals.ts";
import { doubts, tokenClasses } from "../../core/usage.ts";
import { taskFailures, taskStatuses } from "../../core/tasks.ts";
import { count, next, text, textOrNull, time, timeOrNull, tokens, usd, usdOrNull, type Shape } from "./fields.ts";

const textAs = (description: string) => text.meta({ description });
const textOrNullAs = (description: string) => textOrNull.meta({ description });
const usdOrNullAs = (description: string) => usdOrNull.meta({ description });

export const chargeSchema = z.strictObject({
  request_id: textAs("The `x-farebox-request-id` that the client received."),
  gateway_request_id: textOrNullAs("The gateway's own id of the request, if its answer states one."),
  time: time.meta({ description: "Time of admission." }),
  key: textOrNullAs("The key's name; null if the request had no key."),
  team: textOrNullAs("The key's team at that time."),
  route: textAs("The pattern of the request's path."),
  model: textAs("The requested model."),
  served_model: textOrNullAs("The model that the answer names."),
  group: textOrNullAs("The price group of the model; `default` for a ceiling price."),
  state: z.enum(["pending", "posted", "voided"]).meta({
    description: "Pending until the charge is settled, with an amount (posted) or without an amount (voided).",
  }),
  source: z.enum(sources).nullable().meta({ description: "Source of the amount; null until the charge is posted." }),
  stream: z.boolean().meta({ description: "True for a stream." }),
  status: z.int().nullable().meta({ description: "The status that the client received." }),
  tokens: tokens.meta({ description: "Charged tokens, in disjoint classes." }),
  cost_usd: usdOrNullAs("Cost at the gateway; null without a price, and until the charge is posted."),
  list_cost_usd: usdOrNullAs("Cost of the same tokens at the official price."),
  minimum_applied: z.boolean().meta({ description: "True if a minimum charge raised the cost." }),
  hold_usd: usdOrNullAs("Amount held before the request was forwarded."),
  held_for: z
    .strictObject({ output_tokens: count.nullable(), by: text })
    .nullable()
    .meta({ description: "Output tokens that the hold covers, and the field or bound that decided them." }),
  output_cap: count.nullable().meta({ description: "The maximum that an output cap wrote into the request." }),
  fitted: count.nullable().meta({ description: "The maximum that was written into the request to fit its budget." }),
  overage_usd: usd.meta({ description: "Posted amount above the hold." }),
  price_version: textOrNullAs("Id of the price from which the cost is computed."),
  duration_ms: z.number().nullable().meta({ description: "Time from arrival to the end of the answer." }),
  first_token_ms: z
    .number()
    .nullable()
    .meta({ description: "Time from arrival to the first byte of the answer's body." }),
  tags: z
    .record(z.string(), z.string())
    .meta({ description: "The tags of the request's `x-farebox-tag` header, its session and its key." }),
  user: textOrNullAs("The user that the request named or its key pins, as `FAREBOX_USERS` stores it; null for none."),
  labels: z.record(z.string(), z.string()).meta({ description: "The labels of the key at that time." }),
  correction: z
    .strictObject({ of: text, by: textOrNull, at: time, why: textOrNull })
    .nullable()
    .meta({ description: "For a correction: the corrected charge, the author, the time and the reason." }),
  doubts: z
    .array(z.enum(doubts))
    .meta({ description: "Reasons why the amount may differ from the gateway's bill; [] if there are none." }),
  cost_in_doubt_usd: usd.meta({ description: "The whole cost if there are doubts, otherwise 0." }),
  service_tier: textOrNullAs(
    "The service tier, speed and region that answered, such as `priority`, `fast` or `batch+us`; null for the standard ones.",
  ),
  tool_calls: z.record(z.string(), count).meta({ description: "Number of calls of each type of hosted tool." }),
  delivered: z.strictObject({ input: count, output: count }).nullable().meta({
    description: "Tokens of the request and of the delivered answer, counted by Farebox; null if it counted none.",
  }),
  units: textOrNullAs(
    "Units of the gateway that a task used, as a decimal; null for other charges and while the task runs.",
  ),
  unit_type: textOrNullAs(
    'Type of the `units`: used_credits for the conversation family, "" if the gateway states none.',
  ),
  served_price_version: textOrNullAs("Id of the price of the model that answered, if it is not the requested one."),
  runs: z.array(z.strictObject({ model: textOrNull, price_version: textOrNull, prompt_tokens: count, tokens })).meta({
    description:
      "Runs of the model with a tier or price of their own: the model and price, null for those of the request; the longest prompt, which decides the tier; and the tokens. [] if the tokens cost as much as those of one run.",
  }),
});
export type ChargeJson = Shape<typeof chargeSchema>;
const examinedTo = (row: "charge" | "refusal") =>
  timeOrNull.meta({
    description: `Time at which the search stopped; null if it covered the whole span or filled the page. Sorted by \`time\`, the next page continues there. In other orders, the list covers only ${row}s newer than this time.`,
  });
export const chargeListSchema = z.strictObject({
  charges: z.array(chargeSchema),
  next,
  examined_to: examinedTo("charge"),
});
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
  .meta({ description: "USD per 1M tokens; null if the item is not priced by tokens." });
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
        model: textOrNull.meta({ description: "Model whose price the item has, if it is not that of the request." }),
        tokens: count,
        usd_per_million: perMillion,
        cost_usd: usd,
        list_usd_per_million: perMillion,
        list_cost_usd: usd,
        tier_from: count,
      }),
    )
    .meta({
      description:
        "The lines that add up to the cost; empty if the cost does not follow from tokens or a price per request.",
    }),
  price: priceUsed,
  served_price: priceUsed.meta({
    description: "Price of the model that answered, if it is not the requested one; the higher cost is charged.",
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
  cursor: text.meta({ description: "Value of `after` for the next request." }),
});
export type LiveJson = Shape<typeof liveSchema>;

/** Task as an administrator sees it. It contains neither the request nor the result. */
export const taskSchema = z.strictObject({
  task_id: text,
  request_id: text.meta({ description: "The id of the task's charge." }),
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

/** Refusals of one minute that differ only in their time. */
const refusalSchema = z.strictObject({
  first_at: time,
  last_at: time,
  count: count.meta({ description: "Number of equal refusals in this minute." }),
  key: textOrNullAs("The key's name; null if no known key sent the request."),
  team: textOrNullAs("The key's team at that time."),
  route: textAs("The pattern of the request's path."),
  model: textOrNullAs(
    "The requested model; `other` if no price file names it; null if Farebox refused the request before it read the model.",
  ),
  code: z.enum(refusalCodes).meta({ description: "The error code that the client received." }),
  scope: textOrNullAs("The budget or limit that refused the request."),
  period: textOrNullAs("The period of the budget."),
  subject: textOrNullAs("The subject of the window that refused the request, such as `user=u_42`."),
  needed_usd: usdOrNullAs("The largest amount that one of the requests needed."),
});
export type RefusalJson = Shape<typeof refusalSchema>;
/** Refusals with the same key, code and window of a budget. */
const refusalCauseSchema = refusalSchema
  .pick({ key: true, code: true, scope: true, period: true, subject: true, needed_usd: true, last_at: true })
  .extend({
    model: textOrNullAs("The requested model if the key may not use it; otherwise null."),
    count: count.meta({ description: "Number of refused requests." }),
  });
export type RefusalCauseJson = Shape<typeof refusalCauseSchema>;
export const refusalCausesSchema = z.strictObject({
  causes: z.array(refusalCauseSchema),
  total: count.meta({ description: "Number of all causes; `causes` lists only the latest." }),
  examined_to: timeOrNull.meta({
    description: "Null if every refusal of the span was counted. Otherwise only refusals since this time were counted.",
  }),
});
export type RefusalCausesJson = Shape<typeof refusalCausesSchema>;
export const refusalListSchema = z.strictObject({
  refusals: z.array(refusalSchema),
  next,
  examined_to: examinedTo("refusal"),
});
export type RefusalListJson = Shape<typeof refusalListSchema>;
