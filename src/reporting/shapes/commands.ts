import { z } from "zod";
import { notRecomputed } from "../../core/what-if.ts";
import { differenceKinds, repairedKinds } from "../../ports/ledger.ts";
import { tokenClasses } from "../../core/usage.ts";
import { count, text, textOrNull, time, usd, usdOrNull, type Shape } from "./fields.ts";
import { dimension, figures, requestsAndCost, type DimensionsJson } from "./figures.ts";

/*
 * Answers of commands that no route gives, as `--json` prints them: `estimate`, `doctor`, `report --what-if`,
 * `prices diff` and `verify`.
 */

const day = z.iso.date();

const estimateItemSchema = z.strictObject({
  class: z.enum([...tokenClasses, "request", "minimum", "fee"]),
  tokens: count,
  usd_per_million: textOrNull,
  cost_usd: usd,
  list_cost_usd: usd,
  known: z.enum(["exact", "estimate", "bound"]).meta({
    description: "The number that will be billed, a count that may be inaccurate, or an upper bound.",
  }),
  why: textOrNull,
});

export const estimateSchema = z.strictObject({
  model: text,
  price_version: text,
  items: z.array(estimateItemSchema),
  cost_usd: usd,
  list_cost_usd: usd,
  minimum_applied: z.boolean(),
  exact: z.boolean().meta({ description: "True if every item is exact." }),
  hold_usd: usd,
  counted_hold_usd: usdOrNull.meta({
    description: "The tighter hold, which the proxy tries if the first hold does not fit; null if there is none.",
  }),
  held_for: z.strictObject({ output_tokens: count.nullable(), by: text }).nullable().meta({
    description:
      "Output tokens that `hold_usd` covers, and the field or bound that decided their number; null if the request would be refused.",
  }),
  held_prompt: z
    .strictObject({ tokens: count, by: z.enum(["bytes", "context"]) })
    .nullable()
    .meta({
      description:
        "Prompt tokens that `hold_usd` covers: by the prompt's bytes, or the model's whole context; null if the request cannot be priced.",
    }),
  counted_prompt: z
    .strictObject({ tokens: count, by: z.enum(["tokenizer", "words"]) })
    .nullable()
    .meta({
      description:
        "Prompt tokens that `counted_hold_usd` covers: counted by the model's tokenizer, or bounded by its words if the tokenizer is not published; null without that hold.",
    }),
  unbounded_fields: z
    .array(text)
    .meta({ description: "Fields whose cost has no upper bound. A hard budget refuses a request with such fields." }),
  notes: z.array(text),
});
export type EstimateJson = Shape<typeof estimateSchema>;

const checkSchema = z.strictObject({
  name: text.meta({ description: "Name of the check, in a word or two." }),
  status: z.enum(["ok", "warning", "failed", "skipped"]).meta({
    description: "`skipped`: the check was not possible, for example because another check failed.",
  }),
  message: text.meta({ description: "Finding of the check, in one sentence without secrets." }),
  advice: textOrNull.meta({ description: "Advice on the next step; null if none is needed." }),
});
/** Result of one check of `doctor`. */
export type Check = Shape<typeof checkSchema>;

export const doctorSchema = z.strictObject({ ok: z.boolean(), checks: z.array(checkSchema) });
export type DoctorJson = Shape<typeof doctorSchema>;

const presenceSchema = z.strictObject({ model: text, group: textOrNull, from: day.nullable() });
/** Model that only one catalogue has, with the day of its first price; null if it never has a price. */
export type PresenceJson = Shape<typeof presenceSchema>;

const changeSchema = z.strictObject({
  model: text,
  field: text.meta({
    description:
      "Name of the field as in a price file: `gateway.input`, `official.output`, `minimum.usd`, `fraction`, `context_tokens`.",
  }),
  from_prompt_tokens: count.nullable().meta({
    description: "Prompt size at which a rate begins to apply, in tokens; null for other fields.",
  }),
  from: day.nullable().meta({
    description: "Half-open span of ISO days, with `until`. A null bound means no limit on that side.",
  }),
  until: day.nullable(),
  before: textOrNull.meta({
    description: "Value in the first catalogue; null if that catalogue has none. Rates are in USD per million tokens.",
  }),
  after: textOrNull,
});
/** Difference in one field of a model between two catalogues, over a span of days. */
export type ChangeJson = Shape<typeof changeSchema>;

const leftovers = {
  not_recomputed: requestsAndCost
    .extend({ by_reason: z.partialRecord(z.enum(notRecomputed), requestsAndCost) })
    .meta({ description: "Charges that keep their stored amounts, by reason." }),
  newly_priced: requestsAndCost.meta({
    description:
      "Charges that had no price, but have one under the other prices. Their cost is included only in `what_if`.",
  }),
};
const leftoversSchema = z.strictObject(leftovers);
/**
 * Charges that a report under other prices lists separately: charges it cannot recompute, and charges that had no price
 * before.
 */
export type LeftoversJson = Shape<typeof leftoversSchema>;

const whatIfFigures = {
  ...figures,
  what_if: z.strictObject({
    cost_usd: usd.meta({
      description: "Recomputed cost. It includes the stored amounts of charges that cannot be recomputed.",
    }),
    list_cost_usd: usd,
    difference_usd: usd.meta({
      description: "Difference from the charged cost; above zero if the other prices are higher.",
    }),
    not_recomputed: requestsAndCost,
  }),
};
const whatIfTotal = z.strictObject(whatIfFigures);
type WhatIfRowJson = DimensionsJson & Shape<typeof whatIfTotal>;
const whatIfRow = z.object(whatIfFigures).catchall(textOrNull) as unknown as z.ZodType<WhatIfRowJson>;
export const whatIfSchema = z.strictObject({
  since: time,
  until: time,
  by: z.array(dimension),
  prices: text.meta({ description: "Digest of the other prices." }),
  rows: z.array(whatIfRow).meta({ description: "Each row has a field for each dimension of `by`." }),
  total: whatIfTotal,
  ...leftovers,
});
/** Report whose rows also state the cost of the same traffic under other prices. */
export type WhatIfJson = Shape<typeof whatIfSchema>;

const trafficFigures = {
  requests: count,
  cost_usd: usd.meta({ description: "Cost as it was charged." }),
  before_usd: usd,
  after_usd: usd,
  difference_usd: usd,
};
const trafficDiffSchema = z.strictObject({
  since: time,
  until: time,
  rows: z.array(z.strictObject({ model: text, ...trafficFigures })),
  total: z.strictObject(trafficFigures),
  left_over: z.strictObject({ before: leftoversSchema, after: leftoversSchema }),
});
/** Cost of the same traffic under two catalogues, by the model named in the request. */
export type TrafficDiffJson = Shape<typeof trafficDiffSchema>;

export const pricesDiffSchema = z.strictObject({
  before: text.meta({ description: "Digest of the first catalogue. It equals `after` if nothing differs." }),
  after: text,
  added: z.array(presenceSchema),
  removed: z.array(presenceSchema),
  changes: z.array(changeSchema),
  traffic: trafficDiffSchema.nullable().meta({ description: "Null if there is no ledger." }),
});
export type PricesDiffJson = Shape<typeof pricesDiffSchema>;

const oldHoldSchema = z.strictObject({
  request_id: text,
  kind: text,
  time,
  key: textOrNull,
  hold_usd: usdOrNull,
  owner: z.enum(["gone", "running"]),
});
/** Hold that has been pending for a long time. It is not a difference, because every sum includes it. */
export type OldHoldJson = Shape<typeof oldHoldSchema>;

const verification = {
  ok: z.boolean(),
  charges: count,
  differences: z.array(z.strictObject({ kind: z.enum(differenceKinds), id: text, expected: text, found: text })),
  unlisted: count.optional().meta({
    description: "Number of differences beyond the listed ones; missing if all are listed.",
  }),
};
const verificationSchema = z.strictObject(verification);
export type VerificationJson = Shape<typeof verificationSchema>;

export const verifySchema = verificationSchema.extend({
  old_holds: z.array(oldHoldSchema).optional(),
  repairs: z.array(z.strictObject({ kind: z.enum(repairedKinds), id: text, from: text, to: text })).optional(),
});
export type VerifyJson = Shape<typeof verifySchema>;
