import type { OrRefused, Refusal } from "../core/refusals.ts";
import { BodyBytes, type Exchange } from "../ports/exchange.ts";
import type { Endpoint } from "../wire/endpoint.ts";
import { withHeadersAndQuery } from "../wire/headers.ts";
import { isHostedTool, toolName, withoutTools } from "../wire/hosted-tools.ts";
import type { ModelRequest } from "../wire/model-request.ts";
import { conflictingRetry } from "./idempotency.ts";
import type { PricedRequest } from "./output-cap.ts";
import type { Pricing, Quote } from "./price.ts";

/** Largest number of hosted tools that Farebox takes out of a request. A retry must repeat all of them. */
const removedMax = 100;

/** Returns the hosted tools of a request that nothing bounds. Only requests for text can lose or keep such tools. */
function unboundedTools(
  { fields, maximum, hasToolPolicy }: Endpoint,
  { request, unboundedFields }: Quote,
): readonly string[] {
  if (maximum === undefined && hasToolPolicy !== true) return [];
  return unboundedFields.filter((field) => isHostedTool(fields, request.terms?.hostedTools ?? null, field));
}

/** Returns true if only hosted tools prevent a bound of a request's cost. */
export function lacksOnlyToolBounds(endpoint: Endpoint, quote: Quote): boolean {
  const { unboundedFields, models, request } = quote;
  return (
    unboundedFields.length > 0 &&
    request.isUnpriced !== true &&
    models.every(({ model }) => model?.price != null) &&
    unboundedTools(endpoint, quote).length === unboundedFields.length
  );
}

/** Returns the hosted tools to take out of a request that a hard budget refused; none if that does not help. */
export function toolsToRemove(endpoint: Endpoint, refusal: Refusal, quote: Quote): readonly string[] {
  if (refusal.code !== "cost_not_bounded") return [];
  const tools = unboundedTools(endpoint, quote);
  return tools.length > removedMax ? [] : tools;
}

/**
 * Takes hosted tools out of the request that the client sent, and prices the new bytes. Refuses a retry whose request
 * lacks one of the tools that an earlier try lost.
 */
export async function removeTools(
  { endpoint, exchange }: { readonly endpoint: Endpoint; readonly exchange: Exchange },
  given: PricedRequest,
  tools: readonly string[],
  price: (request: ModelRequest) => Promise<Pricing>,
): Promise<OrRefused<{ request: PricedRequest }>> {
  const hosted = given.quote.request.terms?.hostedTools ?? null;
  const isAsked = (tool: string) =>
    hosted?.fields.includes(tool) === true || given.quote.unboundedFields.includes(tool);
  if (!tools.every((tool) => isAsked(tool) && isHostedTool(endpoint.fields, hosted, tool)))
    return { ok: false, refusal: conflictingRetry };
  const without = withoutTools(given.body.whole, tools);
  if (!without.ok) return without;
  const read = endpoint.readRequest(without.body);
  if (!read.ok) return read;
  const pricing = await price(withHeadersAndQuery(read.request, endpoint, exchange.headers(), exchange.query));
  if (!pricing.ok) return pricing;
  const body = new BodyBytes([without.body]);
  return { ok: true, request: { quote: pricing.quote, body, injected: null, removedTools: tools } };
}

/** Returns the names of removed tools for the answer's header, each once. */
export function removedNames(tools: readonly string[]): string {
  return [...new Set(tools.map(toolName))].join(", ");
}
