import type { Refusal } from "../core/refusals.ts";
import { Running } from "../core/running.ts";
import { isObject, storedText } from "../wire/json.ts";
import type { Clock, Timer } from "../ports/clock.ts";
import type { BodyBytes, Exchange, HeaderList } from "../ports/exchange.ts";
import type { Gateway, GatewayCall, GatewayFailure, GatewayHead, GatewayReceiver } from "../ports/gateway.ts";
import type { AnswerTerms } from "../wire/model-answer.ts";
import type { StatedError } from "../core/settlement.ts";
import { readEventError } from "../wire/error-answer.ts";
import { errorBytesMax, refusesKey, statesKeyRefusal } from "../wire/key-refusal.ts";
import { readEnvelopeError } from "../wire/created-tasks.ts";
import { statesOnlyError } from "../wire/usage-refusal.ts";
import {
  answerHeaders,
  isJsonType,
  forwardableHeaders,
  sentContentType,
  textOfHeader,
  traceHeaders,
  type BodyForm,
} from "../wire/headers.ts";
import { isPlain } from "../wire/content-encoding.ts";
import { AnswerFormReader } from "../wire/answer-form.ts";
import { answerFormOf } from "../wire/sse.ts";
import { Beginning, type BeginningRules } from "./beginning.ts";
import { StreamedResponse, type StreamRules } from "./streamed-response.ts";
import { StreamMemory } from "./stream-memory.ts";
import {
  BufferedResponse,
  heldBytesMax,
  PassthroughResponse,
  type Forwarded,
  type ResponseEnding,
  type AnswerRules,
  type Ending,
  keyRefused,
  RefusedKeyResponse,
  type ResponseMode,
  maskedHeaders,
  maskedText,
  type Mask,
} from "./response.ts";
import { credentialHeadersOf } from "./authenticate.ts";
import type { KeyWatch } from "./gateway-key.ts";
import { clientLeft, failedCall, shutdown, timeLimit, type Stopped, type WholeFailure } from "./gateway-failure.ts";
import { sharedPace, timedPace } from "./stream-watch.ts";
import { createHmac, hkdfSync } from "node:crypto";
import type { Caller } from "../core/scope.ts";

/** Request to forward, and rules for its answer. */
export interface ForwardParams extends AnswerRules, StreamRules {
  readonly exchange: Exchange;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: BodyBytes | undefined;
  /** True if the client asked for a stream. Farebox ends a stream when its client leaves. */
  readonly stream: boolean;
  /** True if the answer may be text, which may begin like an event. */
  readonly asksForText?: boolean;
  /** Headers that Farebox adds to every answer. */
  readonly ownHeaders: HeaderList;
  /**
   * Size limit in bytes if every answer must be held until it is complete. Null if streams, media and large answers are
   * passed on as they arrive.
   */
  readonly wholeBytesMax: number | null;
  /**
   * True for a path for which the gateway may require another credential. A 401 alone then says nothing about the key.
   */
  readonly mayNeedOtherKey?: boolean;
  /** Rules for the beginning of an answer with a success status; absent if nothing depends on it. */
  readonly beginning?: BeginningRules | undefined;
}

export interface ForwardLimits {
  /** Longest time without a byte from the gateway, in milliseconds. */
  readonly silenceMs: number;
  /** Longest time for a whole answer, in milliseconds. */
  readonly wholeMs: number;
}

interface ForwarderDeps {
  readonly gateway: Gateway;
  readonly clock: Clock;
  readonly mask: Mask;
  readonly keyWatch: Pick<KeyWatch, "isRefused" | "setRefused">;
  readonly limits: ForwardLimits;
}

/** Sends requests to the gateway and passes answers on by the rules in `ForwardParams`. */
export class Forwarder {
  readonly #deps: ForwarderDeps & { readonly memory: StreamMemory };
  readonly #running = new Running<Forwarding>();
  #stopped = false;
  /** Timer for all calls. One is enough because all calls have the same time limit, so the oldest reaches it first. */
  #sweep: Timer | undefined;

  constructor(deps: ForwarderDeps) {
    this.#deps = { ...deps, memory: new StreamMemory() };
  }

  forward(params: ForwardParams): Promise<Forwarded> {
    return new Promise((resolve) => {
      const forwarding = new Forwarding(params, this.#deps, (forwarded) => {
        this.#running.remove(forwarding);
        resolve(forwarded);
      });
      this.#running.add(forwarding);
      if (this.#sweep === undefined) this.#sweepAfter(this.#deps.limits.wholeMs);
      if (this.#stopped) forwarding.stop(shutdown);
      else forwarding.start();
    });
  }

  /** Ends every running call, and every later call at once. A call that was already sent ends as cut or unknown. */
  stopAll(): void {
    this.#stopped = true;
    for (const forwarding of this.#running.all()) forwarding.stop(shutdown);
  }

  #sweepAfter(ms: number): void {
    this.#sweep = this.#deps.clock.after(ms, () => this.#endOverdue());
  }

  #endOverdue(): void {
    const { wholeMs } = this.#deps.limits;
    this.#sweep = undefined;
    let nextMs = Infinity;
    for (const forwarding of this.#running.all()) {
      const leftMs = wholeMs - forwarding.ranMs();
      if (leftMs <= 0) forwarding.stop(timeLimit(wholeMs));
      else nextMs = Math.min(nextMs, leftMs);
    }
    if (nextMs < Infinity && this.#sweep === undefined) this.#sweepAfter(Math.ceil(nextMs));
  }
}

class Forwarding implements GatewayReceiver {
  index = 0;
  readonly #params: ForwardParams;
  readonly #clock: Clock;
  readonly #mask: Mask;
  readonly #gateway: Gateway;
  readonly #keyWatch: ForwarderDeps["keyWatch"];
  readonly #limits: ForwardLimits;
  readonly #memory: StreamMemory;
  readonly #done: (forwarded: Forwarded | Promise<never>) => void;
  readonly #sentAt: number;
  #call: GatewayCall | undefined;
  #mode: ResponseMode | undefined;
  #head: GatewayHead | undefined;
  /** First bytes of an answer whose form is not known yet; undefined once the response mode is chosen. */
  #firstBytes: Buffer | undefined;
  /** Reads the first JSON of the answer, and may hold the answer until then. */
  #beginning: Beginning | undefined;
  /** True while reading is paused, so that bytes of the gateway may be waiting in the socket. */
  #isPaused = false;
  #drain: Drain | undefined;
  #firstByteAt: number | null = null;
  #terms: AnswerTerms | null = null;
  /** True if a header of the answer repeats the gateway's credential. */
  #repeatsKey = false;
  /** True if an answer with a success status states an error. */
  #statesError = false;
  /** False if the credential was sent only in a header that the gateway does not document for the path. */
  #isKeyFormDocumented = true;
  #over = false;

  constructor(
    params: ForwardParams,
    deps: ForwarderDeps & { readonly memory: StreamMemory },
    done: (forwarded: Forwarded | Promise<never>) => void,
  ) {
    this.#params = params;
    this.#clock = deps.clock;
    this.#mask = deps.mask;
    this.#gateway = deps.gateway;
    this.#keyWatch = deps.keyWatch;
    this.#limits = deps.limits;
    this.#memory = deps.memory;
    this.#done = done;
    this.#sentAt = deps.clock.monotonic();
  }

  start(): void {
    const { exchange, path, headers, body } = this.#params;
    exchange.onClientGone(() => this.#clientGone());
    const credential = credentialHeadersOf(exchange);
    this.#isKeyFormDocumented = credential?.includes("authorization") !== false;
    const request = { method: exchange.method, path, headers, credential, body, silenceMs: this.#limits.silenceMs };
    try {
      this.#call = this.#gateway.send(request, this);
    } catch (error) {
      this.#fault(error);
    }
  }

  /**
   * Ends the call, with a refusal for the client. If reading was paused, first reads the bytes that the gateway has
   * already sent, because it bills them.
   */
  stop(stopped: Stopped): void {
    if (this.#over || this.#drain !== undefined) return;
    const sent = this.#call?.sent ?? false;
    if (this.#isPaused && this.#mode?.cutOff !== undefined) {
      this.#mode.cutOff(stopped.reason, stopped.refusal);
      this.#drain = new Drain(this.#clock, (isUnread) => {
        this.#call?.abort();
        this.#isPaused = isUnread;
        this.#failed(stopped, sent);
      });
      this.#call?.resume();
      return;
    }
    this.#call?.abort();
    this.#failed(stopped, sent);
  }

  head(head: GatewayHead): void {
    this.#head = head;
    try {
      if (head.status === 401 && this.#isSureOfKey) {
        this.#keyWatch.setRefused(true);
        this.#mode = new RefusedKeyResponse({ exchange: this.#params.exchange, head });
        return;
      }
      const rules = this.#keyWatch.isRefused ? this.#whileKeyIsRefused() : this.#params.beginning;
      if (rules === undefined || head.status >= 300 || !isPlain(head.header("content-encoding")))
        return this.#begin(head);
      this.#beginning = new Beginning({
        rules,
        clock: this.#clock,
        ranMs: () => this.ranMs(),
        begin: () => this.#begin(head),
        pass: (bytes, isLast) => this.#pass(bytes, isLast),
        withhold: (ending) => {
          this.#call?.abort();
          this.#finish(ending);
        },
        fault: (error) => this.#fault(error),
      });
    } catch (error) {
      this.#fault(error);
    }
  }

  /**
   * True if a 401 can only mean the key of this proxy. A gateway also refuses with 401 a wrong organization or project
   * that the client names, a key in the query, or a key in a header that it does not read.
   */
  get #isSureOfKey(): boolean {
    const { mayNeedOtherKey, headers, exchange } = this.#params;
    return (
      this.#isKeyFormDocumented &&
      mayNeedOtherKey !== true &&
      !identityHeaders.some((name) => headers[name] !== undefined) &&
      !identityInQuery.test(exchange.query)
    );
  }

  /** Returns the ending of an answer that refuses the key of this proxy; null for any other answer. */
  #keyRefusal(plain: Buffer, known: StatedError | undefined): Ending | null {
    const { status } = this.#head ?? { status: 0 };
    // Only `inspect` reads an answer about tasks, so its error is not known yet.
    const isTaskAnswer = status < 300 && this.#params.wholeBytesMax !== null && plain.length <= errorBytesMax;
    const error = known ?? (isTaskAnswer ? readEnvelopeError(plain) : undefined);
    this.#statesError = error !== undefined;
    const isRefused =
      error === undefined
        ? status >= 300 && refusesKey(status, plain, this.#isSureOfKey)
        : statesKeyRefusal(error, this.#isSureOfKey);
    if (!isRefused) return null;
    this.#keyWatch.setRefused(true);
    return error === undefined ? { kind: "status", status } : { kind: "error", error };
  }

  /**
   * Rules for the beginning of an answer while the gateway refuses the key of this proxy. They hold the answer until an
   * error in it could be withheld.
   */
  #whileKeyIsRefused(): BeginningRules {
    const { beginning: rules, exchange } = this.#params;
    return {
      heldMs: Math.max(rules?.heldMs ?? 0, keyErrorHeldMs),
      judge: (first, answer) => {
        const error = answer.isHeld && isObject(first) ? readEventError(first) : undefined;
        if (
          error?.kind !== "refused" ||
          !statesKeyRefusal(error, this.#isSureOfKey) ||
          !statesOnlyError(JSON.stringify(first))
        )
          return rules?.judge(first, answer) ?? "pass";
        if (!exchange.clientGone) exchange.refuse(keyRefused);
        return { kind: "error", error };
      },
    };
  }

  /**
   * Chooses the response mode by the answer's head. If only JSON or events were asked for, and the content type is not
   * that of events, the first bytes of an answer without compression decide instead, because the type may be wrong.
   */
  #begin(head: GatewayHead): void {
    const { stream, asksForText, wholeBytesMax, endpoint } = this.#params;
    const canStream = wholeBytesMax === null && head.status < 300;
    const isLabelled = /^text\/event-stream\b/i.test(head.header("content-type") ?? "");
    const hasForm = endpoint.answersMedia !== true || (stream && asksForText !== true);
    if (canStream && !isLabelled && hasForm && isPlain(head.header("content-encoding")))
      this.#firstBytes = Buffer.alloc(0);
    else this.#beginMode(head, canStream && isLabelled);
  }

  /** Chooses the response mode if the bytes so far show the form of the answer, or if they are all. */
  #chooseMode(bytes: Buffer, isLast: boolean, isAll: boolean): void {
    const head = this.#head;
    if (this.#firstBytes === undefined || head === undefined) return;
    const beginning = this.#firstBytes.length === 0 ? bytes : Buffer.concat([this.#firstBytes, bytes]);
    const form = answerFormOf(beginning);
    if (form === undefined && !isAll) {
      this.#firstBytes = beginning;
      return;
    }
    this.#firstBytes = undefined;
    this.#beginMode(head, form === "events");
    if (beginning.length > 0) this.#mode?.chunk(beginning, isLast);
  }

  #beginMode(head: GatewayHead, isStream: boolean): void {
    const given = answerHeaders(head.rawHeaders);
    const masked = maskedHeaders(given, this.#mask);
    this.#repeatsKey = masked !== given;
    const { ownHeaders } = this.#params;
    const headers = ownHeaders.length === 0 ? masked : [...masked, ...ownHeaders];
    const isWhole = this.#params.wholeBytesMax !== null;
    const reading = { pause: () => this.#pause(), resume: () => this.#resume() };
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
      onTerms: (terms: AnswerTerms | null) => (this.#terms = terms),
    };
    const isMedia =
      !isWhole && endpoint.answersMedia === true && head.status < 300 && !isJsonType(head.header("content-type"));
    if (isStream)
      this.#mode = new StreamedResponse({ ...deps, clock: this.#clock, memory: this.#memory }, this.#params);
    else if (isMedia || (!isWhole && this.#params.exchange.method === "HEAD"))
      this.#mode = new PassthroughResponse(deps);
    else {
      this.#mode = new BufferedResponse({
        ...deps,
        reader: isPlain(head.header("content-encoding"))
          ? endpoint.answerReader()
          : new AnswerFormReader(endpoint, "json"),
        mask: this.#mask,
        keyRefusal: (plain, error) => this.#keyRefusal(plain, error),
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

  chunk(bytes: Uint8Array, isLast: boolean): void {
    this.#firstByteAt ??= this.#clock.monotonic();
    try {
      if (this.#beginning === undefined) this.#pass(bytes as Buffer, isLast);
      else this.#beginning.chunk(bytes as Buffer, isLast);
      this.#drain?.chunk(bytes.length);
    } catch (error) {
      this.#fault(error);
    }
  }

  #pass(bytes: Buffer, isLast: boolean): void {
    if (this.#firstBytes === undefined) this.#mode?.chunk(bytes, isLast);
    else this.#chooseMode(bytes, isLast, false);
  }

  #pause(): void {
    if (this.#drain !== undefined) return;
    this.#isPaused = true;
    this.#call?.pause();
  }

  #resume(): void {
    this.#isPaused = false;
    this.#call?.resume();
  }

  /**
   * Ends the call after a bug in Farebox. If an error escaped into the engine's socket events, the process would end.
   */
  #fault(bug: unknown): void {
    if (this.#over) return;
    this.#call?.abort();
    this.#finish(Promise.reject(bug as Error));
  }

  end(): void {
    if (this.#drain !== undefined) return this.#drain.end(false);
    let ending: ResponseEnding | Promise<ResponseEnding>;
    try {
      if (this.#beginning?.end() === true) return;
      this.#chooseMode(Buffer.alloc(0), true, true);
      ending = this.#mode?.end() ?? { kind: "unknown", reason: "no_answer" };
    } catch (error) {
      ending = Promise.reject(error as Error);
    }
    this.#finish(ending);
  }

  fail(failure: GatewayFailure): void {
    if (this.#drain !== undefined) return this.#drain.end(true);
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
   * Ends a stream when its client leaves. Reads other answers to the end: the gateway bills them anyway, and only the
   * answer states the usage.
   */
  #clientGone(): void {
    if (this.#over) return;
    if (this.#call?.sent === true && !this.#params.stream) this.#resume();
    else this.stop(clientLeft);
  }

  /**
   * Ends a call that may have reached the gateway. Once the head has arrived, the response mode decides the ending.
   * Before that, a stream whose client left ends as cut, and any other call as unknown.
   */
  #break(reason: string, refusal: Refusal): void {
    if (this.#head !== undefined) {
      try {
        this.#beginning?.release();
        this.#chooseMode(Buffer.alloc(0), true, true);
        this.#finish(this.#mode?.broken(reason, refusal, this.#isPaused) ?? { kind: "unknown", reason });
      } catch (error) {
        this.#fault(error);
      }
      return;
    }
    this.#refuse(refusal);
    const isLeftStream = this.#params.stream && reason === "client_left";
    this.#finish(
      isLeftStream
        ? { kind: "cut", usage: undefined, texts: [], reason, ranMs: this.ranMs() }
        : { kind: "unknown", reason },
    );
  }

  #refuse(refusal: Refusal): void {
    const { exchange } = this.#params;
    if (exchange.status === null && !exchange.clientGone) exchange.refuse(refusal);
  }

  /** Returns the milliseconds since the request was sent. */
  ranMs(): number {
    return this.#clock.monotonic() - this.#sentAt;
  }

  #finish(ending: ResponseEnding | Promise<ResponseEnding>): void {
    if (this.#over) return;
    this.#over = true;
    this.#drain?.cancel();
    this.#beginning?.stop();
    this.#params.watch?.end();
    // A bug in code that reads an answer must fail the request, not the process.
    if (ending instanceof Promise)
      void ending.then(
        (known) => this.#resolve(this.#forwarded(known)),
        (error: unknown) => this.#resolve(Promise.reject(error)),
      );
    else this.#resolve(this.#forwarded(ending));
  }

  #resolve(forwarded: Forwarded | Promise<never>): void {
    this.#mode?.release?.();
    this.#done(forwarded);
  }

  /** Notes an answer that shows that the gateway accepts the key again, or an error in a stream that refuses it. */
  #noteKey(ending: ResponseEnding): void {
    if (ending.kind === "error" && statesKeyRefusal(ending.error, this.#isSureOfKey)) this.#keyWatch.setRefused(true);
    else if (this.#keyWatch.isRefused && this.#isSureOfKey && this.#isAccepted(ending))
      this.#keyWatch.setRefused(false);
  }

  /** Returns true if the gateway answered the request itself, so that it accepted the key. */
  #isAccepted({ kind }: ResponseEnding): boolean {
    if (this.#head === undefined || this.#head.status >= 300 || this.#statesError) return false;
    if (this.#params.exchange.method === "HEAD") return false;
    return kind === "whole" || kind === "cut" || kind === "task";
  }

  #forwarded(ending: ResponseEnding): Forwarded {
    this.#noteKey(ending);
    const { startedAt } = this.#params.exchange;
    const stated = this.#head?.header("x-request-id");
    const requestId = stated === undefined ? undefined : textOfHeader(stated);
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

/** Headers of a client that name its organization or project at the gateway. */
const identityHeaders = ["openai-organization", "openai-project"] as const;
/** Matches a query that may name a key, an organization or a project, even with escapes. */
const identityInQuery = /key|token|auth|org|project|%/i;

/**
 * Longest time that an answer is held while the gateway refuses the key, in milliseconds since the request was sent.
 */
const keyErrorHeldMs = 2_000;

/** Time without a byte after which a paused stream counts as read, in milliseconds. */
const drainGapMs = 20;
/** Longest time to read a paused stream that ends early, in milliseconds, and the largest number of bytes. */
const drainMs = 1_000;
const drainBytesMax = 8 * 1024 * 1024;

/** Reads what a gateway had sent while reading was paused, until the first gap. */
class Drain {
  readonly #clock: Clock;
  /** Called once. `isUnread`: true if a limit ended the reading. */
  readonly #done: (isUnread: boolean) => void;
  readonly #limit: Timer;
  #gap: Timer;
  #bytes = 0;
  #over = false;

  constructor(clock: Clock, done: (isUnread: boolean) => void) {
    this.#clock = clock;
    this.#done = done;
    this.#limit = clock.after(drainMs, () => this.end(true));
    this.#gap = this.#wait();
  }

  chunk(bytes: number): void {
    if (this.#over) return;
    this.#bytes += bytes;
    if (this.#bytes > drainBytesMax) return this.end(true);
    this.#gap.cancel();
    this.#gap = this.#wait();
  }

  end(isUnread: boolean): void {
    if (this.#over) return;
    this.cancel();
    this.#done(isUnread);
  }

  cancel(): void {
    this.#over = true;
    this.#limit.cancel();
    this.#gap.cancel();
  }

  /** Waits for a gap in two steps, because this process may have been too busy to read during the first. */
  #wait(): Timer {
    return this.#clock.after(drainGapMs / 2, () => {
      this.#gap = this.#clock.after(drainGapMs / 2, () => this.end(false));
    });
  }
}

function maskedTerms(terms: AnswerTerms, mask: Mask): AnswerTerms {
  const { servedModel, otherModels } = terms;
  const names = [servedModel ?? "", ...(otherModels ?? [])];
  if (!names.some((name) => mask.mayFindIn(name))) return terms;
  return {
    ...terms,
    servedModel: servedModel && maskedText(servedModel, mask),
    ...(otherModels && { otherModels: otherModels.map((name) => maskedText(name, mask)) }),
  };
}

/**
 * Returns the secret for idempotency keys. It is derived from the gateway's key, so it is the same after a restart and
 * in all workers and proxies.
 */
export function idempotencySecretOf(gatewayKey: string): Buffer {
  return Buffer.from(hkdfSync("sha256", gatewayKey, "farebox", "idempotency v1", 32));
}

/**
 * Returns the headers to send to the gateway for a caller's request, without the gateway's credential. Replaces each
 * idempotency key with an HMAC-SHA-256 of the internal key's id and the value. Two internal keys therefore never share
 * an idempotency key at the gateway. `form`: form in which Farebox has read the body.
 */
export function gatewayHeaders(
  secret: Buffer,
  exchange: Exchange,
  { key }: Caller,
  form: BodyForm,
): Record<string, string> {
  // Neither a key's id nor a header's value can contain the separator.
  const idempotencyKey = (value: string) => createHmac("sha256", secret).update(`${key}\0${value}`).digest("hex");
  const headers = forwardableHeaders(exchange.headers(), idempotencyKey);
  // Asks for answers without compression, because Farebox reads them. A gateway may compress them nevertheless.
  headers["accept-encoding"] = "identity";
  const contentType = sentContentType(exchange.header("content-type"), form);
  if (contentType !== undefined) headers["content-type"] = contentType;
  if (exchange.span !== null) {
    for (const name of traceHeaders) delete headers[name];
    Object.assign(headers, exchange.span.headers);
  }
  return headers;
}
