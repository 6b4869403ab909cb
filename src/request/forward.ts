import type { Refusal } from "../core/refusals.ts";
import { storedText } from "../wire/json.ts";
import type { Clock, Timer } from "../ports/clock.ts";
import type { Exchange, HeaderList } from "../ports/exchange.ts";
import type { Gateway, GatewayCall, GatewayFailure, GatewayHead, GatewayReceiver } from "../ports/gateway.ts";
import type { AnswerTerms, ModelAnswer } from "../wire/model-answer.ts";
import type { Endpoint } from "../wire/endpoint.ts";
import { answerHeaders } from "../wire/headers.ts";
import { BufferedResponse, heldBytesMax } from "./buffered-response.ts";
import { StreamedResponse } from "./streamed-response.ts";
import {
  PassthroughResponse,
  type Forwarded,
  type ResponseEnding,
  type ResponseMode,
  type Verdict,
} from "./response.ts";
import { clientLeft, failedCall, shutdown, timeLimit, type Stopped, type WholeFailure } from "./gateway-failure.ts";
import { maskedHeaders, maskedText, type Mask } from "./mask.ts";
import { sharedPace, timedPace, type StreamWatch } from "./stream-watch.ts";
import { Upload } from "./upload.ts";

/** Request to forward, and rules for its answer. */
export interface ForwardParams {
  readonly exchange: Exchange;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | Upload | undefined;
  /** Endpoint that reads the answer. */
  readonly endpoint: Endpoint;
  /** True if the client asked for a stream. A stream ends when its client leaves. */
  readonly stream: boolean;
  /** True if the usage chunk is removed because the client did not ask for it. */
  readonly dropUsageChunk: boolean;
  /** Refusal for a stream that reaches the maximum that Farebox wrote. Null if the gateway's own last event is passed on. */
  readonly cutAtMaximum: Refusal | null;
  /** Watch over a stream that could outgrow its hold; undefined for others. */
  readonly watch: StreamWatch | undefined;
  /** Headers that Farebox adds to every answer. */
  readonly ownHeaders: HeaderList;
  /**
   * Largest answer in bytes if an answer of any kind must be held until it is complete. Null if only short answers are
   * held.
   */
  readonly wholeBytesMax: number | null;
  /**
   * Decides on a held answer before its client gets it. `plain`: the decoded body; undefined if it cannot be decoded.
   * Returns null to pass the answer on.
   */
  inspect(status: number, plain: Buffer | undefined): Verdict | null | Promise<Verdict | null>;
  /** Returns headers with the cost of an answer; none if it reports no usage. */
  costHeaders(answer: ModelAnswer): HeaderList;
}

export interface Forwarder {
  forward(params: ForwardParams): Promise<Forwarded>;
  /** Ends every running call and every later one. A call that was sent is settled as cut or unknown. */
  stopAll(): void;
}

export interface ForwardLimits {
  /** Longest time without a byte from the gateway, in milliseconds. */
  readonly silenceMs: number;
  /** Longest time for a whole answer, in milliseconds. */
  readonly wholeMs: number;
}

function isJson(contentType: string | undefined): boolean {
  return /^application\/(?:[\w.+-]+\+)?json\b/i.test(contentType ?? "");
}

/** Creates a forwarder. It sends requests to the gateway and passes the answers on as `ForwardParams` states. */
export function createForwarder(deps: {
  readonly gateway: Gateway;
  readonly clock: Clock;
  readonly mask: Mask;
  readonly limits: ForwardLimits;
}): Forwarder {
  const { clock, limits } = deps;
  const running = new Running<Forwarding>();
  let stopped = false;
  /** Timer for all calls. One is enough because the limit is the same, so the oldest call reaches it first. */
  let sweep: Timer | undefined;
  const endOverdue = (): void => {
    sweep = undefined;
    let nextMs = Infinity;
    for (const forwarding of running.all()) {
      const leftMs = limits.wholeMs - forwarding.ranMs();
      if (leftMs <= 0) forwarding.stop(timeLimit(limits.wholeMs));
      else nextMs = Math.min(nextMs, leftMs);
    }
    if (nextMs < Infinity) sweep ??= clock.after(Math.ceil(nextMs), endOverdue);
  };
  return {
    forward(params) {
      return new Promise((resolve) => {
        const forwarding = new Forwarding(params, deps, (forwarded) => {
          running.remove(forwarding);
          resolve(forwarded);
        });
        running.add(forwarding);
        sweep ??= clock.after(limits.wholeMs, endOverdue);
        if (stopped) forwarding.stop(shutdown);
        else forwarding.start();
      });
    },
    stopAll() {
      stopped = true;
      for (const forwarding of running.all()) forwarding.stop(shutdown);
    },
  };
}

class Forwarding implements GatewayReceiver, Indexed {
  index = 0;
  readonly #params: ForwardParams;
  readonly #clock: Clock;
  readonly #mask: Mask;
  readonly #gateway: Gateway;
  readonly #limits: ForwardLimits;
  readonly #done: (forwarded: Forwarded | Promise<never>) => void;
  readonly #sentAt: number;
  #call: GatewayCall | undefined;
  #mode: ResponseMode | undefined;
  #head: GatewayHead | undefined;
  #firstByteAt: number | null = null;
  #terms: AnswerTerms | null = null;
  /** True if a header of the answer repeats the gateway's credential. */
  #repeatsKey = false;
  #over = false;

  constructor(
    params: ForwardParams,
    deps: { readonly gateway: Gateway; readonly clock: Clock; readonly mask: Mask; readonly limits: ForwardLimits },
    done: (forwarded: Forwarded | Promise<never>) => void,
  ) {
    this.#params = params;
    this.#clock = deps.clock;
    this.#mask = deps.mask;
    this.#gateway = deps.gateway;
    this.#limits = deps.limits;
    this.#done = done;
    this.#sentAt = deps.clock.monotonic();
  }

  start(): void {
    const { exchange, path, headers, body } = this.#params;
    exchange.onClientGone(() => this.#clientGone());
    if (body instanceof Upload)
      body.onBroken((refusal) =>
        this.stop(refusal === null ? clientLeft : { kind: "stopped", reason: refusal.code, refusal }),
      );
    const request = { method: exchange.method, path, headers, body, silenceMs: this.#limits.silenceMs };
    try {
      this.#call = this.#gateway.send(request, this);
    } catch (error) {
      this.#fault(error);
    }
  }

  /** Ends the call, with a refusal for the client. */
  stop(stopped: Stopped): void {
    if (this.#over) return;
    const sent = this.#call?.sent ?? false;
    this.#call?.abort();
    this.#failed(stopped, sent);
  }

  head(head: GatewayHead): void {
    try {
      this.#begin(head);
    } catch (error) {
      this.#fault(error);
    }
  }

  /** Chooses the response mode by the head of the answer. */
  #begin(head: GatewayHead): void {
    this.#head = head;
    const given = answerHeaders(head.rawHeaders);
    const masked = maskedHeaders(given, this.#mask);
    this.#repeatsKey = masked !== given;
    const headers = [...masked, ...this.#params.ownHeaders];
    const isWhole = this.#params.wholeBytesMax !== null;
    const isStream = !isWhole && head.status < 300 && /^text\/event-stream\b/i.test(head.header("content-type") ?? "");
    const reading = { pause: () => this.#call?.pause(), resume: () => this.#call?.resume() };
    const { endpoint, watch, wholeBytesMax } = this.#params;
    const timed = isStream && watch !== undefined ? timedPace(reading, this.#clock) : undefined;
    const watched = timed && sharedPace(timed.pace);
    if (timed !== undefined && watched !== undefined)
      watch?.begin({
        pace: watched(),
        pausedMs: timed.pausedMs,
        stop: (reason, refusal) => this.stop({ kind: "stopped", reason, refusal }),
      });
    if (!isStream && head.status < 300) watch?.cannotRead();
    const deps = {
      exchange: this.#params.exchange,
      head,
      headers,
      pace: watched?.() ?? reading,
      ranMs: () => this.ranMs(),
      stated: (terms: AnswerTerms | null) => (this.#terms = terms),
    };
    const isMedia = !isWhole && endpoint.answersMedia && head.status < 300 && !isJson(head.header("content-type"));
    if (isStream)
      this.#mode = new StreamedResponse({
        ...deps,
        endpoint,
        dropUsageChunk: this.#params.dropUsageChunk,
        cutAtMaximum: this.#params.cutAtMaximum,
        watch,
      });
    else if (isMedia || (!isWhole && this.#params.exchange.method === "HEAD"))
      this.#mode = new PassthroughResponse(deps);
    else {
      this.#mode = new BufferedResponse({
        ...deps,
        reader: endpoint.answerReader(),
        mask: this.#mask,
        costHeaders: this.#params.costHeaders,
        inspect: this.#params.inspect,
        bytesMax: wholeBytesMax ?? heldBytesMax,
        onTooLarge: wholeBytesMax === null ? null : () => this.#tooLarge(),
      });
    }
  }

  #tooLarge(): void {
    if (this.#over) return;
    this.#call?.abort();
    this.#failed({ kind: "too_large" }, true);
  }

  chunk(bytes: Uint8Array): void {
    this.#firstByteAt ??= this.#clock.monotonic();
    try {
      this.#mode?.chunk(bytes as Buffer);
    } catch (error) {
      this.#fault(error);
    }
  }

  /** Ends the call after a bug in Farebox. An error thrown from an event of the engine's socket would end the process. */
  #fault(bug: unknown): void {
    if (this.#over) return;
    this.#call?.abort();
    this.#finish(Promise.reject(bug as Error));
  }

  end(): void {
    let ending: ResponseEnding | Promise<ResponseEnding>;
    try {
      ending = this.#mode?.end() ?? { kind: "unknown", reason: "no_answer" };
    } catch (error) {
      ending = Promise.reject(error as Error);
    }
    this.#finish(ending);
  }

  fail(failure: GatewayFailure): void {
    this.#failed(
      failure.kind === "silent" ? { ...failure, timeoutMs: this.#limits.silenceMs } : failure,
      this.#call?.sent ?? false,
    );
  }

  #failed(failure: WholeFailure | Stopped, isSent: boolean): void {
    const { refusal, ending } = failedCall(failure, isSent);
    if (ending.kind === "unknown") return this.#break(ending.reason, refusal);
    this.#refuse(refusal);
    this.#finish(ending);
  }

  /**
   * Ends a stream when its client leaves. Reads other answers to their end: they are billed anyway, and only they state the
   * usage.
   */
  #clientGone(): void {
    if (this.#over) return;
    if (this.#call?.sent === true && !this.#params.stream && !this.#isUploading) this.#call.resume();
    else this.stop(clientLeft);
  }

  /** True while the gateway has only a part of the request. It cannot bill a part. */
  get #isUploading(): boolean {
    const { body } = this.#params;
    return body instanceof Upload && !body.isComplete;
  }

  /** Ends a call that was sent. A stream is cut. For other answers it is not known whether the gateway bills them. */
  #break(reason: string, refusal: Refusal): void {
    if (this.#mode !== undefined) {
      try {
        this.#finish(this.#mode.broken(reason, refusal));
      } catch (error) {
        this.#fault(error);
      }
      return;
    }
    this.#refuse(refusal);
    if (this.#isUploading) return this.#finish({ kind: "notSent", reason });
    const leftStream = this.#params.stream && reason === "client_left";
    this.#finish(
      leftStream
        ? { kind: "cut", usage: undefined, texts: [], reason, ranMs: this.ranMs() }
        : { kind: "unknown", reason },
    );
  }

  #refuse(refusal: Refusal): void {
    const { exchange } = this.#params;
    if (exchange.status === null && !exchange.clientGone) exchange.refuse(refusal);
  }

  /** Milliseconds since the request was sent. */
  ranMs(): number {
    return this.#clock.monotonic() - this.#sentAt;
  }

  #finish(ending: ResponseEnding | Promise<ResponseEnding>): void {
    if (this.#over) return;
    this.#over = true;
    this.#params.watch?.end();
    // A client may read its answer only after it has sent its whole body, so the remaining bytes are discarded.
    if (this.#isUploading) (this.#params.body as Upload).discard();
    // A bug in code that reads an answer fails the request, not the process.
    if (ending instanceof Promise)
      void ending.then(
        (known) => this.#done(this.#forwarded(known)),
        (error: unknown) => this.#done(Promise.reject(error)),
      );
    else this.#done(this.#forwarded(ending));
  }

  #forwarded(ending: ResponseEnding): Forwarded {
    const { startedAt } = this.#params.exchange;
    const requestId = this.#head?.header("x-request-id");
    return {
      ending,
      // The credential must not be stored, so the terms are masked too.
      terms: this.#terms && maskedTerms(this.#terms, this.#mask),
      gatewayRequestId:
        requestId === undefined ? null : storedText(this.#repeatsKey ? maskedText(requestId, this.#mask) : requestId),
      firstTokenMs: this.#firstByteAt === null ? null : this.#firstByteAt - startedAt,
      overheadMs: this.#sentAt - startedAt,
    };
  }
}

function maskedTerms(terms: AnswerTerms, mask: Mask): AnswerTerms {
  const servedModel = terms.servedModel && maskedText(terms.servedModel, mask);
  return servedModel === terms.servedModel ? terms : { ...terms, servedModel };
}

/** Element of `Running`. It keeps its index so that it can be removed in constant time. */
interface Indexed {
  index: number;
}

/**
 * Set of running items, without an order. Uses an array: a Set to which every request is added and removed keeps a chain of
 * old tables, which keep finished requests reachable for the garbage collector (measured: a quarter of all allocations).
 */
export class Running<T extends Indexed> {
  readonly #items: T[] = [];

  add(item: T): void {
    item.index = this.#items.length;
    this.#items.push(item);
  }

  /** Removes an item and moves the last item to its index. */
  remove(item: T): void {
    const last = this.#items.pop();
    if (last === undefined || last === item) return;
    this.#items[item.index] = last;
    last.index = item.index;
  }

  /** Returns a copy, because callers may remove items while they iterate. */
  all(): readonly T[] {
    return [...this.#items];
  }
}
