import { nearest } from "../core/fault.ts";
import { bareName, fold, withoutVariant } from "../core/model-names.ts";
import type { Refusal } from "../core/refusals.ts";
import type { Catalogue, CatalogueModel } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import type { ChargePosted, Events } from "../ports/events.ts";
import { faultCode, notForwarded, refuse, type BodyBytes, type Exchange, type Handler } from "../ports/exchange.ts";
import type { ChargeEnd, Charging } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { Tracing } from "../ports/tracing.ts";
import { readRetry } from "../wire/headers.ts";
import {
  mayUseModel,
  readSender,
  type Authenticate,
  type Authenticated,
  type Sender,
  type SenderRules,
  recordRefusals,
} from "./authenticate.ts";
import type { FindExhausted } from "./exhausted.ts";
import type { BalanceGuard } from "./account.ts";
import { enter, type RateLimiter, type Slot } from "./rate-limits.ts";
import type { Forwarder } from "./forward.ts";
import { knownName } from "./price.ts";
import type { Ending, Forwarded, ResponseEnding, UsageRefused, TaskOwner } from "./response.ts";
import type { SettleParams } from "./settle.ts";
import type { ClaimTask } from "./task-ownership.ts";

/** Dependencies of every request with a charge. */
export interface PipelineSteps extends SenderRules {
  readonly authenticate: Authenticate;
  readonly limiter: Pick<RateLimiter, "enter">;
  readonly findExhausted: FindExhausted;
  readonly balanceGuard: BalanceGuard;
  /** Secret for the idempotency keys at the gateway. */
  readonly idempotencySecret: Buffer;
  readonly forwarder: Forwarder;
  readonly ledger: Charging;
  readonly taskOwner: TaskOwner;
  /** Binds a task that the gateway's answer names to the charge that pays for it. */
  readonly claimTask: ClaimTask;
  readonly newId: () => string;
  readonly clock: Clock;
  readonly catalogue: () => Catalogue;
  readonly events: Events;
  readonly log: Log;
  /** Null if requests are not traced. */
  readonly tracing: Tracing | null;
  /** Takes over work that continues after the answer, so that a shutdown can wait for it. */
  readonly background: (work: Promise<unknown>) => void;
}

export interface Refused {
  readonly ok: false;
  readonly refusal: Refusal;
  /** Requested model, if it was priced and the catalogue knows its name. */
  readonly model?: string | undefined;
}

/** Request that the limits admitted. */
export interface Admitted {
  readonly who: Authenticated;
  readonly slot: Slot;
}

/** Admitted request whose tags and user are known. */
export interface Identified extends Admitted {
  readonly sender: Sender;
  /** Number of earlier tries, as the client states it. */
  readonly retry: number;
}

/** Quote with its model. `model` is undefined if the catalogue does not know it. */
interface Priced {
  readonly model: Pick<CatalogueModel, "id" | "group"> | undefined;
  readonly request: { readonly model: string };
}

/** Request with a durable hold. */
export interface Covered extends Admitted {
  readonly charge: SettleParams["charge"];
  readonly quote: Priced;
  readonly stream: boolean;
}

/** Forwarded request whose client has its answer or will never get one. */
export type FinallyForwarded = Forwarded<Exclude<ResponseEnding, UsageRefused>>;

/** Steps that differ between kinds of requests. The pipeline calls the methods in this order. */
export interface RequestKind<Request, Quote extends Priced, Own extends Covered> {
  /** Name of the route in charges and metrics. */
  readonly route: string;
  /** True if requests of this kind may cost nothing; false if missing. */
  readonly isFree?: boolean;
  /** Reads the request in the body. */
  read(
    exchange: Exchange,
    who: Authenticated,
    body: BodyBytes,
  ): Result<"request", Request> | Promise<Result<"request", Request>>;
  /** Returns the user that the body names; null for none. */
  userOf(request: Request): string | null;
  /** Prices the worst case, and refuses models that the key may not use. */
  price(request: Request, who: Authenticated, at: number): Result<"quote", Quote> | Promise<Result<"quote", Quote>>;
  /** Limits the request and holds its worst case. Afterwards the request has a durable row. */
  cover(exchange: Exchange, from: Identified, quote: Quote, body: BodyBytes): Promise<Result<"covered", Own>>;
  /** Sends the request to the gateway and passes the answer to the client, or refuses the request (`notSent`). */
  forward(exchange: Exchange, covered: Own): Promise<FinallyForwarded>;
  /** Releases resources that the request used while it was forwarded. */
  leave(covered: Own): void;
  /**
   * Settles the charge after the client has its answer. Returns the posted charge; null if nothing was posted. Calls
   * `release` once the body is no longer needed. Rejects only after a bug.
   */
  settle(covered: Own, ended: Ended, end: ChargeEnd, release: () => void): Promise<ChargePosted | null>;
}

type Result<Name extends string, Value> = (Readonly<Record<Name, Value>> & { readonly ok: true }) | Refused;

/** End of a request whose charge is not settled by a task. */
export type Ended = Pick<Forwarded<Ending>, "ending" | "terms">;

/**
 * Runs the steps of a request: authenticate ─▶ limits ─▶ read body once ─▶ price ─▶ hold ─▶ forward ─▶ meter ─▶ settle.
 * The handler resolves when the client has its answer; the charge may be settled later, in `steps.background`.
 *
 * @example
 *   const handler = pipeline(steps, new MeteredRequests(steps, chatCompletions)); // as in metered-request.ts
 *   await handler(exchange); // { model: "gpt-4o", stream: true, firstTokenMs: 210, overheadMs: 0.4, error: undefined }
 */
export function pipeline<Request, Quote extends Priced, Own extends Covered>(
  steps: PipelineSteps,
  kind: RequestKind<Request, Quote, Own>,
): Handler {
  return traced(steps.tracing, kind.route, async (exchange) => {
    const who = await steps.authenticate(exchange);
    recordRefusals(exchange, kind.route, who);
    if (!who.ok) return refuse(exchange, who.refusal);
    exchange.span?.note({ key: who.key?.name ?? null, team: who.key?.team ?? null });
    const entry = await enter(steps.limiter, exchange, who);
    if (!entry.ok) return refuse(exchange, entry.refusal);
    const { slot } = entry;
    let release: (() => void) | undefined;
    try {
      if (exchange.hasLargeRemainder) {
        const exhausted = await steps.findExhausted(exchange, who, kind.isFree ?? false);
        if (exhausted !== null) return refuse(exchange, exhausted);
      }
      const body = await exchange.readBody();
      if (!body.ok) return body.refusal === null ? notForwarded : refuse(exchange, body.refusal);
      release = body.release;
      const read = await kind.read(exchange, who, body.bytes);
      if (!read.ok) return refuse(exchange, read.refusal);
      const sender = readSender(exchange, who, kind.userOf(read.request), steps);
      if (!sender.ok) return refuse(exchange, sender.refusal);
      const belowFloor = await steps.balanceGuard();
      if (belowFloor !== null) return refuse(exchange, belowFloor);
      const priced = await kind.price(read.request, who, steps.clock.now());
      recordModel(exchange, priced.ok ? knownName(priced.quote) : priced.model);
      if (!priced.ok) return refuse(exchange, withSuggestion(steps, who, priced.refusal));
      const { quote } = priced;
      exchange.span?.note({ model: quote.request.model, modelId: quote.model?.id });
      const retry = readRetry(exchange.header("x-stainless-retry-count"));
      const covering = await kind.cover(exchange, { who, slot, sender, retry }, quote, body.bytes);
      if (!covering.ok) return refuse(exchange, withSuggestion(steps, who, covering.refusal));
      const { covered } = covering;
      const { forwarded, error } = await forward(steps, kind, exchange, covered, retry);
      kind.leave(covered);
      const { ending, terms, firstTokenMs, overheadMs } = forwarded;
      let settled: Promise<ChargePosted | null> | undefined;
      if (ending.kind !== "task") {
        const end = endOf(exchange, steps.clock, forwarded);
        settled = settle(steps, kind, covered, { ending, terms }, end, body.release);
        steps.background(settled);
        // The settlement may still count the prompt.
        release = undefined;
      } else if (slot.countsTokens) slot.settleTokens(0);
      exchange.span?.note({
        stream: covered.stream,
        servedModel: terms?.servedModel ?? null,
        firstTokenMs,
        ...(settled && { settled }),
      });
      return { model: quote.model?.id ?? "other", stream: covered.stream, firstTokenMs, overheadMs, error };
    } finally {
      slot.leave();
      release?.();
    }
  });
}

/**
 * Adds the model to the request's record of refusals. A model that the catalogue does not know is recorded as "other".
 */
function recordModel({ recordAs }: Exchange, name: string | undefined): void {
  if (recordAs !== null) recordAs.model = name ?? "other";
}

/** Adds a model to the refusal of a similar one, if the key may use it and it has a price. */
function withSuggestion({ catalogue, clock }: PipelineSteps, who: Authenticated, refusal: Refusal): Refusal {
  if (refusal.code !== "model_not_priced" && refusal.code !== "model_not_allowed") return refusal;
  const prices = catalogue();
  const priced = prices.list(clock.now()).flatMap(({ id, price }) => (price === null ? [] : [id]));
  const whole = fold(refusal.model);
  const bare = bareName(whole);
  const spellings = [...new Set([whole, bare, withoutVariant(bare) ?? bare])];
  const atOtherProviders = priced.filter((id) => spellings.includes(bareName(fold(id))));
  const near = [...atOtherProviders, ...spellings.flatMap((name) => nearest(name, priced))].find((id) =>
    mayUseModel(who, { name: id, id }, prices),
  );
  return near === undefined ? refusal : { ...refusal, near };
}

function reportAdmitted(events: Events, route: string, { who, quote, stream }: Covered, retry: number): void {
  const { model } = quote;
  events.admitted({ key: who.key, route, model: model?.id ?? null, group: model?.group ?? null, retry });
  if (stream) events.requestStarted("stream");
}

/**
 * Reports and forwards a request with a hold. Returns an ending even after a bug. Otherwise the request would not be
 * settled, and its hold would stay pending until the next start.
 */
async function forward<Own extends Covered>(
  { events }: PipelineSteps,
  kind: Pick<RequestKind<never, never, Own>, "route" | "forward">,
  exchange: Exchange,
  covered: Own,
  retry: number,
): Promise<{ readonly forwarded: FinallyForwarded; readonly error?: unknown }> {
  try {
    reportAdmitted(events, kind.route, covered, retry);
    if (exchange.clientGone) return { forwarded: notSent("client_left") };
    return { forwarded: await kind.forward(exchange, covered) };
  } catch (error) {
    return { forwarded: unanswered({ kind: "unknown", reason: "internal_error" }), error };
  }
}

/** Settles a request. A bug is logged, because no one waits for the settlement; recovery posts the hold. */
async function settle<Own extends Covered>(
  { log }: PipelineSteps,
  kind: Pick<RequestKind<never, never, Own>, "settle">,
  covered: Own,
  ended: Ended,
  end: ChargeEnd,
  release: () => void,
): Promise<ChargePosted | null> {
  try {
    return await kind.settle(covered, ended, end, release);
  } catch (error) {
    release();
    const message = "a settlement failed; if its hold is still pending, recovery will post it";
    log.error({ request_id: covered.charge.id, err: error }, message);
    return null;
  }
}

/** Returns the end of a request to which the gateway sent no answer. */
function unanswered(ending: Ending): FinallyForwarded {
  return { ending, terms: null, gatewayRequestId: null, firstTokenMs: null, overheadMs: null };
}

/** Returns the end of a request that has a hold but is not sent. */
export function notSent(reason: string): FinallyForwarded {
  return unanswered({ kind: "notSent", reason });
}

/**
 * Returns the end of a request for its charge, at the current time. `forwarded` is missing if the request was not
 * forwarded.
 */
export function endOf(exchange: Exchange, clock: Clock, forwarded?: Forwarded): ChargeEnd {
  return {
    at: clock.now(),
    status: exchange.status,
    servedModel: forwarded?.terms?.servedModel ?? null,
    gatewayRequestId: forwarded?.gatewayRequestId ?? null,
    durationMs: Math.round(clock.monotonic() - exchange.startedAt),
    firstTokenMs: forwarded?.firstTokenMs == null ? null : Math.round(forwarded.firstTokenMs),
  };
}

/** Returns a handler that records a span for each request, unless `tracing` is null. */
function traced(tracing: Tracing | null, route: string, handle: Handler): Handler {
  if (tracing === null) return handle;
  return async (exchange) => {
    const span = tracing.start(exchange, route);
    exchange.span = span;
    try {
      const summary = await handle(exchange);
      if (summary.error !== undefined) span.note({ refusal: faultCode(summary.error) });
      return summary;
    } catch (error) {
      span.note({ refusal: faultCode(error) });
      throw error;
    } finally {
      span.end(exchange.status);
    }
  };
}
