import type { Catalogue, CatalogueModel } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import { type Exchange, type HeaderList, notForwarded, refuse, type Handler } from "../ports/exchange.ts";
import { invalid, type OrRefused } from "../core/refusals.ts";
import { mayUseModel, type Authenticate, withKey } from "./authenticate.ts";

/** Provider whose models Anthropic's clients can use. */
const anthropic = "anthropic";

const json: HeaderList = [["content-type", "application/json"]];

interface ModelDeps {
  readonly authenticate: Authenticate;
  readonly catalogue: () => Catalogue;
  readonly clock: Clock;
}

/**
 * Handles `GET /v1/models`. Lists the catalogue's models that the key may use, in OpenAI's format. Anthropic's clients
 * get pages of Anthropic's models, in Anthropic's format.
 */
export function listModels({ authenticate, catalogue, clock }: ModelDeps): Handler {
  return withKey(authenticate, "/v1/models", async (exchange, who) => {
    const prices = catalogue();
    const models = prices.list(clock.now()).filter(({ id }) => mayUseModel(who, { name: id, id }, prices));
    if (isAnthropicClient(exchange)) {
      const page = readPage(models.filter(isOfAnthropic).map(anthropicModel).toSorted(newestFirst), exchange.query);
      if (!page.ok) return refuse(exchange, page.refusal);
      exchange.answer(200, json, JSON.stringify(page.list));
      return notForwarded;
    }
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
    const isForAnthropic = isAnthropicClient(exchange);
    const isListed = model !== undefined && (!isForAnthropic || isOfAnthropic(model));
    if (!isListed || !mayUseModel(who, { name, id: model.id }, prices)) {
      const message = `The model '${name}' does not exist here; GET /v1/models lists those that do.`;
      return refuse(exchange, { code: "not_found", message });
    }
    exchange.answer(200, json, JSON.stringify(isForAnthropic ? anthropicModel(model) : modelObject(model)));
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

function isAnthropicClient(exchange: Exchange): boolean {
  return exchange.header("anthropic-version") !== undefined;
}

function isOfAnthropic({ provider }: CatalogueModel): boolean {
  return provider === anthropic;
}

interface AnthropicModel {
  readonly type: "model";
  readonly id: string;
  readonly display_name: string;
  readonly created_at: string;
}

/** Returns a model in Anthropic's format. An unknown day of its release is 1970, as in Anthropic's interface. */
function anthropicModel({ id, price }: CatalogueModel): AnthropicModel {
  return {
    type: "model",
    id,
    display_name: id,
    created_at: `${price?.version.from ?? "1970-01-01"}T00:00:00Z`,
  };
}

function newestFirst(one: AnthropicModel, other: AnthropicModel): number {
  return other.created_at.localeCompare(one.created_at) || one.id.localeCompare(other.id);
}

/** Numbers of models on a page of Anthropic's interface. */
const pageSize = { unstated: 20, most: 1000 } as const;

/** Reads `limit`, `after_id` and `before_id`, and returns the page of `all` that they name. */
function readPage(all: readonly AnthropicModel[], query: string): OrRefused<{ readonly list: object }> {
  const stated = new URLSearchParams(query);
  const limit = stated.get("limit") ?? String(pageSize.unstated);
  const size = /^\d{1,4}$/.test(limit) ? Number(limit) : 0;
  if (size < 1 || size > pageSize.most)
    return invalid("limit", `limit must be a whole number from 1 to ${pageSize.most}; it was '${limit}'`);
  const [after, before] = [stated.get("after_id"), stated.get("before_id")];
  if (after !== null && before !== null) return invalid("before_id", "send after_id or before_id, not both");
  const cursor = after ?? before;
  const at = cursor === null ? -1 : all.findIndex(({ id }) => id === cursor);
  const name = after === null ? "before_id" : "after_id";
  if (cursor !== null && at === -1) return invalid(name, `${name} must be a model of this list; it was '${cursor}'`);
  const rest = before === null ? all.slice(at + 1) : all.slice(0, at);
  const data = before === null ? rest.slice(0, size) : rest.slice(-size);
  const list = {
    data,
    has_more: data.length < rest.length,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
  };
  return { ok: true, list };
}
