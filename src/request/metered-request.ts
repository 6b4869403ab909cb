import { mergeDoubts } from "../core/usage.ts";
import { noMoney, type PicoUsd } from "../core/money.ts";
import { invalid, type OrRefused, type Refusal } from "../core/refusals.ts";
import { settlementFor, type Outcome, type Reserved } from "../core/settlement.ts";
import type { ChargePosted } from "../ports/events.ts";
import { BodyBytes, type Exchange, type Handler } from "../ports/exchange.ts";
import type { ChargeEnd, Charging } from "../ports/ledger.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import type { Endpoint } from "../wire/endpoint.ts";
import { readForm } from "../wire/form.ts";
import { withMember } from "../wire/json.ts";
import type { ModelRequest, ModelRequestResult } from "../wire/model-request.ts";
import { withHeadersAndQuery, type BodyForm } from "../wire/headers.ts";
import { hasModelList, mayUseModel, type Authenticated, type Sender } from "./authenticate.ts";
import { billedAs, costHeaders } from "./billed.ts";
import { gatewayHeaders } from "./forward.ts";
import { GrowingHold } from "./growing-hold.ts";
import { placeHold, type Held, type ShortageView } from "./hold.ts";
import { rememberInjected, withoutUsageOf, type InjectedMaximum, type InjectedValues } from "./idempotency.ts";
import { reserveTokens } from "./limits.ts";
import { meterResponse } from "./meter.ts";
import {
  endOf,
  notSent,
  pipeline,
  settle,
  type Covered,
  type Ended,
  type FinallyForwarded,
  type Identified,
  type PipelineSteps,
} from "./pipeline.ts";
import { knownName, type Growth, type Pricer, type Pricing, type Quote } from "./price.ts";
import {
  unchangedAnswer,
  withhold,
  type Forwarded,
  type Verdict,
  foreignTask,
  noSuchTask,
  showsForeignTask,
} from "./response.ts";
import type { StreamMarks } from "./stream-marks.ts";
import { bindTasks, tasksMadeBy } from "./task-ownership.ts";
import { isAnswered, UsageProbe } from "./usage-probe.ts";
import {
  additionsTo,
  basisOf,
  fittedRequest,
  capOutput,
  mayBeFitted,
  type OutputCapSteps,
  type Sending,
} from "./output-cap.ts";

/** Dependencies of requests that are priced and metered, in addition to those of every request. */
export interface RequestSteps extends PipelineSteps, OutputCapSteps, ShortageView {
  readonly ledger: Charging;
  readonly pricer: Pricer;
  readonly tokens: TokenCounter;
  readonly streamMarks: StreamMarks;
  /** Treatment of a request with unknown fields: hold the worst case, or refuse. */
  readonly unknownFields: "hold" | "refuse";
}

/** Request with a durable hold. Its last three fields change while it is forwarded. */
interface MeteredRequest extends Covered, Sending {
  readonly quote: Quote;
  readonly held: Held;
  readonly sender: Sender;
  /** Body from the client. */
  readonly given: BodyBytes;
  /** Digest of the idempotency key, the same for all retries; null if the request has no such key. */
  readonly idempotency: string | null;
  /** Headers that are sent to the gateway. */
  headers: Readonly<Record<string, string>>;
  /** Values that are written into the request in addition to a maximum. */
  additions: Omit<InjectedValues, "maximum">;
  growing: GrowingHold | undefined;
}

/** Returns the handler of an endpoint. `pipeline` defines the order of its steps. */
export function meteredRequest(steps: RequestSteps, endpoint: Endpoint): Handler {
  return pipeline<ModelRequest, Quote, MeteredRequest>(steps, {
    route: endpoint.route,
    read: (exchange, _who, body) => readRequest(steps, endpoint, exchange, body),
    userOf: ({ fields }) => fields.user,
    price: (request, who, at) => price(steps, who, request, at),
    cover: (exchange, from, quote, body) => cover(steps, endpoint, exchange, from, quote, body),
    forward: (exchange, covered) => forward(steps, endpoint, exchange, covered),
    leave: ({ growing }) => growing?.end(),
    settle: (covered, ended, end, release) => meterAndSettle(steps, covered, ended, end, release),
  });
}

/** Returns the reader of a body that is a form; undefined for any other body. */
function formReaderOf({ readForm }: Endpoint, contentType: string, body: BodyBytes): Endpoint["readForm"] {
  return readForm !== undefined && body.length > 0 && /^multipart\//i.test(contentType) ? readForm : undefined;
}

/** Returns how Farebox reads the body of a request. A body on an unknown path keeps its type if it has one. */
function bodyFormOf(exchange: Exchange, endpoint: Endpoint, { unread }: ModelRequest, body: BodyBytes): BodyForm {
  const contentType = exchange.header("content-type");
  if (formReaderOf(endpoint, contentType ?? "", body) !== undefined) return "form";
  const keepsType =
    endpoint.isUnknown === true && (contentType !== undefined || unread !== undefined || body.length === 0);
  return keepsType ? "unread" : "json";
}

/**
 * Largest body in several pieces that is copied into shared memory to be read, in bytes. The pieces of a larger body
 * are joined.
 */
const copiedBytesMax = 512 * 1024;
/** Shared memory for such copies. It stays in the CPU's cache, while joined pieces would need new memory. */
let copied: Buffer | undefined;

/**
 * Passes a body in one piece to `read`, and returns its result. `read` must not keep any of the bytes, because the next
 * body overwrites them.
 */
export function readTogether<T>(body: BodyBytes, read: (bytes: Buffer) => T): T {
  if (body.pieces.length === 1 || body.length > copiedBytesMax) return read(body.whole);
  copied ??= Buffer.allocUnsafeSlow(copiedBytesMax);
  let length = 0;
  for (const piece of body.pieces) length += piece.copy(copied, length);
  return read(copied.subarray(0, length));
}

function readBody(endpoint: Endpoint, body: BodyBytes, contentType: string): ModelRequestResult {
  const ofForm = formReaderOf(endpoint, contentType, body);
  if (ofForm !== undefined) return ofForm(readForm(body.whole, contentType));
  return readTogether(body, (bytes) => endpoint.readRequest(bytes, contentType));
}

function readRequest(steps: RequestSteps, endpoint: Endpoint, exchange: Exchange, body: BodyBytes): ModelRequestResult {
  const read = readBody(endpoint, body, exchange.header("content-type") ?? "");
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

/**
 * Prices a request. If earlier streams of the model arrived in bursts, the quote holds the whole cost from the start.
 */
async function price(
  { pricer, streamMarks }: RequestSteps,
  who: Authenticated,
  request: ModelRequest,
  at: number,
): Promise<Pricing> {
  const pricing = pricer.quote(request, at);
  if (!pricing.ok || pricing.quote.growth === null || pricing.quote.model === undefined)
    return checkModels(who, request, pricing);
  const isMarked = await streamMarks.isMarked(who.caller.key, pricing.quote.model.id);
  return checkModels(who, request, isMarked ? pricer.quote({ ...request, isHeldWhole: true }, at) : pricing);
}

/** Returns the pricing, or a refusal if the key may not use one of the models. */
function checkModels(who: Authenticated, request: ModelRequest, pricing: Pricing): Pricing {
  if (!pricing.ok) return pricing;
  const { models, model } = pricing.quote;
  const refused = (refusal: Refusal): Pricing => ({ ok: false, refusal, model: knownName({ model, request }) });
  if (request.unread !== undefined && hasModelList(who)) return refused(nameModel(request.unread));
  const forbidden = models.find((named) => !mayUseModel(who, named.name, named.model?.id ?? named.name));
  if (forbidden === undefined) return pricing;
  return refused({ code: "model_not_allowed", model: forbidden.name });
}

/** Returns the refusal of a request to a key that may use only some models. `why`: why its model is not certain. */
export function nameModel(why: string): Refusal {
  return invalid("model", `${why}; this key may use only some models, so name the model as 'model' in JSON or a form`)
    .refusal;
}

type Covering = OrRefused<{ covered: MeteredRequest }>;

/** Writes limits into a request and holds its worst case. */
async function cover(
  steps: RequestSteps,
  endpoint: Endpoint,
  exchange: Exchange,
  { who, slot, sender, retry }: Identified,
  quote: Quote,
  body: BodyBytes,
): Promise<Covering> {
  const form = bodyFormOf(exchange, endpoint, quote.request, body);
  const headersGiven = gatewayHeaders(steps.idempotencySecret, exchange, who.caller, form);
  const given: Sending = { quote, body, injected: null };
  const capping = await capOutput(steps, exchange, { endpoint, who, headers: headersGiven }, given);
  if (!capping.ok) return capping;
  const { capped, params, headers, idempotency, earlier } = capping;
  if (slot.countsTokens) {
    const overLimit = await reserveTokens(slot, capped.quote.promptTokens, () =>
      steps.pricer.countPrompt(capped.quote, capped.body),
    );
    if (overLimit !== null) return { ok: false, refusal: overLimit };
  }
  const holding = await placeHold(steps, {
    id: exchange.id,
    kind: mayMakeTask(endpoint, exchange) ? "task" : "request",
    route: endpoint.route,
    who,
    quote: capped.quote,
    body: capped.body,
    basis: params && basisOf(capped, params.maximum),
    fitted:
      params === null || earlier !== null || !mayBeFitted(params)
        ? null
        : (tokens) => fittedRequest(params, capped, tokens),
    sender,
    retry,
  });
  if (!holding.ok) {
    slot.settleTokens(0);
    return holding;
  }
  const { held } = holding;
  const sending = holding.fitted ?? capped;
  const additions = additionsTo(steps, endpoint, sending.quote, { held, earlier });
  const { stream } = sending.quote.request;
  return {
    ok: true,
    covered: {
      ...sending,
      who,
      slot,
      held,
      sender,
      stream,
      given: body,
      idempotency,
      headers,
      additions,
      growing: undefined,
    },
  };
}

/**
 * Stores the values that Farebox writes into a request, then sends the request. If the gateway may have refused the
 * request only because Farebox asked for stream usage, sends it again without asking for usage. The client gets the
 * answer to the second request, because that is the request that the client sent.
 */
async function forward(
  steps: RequestSteps,
  endpoint: Endpoint,
  exchange: Exchange,
  covered: MeteredRequest,
): Promise<FinallyForwarded> {
  const { quote, injected } = covered;
  if (covered.idempotency !== null) {
    const values = { maximum: injected, ...covered.additions };
    const refusal = await rememberInjected(steps, covered.idempotency, values, quote.at);
    if (exchange.clientGone) return notSent("client_left");
    if (refusal !== null) {
      exchange.refuse(refusal);
      return notSent("written_otherwise");
    }
  }
  const probe = usageProbe(steps, endpoint, exchange, covered);
  const first = await send(steps, endpoint, exchange, covered, probe);
  const { ending } = first;
  if (ending.kind !== "usageRefused" || probe === undefined) {
    const { stream, wantsStreamUsage, model } = quote.request;
    if (stream && (wantsStreamUsage || covered.additions.usage) && isAnswered(ending))
      steps.usageRefusals.accept(endpoint.route, model);
    return first as FinallyForwarded;
  }
  const { headers, idempotency } = withoutUsageOf(endpoint.route, covered.headers);
  covered.headers = headers;
  covered.additions = { ...covered.additions, usage: false };
  if (covered.idempotency !== null && idempotency !== null) {
    const refusal = await rememberInjected(steps, idempotency, { maximum: injected, ...covered.additions }, quote.at);
    if (refusal !== null && !exchange.clientGone) exchange.refuse(refusal);
    if (refusal !== null || exchange.clientGone) {
      probe.end(null);
      return { ...first, ending: ending.otherwise };
    }
  }
  const second = await send(steps, endpoint, exchange, covered, probe);
  if (second.ending.kind === "usageRefused")
    throw new Error("the gateway refused stream usage for a request that did not ask for it");
  probe.end(second.ending);
  return { ...second, ending: second.ending, overheadMs: first.overheadMs };
}

/** Returns the probe for a request to which Farebox adds a request for usage, unless it must always ask. */
function usageProbe(
  steps: RequestSteps,
  { route }: Endpoint,
  exchange: Exchange,
  { quote, held, additions }: MeteredRequest,
): UsageProbe | undefined {
  if (!additions.usage || steps.streamUsage !== "auto") return undefined;
  const billsServerErrors = quote.model?.billsServerErrors ?? false;
  return new UsageProbe(steps, { id: held.id, route, model: quote.request.model, billsServerErrors, exchange });
}

/** Sends a request. `probe` reads the beginning of the answer. */
function send(
  steps: RequestSteps,
  endpoint: Endpoint,
  exchange: Exchange,
  covered: MeteredRequest,
  probe: UsageProbe | undefined,
): Promise<Forwarded> {
  const { quote, held, slot, injected, headers, additions } = covered;
  const { request } = quote;
  const { toolCalls, usage } = additions;
  const cuts = injected !== null && endpoint.maximum?.api === "responses" && request.isCutWorthless === true;
  covered.growing = growingHold(steps, exchange, covered);
  return steps.forwarder.forward({
    exchange,
    path: exchange.path + exchange.query,
    headers,
    body: sentBody(endpoint, covered),
    endpoint,
    stream: request.stream,
    asksForText: request.asksForText === true,
    dropUsageChunk: usage,
    cutAtMaximum: cuts ? maximumReached(injected) : null,
    watch: covered.growing,
    // The client may send its next request before this one is read.
    onOver: () => slot.leave(),
    ownHeaders: [
      ...(usage ? [["x-farebox-stream-usage", "asked"] as const] : []),
      ...(toolCalls === null ? [] : [["x-farebox-tool-calls", String(toolCalls)] as const]),
      ...(injected === null ? [] : [[maximumHeaders[injected.why], String(injected.tokens)] as const]),
    ],
    wholeBytesMax: null,
    mayNeedOtherKey: endpoint.isUnknown === true,
    beginning: usage ? probe?.first : probe?.second,
    inspect: (status, plain) => {
      const refused = usage && plain !== undefined ? probe?.refusal(status, plain) : undefined;
      if (refused != null) return { ending: refused, show: null };
      return inspect(steps, endpoint, exchange, covered, status, plain);
    },
    costHeaders: (answer) => costHeaders(held, quote, answer),
  });
}

/** Returns the body to send, with the values that Farebox writes into it. */
function sentBody({ askForUsage }: Endpoint, { body, injected, given, additions }: MeteredRequest) {
  const { toolCalls, usage } = additions;
  if (usage && askForUsage !== undefined) return new BodyBytes([askForUsage(body.whole)]);
  if (toolCalls !== null) return new BodyBytes([withMember(body.whole, "max_tool_calls", String(toolCalls))]);
  const sent = injected === null ? given : body;
  return sent.length === 0 ? undefined : sent;
}

/** Headers for the maximum that was written into the request. */
const maximumHeaders = { output_cap: "x-farebox-output-cap", fitted: "x-farebox-fitted" } as const;

/**
 * Returns the refusal for a stream that reached the written maximum. It states why the answer is incomplete.
 */
function maximumReached({ tokens, why }: InjectedMaximum): Refusal {
  const limit =
    why === "fitted" ? `${tokens} output tokens, the most that fit the budget` : `the output cap of ${tokens} tokens`;
  return {
    code: "gateway_stream_broken",
    message: `The answer is incomplete, because it reached ${limit}.`,
  };
}

/** Returns the watch for a stream under a hard budget; undefined if watching it would have no effect. */
function growingHold(
  steps: RequestSteps,
  { recordAs }: Exchange,
  { quote, held, who, body }: MeteredRequest,
): GrowingHold | undefined {
  const { id, hold } = held;
  const { model, request } = quote;
  const isStated = request.size.outputLimit !== null;
  const isMarked = request.isHeldWhole === true;
  const growth = held.growth ?? (isStated || isMarked ? growthBeyond(quote, held) : null);
  if (growth === null || hold === null || model === undefined) return undefined;
  return new GrowingHold(steps, {
    id,
    caller: who.caller,
    hold,
    growth,
    quote: { ...quote, model },
    body,
    statedTokens: isStated ? quote.outputTokens : null,
    onRefusal: (refusal) => steps.events.refused({ refusal, request: recordAs }),
    onKind: (kind) => {
      if (kind === "burst" || isMarked) steps.streamMarks.record(who.caller.key, model.id, kind);
    },
  });
}

/**
 * Returns the rule by which a hold of the whole cost grows if the output exceeds `quote.outputTokens`. Null if no hard
 * budget applies, or if Farebox could not see such output.
 */
function growthBeyond({ beyond, outputTokens }: Quote, { hold, room }: Held): Growth | null {
  if (beyond === null || outputTokens === null || hold === null || room === null) return null;
  // The hold is smaller than the quote's if the prompt was counted to fit the budget.
  const saved = beyond.costAt(outputTokens) - hold;
  return { ...beyond, costAt: (tokens) => (beyond.costAt(tokens) - saved) as PicoUsd };
}

/** Checks an answer before the client gets it. Withholds an answer that names a task of another key. Binds new tasks. */
function inspect(
  steps: RequestSteps,
  endpoint: Endpoint,
  exchange: Exchange,
  covered: MeteredRequest,
  status: number,
  plain: Buffer | undefined,
): Verdict | null | Promise<Verdict | null> {
  if (plain === undefined) return null;
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
    return mayBind ? bindMade(steps, exchange, covered, plain) : null;
  });
}

/** Binds the tasks that the answer names, before the client gets their ids. */
async function bindMade(
  steps: RequestSteps,
  exchange: Exchange,
  { who, held, quote, body, sender }: MeteredRequest,
  plain: Buffer,
): Promise<Verdict | null> {
  const made = tasksMadeBy(plain, { target: decodeURIComponent(exchange.path) + exchange.query, body });
  if (made.length === 0) return null;
  const { isCharged, claimed } = await bindTasks(steps, made, {
    charge: held.id,
    route: held.route,
    hold: quote.hold,
    taskType: null,
    quantity: null,
    who,
    quote,
    sender,
    end: () => endOf(exchange, steps.clock),
  });
  switch (claimed) {
    case "bound":
      return { ending: { kind: "task" }, show: unchangedAnswer };
    case "known":
      return null;
    case "foreign":
      return withhold(exchange, noSuchTask, isCharged ? { kind: "task" } : { kind: "unknown", reason: foreignTask });
    case "unavailable":
      return withhold(
        exchange,
        { code: "ledger_unavailable", forwarded: true },
        isCharged ? { kind: "task" } : { kind: "unknown", reason: "task_not_recorded" },
      );
  }
}

/**
 * Methods whose requests never bind a task. Without this rule, a request that only lists the account's tasks could be
 * charged for one of them.
 */
const methodsWithoutTasks: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS", "DELETE"]);

function mayMakeTask({ mayMakeTasks }: Endpoint, { method }: Exchange): boolean {
  return mayMakeTasks === true && !methodsWithoutTasks.has(method);
}

async function meterAndSettle(
  steps: RequestSteps,
  covered: MeteredRequest,
  { ending, terms: stated }: Ended,
  end: ChargeEnd,
  release: () => void,
): Promise<ChargePosted | null> {
  const { quote, held, growing, body, slot, who } = covered;
  const { model, request } = quote;
  const inFlightTokens = growing?.inFlightTokens ?? 0;
  const terms = billedAs(quote, stated);
  let outcome: Outcome;
  try {
    const of = { model, body, request, inFlightTokens, billed: terms };
    outcome = await meterResponse(steps, ending, of);
  } catch (error) {
    steps.log.error({ request_id: held.id, err: error }, "an answer could not be metered; its hold is posted");
    outcome = { kind: "unknown", reason: "not_metered" };
  } finally {
    release();
  }
  const hold = growing === undefined ? held.hold : await growing.settled();
  const doubts = mergeDoubts(outcome.doubts, ...terms.map((billed) => billed.doubts), request.fields.doubts);
  const charges = terms.map(({ servedPrice, answered, billing }) => ({
    held: { ...held, hold, servedPrice, answered },
    outcome:
      billing === undefined && doubts.length === 0 ? outcome : { ...outcome, ...(billing && { billing }), doubts },
  }));
  const charge = charges.reduce((most, each) => (costOf(each) > costOf(most) ? each : most));
  return settle(steps, { slot, held: charge.held, quote, who }, charge.outcome, end);
}

/** Returns the cost that the settlement of an outcome posts. */
function costOf({ held, outcome }: { readonly held: Reserved; readonly outcome: Outcome }): PicoUsd {
  const settlement = settlementFor(held, outcome);
  return settlement.kind === "void" ? noMoney : (settlement.cost ?? noMoney);
}
