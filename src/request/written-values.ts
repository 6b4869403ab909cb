import { LRUCache } from "lru-cache";
import type { Refusal } from "../core/refusals.ts";
import type { Clock } from "../ports/clock.ts";
import type { Exchange } from "../ports/exchange.ts";
import type { Charging } from "../ports/ledger.ts";
import type { Endpoint } from "../wire/endpoint.ts";
import { unnamedModel } from "../wire/form.ts";
import { isObject, parseJson } from "../wire/json.ts";
import { withHeadersAndQuery } from "../wire/headers.ts";
import { outputCapOf, type Authenticated } from "./authenticate.ts";
import { headersWithoutUsage, idempotencyOf } from "./gateway-headers.ts";
import type { FittedRequest, Held } from "./hold.ts";
import {
  basisOf,
  fitted,
  notCapped,
  rewritten,
  underCap,
  type Limited,
  type LimitParams,
  type Sending,
  type WrittenMaximum,
} from "./output-limit.ts";
import type { Pricer, Quote } from "./price.ts";

/** Deps of what Farebox writes into a request. */
export interface WriteSteps {
  readonly pricer: Pick<Pricer, "quote">;
  readonly ledger: Charging;
  /** The output cap of all keys; null for none. */
  readonly outputCap: number | null;
  /** Policy for asking for stream usage where the client did not; `auto`: where the gateway does not refuse it. */
  readonly streamUsage: "auto" | "pass" | "inject";
  readonly usageRefusals: UsageRefusals;
}

export interface Limiting {
  readonly ok: true;
  /** The request as it is held for first. */
  readonly first: Sending;
  /** Null where the answer is no text that a field limits. */
  readonly params: LimitParams | null;
  /** Headers that the gateway gets. */
  readonly headers: Readonly<Record<string, string>>;
  /** Identifies its retries; null where it has no idempotency key. */
  readonly idempotency: string | null;
  /** Decisions of an earlier try; null for the first. */
  readonly earlier: { readonly usage: boolean } | null;
}

type LimitResult = Limiting | { readonly ok: false; readonly refusal: Refusal };

/** Writes the output cap into a request, or the values of an earlier try with the same idempotency key. */
export function limitOutput(
  steps: WriteSteps,
  exchange: Exchange,
  {
    endpoint,
    who,
    headers,
  }: { readonly endpoint: Endpoint; readonly who: Authenticated; readonly headers: Readonly<Record<string, string>> },
  given: Sending,
): LimitResult | Promise<LimitResult> {
  const { maximum } = endpoint;
  const cap = outputCapOf(who, steps.outputCap);
  if (maximum === null) {
    const { model } = given.quote.request;
    if (cap !== null && endpoint.isOpen === true && model !== unnamedModel)
      return { ok: false, refusal: notCapped(model) };
    return { ok: true, first: given, params: null, headers, idempotency: null, earlier: null };
  }
  const { at } = given.quote;
  const price = (bytes: Buffer) => {
    const read = endpoint.readRequest(bytes);
    if (!read.ok) return read;
    return steps.pricer.quote(withHeadersAndQuery(read.request, endpoint, exchange.headers(), exchange.query), at);
  };
  const params: LimitParams = { maximum, given, price };
  const capped: Limited = cap === null ? { ok: true, sending: given } : underCap(params, cap);
  if (!capped.ok) return capped;
  const first = capped.sending;
  const idempotency = idempotencyOf(endpoint.route, headers);
  const limiting: Limiting = { ok: true, first, params, headers, idempotency, earlier: null };
  return idempotency === null ? limiting : repeated(steps, endpoint, { ...limiting, params, idempotency }, cap);
}

/** Writes the values of an earlier try with the same idempotency key, if there was one. */
async function repeated(
  steps: WriteSteps,
  endpoint: Endpoint,
  limiting: Limiting & { readonly params: LimitParams; readonly idempotency: string },
  cap: number | null,
): Promise<LimitResult> {
  const { ledger } = steps;
  const { first, params, idempotency } = limiting;
  const { given } = params;
  const earlier = await ledger.writtenFor(idempotency, null, given.quote.at);
  if (!earlier.ok) return { ok: false, refusal: { code: "ledger_unavailable" } };
  if (earlier.written === null) return limiting;
  const usage = asksForUsage(earlier.written);
  const withoutUsage = usage ? withoutUsageOf(endpoint.route, limiting.headers) : null;
  if (withoutUsage?.idempotency != null) {
    const { idempotency: secondTry, headers } = withoutUsage;
    // The gateway had refused the usage, and was sent the request once more: only that one may be repeated.
    const second = await ledger.writtenFor(secondTry, null, given.quote.at);
    if (!second.ok) return { ok: false, refusal: { code: "ledger_unavailable" } };
    if (second.written !== null)
      return repeated(steps, endpoint, { ...limiting, headers, idempotency: secondTry }, cap);
  }
  const before = maximumIn(earlier.written);
  if (before === null ? first.written !== null : before.tokens > (cap ?? Infinity))
    return { ok: false, refusal: writtenOtherwise };
  const again: Limited = before === null ? { ok: true, sending: given } : rewritten(params, before);
  return again.ok ? { ...limiting, first: again.sending, earlier: { usage } } : again;
}

export function fittedRequest(params: LimitParams, sending: Sending, tokens: number): (Sending & FittedRequest) | null {
  const next = fitted(params, sending, tokens);
  return next && { ...next, basis: basisOf(next, params.maximum) };
}

/** Returns the values to write into a request in addition to a maximum. */
export function additionsTo(
  { streamUsage, usageRefusals }: WriteSteps,
  { askForUsage, route }: Endpoint,
  { request, toolCalls }: Quote,
  { held, earlier }: { readonly held: Held } & Pick<Limiting, "earlier">,
): Omit<WrittenValues, "maximum"> {
  const isAsked =
    earlier?.usage ??
    (streamUsage === "inject" || (streamUsage === "auto" && !usageRefusals.has(route, request.model)));
  return {
    // Under a hard budget no more calls may be made than are held for.
    toolCalls: held.room === null ? null : toolCalls,
    usage: isAsked && request.stream && !request.wantsStreamUsage && askForUsage !== null,
  };
}

/** Remembers written values for retries with the same idempotency key. Returns a refusal if another try has written others. */
export async function rememberWritten(
  { ledger }: WriteSteps,
  idempotency: string,
  values: WrittenValues,
  at: number,
): Promise<Refusal | null> {
  const text = writtenText(values);
  const result = await ledger.writtenFor(idempotency, text, at);
  if (!result.ok) return { code: "ledger_unavailable" };
  return result.written === text ? null : writtenOtherwise;
}

/** Returns the headers of the second try, without usage, and the digest that its retries share. */
export function withoutUsageOf(route: string, given: Readonly<Record<string, string>>) {
  const headers = headersWithoutUsage(given);
  return { headers, idempotency: idempotencyOf(route, headers) };
}

/** Values written into a request, as they are remembered under its idempotency key. */
export interface WrittenValues {
  readonly maximum: WrittenMaximum | null;
  readonly toolCalls: number | null;
  readonly usage: boolean;
}

function writtenText({ maximum, toolCalls, usage }: WrittenValues): string {
  return JSON.stringify({
    ...(maximum && { field: maximum.field, tokens: maximum.tokens, why: maximum.why }),
    ...(toolCalls !== null && { max_tool_calls: toolCalls }),
    ...(usage && { include_usage: true }),
  });
}

/** Reports whether stored values include usage. */
function asksForUsage(text: string): boolean {
  const values = parseJson(text);
  return isObject(values) && values["include_usage"] === true;
}

/** Returns the maximum in stored values. */
function maximumIn(text: string): WrittenMaximum | null {
  const values = parseJson(text);
  if (!isObject(values) || typeof values["tokens"] !== "number") return null;
  return {
    field: String(values["field"]),
    tokens: values["tokens"],
    why: values["why"] === "fitted" ? "fitted" : "output_cap",
  };
}

/** Refuses a retry that would be another request at the gateway. */
const writtenOtherwise: Refusal = {
  code: "conflict",
  message:
    "An earlier request with this idempotency key was sent with other limits than this one would be; send a new idempotency key.",
};

/** Time for which a model is not asked for stream usage after its gateway refused it, in milliseconds. */
const refusedMs = 3_600_000;
/** Far more models than anyone uses; the oldest is forgotten. */
const modelsMax = 1000;
/** Longer names are not remembered, so that names cannot fill the memory. */
const nameUnitsMax = 256;

/** Models whose gateway answers without usage alone: it refused a request for it, and took the same request without. */
interface UsageRefusals {
  has(route: string, model: string): boolean;
  add(route: string, model: string): void;
}

export function createUsageRefusals(clock: Clock): UsageRefusals {
  const refused = new LRUCache<string, true>({
    max: modelsMax,
    ttl: refusedMs,
    ttlResolution: 0,
    // lru-cache takes a time of 0 for none.
    perf: { now: () => clock.monotonic() + 1 },
  });
  return {
    has: (route, model) => refused.has(`${route} ${model}`),
    add(route, model) {
      if (model.length <= nameUnitsMax) refused.set(`${route} ${model}`, true);
    },
  };
}
