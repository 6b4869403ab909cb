import type { Catalogue, CatalogueModel } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import { type HeaderList, notForwarded, refuse, type Handler } from "../ports/exchange.ts";
import { mayUseModel, type Authenticate, type Authenticated, withKey } from "./authenticate.ts";

const json: HeaderList = [["content-type", "application/json"]];

interface ModelDeps {
  readonly authenticate: Authenticate;
  readonly catalogue: () => Catalogue;
  readonly clock: Clock;
}

/** Handles `GET /v1/models`. Lists the catalogue's models that the key may use, in OpenAI's format. */
export function listModels({ authenticate, catalogue, clock }: ModelDeps): Handler {
  return withKey(authenticate, "/v1/models", async (exchange, who) => {
    const models = catalogue()
      .list(clock.now())
      .filter((model) => isVisible(who, model));
    exchange.answer(200, json, JSON.stringify({ object: "list", data: models.map(modelObject) }));
    return notForwarded;
  });
}

/** Handles `GET /v1/models/{id}`. Finds the model by id or alias. */
export function showModel({ authenticate, catalogue, clock }: ModelDeps): Handler {
  return withKey(authenticate, "/v1/models/:id", async (exchange, who) => {
    const name = decodeURIComponent(exchange.path.slice("/v1/models/".length));
    const model = catalogue().find(name, clock.now());
    if (model === undefined || !isListed(model, catalogue().list(clock.now())) || !isVisible(who, model, name)) {
      const message = `The model '${name}' does not exist here; GET /v1/models lists those that do.`;
      return refuse(exchange, { code: "not_found", message });
    }
    exchange.answer(200, json, JSON.stringify(modelObject(model)));
    return notForwarded;
  });
}

/**
 * Returns true if a price file names the model. The default price applies to any name, so a price alone does not mean
 * that the model exists.
 */
function isListed({ id }: CatalogueModel, models: readonly CatalogueModel[]): boolean {
  return models.some((model) => model.id === id);
}

function isVisible(who: Authenticated, model: CatalogueModel, name = model.id): boolean {
  return mayUseModel(who, name, model.id);
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
