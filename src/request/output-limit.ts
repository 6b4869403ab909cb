import type { HoldBasis } from "../core/bounds.ts";
import type { Refusal } from "../core/refusals.ts";
import { invalid } from "../wire/model-request.ts";
import { withOutputMaximum, type OutputMaximum } from "../wire/endpoint.ts";
import type { Pricing, Quote } from "./price.ts";

/** Maximum that Farebox wrote into a request. It applies to each choice. */
export interface WrittenMaximum {
  readonly field: string;
  readonly tokens: number;
  readonly why: "output_cap" | "fitted";
}

/** Request as it is sent. Its quote is for the bytes that are sent. */
export interface Sending {
  readonly quote: Quote;
  readonly body: Buffer;
  /** Maximum that Farebox wrote; null if the client's own bytes are sent. */
  readonly written: WrittenMaximum | null;
}

export type Limited =
  | { readonly ok: true; readonly sending: Sending }
  | { readonly ok: false; readonly refusal: Refusal };

/** Inputs for a limit on a request. */
export interface LimitParams {
  readonly maximum: OutputMaximum;
  /** The request as the client sent it. */
  readonly given: Sending;
  /** Prices a changed body. */
  readonly price: (body: Buffer) => Pricing;
}

/** Writes the output cap into a request that states no maximum or a larger one. */
export function underCap(params: LimitParams, cap: number): Limited {
  const { maximum, given } = params;
  const field = maximumField(given.quote, maximum);
  if (field === null) return { ok: false, refusal: fieldUnknown(given.quote, maximum) };
  const most = Math.min(...given.quote.models.flatMap(({ model }) => model?.outputTokensMax ?? []));
  const unstated = Math.min(most, maximum.absent ?? Infinity);
  const body = withOutputMaximum(given.body, maximum, { field, most: cap, unstated });
  if (body === given.body) return { ok: true, sending: given };
  const isStated = given.quote.request.maximumField !== undefined;
  const tokens = isStated ? cap : Math.min(cap, unstated);
  return written(params, body, { field: given.quote.request.maximumField ?? field, tokens, why: "output_cap" });
}

/**
 * Writes a maximum that fits the budget into a request whose client states none. `sending`: the request that did not fit.
 * Returns null if the field is not known, or if a cap already allows no more.
 */
export function fitted(params: LimitParams, sending: Sending, tokens: number): Sending | null {
  const { maximum, given } = params;
  const field = maximumField(given.quote, maximum);
  if (field === null || tokens >= (sending.written?.tokens ?? Infinity)) return null;
  const limited = rewritten(params, { field, tokens, why: "fitted" });
  return limited.ok ? limited.sending : null;
}

/** Returns true if a request may be fitted: its client states no maximum, and the endpoint has no default. */
export function mayBeFitted({ maximum, given }: LimitParams): boolean {
  return maximum.absent === null && given.quote.request.size.outputLimit === null;
}

/** Writes a given maximum into a request, such as that of an earlier try. */
export function rewritten(params: LimitParams, maximum: WrittenMaximum): Limited {
  const { tokens: most, field } = maximum;
  const body = withOutputMaximum(params.given.body, params.maximum, { field, most, unstated: most });
  return written(params, body, maximum);
}

function written(params: LimitParams, body: Buffer, maximum: WrittenMaximum): Limited {
  const pricing = params.price(body);
  return pricing.ok ? { ok: true, sending: { quote: pricing.quote, body, written: maximum } } : pricing;
}

/** Returns the field that limits the output of every model that may answer. Null if a field is not known or they differ. */
function maximumField({ models }: Quote, { api }: OutputMaximum): string | null {
  const fields = new Set(models.map(({ model }) => model?.maxOutputField[api]));
  const [field] = fields;
  return fields.size === 1 ? (field ?? null) : null;
}

function fieldUnknown({ models, request }: Quote, { api }: OutputMaximum): Refusal {
  const unknown = models.find(({ model }) => model?.maxOutputField[api] === undefined);
  const why =
    unknown === undefined
      ? `the models that ${request.model} is asked with limit it by different fields`
      : `no price file names the field that limits it (max_output_field of ${unknown.name})`;
  return invalid("model", `an output cap applies to this key, and ${why}; ask for another model`).refusal;
}

/** Returns the refusal for an unknown path. Farebox knows no field there for the output cap. */
export function notCapped(model: string): Refusal {
  return invalid(
    "model",
    `an output cap applies to this key, and this path has no known field that limits the output of ${model}; use a documented path`,
  ).refusal;
}

/** Returns the output that a hold covers, and the reason for that number. */
export function basisOf({ quote, written: maximum }: Sending, { absent }: OutputMaximum): HoldBasis {
  const { outputTokens, request } = quote;
  return {
    by: decider(quote, maximum, request.maximumField === undefined ? absent : null),
    outputTokens,
    outputCap: maximum?.why === "output_cap" ? maximum.tokens : null,
    fitted: maximum?.why === "fitted" ? maximum.tokens : null,
  };
}

function decider(
  { request, outputTokens, models }: Quote,
  maximum: WrittenMaximum | null,
  byDefault: number | null,
): string {
  const { outputLimit, unboundedFields } = request.size;
  const [hidden] = unboundedFields;
  if (outputTokens === null) return "request_price";
  // The name of an unknown field is text of the client, so it is not stored.
  if (hidden !== undefined) return request.fields.unknown.includes(hidden) ? "unknown_field" : hidden;
  const most = Math.min(...models.flatMap(({ model }) => model?.outputTokensMax ?? []));
  if (outputLimit === null || outputLimit > most) return "model";
  if (byDefault !== null) return "default";
  return maximum?.why ?? request.maximumField ?? "model";
}
