import { isDeepStrictEqual } from "node:util";
import { invalid, type OrRefused, type Refusal } from "../core/refusals.ts";
import { BodyBytes, type Exchange } from "../ports/exchange.ts";
import type { Charging } from "../ports/ledger.ts";
import type { HoldBasis } from "../core/bounds.ts";
import type { PicoUsd } from "../core/money.ts";
import { withOutputMaximum, type Endpoint, type OutputMaximum } from "../wire/endpoint.ts";
import { isOutputMaximum } from "../wire/output-names.ts";
import { withMember } from "../wire/json-edit.ts";
import { storedText } from "../wire/json.ts";
import { unnamedModel, type ModelRequest } from "../wire/model-request.ts";
import { withHeadersAndQuery } from "../wire/headers.ts";
import { outputCapOf, type Authenticated } from "./authenticate.ts";
import {
  idempotencyOf,
  injectedEarlier,
  conflictingRetry,
  secondTryWithoutUsage,
  type InjectedMaximum,
  type InjectedValues,
} from "./idempotency.ts";
import { outputMaxOfAll, type Pricer, type Pricing, type Quote } from "./price.ts";
import type { UsageRefusals } from "./usage-probe.ts";

/** Request in one of its versions, with the quote for exactly these bytes. */
export interface PricedRequest {
  readonly quote: Quote;
  readonly body: BodyBytes;
  /** Maximum that Farebox put into the body; null for the client's own bytes. */
  readonly injected: InjectedMaximum | null;
  /** Hosted tools that Farebox took out of the client's request, in the form of `HostedTools.fields`; absent for none. */
  readonly removedTools?: readonly string[];
}

/** Dependencies for the values that Farebox puts into a request. */
export interface OutputCapSteps {
  readonly pricer: Pick<Pricer, "quote">;
  readonly ledger: Charging;
  /** Output cap of all keys; null for none. */
  readonly outputCap: number | null;
  /**
   * Policy for a stream whose client does not ask for usage. `inject`: Farebox asks for it. `auto`: Farebox asks unless
   * the gateway has refused it. `pass`: Farebox does not ask.
   */
  readonly streamUsage: "auto" | "pass" | "inject";
  readonly usageRefusals: UsageRefusals;
}

export interface Capping {
  readonly ok: true;
  /** Request for which the first hold is tried. It respects the output cap. */
  readonly capped: PricedRequest;
  /** Inputs for putting a maximum into the request; null if the endpoint has no field that limits the output. */
  readonly params: CapParams | null;
  /** Headers to send to the gateway. */
  readonly headers: Readonly<Record<string, string>>;
  /** Digest of the idempotency key, the same for all retries; null if the request has no such key. */
  readonly idempotency: string | null;
  /** Values of an earlier try with the same idempotency key; null for the first try. */
  readonly earlier: { readonly usage: boolean } | null;
}

type CapResult = Capping | { readonly ok: false; readonly refusal: Refusal };

/** Where a request goes, and who sends it. */
interface CapTarget {
  readonly endpoint: Endpoint;
  readonly who: Authenticated;
  readonly headers: Readonly<Record<string, string>>;
  /** Takes hosted tools out of the request, as in an earlier try. */
  readonly remove: (tools: readonly string[]) => Promise<Changed>;
}

/** Puts the output cap into a request, or the values of an earlier try with the same idempotency key. */
export function capOutput(
  steps: OutputCapSteps,
  exchange: Exchange,
  target: CapTarget,
  given: PricedRequest,
): CapResult | Promise<CapResult> {
  const { endpoint, who, headers } = target;
  const { maximum } = endpoint;
  const cap = outputCapOf(who, steps.outputCap);
  if (maximum === undefined) {
    const refusal = cap !== null && endpoint.isUnknown === true ? uncappedOutput(given.quote) : undefined;
    if (refusal !== undefined) return { ok: false, refusal };
    const uncapped: Capping = { ok: true, capped: given, params: null, headers, idempotency: null, earlier: null };
    const digest = endpoint.hasToolPolicy === true ? idempotencyOf(endpoint.route, headers) : null;
    if (digest === null) return uncapped;
    return withEarlierValues(steps, exchange, target, { ...uncapped, idempotency: digest }, given, cap);
  }
  const { at } = given.quote;
  const price = (bytes: Buffer) => {
    const read = endpoint.readRequest(bytes);
    if (!read.ok) return read;
    return steps.pricer.quote(withHeadersAndQuery(read.request, endpoint, exchange.headers(), exchange.query), at);
  };
  const params: CapParams = { maximum, given, price };
  const changed: Changed = cap === null ? { ok: true, request: given } : underCap(params, cap);
  if (!changed.ok) return changed;
  const idempotency = idempotencyOf(endpoint.route, headers);
  const capping: Capping = { ok: true, capped: changed.request, params, headers, idempotency, earlier: null };
  if (idempotency === null) return capping;
  return withEarlierValues(steps, exchange, target, { ...capping, idempotency }, given, cap);
}

/** Puts the values of an earlier try with the same idempotency key into a request, if there was one. */
async function withEarlierValues(
  steps: OutputCapSteps,
  exchange: Exchange,
  target: CapTarget,
  capping: Capping & { readonly idempotency: string },
  given: PricedRequest,
  cap: number | null,
): Promise<CapResult> {
  const { endpoint, remove } = target;
  const { capped, params, idempotency } = capping;
  const earlier = await injectedEarlier(steps, idempotency, given.quote.at);
  if (!earlier.ok) return earlier;
  if (earlier.injected === null) return capping;
  const { usage, maximum, removedTools } = earlier.injected;
  const removed = given.removedTools ?? [];
  if (!isDeepStrictEqual(removed, removedTools)) {
    if (removed.length > 0) return { ok: false, refusal: conflictingRetry };
    const changed = await remove(removedTools);
    return changed.ok ? capOutput(steps, exchange, target, changed.request) : changed;
  }
  const secondTry = usage ? secondTryWithoutUsage(endpoint.route, capping.headers) : null;
  if (secondTry?.idempotency != null) {
    const { idempotency: ofSecondTry, headers } = secondTry;
    // If the gateway refused usage, Farebox sent the request again without asking for usage. Only this second try may
    // then be repeated.
    const second = await injectedEarlier(steps, ofSecondTry, given.quote.at);
    if (!second.ok) return second;
    if (second.injected !== null)
      return withEarlierValues(steps, exchange, target, { ...capping, headers, idempotency: ofSecondTry }, given, cap);
  }
  if (params === null) return { ...capping, earlier: { usage } };
  if (maximum === null ? capped.injected !== null : maximum.tokens > (cap ?? Infinity))
    return { ok: false, refusal: conflictingRetry };
  const changed: Changed = maximum === null ? { ok: true, request: given } : withMaximum(params, maximum);
  return changed.ok ? { ...capping, capped: changed.request, earlier: { usage } } : changed;
}

/** What is sent to the gateway for a request, in addition to the body that the hold covers. */
export interface SentRequest {
  readonly headers: Readonly<Record<string, string>>;
  /** Digest of the idempotency key, the same for all retries; null if the request has no such key. */
  readonly idempotency: string | null;
  /** All values that Farebox puts into the body. */
  readonly injected: InjectedValues;
}

/**
 * Decides whether Farebox limits the tool calls of a request and asks for its usage. `room`: amount that a hard budget
 * has left; null without one.
 */
export function sentRequest(
  { streamUsage, usageRefusals }: OutputCapSteps,
  { askForUsage, route }: Endpoint,
  { headers, idempotency, earlier }: Capping,
  held: PricedRequest,
  room: PicoUsd | null,
): SentRequest {
  const { request, toolCalls } = held.quote;
  const mayAsk = request.stream && !request.wantsStreamUsage && askForUsage !== undefined;
  const injected: InjectedValues = {
    maximum: held.injected,
    // Under a hard budget, the model must not make more calls than the hold covers.
    toolCalls: room === null ? null : toolCalls,
    usage:
      mayAsk &&
      (earlier?.usage ??
        (streamUsage === "auto" ? !usageRefusals.has(route, request.model) : streamUsage === "inject")),
    removedTools: held.removedTools ?? [],
  };
  return { headers, idempotency, injected };
}

/** Returns what is sent after the gateway refused the request for usage in `sent`. */
export function withoutUsage({ route }: Endpoint, sent: SentRequest): SentRequest {
  const { headers, idempotency } = secondTryWithoutUsage(route, sent.headers);
  return {
    headers,
    idempotency: sent.idempotency === null ? null : idempotency,
    injected: { ...sent.injected, usage: false },
  };
}

/** Returns the body to send: the one that the hold covers, with the other injected values; undefined for no body. */
export function sentBody(
  { askForUsage }: Endpoint,
  { body }: PricedRequest,
  { toolCalls, usage }: InjectedValues,
): BodyBytes | undefined {
  if (usage && askForUsage !== undefined) return new BodyBytes([askForUsage(body.whole)]);
  if (toolCalls !== null) return new BodyBytes([withMember(body.whole, "max_tool_calls", String(toolCalls))]);
  return body.length === 0 ? undefined : body;
}

type Changed = OrRefused<{ request: PricedRequest }>;

/** Inputs for putting a maximum into a request. */
interface CapParams {
  readonly maximum: OutputMaximum;
  /** The request as the client sent it. */
  readonly given: PricedRequest;
  /** Prices a changed body. */
  readonly price: (bytes: Buffer) => Pricing;
}

/** Puts the output cap into a request that states no maximum or a larger one. */
export function underCap(params: CapParams, cap: number): Changed {
  const { maximum, given } = params;
  const hidden = hiddenMaximum(given.quote.request);
  if (hidden !== undefined) return { ok: false, refusal: hidden };
  const field = maximumField(given.quote, maximum);
  if (field === null) return { ok: false, refusal: fieldUnknown(given.quote, maximum) };
  const thinking = thinkingAbove(given.quote.request, cap);
  if (thinking !== undefined) return { ok: false, refusal: thinking };
  const unstated = Math.min(outputMaxOfAll(given.quote), maximum.absent ?? Infinity);
  const stated = given.body.whole;
  const body = withOutputMaximum(stated, maximum, { field, most: cap, unstated });
  if (body === stated) return { ok: true, request: given };
  const isStated = given.quote.request.maximumField !== undefined;
  const tokens = isStated ? cap : Math.min(cap, unstated);
  return priced(params, body, { field: given.quote.request.maximumField ?? field, tokens, why: "output_cap" });
}

/**
 * Returns the refusal of thinking that the output cap does not leave room for; undefined if it does. The gateway would
 * refuse a maximum that is not above the thinking.
 */
function thinkingAbove({ thinkingTokens, size }: ModelRequest, cap: number): Refusal | undefined {
  if (thinkingTokens === undefined || thinkingTokens < cap || (size.outputMax ?? Infinity) <= cap) return undefined;
  const message = `an output cap of ${cap} tokens applies to this key, so 'thinking.budget_tokens' must be below ${cap}; it is ${thinkingTokens}`;
  return invalid("thinking.budget_tokens", message).refusal;
}

/** Returns the refusal of an output maximum in a field that Farebox does not know; undefined if there is none. */
function hiddenMaximum({ fields, unboundedFields }: ModelRequest): Refusal | undefined {
  const found = [...fields.unknown, ...unboundedFields].find((path) => path.split(/[. ]/).some(isOutputMaximum));
  if (found === undefined) return undefined;
  const message = `an output cap applies to this key, and the gateway may read '${found}' as another output maximum; leave it out`;
  return invalid(storedText(found), message).refusal;
}

/**
 * Puts a maximum that fits the budget into a request whose client states none, or one that may be lowered. Returns null
 * if the field is not known, if the output cap already allows no more than `tokens`, or if the changed request cannot be
 * priced.
 */
export function fittedRequest(params: CapParams, capped: PricedRequest, tokens: number): PricedRequest | null {
  const field = maximumField(params.given.quote, params.maximum);
  if (field === null || tokens >= (capped.injected?.tokens ?? Infinity)) return null;
  const changed = withMaximum(params, { field, tokens, why: "fitted" });
  return changed.ok ? changed.request : null;
}

/**
 * Returns true if a request may be fitted: the endpoint has no default, and its client states no maximum or must state
 * one.
 */
export function mayBeFitted({ maximum, given }: CapParams): boolean {
  const { outputMax } = given.quote.request.size;
  return maximum.absent === null && (outputMax === null || maximum.isRequired === true);
}

/** Puts a given maximum into a request, such as that of an earlier try. */
function withMaximum(params: CapParams, maximum: InjectedMaximum): Changed {
  const { tokens: most, field } = maximum;
  const body = withOutputMaximum(params.given.body.whole, params.maximum, { field, most, unstated: most });
  return priced(params, body, maximum);
}

/** Prices a body into which Farebox put a maximum. */
function priced(params: CapParams, bytes: Buffer, maximum: InjectedMaximum): Changed {
  const pricing = params.price(bytes);
  if (!pricing.ok) return pricing;
  const body = new BodyBytes([bytes]);
  return { ok: true, request: { ...params.given, quote: pricing.quote, body, injected: maximum } };
}

/**
 * Returns the field that limits the output of every model that may answer. Returns null if a field is unknown or the
 * fields differ.
 */
function maximumField({ models }: Quote, { api, fields: [only] }: OutputMaximum): string | null {
  if (api === null) return only ?? null;
  const fields = new Set(models.map(({ model }) => model?.maxOutputField[api]));
  const [field] = fields;
  return fields.size === 1 ? (field ?? null) : null;
}

function fieldUnknown({ models }: Quote, { api }: OutputMaximum): Refusal {
  const unknown = models.find(({ model }) => api !== null && model?.maxOutputField[api] === undefined);
  const why =
    unknown === undefined
      ? "the models that the request names limit their output by different fields"
      : `no price file names the field that limits the output of ${unknown.name} (max_output_field)`;
  return invalid("model", `an output cap applies to this key, and ${why}; use another model`).refusal;
}

/**
 * Returns the refusal of a request to an unknown path that may ask for output while an output cap applies; undefined
 * for one that does not. On such a path, Farebox knows no field for the cap.
 */
function uncappedOutput({ request, models }: Quote): Refusal | undefined {
  if (request.unread !== undefined) return notCapped(null, `${request.unread}, so it may ask for any output`);
  const named = models.find(({ name }) => name !== unnamedModel);
  if (named !== undefined) return modelNotCapped(named.name);
  return request.outputMember === undefined ? undefined : memberNotCapped(request.outputMember);
}

function notCapped(param: string | null, why: string): Refusal {
  return invalid(param, `an output cap applies to this key, and ${why}; use a documented path`).refusal;
}

export function modelNotCapped(model: string): Refusal {
  return notCapped("model", `this path has no known field that limits the output of ${model}`);
}

export function memberNotCapped(member: string): Refusal {
  return notCapped(member, `this path has no known field that limits the output that '${member}' asks for`);
}

/** Returns the output that a hold covers, and the reason for that number. */
export function basisOf({ quote, injected: maximum }: PricedRequest, { absent }: OutputMaximum): HoldBasis {
  const { outputTokens, request } = quote;
  return {
    by: limitedBy(quote, maximum, request.maximumField === undefined ? absent : null),
    outputTokens,
    outputCap: maximum?.why === "output_cap" ? maximum.tokens : null,
    fitted: maximum?.why === "fitted" ? maximum.tokens : null,
  };
}

function limitedBy(quote: Quote, maximum: InjectedMaximum | null, byDefault: number | null): string {
  const { request, outputTokens } = quote;
  const { outputMax, unboundedFields } = request.size;
  const [hidden] = unboundedFields;
  if (outputTokens === null) return "request_price";
  // The name of an unknown field is text of the client, so it is not stored.
  if (hidden !== undefined) return request.fields.unknown.includes(hidden) ? "unknown_field" : hidden;
  if (outputMax === null || outputMax > outputMaxOfAll(quote)) return "model";
  if (byDefault !== null) return "default";
  return maximum?.why ?? request.maximumField ?? "model";
}
