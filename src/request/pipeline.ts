import type { Refusal } from "../core/refusals.ts";
import { tokensUsed, type Outcome } from "../core/settlement.ts";
import type { CatalogueModel } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import type { Exchange } from "../ports/exchange.ts";
import type { ChargeEnd, Charging } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import { readPinnedTags, readRetry } from "../wire/headers.ts";
import type { Authenticate, Authenticated } from "./authenticate.ts";
import type { BalanceGuard } from "./balance-guard.ts";
import type { Forwarder } from "./forward.ts";
import type { GatewayHeaders } from "./gateway-headers.ts";
import { notForwarded, refuse, withKey, type Handler, type Summary } from "./handler.ts";
import { withSlot, type Limiter, type Slot } from "./limits.ts";
import type { Ending, Forwarded, ResponseEnding, UsageRefused } from "./response.ts";
import { settleCharge, type SettleDeps, type SettleParams } from "./settle.ts";
import type { TaskOwner } from "./task-ownership.ts";

/** Dependencies of every request with a charge. */
export interface PipelineSteps {
  readonly authenticate: Authenticate;
  readonly limiter: Pick<Limiter, "enter">;
  readonly balanceGuard: BalanceGuard;
  readonly gatewayHeaders: GatewayHeaders;
  readonly forwarder: Forwarder;
  readonly ledger: Charging;
  readonly taskOwner: TaskOwner;
  readonly clock: Clock;
  readonly events: Events;
  readonly log: Log;
  /** Takes over work that continues after the answer, so that a shutdown can wait for it. */
  readonly background: (work: Promise<void>) => void;
}

interface Refused {
  readonly ok: false;
  readonly refusal: Refusal;
}

/** Request that the limits admitted. */
export interface Admitted {
  readonly who: Authenticated;
  readonly slot: Slot;
}

export interface Tagged extends Admitted {
  readonly tags: Readonly<Record<string, string>>;
  /** Number of earlier tries, as the client states it. */
  readonly retry: number;
}

/** Quote with its model; undefined if the catalogue does not know the model. */
interface Priced {
  readonly model: Pick<CatalogueModel, "id" | "group"> | undefined;
}

/** Request with a durable hold. */
export interface Covered extends Admitted {
  readonly held: SettleParams["held"];
  readonly quote: Priced;
  readonly stream: boolean;
}

/** Forwarded request whose client has its answer or will never get one. */
export type FinallyForwarded = Forwarded<Exclude<ResponseEnding, UsageRefused>>;

/** Differences between kinds of requests. The pipeline calls the methods in this order. */
interface RequestKind<Body extends { release(): void }, Request, Quote extends Priced, Own extends Covered> {
  /** Name of the route in charges and metrics. */
  readonly route: string;
  /** Reads the body once. The refusal is null if the client has left. */
  readBody(
    exchange: Exchange,
  ): Promise<{ readonly ok: true; readonly body: Body } | { readonly ok: false; readonly refusal: Refusal | null }>;
  /** Reads the request in the body. */
  read(
    exchange: Exchange,
    who: Authenticated,
    body: Body,
  ): Result<"request", Request> | Promise<Result<"request", Request>>;
  /** Prices the worst case, and refuses models that the key may not use. */
  price(request: Request, who: Authenticated, at: number): Result<"quote", Quote> | Promise<Result<"quote", Quote>>;
  /** Limits the request and holds its worst case. Afterwards the request has a durable row. */
  cover(exchange: Exchange, from: Tagged, quote: Quote, body: Body): Promise<Result<"covered", Own>>;
  /** Sends the request to the gateway and passes the answer to the client, or refuses the request (`notSent`). */
  forward(exchange: Exchange, covered: Own): Promise<FinallyForwarded>;
  /** Releases resources that the request used while it was forwarded. */
  leave(covered: Own): void;
  /** Settles the charge after the client has its answer. Does not reject if the answer cannot be read. */
  settle(covered: Own, ended: Ended, end: ChargeEnd): Promise<void>;
}

type Result<Name extends string, Value> = (Readonly<Record<Name, Value>> & { readonly ok: true }) | Refused;

/** End of a request whose charge is not settled by a task. */
export type Ended = Pick<Forwarded<Ending>, "ending" | "terms">;

/** Runs the steps of a request: authenticate ─▶ limits ─▶ read body once ─▶ price ─▶ hold ─▶ forward ─▶ meter ─▶ settle. */
export function pipeline<Body extends { release(): void }, Request, Quote extends Priced, Own extends Covered>(
  steps: PipelineSteps,
  kind: RequestKind<Body, Request, Quote, Own>,
): Handler {
  const answer = withSlot(steps.limiter, async (exchange, who, slot) => {
    const read = await kind.readBody(exchange);
    if (!read.ok) return read.refusal === null ? notForwarded : refuse(exchange, read.refusal);
    const answered = answerRequest(steps, kind, exchange, { who, slot }, read.body);
    steps.background(releaseOnceSettled(answered, read.body));
    return (await answered).summary;
  });
  return withKey(steps.authenticate, answer);
}

interface Answered {
  readonly summary: Summary;
  /** Resolves when the charge is settled, after the client has its answer. */
  readonly settled: Promise<void>;
}

/** Releases the body once the request is settled. Until then a count of the prompt may need it. */
async function releaseOnceSettled(answered: Promise<Answered>, body: { release(): void }): Promise<void> {
  try {
    const { settled } = await answered;
    await settled;
  } finally {
    body.release();
  }
}

async function answerRequest<Body extends { release(): void }, Request, Quote extends Priced, Own extends Covered>(
  steps: PipelineSteps,
  kind: RequestKind<Body, Request, Quote, Own>,
  exchange: Exchange,
  from: Admitted,
  body: Body,
): Promise<Answered> {
  const admission = await admit(steps, kind, exchange, from, body);
  if (!admission.ok) return { summary: refuse(exchange, admission.refusal), settled: Promise.resolve() };
  const { covered } = admission;
  const { stream, slot } = covered;
  const model = covered.quote.model?.id ?? "other";
  if (stream) steps.events.requestStarted("stream");
  let forwarded: FinallyForwarded;
  let error: unknown;
  try {
    forwarded = exchange.clientGone ? notSent("client_left") : await kind.forward(exchange, covered);
  } catch (bug) {
    // The request is settled now. Otherwise its hold would be pending until the next start.
    forwarded = unanswered({ kind: "unknown", reason: "internal_error" });
    error = bug;
  }
  kind.leave(covered);
  const { ending, terms, firstTokenMs, overheadMs } = forwarded;
  const summary = { model, stream, firstTokenMs, overheadMs, error };
  if (ending.kind === "task") {
    if (slot.countsTokens) slot.settleTokens(0);
    return { summary, settled: Promise.resolve() };
  }
  return { summary, settled: kind.settle(covered, { ending, terms }, endOf(exchange, steps.clock, forwarded)) };
}

/** Prices and holds a request. Afterwards the request has a durable row, or it is refused. */
async function admit<Body extends { release(): void }, Request, Quote extends Priced, Own extends Covered>(
  steps: PipelineSteps,
  kind: RequestKind<Body, Request, Quote, Own>,
  exchange: Exchange,
  { who, slot }: Admitted,
  body: Body,
): Promise<Result<"covered", Own>> {
  const reading = kind.read(exchange, who, body);
  const read = reading instanceof Promise ? await reading : reading;
  if (!read.ok) return read;
  const tags = readPinnedTags(exchange.header("x-farebox-tag"), who.session);
  if (!tags.ok) return tags;
  const guarding = steps.balanceGuard();
  const belowFloor = guarding instanceof Promise ? await guarding : guarding;
  if (belowFloor !== null) return { ok: false, refusal: belowFloor };
  const pricing = kind.price(read.request, who, steps.clock.now());
  const priced = pricing instanceof Promise ? await pricing : pricing;
  if (!priced.ok) return priced;
  const { quote } = priced;
  const retry = readRetry(exchange.header("x-stainless-retry-count"));
  const covering = await kind.cover(exchange, { who, slot, tags: tags.tags, retry }, quote, body);
  if (!covering.ok) return covering;
  steps.events.admitted({
    key: who.key,
    route: kind.route,
    model: quote.model?.id ?? null,
    group: quote.model?.group ?? null,
    retry,
  });
  return covering;
}

/** Returns the end of a request to which the gateway sent no answer. */
function unanswered(ending: Ending): FinallyForwarded {
  return { ending, terms: null, gatewayRequestId: null, firstTokenMs: null, overheadMs: null };
}

/** Returns the end of a request that has a hold but is not sent. */
export function notSent(reason: string): FinallyForwarded {
  return unanswered({ kind: "notSent", reason });
}

/** Settles the hold, and replaces the reserved tokens by the used ones. */
export function settle(
  steps: SettleDeps,
  { slot, held, quote, who }: Omit<Covered, "stream">,
  outcome: Outcome,
  end: ChargeEnd,
): Promise<void> {
  if (slot.countsTokens) slot.settleTokens(tokensUsed(outcome));
  return settleCharge(steps, { held, quote, who, outcome, end });
}

/** Describes the end of a request at the present time. `forwarded` is missing if the request was not forwarded. */
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
