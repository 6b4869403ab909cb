import { z } from "zod";
import { tokenClasses, units } from "../../core/usage.ts";
import { count, eachOf, text, textOrNull, timeOrNull, usd, type Shape } from "./fields.ts";

const rates = eachOf(tokenClasses, text.regex(/^\d+(\.\d+)?$/));
export type RatesJson = Shape<typeof rates>;
const tiers = z.array(
  z.strictObject({ from_prompt_tokens: count, gateway_usd_per_million: rates, official_usd_per_million: rates }),
);
const priceSchema = z.strictObject({
  id: text,
  from: text,
  until: textOrNull,
  source: text,
  fraction: textOrNull,
  tier_mode: text,
  tiers,
  per_request_usd: z.strictObject({ gateway: usd, official: usd }).nullable(),
  minimum: z.strictObject({ tokens: count, usd }),
  service_tiers: z.array(z.strictObject({ service_tier: text, tiers })).meta({
    description:
      "Prices in other service tiers, and with factors (`fast`, `batch+us`). The standard tier is in the `tiers` of the price itself.",
  }),
  factors: z.array(z.strictObject({ field: text, value: text, factors: text })).meta({
    description: "Factors of the rates by the value of a request's field: one for all classes, or a list by class.",
  }),
  fees: z.array(z.strictObject({ tool: text, gateway_usd: usd, official_usd: usd, input_tokens: count })).meta({
    description:
      "Fees of one call of a hosted tool, in addition to its tokens; `input_tokens` is the most that it adds to the prompt.",
  }),
});
export type PriceJson = Shape<typeof priceSchema>;

export const pricedModelSchema = z.strictObject({
  id: text,
  provider: textOrNull,
  group: textOrNull,
  unit: z.enum(units).meta({ description: "Unit of the rates; a rate is the price of one million units." }),
  price: priceSchema.nullable(),
});
export type PricedModelJson = Shape<typeof pricedModelSchema>;
export const priceListSchema = z.strictObject({ digest: text, models: z.array(pricedModelSchema) });
export type PriceListJson = Shape<typeof priceListSchema>;

export const priceHistorySchema = z.strictObject({
  id: text,
  provider: textOrNull,
  aliases: z.array(text),
  entries: z.array(
    z.strictObject({
      starts_at: timeOrNull,
      in_force: z.boolean(),
      group: textOrNull,
      price: priceSchema.nullable(),
    }),
  ),
});
export type PriceHistoryJson = Shape<typeof priceHistorySchema>;
