import { z } from "zod";
import { failure } from "../../../admin/result.ts";
import type { Catalogue } from "../../../ports/catalogue.ts";
import { type ListedModel, modelSorts } from "../../../ports/lists.ts";
import type { Store } from "../../../ports/stores.ts";
import { modelsCsv } from "../../../reporting/list-csv.ts";
import { keyNamesOf } from "../../../reporting/names.ts";
import { type ListedModelJson, modelDetailsSchema, modelListSchema } from "../../../reporting/shapes/lists.ts";
import { keysIn, rankedStanding, usageJson } from "../../../reporting/standing.ts";
import { listFields } from "./fields.ts";
import { found, routesFor, type Timed, type WithPrices, wrongCursor } from "./route.ts";

const modelList = listFields(modelSorts, ["name"]);

const route = routesFor<Pick<Store, "lists" | "keys"> & Pick<Timed, "clock"> & WithPrices>();

export const modelRoutes = [
  route("GET /models", {
    role: "viewer",
    summary: "Models that have a price or were requested in the last 90 days, searched, sorted and in pages",
    query: z.strictObject(modelList.fields),
    answer: modelListSchema,
    csv: modelsCsv,
    handle: async ({ lists, catalogue, clock }, { query }) => {
      const now = clock.now();
      const prices = catalogue();
      const page = await lists.listModels({ ...modelList.queryOf(query, now), priced: pricedModels(prices, now) });
      return page === null
        ? wrongCursor("models")
        : found({ models: page.rows.map((row) => listedModelJson(row, prices, now)), next: page.next });
    },
  }),
  route("GET /models/{model}", {
    role: "viewer",
    summary: "One model with its usage and the budgets on it",
    answer: modelDetailsSchema,
    handle: async ({ lists, catalogue, clock, keys }, { params: [name = ""] }) => {
      const now = clock.now();
      const prices = catalogue();
      // Requests may name a model by an alias, and each name has its own figures.
      const named = prices.named(name, now);
      const page = await lists.listModels({
        ...modelList.queryOf({ sort: "name", limit: 1 }, now),
        priced: named === undefined || named.price === null ? [] : [[name, named.group]],
        model: name,
      });
      const [row] = page?.rows ?? [];
      if (row === undefined)
        return failure(
          "not_found",
          `no price file and no request of the last 90 days names the model ${JSON.stringify(name)}`,
        );
      const windows = await lists.modelWindows([named?.id ?? name], now);
      const nameOf = await keyNamesOf(keys, keysIn(windows));
      return found({
        ...listedModelJson(row, prices, now),
        budgets: windows.map((window) => rankedStanding(window, nameOf)),
      });
    },
  }),
];

/** Returns the models that have a price in force, with their groups. */
function pricedModels(catalogue: Catalogue, now: number): readonly (readonly [string, string | null])[] {
  return catalogue.list(now).flatMap(({ id, group, price }) => (price === null ? [] : [[id, group] as const]));
}

/**
 * Returns a row of the list of models. `model` may be an alias, because a request may name one. An alias has the price
 * of its model.
 */
function listedModelJson(
  { model, group, isPriced, usage }: ListedModel,
  catalogue: Catalogue,
  now: number,
): ListedModelJson {
  const known = catalogue.named(model, now);
  return {
    model,
    group: group ?? known?.group ?? null,
    priced: isPriced || (known !== undefined && known.price !== null),
    priced_as: known?.id ?? null,
    usage: usageJson(usage),
  };
}
