import type { Catalogue, CatalogueModel } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import { type HeaderList, notForwarded, refuse, type Handler } from "../ports/exchange.ts";
import { mayUseModel, type Authenticate, withKey } from "./authenticate.ts";

const json: HeaderList = [["content-type", "application/json"]];

interface ModelDeps {
  readonly authenticate: Authenticate;
  readonly catalogue: () => Catalogue;
  readonly clock: Clock;
}

/** Handles `GET /v1/models`. Lists the catalogue's models that the key may use, in OpenAI's format. */
export function listModels({ authenticate, catalogue, clock }: ModelDeps): Handler {
  return withKey(authenticate, "/v1/models", async (exchange, who) => {
    const prices = catalogue();
    const models = prices.list(clock.now()).filter(({ id }) => mayUseModel(who, { name: id, id }, prices));
    exchange.answer(200, json, JSON.stringify({ object: "list", data: models.map(modelObject) }));
    return notForwarded;
  });
}

/** Handles `GET /v1/models/{id}`. Finds the model by any of its names. */
export function showModel({ authenticate, catalogue, clock }: ModelDeps): Handler {
  return withKey(authenticate, "/v1/models/:id", async (exchange, who) => {
    const name = decodeURIComponent(exchange.path.slice("/v1/models/".length));
    const prices = catalogue();
    const model = prices.named(name, clock.now());
    if (model === undefined || !mayUseModel(who, { name, id: model.id }, prices)) {
      const message = `The model '${name}' does not exist here; GET /v1/models lists those that do.`;
      return refuse(exchange, { code: "not_found", message });
    }
    exchange.answer(200, json, JSON.stringify(modelObject(model)));
    return notForwarded;
  });
}

/**
 * Returns a model in OpenAI's format. `created` is the first day of its price, because the catalogue has no other date.
 */
function modelObject(model: CatalogueModel): object {
  const from = model.price?.version.from;
  return {
    id: model.id,
    object: "model",
    created: from === undefined ? 0 : Date.parse(`${from}T00:00:00Z`) / 1000,
    owned_by: model.provider,
  };
}
