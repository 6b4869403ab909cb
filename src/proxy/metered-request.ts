import { costUnder } from "../core/cost.ts";
import { mergeDoubts, type Doubt } from "../core/doubts.ts";
import { formatUsd, noMoney, type PicoUsd } from "../core/money.ts";
import { ceilingPrice } from "../core/price.ts";
import type { Refusal } from "../core/refusals.ts";
import { tokensUsed, type Outcome } from "../core/settlement.ts";
import { usageIn } from "../core/usage.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import type { Exchange, HeaderList } from "../ports/exchange.ts";
import type { ChargeEnd, ChargeLedger } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { Endpoint } from "../wire/endpoint.ts";
import { sendBeforeFile, unnamedModel } from "../wire/form.ts";
import type { FieldFacts } from "../wire/findings.ts";
import { withHeadersAndQuery } from "../wire/request-line.ts";
import { withMember } from "../wire/json-edit.ts";
import type { ModelAnswer } from "../wire/model-answer.ts";
import type { ModelRequest } from "../wire/model-request.ts";
import { readRetry } from "../wire/retries.ts";
import { readPinnedTags } from "../wire/tags.ts";
import { headersWithoutUsage, type UsageRefusals } from "./asked-usage.ts";
import { hasModelList, mayUseModel, outputCapOf, type Authenticate, type Authenticated } from "./authenticate.ts";
import type { BalanceGuard } from "./balance-guard.ts";
import { billedAs, type Billed } from "./billed.ts";
import { taskMadeBy, type Claimed, type ClaimTask } from "./task-ownership.ts";
import type { ResponseEnding, Ending, Forwarded, UsageRefused } from "./response.ts";
import type { ShowsForeignTask } from "./task-ownership.ts";
import type { Forwarder } from "./forward.ts";
import type { GatewayHeaders } from "./gateway-headers.ts";
import type { GrowingHold, GrowParams } from "./growing-hold.ts";
import { notForwarded, refuse, withKey, type Handler, type Summary } from "./handler.ts";
import type { FittedRequest, Held, PlaceHold } from "./hold.ts";
import { reserveTokens, withSlot, type Limiter, type Slot } from "./limits.ts";
import type { Meter } from "./meter.ts";
import {
  asksForUsage,
  basisOf,
  fitted,
  idempotencyOf,
  maximumIn,
  mayBeFitted,
  notCapped,
  rewritten,
  underCap,
  writtenOtherwise,
  writtenText,
  type Limited,
  type LimitParams,
  type Sending,
  type WrittenMaximum,
  type WrittenValues,
} from "./output-limit.ts";
import type { Growth, Pricer, Pricing, Quote } from "./price.ts";
import type { StreamMarks } from "./stream-marks.ts";
import { readRequestBody, type RequestBody } from "./request-body.ts";
import type { Settle, SettleParams } from "./settle.ts";

/** The steps of a request that is priced and metered, in the order in which they are taken. */
export interface RequestSteps {
  readonly authenticate: Authenticate;
  readonly limiter: Pick<Limiter, "enter">;
  readonly balanceGuard: BalanceGuard;
  readonly pricer: Pricer;
  readonly hold: PlaceHold;
  /** Makes the hold of a stream grow that states no maximum. */
  readonly grow: (params: GrowParams) => GrowingHold;
  readonly gatewayHeaders: GatewayHeaders;
  readonly showsForeignTask: ShowsForeignTask;
  /** Binds a task that the answer of an unknown path made. */
  readonly claimTask: ClaimTask;
  readonly forwarder: Forwarder;
  readonly meter: Meter;
  readonly settle: Settle;
  readonly clock: Clock;
  readonly events: Events;
  readonly log: Log;
  /** Whether to ask for stream usage in the place of clients that did not; `auto`: where the gateway does not refuse it. */
  readonly streamUsage: "auto" | "pass" | "inject";
  readonly usageRefusals: UsageRefusals;
  readonly streamMarks: StreamMarks;
  /** The output cap of all keys; null for none. */
  readonly outputCap: number | null;
  readonly ledger: Pick<ChargeLedger, "writtenFor">;
  /** What is done with a request of fields that Farebox does not know. */
  readonly unknownFields: "hold" | "refuse";
  /** Takes over what goes on after the answer, so that a shutdown can wait for it. */
  readonly background: (work: Promise<void>) => void;
}

/** authenticate ─▶ limits ─▶ read body once ─▶ price ─▶ hold ─▶ forward ─▶ meter ─▶ settle */
export function meteredRequest(steps: RequestSteps, endpoint: Endpoint): Handler {
  const answer = withSlot(steps.limiter, async (exchange, who, slot) => {
    const read = await readRequestBody(exchange, endpoint);
    if (!read.ok) return read.refusal === null ? notForwarded : refuse(exchange, read.refusal);
    const { body } = read;
    const answered = answerRequest(steps, exchange, { endpoint, who, slot }, body);
    steps.background(releaseOnceSettled(answered, body));
    return (await answered).summary;
  });
  return withKey(steps.authenticate, answer);
}

/** A count of the prompt may need the body until the request is settled. */
async function releaseOnceSettled(answered: Promise<Answered>, body: RequestBody): Promise<void> {
  try {
    const { settled } = await answered;
    await settled;
  } finally {
    body.release();
  }
}

/** What is asked for and who asks, with the slot among the requests that run. */
interface Admitted {
  readonly endpoint: Endpoint;
  readonly who: Authenticated;
  readonly slot: Slot;
}

interface Answered {
  readonly summary: Summary;
  /** What goes on after the client has its answer. */
  readonly settled: Promise<void>;
}

async function answerRequest(
  steps: RequestSteps,
  exchange: Exchange,
  from: Admitted,
  body: RequestBody,
): Promise<Answered> {
  const admission = await admit(steps, exchange, from, body);
  const { endpoint, who, slot } = from;
  if (!admission.ok) return { summary: refuse(exchange, admission.refusal), settled: Promise.resolve() };
  const { quote, held } = admission;
  const sent = sentBody(body, admission);
  const { request } = quote;
  const { stream } = request;
  const model = quote.model?.id ?? "other";
  if (stream) steps.events.requestStarted("stream");
  if (exchange.clientGone) {
    const end = endOf(exchange, steps.clock, undefined);
    const outcome = { kind: "notSent", reason: "client_left" } as const;
    return {
      summary: { ...notForwarded, model, stream },
      settled: settle(steps, slot, { held, quote, who, outcome, end }),
    };
  }
  let growing: GrowingHold | undefined;
  let forwarded: Forwarded<Exclude<ResponseEnding, UsageRefused>>;
  try {
    forwarded = await forward(steps, exchange, admission, (covered) => {
      growing = growingHold(steps, covered, sent.seen, who);
      return { endpoint, who, body: sent, growing };
    });
  } catch (error) {
    // A bug of ours; its hold must not stay pending until the next start.
    growing?.end();
    const outcome = doubted({ kind: "unknown", reason: "internal_error" }, doubtsOf(request, body));
    await settle(steps, slot, { held, quote, who, outcome, end: endOf(exchange, steps.clock, undefined) });
    throw error;
  }
  const { ending, firstTokenMs, overheadMs } = forwarded;
  const summary = { model, stream, firstTokenMs, overheadMs };
  if (ending.kind === "task") {
    if (slot.countsTokens) slot.settleTokens(0);
    return { summary, settled: Promise.resolve() };
  }
  const billed = billedAs(quote, forwarded.terms);
  const end = endOf(exchange, steps.clock, forwarded);
  const settled = meterAndSettle(steps, from, { body, seen: sent.seen, growing, quote, held }, { ending, billed, end });
  return { summary, settled };
}

interface Sent extends Pick<Covered, "quote" | "held"> {
  readonly body: RequestBody;
  /** What the gateway was sent. */
  readonly seen: Buffer;
  readonly growing: GrowingHold | undefined;
}

/** What goes on once the client has its answer; it never rejects for an answer that cannot be read. */
async function meterAndSettle(
  steps: RequestSteps,
  { endpoint, who, slot }: Admitted,
  { body, seen, growing, quote, held }: Sent,
  { ending, billed, end }: { readonly ending: Ending; readonly billed: Billed; readonly end: ChargeEnd },
): Promise<void> {
  const { model, request } = quote;
  const { servedPrice, billing, doubts } = billed;
  let outcome: Outcome;
  try {
    const underWayTokens = growing?.underWayTokens ?? 0;
    outcome = await steps.meter(ending, { model, body: seen, request, underWayTokens });
  } catch (error) {
    steps.log.error({ request_id: held.id, err: error }, "an answer could not be metered; its hold is posted");
    outcome = { kind: "unknown", reason: "not_metered" };
  }
  const hold = growing === undefined ? held.hold : await growing.settled();
  // Now all of a form has passed.
  tellUnknown(steps, endpoint, body.lateUnknown);
  const known = doubted(
    billing === undefined ? outcome : { ...outcome, billing },
    mergeDoubts(doubts, doubtsOf(request, body)),
  );
  await settle(steps, slot, { held: { ...held, hold, servedPrice }, quote, who, outcome: known, end });
}

/** Why the amount of a request may differ from the bill, by its fields. */
function doubtsOf({ fields }: { readonly fields: FieldFacts }, { lateUnknown }: RequestBody): readonly Doubt[] {
  return lateUnknown.length > 0 ? mergeDoubts(fields.doubts, ["unknown_field"]) : fields.doubts;
}

function doubted(outcome: Outcome, doubts: readonly Doubt[]): Outcome {
  return doubts.length === 0 ? outcome : { ...outcome, doubts: mergeDoubts(outcome.doubts, doubts) };
}

function tellUnknown({ events }: RequestSteps, { route }: Endpoint, fields: readonly string[]): void {
  if (fields.length > 0) events.unknownFields({ route, fields });
}

/** Ends the hold, and puts the tokens that were used in the place of those that were reserved. */
function settle(steps: RequestSteps, slot: Slot, params: SettleParams): Promise<void> {
  if (slot.countsTokens) slot.settleTokens(tokensUsed(params.outcome));
  return steps.settle(params);
}

/** A request that a durable hold covers. */
interface Covered extends Sending {
  readonly held: Held;
  /** Headers that the gateway gets. */
  readonly headers: Readonly<Record<string, string>>;
  /** What is written into it in addition to a maximum. */
  readonly beside: Omit<WrittenValues, "maximum">;
  /** Whether its retries carry an idempotency key. */
  readonly isIdempotent: boolean;
}

/** The body as it leaves, where a maximum was written into it. */
function sentBody(body: RequestBody, { body: bytes, written }: Sending): RequestBody {
  return written === null ? body : { ...body, seen: bytes, sent: bytes };
}

type Admission = ({ readonly ok: true } & Covered) | { readonly ok: false; readonly refusal: Refusal };

/** Price and hold: afterwards the request has a durable row, or it is refused. */
async function admit(
  steps: RequestSteps,
  exchange: Exchange,
  { endpoint, who, slot }: Admitted,
  body: RequestBody,
): Promise<Admission> {
  const read = body.read();
  if (!read.ok) return read;
  const tags = readPinnedTags(exchange.header("x-farebox-tag"), who.session);
  if (!tags.ok) return tags;
  const request = withHeadersAndQuery(read.request, endpoint, exchange.headers(), exchange.query);
  const { route } = endpoint;
  tellUnknown(steps, endpoint, request.fields.unknown);
  const [unknown] = steps.unknownFields === "refuse" ? request.fields.unknown : [];
  if (unknown !== undefined) return { ok: false, refusal: unknownRefused(unknown) };
  const belowFloor = await steps.balanceGuard();
  if (belowFloor !== null) return { ok: false, refusal: belowFloor };
  const at = steps.clock.now();
  const pricing = await priced(steps, request, who, at);
  const isNameless = request.model === unnamedModel && endpoint.form !== null;
  if (!pricing.ok) return isNameless ? { ok: false, refusal: sendBeforeFile("model") } : pricing;
  const given: Sending = { quote: pricing.quote, body: body.seen, written: null };
  const { quote } = given;
  if (request.modelDoubt !== undefined && hasModelList(who)) return { ok: false, refusal: request.modelDoubt };
  const forbidden = quote.models.find(({ name, model }) => !mayUseModel(who, name, model?.id ?? name));
  if (forbidden !== undefined) {
    const refusal: Refusal = isNameless
      ? sendBeforeFile("model")
      : { code: "model_not_allowed", model: forbidden.name };
    return { ok: false, refusal };
  }
  const gatewayHeaders = steps.gatewayHeaders(exchange, who.caller);
  const limiting = await limitOutput(steps, exchange, { endpoint, who, headers: gatewayHeaders }, given);
  if (!limiting.ok) return limiting;
  const { first, params, headers, idempotency, earlier } = limiting;
  if (slot.countsTokens) {
    const overLimit = await reserveTokens(slot, first.quote.promptTokens, () =>
      steps.pricer.countPrompt(first.quote, first.body),
    );
    if (overLimit !== null) return { ok: false, refusal: overLimit };
  }
  const retry = readRetry(exchange.header("x-stainless-retry-count"));
  const kind = mayMakeTask(endpoint, exchange) ? "task" : "request";
  const holding = await steps.hold({
    id: exchange.id,
    kind,
    route,
    who,
    quote: first.quote,
    body: first.body,
    basis: params && basisOf(first, params.maximum),
    fitted:
      params === null || earlier !== null || !mayBeFitted(params)
        ? null
        : (tokens) => fittedRequest(params, first, tokens),
    tags: tags.tags,
    retry,
  });
  if (!holding.ok) {
    slot.settleTokens(0);
    return holding;
  }
  const { held } = holding;
  const sending = holding.fitted ?? first;
  const beside = writtenBeside(steps, endpoint, sending.quote, { held, earlier });
  if (idempotency !== null) {
    const refusal = await rememberWritten(steps, idempotency, { maximum: sending.written, ...beside }, at);
    if (refusal !== null) {
      const outcome = { kind: "notSent", reason: "written_otherwise" } as const;
      await settle(steps, slot, {
        held,
        quote: sending.quote,
        who,
        outcome,
        end: endOf(exchange, steps.clock, undefined),
      });
      return { ok: false, refusal };
    }
  }
  const { room, price } = held;
  body.seal({
    // A price of requests is times `n`, so that one which comes late would be paid by us.
    isFirm: room !== null || price?.perRequest != null,
    isClosed: room !== null || hasModelList(who) || steps.unknownFields === "refuse",
  });
  steps.events.admitted({
    key: who.key,
    route,
    model: quote.model?.id ?? null,
    group: quote.model?.group ?? null,
    retry,
  });
  return { ok: true, ...sending, held, headers, beside, isIdempotent: idempotency !== null };
}

/** The price of a request, by what the model's streams have shown. */
async function priced(
  { pricer, streamMarks }: RequestSteps,
  request: ModelRequest,
  { caller }: Authenticated,
  at: number,
): Promise<Pricing> {
  const pricing = pricer.quote(request, at);
  if (!pricing.ok || pricing.quote.growth === null || pricing.quote.model === undefined) return pricing;
  const isMarked = await streamMarks.isMarked(caller.key, pricing.quote.model.id);
  return isMarked ? pricer.quote({ ...request, isHeldWhole: true }, at) : pricing;
}

interface Limiting {
  readonly ok: true;
  /** The request as it is held for first. */
  readonly first: Sending;
  /** Null where the answer is no text that a field limits. */
  readonly params: LimitParams | null;
  /** Headers that the gateway gets. */
  readonly headers: Readonly<Record<string, string>>;
  /** What tells its retries apart; null where it has no idempotency key. */
  readonly idempotency: string | null;
  /** What an earlier try decided; null for the first. */
  readonly earlier: { readonly usage: boolean } | null;
}

type LimitResult = Limiting | { readonly ok: false; readonly refusal: Refusal };

/** Writes the output cap into a request, or what an earlier try with the same idempotency key had. */
function limitOutput(
  steps: RequestSteps,
  exchange: Exchange,
  { endpoint, who, headers }: Pick<Admitted, "endpoint" | "who"> & Pick<Covered, "headers">,
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

/** Writes what an earlier try with the same idempotency key had, where there was one. */
async function repeated(
  steps: RequestSteps,
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

function fittedRequest(params: LimitParams, sending: Sending, tokens: number): (Sending & FittedRequest) | null {
  const next = fitted(params, sending, tokens);
  return next && { ...next, basis: basisOf(next, params.maximum) };
}

/** What is written into a request in addition to a maximum. */
function writtenBeside(
  { streamUsage, usageRefusals }: RequestSteps,
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

/** Remembers what is written, for retries with the same idempotency key. Answers with a refusal where one was faster. */
async function rememberWritten(
  { ledger }: RequestSteps,
  idempotency: string,
  values: WrittenValues,
  at: number,
): Promise<Refusal | null> {
  const text = writtenText(values);
  const result = await ledger.writtenFor(idempotency, text, at);
  if (!result.ok) return { code: "ledger_unavailable" };
  return result.written === text ? null : writtenOtherwise;
}

function unknownRefused(field: string): Refusal {
  const message = `Farebox does not know '${field}', and FAREBOX_UNKNOWN_FIELDS is 'refuse'.`;
  return { code: "invalid_request", param: field, message };
}

/** Watches a stream under a hard budget; undefined where there is nothing that it could show. */
function growingHold(
  steps: RequestSteps,
  { quote, held }: Covered,
  body: Buffer,
  { caller }: Authenticated,
): GrowingHold | undefined {
  const { id, hold } = held;
  const { model, request } = quote;
  const isStated = request.size.outputLimit !== null;
  const isMarked = request.isHeldWhole === true;
  const growth = held.growth ?? (isStated || isMarked ? growthBeyond(quote, held) : null);
  if (growth === null || hold === null || model === undefined) return undefined;
  return steps.grow({
    id,
    hold,
    growth,
    quote: { ...quote, model },
    body,
    statedTokens: isStated ? quote.outputTokens : null,
    saw: (kind) => {
      if (kind === "burst" || isMarked) steps.streamMarks.saw(caller.key, model.id, kind);
    },
  });
}

/** How a hold of the whole grows where the answer passes it, whether its prompt was counted or bounded. */
function growthBeyond({ beyond, outputTokens }: Quote, { hold, room }: Held): Growth | null {
  if (beyond === null || outputTokens === null || hold === null || room === null) return null;
  const less = beyond.costAt(outputTokens) - hold;
  return { ...beyond, costAt: (tokens) => (beyond.costAt(tokens) - less) as PicoUsd };
}

/** How a request is sent: as it is covered, with what may watch its stream. */
interface SendParams {
  readonly endpoint: Endpoint;
  readonly who: Authenticated;
  readonly body: RequestBody;
  readonly growing: GrowingHold | undefined;
}

/** Sends a request, and once more where the gateway refuses only the usage that was asked for. */
async function forward(
  steps: RequestSteps,
  exchange: Exchange,
  covered: Covered,
  paramsFor: (covered: Covered) => SendParams,
): Promise<Forwarded<Exclude<ResponseEnding, UsageRefused>>> {
  const deps = paramsFor(covered);
  const first = await send(steps, exchange, covered, deps);
  const { ending } = first;
  if (ending.kind !== "usageRefused") return { ...first, ending };
  const { quote, written } = covered;
  const { request } = quote;
  const { route } = deps.endpoint;
  const { headers, idempotency } = withoutUsageOf(route, covered.headers);
  const again: Covered = { ...covered, headers, beside: { ...covered.beside, usage: false } };
  if (covered.isIdempotent && idempotency !== null) {
    const refusal = await rememberWritten(steps, idempotency, { maximum: written, ...again.beside }, quote.at);
    if (refusal !== null && !exchange.clientGone) exchange.refuse(refusal);
    if (refusal !== null || exchange.clientGone) return { ...first, ending: { kind: "status", status: ending.status } };
  }
  const second = await send(steps, exchange, again, paramsFor(again));
  if (second.ending.kind === "usageRefused") throw new Error("no usage was asked for, and it was refused");
  if (exchange.status !== null && exchange.status < 300) {
    steps.usageRefusals.add(route, request.model);
    steps.log.info(
      { request_id: covered.held.id },
      "the gateway refuses stream usage for this model; for an hour it is not asked",
    );
  }
  return { ...second, ending: second.ending, overheadMs: first.overheadMs };
}

/** What the second try of a request has in the place of the first one's headers. */
function withoutUsageOf(route: string, given: Readonly<Record<string, string>>) {
  const headers = headersWithoutUsage(given);
  return { headers, idempotency: idempotencyOf(route, headers) };
}

function send(
  steps: RequestSteps,
  exchange: Exchange,
  { quote, held, written, headers, beside }: Covered,
  { endpoint, who, body, growing }: SendParams,
): Promise<Forwarded> {
  const { request } = quote;
  const { askForUsage } = endpoint;
  const { toolCalls, usage } = beside;
  const cuts = written !== null && endpoint.maximum?.api === "responses" && request.isCutWorthless === true;
  return steps.forwarder.forward({
    exchange,
    path: exchange.path + exchange.query,
    headers,
    body:
      usage && askForUsage !== null
        ? askForUsage(body.seen)
        : toolCalls === null
          ? body.sent
          : withMember(body.seen, "max_tool_calls", String(toolCalls)),
    endpoint,
    stream: request.stream,
    dropUsageChunk: usage,
    retriesWithoutUsage: usage && steps.streamUsage === "auto",
    cutAtMaximum: cuts ? maximumReached(written) : null,
    watch: growing,
    ownHeaders: [
      ...(usage ? [["x-farebox-stream-usage", "asked"] as const] : []),
      ...(toolCalls === null ? [] : [["x-farebox-tool-calls", String(toolCalls)] as const]),
      ...(written === null ? [] : [[maximumHeaders[written.why], String(written.tokens)] as const]),
    ],
    showsForeignTask: (answer) => steps.showsForeignTask(answer, { requestId: exchange.id, key: who.caller.key }),
    claimsTask: mayMakeTask(endpoint, exchange)
      ? claimOf(steps, exchange, { who, body, held, model: request.model })
      : null,
    costHeaders: (answer) => costHeaders(held, quote, answer),
  });
}

/** Headers that say which maximum was written into the request. */
const maximumHeaders = { output_cap: "x-farebox-output-cap", fitted: "x-farebox-fitted" } as const;

/** The end of a stream whose answer is cut in the middle of its tools: a client would run it again, to the same end. */
function maximumReached({ tokens, why }: WrittenMaximum): Refusal {
  const whose = why === "fitted" ? "that fits its budget" : "of its output cap";
  return {
    code: "gateway_stream_broken",
    message: `The answer reached the maximum of ${tokens} output tokens ${whose}, so it is incomplete.`,
  };
}

function claimOf(
  { claimTask }: RequestSteps,
  exchange: Exchange,
  {
    who,
    body,
    held,
    model,
  }: { readonly who: Authenticated; readonly body: RequestBody; readonly held: Held; readonly model: string },
) {
  return async (answer: Buffer): Promise<Claimed | null> => {
    const made = taskMadeBy(answer, { target: decodeURIComponent(exchange.path) + exchange.query, body: body.seen });
    return made && claimTask({ ...made, charge: held.id, key: who.caller.key, model });
  };
}

/** What only reads makes no task: a list of the account's would bill its reader for all. */
const readingMethods: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS", "DELETE"]);

function mayMakeTask({ mayMakeTasks }: Endpoint, { method }: Exchange): boolean {
  return mayMakeTasks === true && !readingMethods.has(method);
}

/** What an answer cost and what its budget has left, from its reported usage and the hold's own answer. */
function costHeaders({ price, room, hold }: Held, quote: Quote, answer: ModelAnswer): HeaderList {
  const usage = usageIn(quote.model?.unit ?? "token", answer.usage, quote.request.classes.prompt);
  if (price === null || usage === undefined) return [];
  const { servedPrice, billing } = billedAs(quote, answer);
  const { charged } = costUnder({ price, servedPrice: servedPrice?.version ?? null }, usage.tokens, billing);
  const cost: HeaderList = [
    ["x-farebox-cost-usd", formatUsd(charged)],
    ...(price.model === ceilingPrice ? [ceilingMark] : []),
  ];
  if (room === null) return cost;
  const left = room + (hold ?? noMoney) - charged;
  return [...cost, ["x-farebox-budget-remaining-usd", formatUsd((left < 0n ? noMoney : left) as PicoUsd)]];
}

/** Says that the cost is not of the model's own price. */
const ceilingMark = ["x-farebox-price", ceilingPrice] as const;

function endOf(exchange: Exchange, clock: Clock, forwarded: Forwarded | undefined): ChargeEnd {
  return {
    at: clock.now(),
    status: exchange.status,
    servedModel: forwarded?.terms?.servedModel ?? null,
    gatewayRequestId: forwarded?.gatewayRequestId ?? null,
    durationMs: Math.round(clock.monotonic() - exchange.startedAt),
    firstTokenMs: forwarded?.firstTokenMs == null ? null : Math.round(forwarded.firstTokenMs),
  };
}
