import { invalid, type OrRefused, type Refusal } from "../core/refusals.ts";
import { BodyBytes, type Exchange } from "../ports/exchange.ts";
import type { Charging } from "../ports/ledger.ts";
import type { HoldBasis } from "../core/bounds.ts";
import { withOutputMaximum, type Endpoint, type OutputMaximum } from "../wire/endpoint.ts";
import { isOutputMaximum } from "../wire/output-names.ts";
import { objectOr, parseJson, storedText } from "../wire/json.ts";
import { unnamedModel, type ModelRequest } from "../wire/model-request.ts";
import { withHeadersAndQuery, isIdempotencyHeader } from "../wire/headers.ts";
import { outputCapOf, type Authenticated } from "./authenticate.ts";
import type { FittedRequest, Held } from "./hold.ts";
import { outputMost, type Pricer, type Pricing, type Quote } from "./price.ts";
import type { UsageRefusals } from "./usage-probe.ts";
import { createHash } from "node:crypto";

/** Dependencies for the values that Farebox writes into a request. */
export interface WriteSteps {
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

export interface Limiting {
  readonly ok: true;
  /** Request for which the first hold is tried. */
  readonly first: Sending;
  /** Inputs for writing a maximum; null if the endpoint has no field that limits the output. */
  readonly params: LimitParams | null;
  /** Headers to send to the gateway. */
  readonly headers: Readonly<Record<string, string>>;
  /** Digest of the idempotency key, the same for all retries; null if the request has no such key. */
  readonly idempotency: string | null;
  /** Values of an earlier try with the same idempotency key; null for the first try. */
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
  if (maximum === undefined) {
    const refusal = cap !== null && endpoint.isUnknown === true ? uncappedOutput(given.quote) : undefined;
    if (refusal !== undefined) return { ok: false, refusal };
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
  const { usage, maximum: earlierMaximum } = readWritten(earlier.written);
  const withoutUsage = usage ? withoutUsageOf(endpoint.route, limiting.headers) : null;
  if (withoutUsage?.idempotency != null) {
    const { idempotency: secondTry, headers } = withoutUsage;
    // If the gateway refused usage, Farebox sent the request again without asking for usage. Only this second try may
    // then be repeated.
    const second = await ledger.writtenFor(secondTry, null, given.quote.at);
    if (!second.ok) return { ok: false, refusal: { code: "ledger_unavailable" } };
    if (second.written !== null)
      return repeated(steps, endpoint, { ...limiting, headers, idempotency: secondTry }, cap);
  }
  if (earlierMaximum === null ? first.written !== null : earlierMaximum.tokens > (cap ?? Infinity))
    return { ok: false, refusal: writtenOtherwise };
  const limited: Limited = earlierMaximum === null ? { ok: true, sending: given } : rewritten(params, earlierMaximum);
  return limited.ok ? { ...limiting, first: limited.sending, earlier: { usage } } : limited;
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
    // Under a hard budget, the model must not make more calls than the hold covers.
    toolCalls: held.room === null ? null : toolCalls,
    usage: isAsked && request.stream && !request.wantsStreamUsage && askForUsage !== undefined,
  };
}

/**
 * Stores written values for retries with the same idempotency key. Returns a refusal if another try has stored other
 * values.
 */
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

/**
 * Returns the headers of the second try, which does not ask for usage, and the digest that all retries of that try
 * share.
 */
export function withoutUsageOf(route: string, given: Readonly<Record<string, string>>) {
  const headers = headersWithoutUsage(given);
  return { headers, idempotency: idempotencyOf(route, headers) };
}

/** Values written into a request. They are stored under its idempotency key. */
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

/** Reads the maximum and the request for usage in the output of `writtenText`. */
function readWritten(text: string): Pick<WrittenValues, "maximum" | "usage"> {
  const { field, tokens, why, include_usage } = objectOr(parseJson(text));
  const maximum =
    typeof tokens === "number"
      ? { field: String(field), tokens, why: why === "fitted" ? ("fitted" as const) : ("output_cap" as const) }
      : null;
  return { maximum, usage: include_usage === true };
}

/** Refusal of a retry that would differ from the earlier try at the gateway. */
const writtenOtherwise: Refusal = {
  code: "conflict",
  message: "An earlier request with this idempotency key was sent with different limits; use a new idempotency key.",
};

/** Maximum that Farebox wrote into a request. It applies to each choice. */
export interface WrittenMaximum {
  readonly field: string;
  readonly tokens: number;
  readonly why: "output_cap" | "fitted";
}

/** Request as it is sent. Its quote is for the bytes that are sent. */
export interface Sending {
  readonly quote: Quote;
  readonly body: BodyBytes;
  /** Maximum that Farebox wrote; null if the client's own bytes are sent. */
  readonly written: WrittenMaximum | null;
}

type Limited = OrRefused<{ sending: Sending }>;

/** Inputs for a limit on a request. */
interface LimitParams {
  readonly maximum: OutputMaximum;
  /** The request as the client sent it. */
  readonly given: Sending;
  /** Prices a changed body. */
  readonly price: (bytes: Buffer) => Pricing;
}

/** Writes the output cap into a request that states no maximum or a larger one. */
export function underCap(params: LimitParams, cap: number): Limited {
  const { maximum, given } = params;
  const hidden = hiddenMaximum(given.quote.request);
  if (hidden !== undefined) return { ok: false, refusal: hidden };
  const field = maximumField(given.quote, maximum);
  if (field === null) return { ok: false, refusal: fieldUnknown(given.quote, maximum) };
  const unstated = Math.min(outputMost(given.quote), maximum.absent ?? Infinity);
  const stated = given.body.whole;
  const body = withOutputMaximum(stated, maximum, { field, most: cap, unstated });
  if (body === stated) return { ok: true, sending: given };
  const isStated = given.quote.request.maximumField !== undefined;
  const tokens = isStated ? cap : Math.min(cap, unstated);
  return written(params, body, { field: given.quote.request.maximumField ?? field, tokens, why: "output_cap" });
}

/** Returns the refusal of an output maximum in a field that Farebox does not know; undefined if there is none. */
function hiddenMaximum({ fields, unboundedFields }: ModelRequest): Refusal | undefined {
  const found = [...fields.unknown, ...unboundedFields].find((path) => path.split(/[. ]/).some(isOutputMaximum));
  if (found === undefined) return undefined;
  const message = `an output cap applies to this key, and the gateway may read '${found}' as another output maximum; leave it out`;
  return invalid(storedText(found), message).refusal;
}

/**
 * Writes a maximum that fits the budget into a request whose client states none. `sending`: the request that did not
 * fit. Returns null if the field is not known, if the output cap already allows no more than `tokens`, or if the
 * changed request cannot be priced.
 */
export function fittedRequest(params: LimitParams, sending: Sending, tokens: number): (Sending & FittedRequest) | null {
  const field = maximumField(params.given.quote, params.maximum);
  if (field === null || tokens >= (sending.written?.tokens ?? Infinity)) return null;
  const limited = rewritten(params, { field, tokens, why: "fitted" });
  return limited.ok ? { ...limited.sending, basis: basisOf(limited.sending, params.maximum) } : null;
}

/** Returns true if a request may be fitted: its client states no maximum, and the endpoint has no default. */
export function mayBeFitted({ maximum, given }: LimitParams): boolean {
  return maximum.absent === null && given.quote.request.size.outputLimit === null;
}

/** Writes a given maximum into a request, such as that of an earlier try. */
function rewritten(params: LimitParams, maximum: WrittenMaximum): Limited {
  const { tokens: most, field } = maximum;
  const body = withOutputMaximum(params.given.body.whole, params.maximum, { field, most, unstated: most });
  return written(params, body, maximum);
}

function written(params: LimitParams, bytes: Buffer, maximum: WrittenMaximum): Limited {
  const pricing = params.price(bytes);
  if (!pricing.ok) return pricing;
  return { ok: true, sending: { quote: pricing.quote, body: new BodyBytes([bytes]), written: maximum } };
}

/**
 * Returns the field that limits the output of every model that may answer. Returns null if a field is unknown or the
 * fields differ.
 */
function maximumField({ models }: Quote, { api }: OutputMaximum): string | null {
  const fields = new Set(models.map(({ model }) => model?.maxOutputField[api]));
  const [field] = fields;
  return fields.size === 1 ? (field ?? null) : null;
}

function fieldUnknown({ models }: Quote, { api }: OutputMaximum): Refusal {
  const unknown = models.find(({ model }) => model?.maxOutputField[api] === undefined);
  const why =
    unknown === undefined
      ? "the models that the request names limit their output by different fields"
      : `no price file names the field that limits the output of ${unknown.name} (max_output_field)`;
  return invalid("model", `an output cap applies to this key, and ${why}; use another model`).refusal;
}

/**
 * Returns the refusal of a request to an unknown path that may ask for output while an output cap applies; undefined for
 * one that does not. On such a path, Farebox knows no field for the cap.
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
export function basisOf({ quote, written: maximum }: Sending, { absent }: OutputMaximum): HoldBasis {
  const { outputTokens, request } = quote;
  return {
    by: limitedBy(quote, maximum, request.maximumField === undefined ? absent : null),
    outputTokens,
    outputCap: maximum?.why === "output_cap" ? maximum.tokens : null,
    fitted: maximum?.why === "fitted" ? maximum.tokens : null,
  };
}

function limitedBy(quote: Quote, maximum: WrittenMaximum | null, byDefault: number | null): string {
  const { request, outputTokens } = quote;
  const { outputLimit, unboundedFields } = request.size;
  const [hidden] = unboundedFields;
  if (outputTokens === null) return "request_price";
  // The name of an unknown field is text of the client, so it is not stored.
  if (hidden !== undefined) return request.fields.unknown.includes(hidden) ? "unknown_field" : hidden;
  if (outputLimit === null || outputLimit > outputMost(quote)) return "model";
  if (byDefault !== null) return "default";
  return maximum?.why ?? request.maximumField ?? "model";
}

/**
 * Returns the headers for a second try without stream usage. The body of that try differs, so it needs another
 * idempotency key.
 */
function headersWithoutUsage(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, isIdempotencyHeader(name) ? derivedKey(value) : value]),
  );
}

function derivedKey(value: string): string {
  return createHash("sha256").update(`${value}\0without stream usage`).digest("hex");
}

/**
 * Returns a digest of the route and the idempotency headers. All retries of a request have the same digest. Returns
 * null if there is no idempotency key.
 */
function idempotencyOf(route: string, headers: Readonly<Record<string, string>>): string | null {
  const keys: string[][] = [];
  for (const name in headers) if (isIdempotencyHeader(name)) keys.push([name, headers[name] ?? ""]);
  if (keys.length === 0) return null;
  return createHash("sha256")
    .update(JSON.stringify([route, ...keys]))
    .digest("hex");
}
