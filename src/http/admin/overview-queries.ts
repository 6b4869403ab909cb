import { z } from "zod";
import { spendDimensions } from "../../ports/spend.ts";
import { spanNames } from "../../reporting/shapes/figures.ts";
import { limitOf } from "./inputs.ts";

/* Queries that the admin API has in common with what a key is told of itself. */

export const overviewQuery = z.strictObject({
  span: z
    .enum(spanNames, `must be one of ${spanNames.join(", ")}`)
    .default("7d")
    .meta({ description: "What is drawn over time." }),
  by: z
    .enum(spendDimensions, `must be one of ${spendDimensions.join(", ")}`)
    .default("model")
    .meta({ description: "What it is split by." }),
});

export const liveQuery = z.strictObject({
  key: z.string().optional().meta({ description: "A key's name or id." }),
  team: z.string().optional(),
  model: z.string().optional().meta({ description: "The model that was asked for." }),
  state: z
    .enum(["pending", "posted", "voided"], "must be pending, posted or voided")
    .optional()
    .meta({ description: "Heeded without `after` only: what ends changes its state." }),
  limit: limitOf(50),
  after: z.string().max(100).optional().meta({ description: "The `cursor` of an earlier answer." }),
});
