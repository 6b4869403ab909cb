import type { HostedToolPolicy } from "../core/keys.ts";
import { type OrRefused, type Refusal, invalid } from "../core/refusals.ts";
import type { ChargePosted } from "../ports/events.ts";
import type { BodyBytes, Exchange, Handler } from "../ports/exchange.ts";
import type { ChargeEnd } from "../ports/ledger.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import { promptTotal } from "../core/usage.ts";
import type { Endpoint } from "../wire/endpoint.ts";
import type { ModelRequest, ModelRequestResult } from "../wire/model-request.ts";
import { hasModelList, hostedToolPolicyOf, mayUseModel, type Authenticated, type Sender } from "./authenticate.ts";
import { costHeaders, noPriceMark } from "./billed.ts";
import { gatewayHeaders } from "./forward.ts";
import { growingHold, type GrowingHold } from "./growing-hold.ts";
import { lacksOnlyToolBounds, removedNames, removeTools, toolsToRemove } from "./hosted-tools.ts";
import { placeHold, type PendingCharge, type ShortageView } from "./hold.ts";
import { rememberInjected, type InjectedMaximum } from "./idempotency.ts";
import { reserveTokens } from "./rate-limits.ts";
import {
  capOutput,
  fittedRequest,
  mayBeFitted,
  sentBody,
  sentRequest,
  withoutUsage,
  type OutputCapSteps,
  type PricedRequest,
  type SentRequest,
} from "./output-cap.ts";
import {
  endOf,
  notSent,
  pipeline,
  type Covered,
  type Ended,
  type FinallyForwarded,
  type Identified,
  type PipelineSteps,
  type RequestKind,
} from "./pipeline.ts";
import type { LongPrompts } from "./long-prompts.ts";
import { knownName, type Pricer, type Pricing, type Quote } from "./price.ts";
import { bodyFormOf, readRequest, type ReadingSteps } from "./read-request.ts";
import { foreignTaskReason, noSuchTask, showsForeignTask, withhold, type Forwarded, type Verdict } from "./response.ts";
import { settleMetered } from "./settle.ts";
import type { StreamMarks } from "./stream-marks.ts";
import { bindMade } from "./task-ownership.ts";
import { isAnswered, UsageProbe } from "./usage-probe.ts";

/** Dependencies of requests that are priced and metered, in addition to those of every request. */
export interface RequestSteps extends PipelineSteps, ReadingSteps, OutputCapSteps, ShortageView {
  readonly pricer: Pricer;
  readonly tokens: TokenCounter;
  readonly streamMarks: StreamMarks;
  readonly longPrompts: LongPrompts;
  /** Policy for hosted tools that nothing bounds, of keys and teams without one. */
  readonly hostedTools: HostedToolPolicy;
}

/** Request with a durable hold. Its last two fields change while it is forwarded. */
interface MeteredRequest extends Covered {
  readonly charge: PendingCharge;
  /** Quote of `held`. */
  readonly quote: Quote;
  readonly sender: Sender;
  /** Request that the hold covers. */
  readonly held: PricedRequest;
  sent: SentRequest;
  growing: GrowingHold | undefined;
}

/** Returns the handler of an endpoint. */
export function meteredRequest(steps: RequestSteps, endpoint: Endpoint): Handler {
  return pipeline(steps, new MeteredRequests(steps, endpoint));
}

/** Steps of requests to an endpoint whose answers are metered. */
class MeteredRequests implements RequestKind<ModelRequest, Quote, MeteredRequest> {
  readonly route: string;
  readonly #steps: RequestSteps;
  readonly #endpoint: Endpoint;

  constructor(steps: RequestSteps, endpoint: Endpoint) {
    this.route = endpoint.route;
    this.#steps = steps;
    this.#endpoint = endpoint;
  }

  read(exchange: Exchange, _who: Authenticated, body: BodyBytes): ModelRequestResult {
    return readRequest(this.#steps, this.#endpoint, exchange, body);
  }

  userOf({ fields }: ModelRequest): string | null {
    return fields.user;
  }

  /** If earlier streams of the model arrived in bursts, the quote holds the whole cost from the start. */
  async price(request: ModelRequest, who: Authenticated, at: number): Promise<Pricing> {
    const { pricer, streamMarks } = this.#steps;
    const pricing = pricer.quote(request, at);
    if (!pricing.ok || pricing.quote.growth === null || pricing.quote.model === undefined)
      return checkModels(who, request, pricing);
    const isMarked = await streamMarks.isMarked(who.caller.key, pricing.quote.model.id);
    return checkModels(who, request, isMarked ? pricer.quote({ ...request, isHeldWhole: true }, at) : pricing);
  }

  /**
   * Creates the versions of the request (given ─▶ capped ─▶ held ─▶ sent) and its hold. If a hard budget refuses hosted
   * tools, and the key's policy is to remove them, the request without them takes the place of the given one.
   */
  async cover(
    exchange: Exchange,
    from: Identified,
    quote: Quote,
    body: BodyBytes,
  ): Promise<OrRefused<{ covered: MeteredRequest }>> {
    const { hostedTools } = this.#steps;
    const given: PricedRequest = { quote, body, injected: null };
    const first = await this.#hold(exchange, from, given);
    if (first.ok || hostedToolPolicyOf(from.who, hostedTools) !== "remove") return first;
    const tools = toolsToRemove(this.#endpoint, first.refusal, quote);
    if (tools.length === 0) return first;
    const without = await this.#remove(exchange, from, given, tools);
    return without.ok ? this.#hold(exchange, from, without.request) : without;
  }

  #remove(exchange: Exchange, { who }: Identified, given: PricedRequest, tools: readonly string[]) {
    const { at } = given.quote;
    return removeTools({ endpoint: this.#endpoint, exchange }, given, tools, (request) => this.price(request, who, at));
  }

  /** Caps a request and holds its worst case. */
  async #hold(
    exchange: Exchange,
    from: Identified,
    given: PricedRequest,
  ): Promise<OrRefused<{ covered: MeteredRequest }>> {
    const steps = this.#steps;
    const endpoint = this.#endpoint;
    const { who, slot, sender, retry } = from;
    const form = bodyFormOf(exchange, endpoint, given.quote.request, given.body);
    const headers = gatewayHeaders(steps.idempotencySecret, exchange, who.caller, form);
    const remove = (tools: readonly string[]) => this.#remove(exchange, from, given, tools);
    const capping = await capOutput(steps, exchange, { endpoint, who, headers, remove }, given);
    if (!capping.ok) return capping;
    const { capped, params, earlier } = capping;
    if (slot.countsTokens) {
      const overLimit = await reserveTokens(
        slot,
        capped.quote.promptTokens,
        () => steps.pricer.countPrompt(capped.quote, capped.body, who.caller.key),
        capped.quote.model?.tokenizerIsPublic,
      );
      if (overLimit !== null) return { ok: false, refusal: overLimit };
    }
    const holding = await placeHold(steps, {
      id: exchange.id,
      kind: mayMakeTask(endpoint, exchange) ? "task" : "request",
      route: endpoint.route,
      who,
      sender,
      retry,
      capped,
      maximum: params && params.maximum,
      fit:
        params === null || earlier !== null || !mayBeFitted(params)
          ? null
          : (tokens) => fittedRequest(params, capped, tokens),
      mayPass: (quote) =>
        hostedToolPolicyOf(who, steps.hostedTools) === "allow" && lacksOnlyToolBounds(endpoint, quote),
    });
    if (!holding.ok) {
      slot.settleTokens(0);
      return holding;
    }
    const { charge, held } = holding;
    const sent = sentRequest(steps, endpoint, capping, held, charge.room);
    const { stream } = held.quote.request;
    return {
      ok: true,
      covered: { who, slot, charge, quote: held.quote, sender, stream, held, sent, growing: undefined },
    };
  }

  /**
   * Stores the values that Farebox put into the request, then sends it. If the gateway may have refused the request
   * only because Farebox asked for stream usage, sends it again without asking for usage. The client gets the answer to
   * the second request, because that is the request that the client sent.
   */
  async forward(exchange: Exchange, covered: MeteredRequest): Promise<FinallyForwarded> {
    const steps = this.#steps;
    const endpoint = this.#endpoint;
    const { quote } = covered;
    if (covered.sent.idempotency !== null) {
      const refusal = await rememberInjected(steps, covered.sent, quote.at);
      if (exchange.clientGone) return notSent("client_left");
      if (refusal !== null) {
        exchange.refuse(refusal);
        return notSent("written_otherwise");
      }
    }
    const probe = this.#usageProbe(exchange, covered);
    const first = await this.#send(exchange, covered, probe);
    const { ending } = first;
    if (ending.kind !== "usageRefused" || probe === undefined) {
      const { stream, wantsStreamUsage, model } = quote.request;
      if (stream && (wantsStreamUsage || covered.sent.injected.usage) && isAnswered(ending))
        steps.usageRefusals.accept(endpoint.route, model);
      return first as FinallyForwarded;
    }
    covered.sent = withoutUsage(endpoint, covered.sent);
    if (covered.sent.idempotency !== null) {
      const refusal = await rememberInjected(steps, covered.sent, quote.at);
      if (refusal !== null && !exchange.clientGone) exchange.refuse(refusal);
      if (refusal !== null || exchange.clientGone) {
        probe.end(null);
        return { ...first, ending: ending.otherwise };
      }
    }
    const second = await this.#send(exchange, covered, probe);
    if (second.ending.kind === "usageRefused")
      throw new Error("the gateway refused stream usage for a request that did not ask for it");
    probe.end(second.ending);
    return { ...second, ending: second.ending, overheadMs: first.overheadMs };
  }

  /** Returns the probe for a request that Farebox asks for usage, unless it must always ask. */
  #usageProbe(exchange: Exchange, { quote, charge, sent }: MeteredRequest): UsageProbe | undefined {
    const steps = this.#steps;
    const { route } = this.#endpoint;
    if (!sent.injected.usage || steps.streamUsage !== "auto") return undefined;
    const billsServerErrors = quote.model?.billsServerErrors ?? false;
    return new UsageProbe(steps, { id: charge.id, route, model: quote.request.model, billsServerErrors, exchange });
  }

  /** Sends the request. `probe` reads the beginning of the answer. */
  #send(exchange: Exchange, covered: MeteredRequest, probe: UsageProbe | undefined): Promise<Forwarded> {
    const steps = this.#steps;
    const endpoint = this.#endpoint;
    const { quote, charge, slot, held, sent } = covered;
    const { request } = quote;
    const { maximum, toolCalls, usage, removedTools } = sent.injected;
    const isCut = maximum !== null && endpoint.maximum?.api === "responses" && request.isCutWorthless === true;
    covered.growing = growingHold(steps, exchange, covered);
    return steps.forwarder.forward({
      exchange,
      path: exchange.path + exchange.query,
      headers: sent.headers,
      body: sentBody(endpoint, held, sent.injected),
      endpoint,
      stream: request.stream,
      asksForText: request.asksForText === true,
      dropUsageChunk: usage,
      cutAtMaximum: isCut ? maximumReached(maximum) : null,
      watch: covered.growing,
      // The client may send its next request before this one is read.
      onOver: () => slot.leave(),
      ownHeaders: [
        ...(charge.price === null ? [noPriceMark] : []),
        ...(usage ? [["x-farebox-stream-usage", "asked"] as const] : []),
        ...(toolCalls === null ? [] : [["x-farebox-tool-calls", String(toolCalls)] as const]),
        ...(removedTools.length === 0 ? [] : [["x-farebox-removed-tools", removedNames(removedTools)] as const]),
        ...(maximum === null ? [] : [[maximumHeaders[maximum.why], String(maximum.tokens)] as const]),
      ],
      wholeBytesMax: null,
      mayNeedOtherKey: endpoint.isUnknown === true,
      beginning: usage ? probe?.first : probe?.second,
      inspect: (status, plain) => {
        const refused = usage && plain !== undefined ? probe?.refusal(status, plain) : undefined;
        if (refused != null) return { ending: refused, show: null };
        return this.#inspect(exchange, covered, status, plain);
      },
      costHeaders: (answer) => costHeaders(charge, quote, answer),
    });
  }

  /**
   * Checks an answer before the client gets it. Withholds an answer that names a task of another key. Binds new tasks.
   */
  #inspect(
    exchange: Exchange,
    covered: MeteredRequest,
    status: number,
    plain: Buffer | undefined,
  ): Verdict | null | Promise<Verdict | null> {
    if (plain === undefined) return null;
    const steps = this.#steps;
    const foreign = showsForeignTask(steps, plain, { requestId: exchange.id, key: covered.who.caller.key });
    const mayBind = status < 300 && mayMakeTask(this.#endpoint, exchange);
    if (foreign === false && !mayBind) return null;
    return Promise.resolve(foreign).then((isForeign) => {
      if (isForeign)
        return withhold(
          exchange,
          noSuchTask,
          status >= 300 ? { kind: "status", status } : { kind: "unknown", reason: foreignTaskReason },
        );
      return mayBind ? bindMade(steps, exchange, covered, plain, () => endOf(exchange, steps.clock)) : null;
    });
  }

  leave({ growing }: MeteredRequest): void {
    growing?.end();
  }

  async settle(
    covered: MeteredRequest,
    ended: Ended,
    end: ChargeEnd,
    release: () => void,
  ): Promise<ChargePosted | null> {
    const posted = await settleMetered(this.#steps, covered, ended, end, release);
    if (posted !== null) this.#compareWithBound(covered, posted);
    return posted;
  }

  /** Marks the key and model of a prompt that had more tokens than its bound by words. */
  #compareWithBound({ who, charge, growing, quote }: MeteredRequest, { source, tokens }: ChargePosted): void {
    const { model, request } = quote;
    const bound = charge.countedPrompt ?? growing?.countedPrompt;
    // Hosted tools add to the prompt that the gateway reports.
    if (bound === undefined || model === undefined || model.tokenizerIsPublic || request.terms?.hostedTools != null)
      return;
    const reported = promptTotal(tokens);
    if (source === "reported" && reported > bound)
      this.#steps.longPrompts.record(who.caller.key, model.id, reported, bound);
  }
}

/** Returns the pricing, or a refusal if the key may not use one of the models. */
function checkModels(who: Authenticated, request: ModelRequest, pricing: Pricing): Pricing {
  if (!pricing.ok) return pricing;
  const { models, model, catalogue } = pricing.quote;
  const refused = (refusal: Refusal): Pricing => ({ ok: false, refusal, model: knownName({ model, request }) });
  if (request.unread !== undefined && hasModelList(who)) return refused(mustNameModel(request.unread));
  const forbidden = models.find((named) => !mayUseModel(who, { name: named.name, id: named.model?.id }, catalogue));
  if (forbidden === undefined) return pricing;
  return refused({ code: "model_not_allowed", model: forbidden.name });
}

/**
 * Returns the refusal of a request to a key that may use only some models. `why`: reason why its model is not certain.
 */
export function mustNameModel(why: string): Refusal {
  return invalid("model", `${why}; this key may use only some models, so name the model as 'model' in JSON or a form`)
    .refusal;
}

/** Headers for the maximum that Farebox put into the request. */
const maximumHeaders = { output_cap: "x-farebox-output-cap", fitted: "x-farebox-fitted" } as const;

/** Returns the refusal for a stream that reached the injected maximum. It states why the answer is incomplete. */
function maximumReached({ tokens, why }: InjectedMaximum): Refusal {
  const limit =
    why === "fitted" ? `${tokens} output tokens, the most that fit the budget` : `the output cap of ${tokens} tokens`;
  return {
    code: "gateway_stream_broken",
    message: `The answer is incomplete, because it reached ${limit}.`,
  };
}

/**
 * Methods whose requests never bind a task. Without this rule, a request that only lists the account's tasks could be
 * charged for one of them.
 */
const methodsWithoutTasks: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS", "DELETE"]);

function mayMakeTask({ mayMakeTasks }: Endpoint, { method }: Exchange): boolean {
  return mayMakeTasks === true && !methodsWithoutTasks.has(method);
}
