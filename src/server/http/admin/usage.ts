import { z } from "zod";
import type { Store } from "../../../ports/stores.ts";
import { keyNames } from "../../../reporting/names.ts";
import { meantDimension, readDimensions, runReport } from "../../../reporting/report.ts";
import { reportSchema } from "../../../reporting/shapes/figures.ts";
import { instant, spanOf } from "./fields.ts";
import { found, routesFor, type Timed } from "./route.ts";

const dimensions = "key, team, model, group, day, hour and tag:NAME";

const usageQuery = z.strictObject({
  by: z
    .string()
    .refine((text) => readDimensions(text) !== undefined, {
      error: ({ input }) =>
        `must be a list of ${dimensions}, each at most once, separated by commas${meantDimension(input)}`,
    })
    .default("model")
    .meta({ description: `Dimensions of the rows: ${dimensions}, separated by commas.`, example: "key,model" }),
  since: instant.default("7d"),
  until: instant.default("0s"),
});

const route = routesFor<Pick<Store, "ledger" | "refusals" | "keys"> & Timed>();

export const usageRoutes = [
  route("GET /usage", {
    role: "viewer",
    summary: "Sums of charges by key, team, model, group, day, hour or tag",
    query: usageQuery,
    answer: reportSchema,
    handle: async (tools, { query }) => {
      const span = spanOf(query, tools);
      if (!span.ok) return span;
      const by = readDimensions(query.by) ?? [];
      const nameOf = by.includes("key") ? await keyNames(tools.keys) : (id: string) => id;
      return found(await runReport({ ...tools, nameOf }, { by, since: span.since, until: span.until }));
    },
  }),
];
