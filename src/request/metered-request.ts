import type { Shortage } from "../core/budget.ts";
import { mergeDoubts, type Doubt } from "../core/usage.ts";
import type { PicoUsd } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import type { Outcome } from "../core/settlement.ts";
import type { Exchange } from "../ports/exchange.ts";
import type { ChargeEnd, Charging } from "../ports/ledger.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import { refusesStreamUsage } from "../wire/endpoints/chat-completions.ts";
import type { Endpoint } from "../wire/endpoint.ts";
import { sendBeforeFile, unnamedModel } from "../wire/form.ts";
import { withMember } from "../wire/json.ts";
import type { ModelRequest, ModelRequestResult } from "../wire/model-request.ts";
import { withHeadersAndQuery } from "../wire/headers.ts";
import { hasModelList, mayUseModel, type Authenticated } from "./authenticate.ts";
import { billedAs, costHeaders } from "./billed.ts";
import { GrowingHold } from "./growing-hold.ts";
import type { Handler } from "./handler.ts";
import { placeHold, type Held } from "./hold.ts";
import { reserveTokens } from "./limits.ts";
import { meterResponse } from "./meter.ts";
import { basisOf, mayBeFitted, type Sending, type WrittenMaximum } from "./output-limit.ts";
import {
  notSent,
  pipeline,
  settle,
  type Covered,
  type Ended,
  type FinallyForwarded,
  type PipelineSteps,
  type Tagged,
} from "./pipeline.ts";
import type { Growth, Pricer, Pricing, Quote } from "./price.ts";
import { readRequestBody, type RequestBody } from "./request-body.ts";
import { unchangedAnswer, withhold, type Forwarded, type Verdict } from "./response.ts";
import type { StreamMarks } from "./stream-marks.ts";
import { foreignTask, noSuchTask, showsForeignTask, taskMadeBy, type ClaimTask } from "./task-ownership.ts";
import {
  additionsTo,
  fittedRequest,
  limitOutput,
  rememberWritten,
  withoutUsageOf,
  type WriteSteps,
  type WrittenValues,
} from "./written-values.ts";

/** Dependencies of requests that are priced and metered, in addition to those of every request. */
export interface RequestSteps extends PipelineSteps, WriteSteps {
  readonly ledger: Charging;
  readonly pricer: Pricer;
  readonly tokens: TokenCounter;
  /** Returns the name under which a user knows a budget's scope. */
  readonly scopeName: (shortage: Shortage) => Promise<string>;
  /** Binds a task that the answer of an unknown path names. */
  readonly claimTask: ClaimTask;
  readonly streamMarks: StreamMarks;
  /** Treatment of a request with unknown fields: hold the worst case, or refuse. */
  readonly unknownFields: "hold" | "refuse";
}

/** Request with a durable hold. Its last three fields change while it is forwarded. */
interface MeteredRequest extends Covered, Sending {
  readonly quote: Quote;
  readonly held: Held;
  readonly given: RequestBody;
  /** Digest that all retries share; null if the request has no idempotency key. */
  readonly idempotency: string | null;
  /** Headers that are sent to the gateway. */
  headers: Readonly<Record<string, string>>;
  /** Values that are written into the request in addition to a maximum. */
  additions: Omit<WrittenValues, "maximum">;
  growing: GrowingHold | undefined;
}

/** Returns the handler of an endpoint. `pipeline` has the order of its steps. */
export function meteredRequest(steps: RequestSteps, endpoint: Endpoint): Handler {
  return pipeline<RequestBody, ModelRequest, Quote, MeteredRequest>(steps, {
    route: endpoint.route,
    readBody: (exchange) => readRequestBody(exchange, endpoint),
    read: (exchange, _who, body) => readRequest(steps, endpoint, exchange, body),
    price: (request, who, at) => price(steps, endpoint, who, request, at),
    cover: (exchange, from, quote, body) => cover(steps, endpoint, exchange, from, quote, body),
    forward: (exchange, covered) => forward(steps, endpoint, exchange, covered),
    leave: ({ growing }) => growing?.end(),
    settle: (covered, ended, end) => meterAndSettle(steps, endpoint, covered, ended, end),
  });
}

function readRequest(
  steps: RequestSteps,
  endpoint: Endpoint,
  exchange: Exchange,
  body: RequestBody,
): ModelRequestResult {
  const read = body.read();
  if (!read.ok) return read;
  const request = withHeadersAndQuery(read.request, endpoint, exchange.headers(), exchange.query);
  reportUnknown(steps, endpoint, request.fields.unknown);
  const [unknown] = steps.unknownFields === "refuse" ? request.fields.unknown : [];
  return unknown === undefined ? { ok: true, request } : { ok: false, refusal: unknownRefused(unknown) };
}

function reportUnknown({ events }: RequestSteps, { route }: Endpoint, fields: readonly string[]): void {
  if (fields.length > 0) events.unknownFields({ route, fields });
}

function unknownRefused(field: string): Refusal {
  const message = `Farebox does not know '${field}', and FAREBOX_UNKNOWN_FIELDS is 'refuse'.`;
  return { code: "invalid_request", param: field, message };
}

/** Prices a request. Holds the whole cost if earlier streams of the model arrived in bursts. */
function price(
  { pricer, streamMarks }: RequestSteps,
  endpoint: Endpoint,
  who: Authenticated,
  request: ModelRequest,
  at: number,
): Pricing | Promise<Pricing> {
  const pricing = pricer.quote(request, at);
  if (!pricing.ok || pricing.quote.growth === null || pricing.quote.model === undefined)
    return forItsModels(endpoint, who, request, pricing);
  const priced = (isMarked: boolean): Pricing => {
    return isMarked ? pricer.quote({ ...request, isHeldWhole: true }, at) : pricing;
  };
  const marked = streamMarks.isMarked(who.caller.key, pricing.quote.model.id);
  return marked instanceof Promise
    ? marked.then((isMarked) => forItsModels(endpoint, who, request, priced(isMarked)))
    : forItsModels(endpoint, who, request, priced(marked));
}

/** Returns the pricing, or a refusal if the key may not use one of the models. */
function forItsModels(endpoint: Endpoint, who: Authenticated, request: ModelRequest, pricing: Pricing): Pricing {
  const isNameless = request.model === unnamedModel && endpoint.form !== null;
  if (!pricing.ok) return isNameless ? { ok: false, refusal: sendBeforeFile("model") } : pricing;
  if (request.modelDoubt !== undefined && hasModelList(who)) return { ok: false, refusal: request.modelDoubt };
  const forbidden = pricing.quote.models.find(({ name, model }) => !mayUseModel(who, name, model?.id ?? name));
  if (forbidden === undefined) return pricing;
  const refusal: Refusal = isNameless ? sendBeforeFile("model") : { code: "model_not_allowed", model: forbidden.name };
  return { ok: false, refusal };
}

type Covering =
  | { readonly ok: true; readonly covered: MeteredRequest }
  | { readonly ok: false; readonly refusal: Refusal };

/** Writes limits into a request and holds its worst case. */
async function cover(
  steps: RequestSteps,
  endpoint: Endpoint,
  exchange: Exchange,
  { who, slot, tags, retry }: Tagged,
  quote: Quote,
  body: RequestBody,
): Promise<Covering> {
  const gatewayHeaders = steps.gatewayHeaders(exchange, who.caller);
  const given: Sending = { quote, body: body.seen, written: null };
  const limited = limitOutput(steps, exchange, { endpoint, who, headers: gatewayHeaders }, given);
  const limiting = limited instanceof Promise ? await limited : limited;
  if (!limiting.ok) return limiting;
  const { first, params, headers, idempotency, earlier } = limiting;
  if (slot.countsTokens) {
    const overLimit = await reserveTokens(slot, first.quote.promptTokens, () =>
      steps.pricer.countPrompt(first.quote, first.body),
    );
    if (overLimit !== null) return { ok: false, refusal: overLimit };
  }
  const holding = await placeHold(steps, {
    id: exchange.id,
    kind: mayMakeTask(endpoint, exchange) ? "task" : "request",
    route: endpoint.route,
    who,
    quote: first.quote,
    body: first.body,
    basis: params && basisOf(first, params.maximum),
    fitted:
      params === null || earlier !== null || !mayBeFitted(params)
        ? null
        : (tokens) => fittedRequest(params, first, tokens),
    tags,
    retry,
  });
  if (!holding.ok) {
    slot.settleTokens(0);
    return holding;
  }
  const { held } = holding;
  const sending = holding.fitted ?? first;
  const additions = additionsTo(steps, endpoint, sending.quote, { held, earlier });
  const { stream } = sending.quote.request;
  return {
    ok: true,
    covered: { ...sending, who, slot, held, stream, given: body, idempotency, headers, additions, growing: undefined },
  };
}

/** Seals a form once it is priced and held, so that its later parts cannot change its cost. */
function sealBody(steps: RequestSteps, { who, held: { room, price }, given }: MeteredRequest): void {
  given.seal({
    // A price per request is multiplied by `n`, so a field `n` after the hold would add cost without a hold.
    isFirm: room !== null || price?.perRequest != null,
    isClosed: room !== null || hasModelList(who) || steps.unknownFields === "refuse",
  });
}

/**
 * Stores the written values of a request and sends it. Sends it again without stream usage if the gateway refuses only
 * that.
 */
async function forward(
  steps: RequestSteps,
  endpoint: Endpoint,
  exchange: Exchange,
  covered: MeteredRequest,
): Promise<FinallyForwarded> {
  const { quote, written } = covered;
  if (covered.idempotency !== null) {
    const values = { maximum: written, ...covered.additions };
    const refusal = await rememberWritten(steps, covered.idempotency, values, quote.at);
    if (exchange.clientGone) return notSent("client_left");
    if (refusal !== null) {
      exchange.refuse(refusal);
      return notSent("written_otherwise");
    }
  }
  sealBody(steps, covered);
  const first = await send(steps, endpoint, exchange, covered);
  const { ending } = first;
  if (ending.kind !== "usageRefused") return first as FinallyForwarded;
  const { headers, idempotency } = withoutUsageOf(endpoint.route, covered.headers);
  covered.headers = headers;
  covered.additions = { ...covered.additions, usage: false };
  if (covered.idempotency !== null && idempotency !== null) {
    const refusal = await rememberWritten(steps, idempotency, { maximum: written, ...covered.additions }, quote.at);
    if (refusal !== null && !exchange.clientGone) exchange.refuse(refusal);
    if (refusal !== null || exchange.clientGone) return { ...first, ending: { kind: "status", status: ending.status } };
  }
  const second = await send(steps, endpoint, exchange, covered);
  if (second.ending.kind === "usageRefused") throw new Error("no usage was asked for, and it was refused");
  if (exchange.status !== null && exchange.status < 300) {
    steps.usageRefusals.add(endpoint.route, quote.request.model);
    steps.log.info(
      { request_id: covered.held.id },
      "the gateway refuses stream usage for this model; for an hour it is not asked",
    );
  }
  return { ...second, ending: second.ending, overheadMs: first.overheadMs };
}

function send(
  steps: RequestSteps,
  endpoint: Endpoint,
  exchange: Exchange,
  covered: MeteredRequest,
): Promise<Forwarded> {
  const { quote, held, written, headers, additions } = covered;
  const { request } = quote;
  const { toolCalls, usage } = additions;
  const cuts = written !== null && endpoint.maximum?.api === "responses" && request.isCutWorthless === true;
  covered.growing = growingHold(steps, covered);
  return steps.forwarder.forward({
    exchange,
    path: exchange.path + exchange.query,
    headers,
    body: sentBody(endpoint, covered),
    endpoint,
    stream: request.stream,
    dropUsageChunk: usage,
    cutAtMaximum: cuts ? maximumReached(written) : null,
    watch: covered.growing,
    ownHeaders: [
      ...(usage ? [["x-farebox-stream-usage", "asked"] as const] : []),
      ...(toolCalls === null ? [] : [["x-farebox-tool-calls", String(toolCalls)] as const]),
      ...(written === null ? [] : [[maximumHeaders[written.why], String(written.tokens)] as const]),
    ],
    wholeBytesMax: null,
    inspect: (status, plain) => inspect(steps, endpoint, exchange, covered, status, plain),
    costHeaders: (answer) => costHeaders(held, quote, answer),
  });
}

/** Returns the body to send, with the values that Farebox writes into it. */
function sentBody({ askForUsage }: Endpoint, { body, written, given, additions }: MeteredRequest) {
  const { toolCalls, usage } = additions;
  if (usage && askForUsage !== null) return askForUsage(body);
  if (toolCalls !== null) return withMember(body, "max_tool_calls", String(toolCalls));
  return written === null ? given.sent : body;
}

/** Headers for the maximum that was written into the request. */
const maximumHeaders = { output_cap: "x-farebox-output-cap", fitted: "x-farebox-fitted" } as const;

/** Returns the refusal for a stream that reached the written maximum. It tells the client why the answer is incomplete. */
function maximumReached({ tokens, why }: WrittenMaximum): Refusal {
  const whose = why === "fitted" ? "that fits its budget" : "of its output cap";
  return {
    code: "gateway_stream_broken",
    message: `The answer reached the maximum of ${tokens} output tokens ${whose}, so it is incomplete.`,
  };
}

/** Returns the watch for a stream under a hard budget; undefined if watching it would have no effect. */
function growingHold(steps: RequestSteps, { quote, held, who, body }: MeteredRequest): GrowingHold | undefined {
  const { id, hold } = held;
  const { model, request } = quote;
  const isStated = request.size.outputLimit !== null;
  const isMarked = request.isHeldWhole === true;
  const growth = held.growth ?? (isStated || isMarked ? growthBeyond(quote, held) : null);
  if (growth === null || hold === null || model === undefined) return undefined;
  return new GrowingHold(steps, {
    id,
    hold,
    growth,
    quote: { ...quote, model },
    body,
    statedTokens: isStated ? quote.outputTokens : null,
    saw: (kind) => {
      if (kind === "burst" || isMarked) steps.streamMarks.saw(who.caller.key, model.id, kind);
    },
  });
}

/** Returns the growth for an answer that exceeds a hold of the whole cost. Null if that could not be seen. */
function growthBeyond({ beyond, outputTokens }: Quote, { hold, room }: Held): Growth | null {
  if (beyond === null || outputTokens === null || hold === null || room === null) return null;
  const less = beyond.costAt(outputTokens) - hold;
  return { ...beyond, costAt: (tokens) => (beyond.costAt(tokens) - less) as PicoUsd };
}

/**
 * Hides two kinds of answers from the client: refusals of usage that it did not ask for, and tasks of other keys. Binds new
 * tasks.
 */
function inspect(
  steps: RequestSteps,
  endpoint: Endpoint,
  exchange: Exchange,
  covered: MeteredRequest,
  status: number,
  plain: Buffer | undefined,
): Verdict | null | Promise<Verdict | null> {
  if (plain === undefined) return null;
  const mayRetry = covered.additions.usage && steps.streamUsage === "auto" && !exchange.clientGone;
  if (mayRetry && refusesStreamUsage(status, plain)) return { ending: { kind: "usageRefused", status }, show: null };
  const foreign = showsForeignTask(steps, plain, { requestId: exchange.id, key: covered.who.caller.key });
  const mayBind = status < 300 && mayMakeTask(endpoint, exchange);
  if (foreign === false && !mayBind) return null;
  return Promise.resolve(foreign).then((isForeign) => {
    if (isForeign)
      return withhold(
        exchange,
        noSuchTask,
        status >= 300 ? { kind: "status", status } : { kind: "unknown", reason: foreignTask },
      );
    return mayBind ? bindTask(steps, exchange, covered, plain) : null;
  });
}

/** Binds a task that the answer names, before the client gets its id. */
async function bindTask(
  steps: RequestSteps,
  exchange: Exchange,
  { who, held, quote, body }: MeteredRequest,
  plain: Buffer,
): Promise<Verdict | null> {
  const made = taskMadeBy(plain, { target: decodeURIComponent(exchange.path) + exchange.query, body });
  if (made === null) return null;
  const { model } = quote.request;
  switch (await steps.claimTask({ ...made, charge: held.id, key: who.caller.key, model })) {
    case "bound":
      return { ending: { kind: "task" }, show: unchangedAnswer };
    case "known":
      return null;
    case "foreign":
      return withhold(exchange, noSuchTask, { kind: "unknown", reason: foreignTask });
    case "unavailable":
      return withhold(exchange, { code: "ledger_unavailable" }, { kind: "unknown", reason: "task_not_recorded" });
  }
}

/** Methods that create no task. Otherwise a list of the account's tasks would charge its reader for all of them. */
const readingMethods: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS", "DELETE"]);

function mayMakeTask({ mayMakeTasks }: Endpoint, { method }: Exchange): boolean {
  return mayMakeTasks === true && !readingMethods.has(method);
}

async function meterAndSettle(
  steps: RequestSteps,
  endpoint: Endpoint,
  covered: MeteredRequest,
  { ending, terms }: Ended,
  end: ChargeEnd,
): Promise<void> {
  const { quote, held, growing, given, body, slot, who } = covered;
  const { servedPrice, billing, doubts } = billedAs(quote, terms);
  let outcome: Outcome;
  try {
    const inFlightTokens = growing?.inFlightTokens ?? 0;
    outcome = await meterResponse(steps, ending, { model: quote.model, body, request: quote.request, inFlightTokens });
  } catch (error) {
    steps.log.error({ request_id: held.id, err: error }, "an answer could not be metered; its hold is posted");
    outcome = { kind: "unknown", reason: "not_metered" };
  }
  const hold = growing === undefined ? held.hold : await growing.settled();
  // Only now has the whole form been read.
  reportUnknown(steps, endpoint, given.lateUnknown);
  const all = mergeDoubts(outcome.doubts, doubts, doubtsOf(covered));
  const known =
    billing === undefined && all.length === 0 ? outcome : { ...outcome, ...(billing && { billing }), doubts: all };
  await settle(steps, { slot, held: { ...held, hold, servedPrice }, quote, who }, known, end);
}

/** Returns doubts from the request's fields. */
function doubtsOf({ quote, given }: MeteredRequest): readonly Doubt[] {
  const { doubts } = quote.request.fields;
  return given.lateUnknown.length > 0 ? mergeDoubts(doubts, ["unknown_field"]) : doubts;
}
