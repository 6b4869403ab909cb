import { failure } from "../../../admin/result.ts";
import { pricedModel, priceHistoryJson, pricesJson } from "../../../reporting/prices.ts";
import { pricedModelSchema, priceHistorySchema, priceListSchema } from "../../../reporting/shapes/prices.ts";
import { found, routesFor, type Timed, type WithPrices } from "./route.ts";

const route = routesFor<Pick<Timed, "clock"> & WithPrices>();

export const priceRoutes = [
  route("GET /prices", {
    role: "viewer",
    summary: "Every model with its current price",
    answer: priceListSchema,
    handle: async ({ catalogue, clock }) => found(pricesJson(catalogue(), clock.now())),
  }),
  route("GET /prices/{model}", {
    role: "viewer",
    summary: "One model, by its id or an alias, with its current price",
    answer: pricedModelSchema,
    handle: async ({ catalogue, clock }, { params: [name = ""] }) => {
      const model = catalogue().find(name, clock.now());
      return model === undefined
        ? failure("not_found", `no price file names the model ${JSON.stringify(name)}`)
        : found(pricedModel(model));
    },
  }),
  route("GET /prices/{model}/history", {
    role: "viewer",
    summary: "Past, current and future prices of a model, newest first",
    answer: priceHistorySchema,
    handle: async ({ catalogue, clock }, { params: [name = ""] }) => {
      const prices = catalogue();
      const model = prices.find(name, clock.now());
      const history = model && prices.histories().find(({ id }) => id === model.id);
      return history === undefined
        ? failure("not_found", `no price file names the model ${JSON.stringify(name)}`)
        : found(priceHistoryJson(history, clock.now()));
    },
  }),
];
