import type { IncomingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import type { OutboundProxy } from "../core/outbound-proxy.ts";
import { Running } from "../core/running.ts";
import type { Clock, Timer } from "../ports/clock.ts";
import type {
  CredentialHeader,
  Gateway,
  GatewayCall,
  GatewayFailure,
  GatewayHead,
  GatewayReceiver,
  GatewayRequest,
} from "../ports/gateway.ts";
import { IdleSockets, type SocketUse } from "./idle-sockets.ts";
import { ProxyFailed } from "./tunnel.ts";

const bearer: readonly CredentialHeader[] = ["authorization"];
const apiKeyHeader: readonly CredentialHeader[] = ["x-api-key"];

/** Largest number of redirects to follow for one request. All must lead to the gateway's origin. */
const redirectsMax = 5;

export interface GatewayOptions {
  /** Prefix of the gateway's paths, without `/v1`: "https://gateway.example" or "https://host/base". */
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly clock: Clock;
  /** Proxy through which the engine connects; null, as by default, to connect directly. */
  readonly proxy?: OutboundProxy | null;
  /**
   * Time for which the engine keeps an unused connection if the gateway states none, in milliseconds; `idleSocketMs` by
   * default.
   */
  readonly idleMs?: number;
}

/** Returns the value of a response's header; the last one if it is repeated. */
export function headerIn(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[value.length - 1] : value;
}

/** Attempt of an engine to send a request. To follow a redirect, the call starts another attempt. */
export interface Attempt {
  /** Starts the attempt. The attempt reports its events to the call, with itself as the first argument. */
  start(): void;
  pause(): void;
  resume(): void;
  /** Reads a response to its end without using it. */
  discard(): void;
  /** Ends the request at the gateway immediately. */
  close(): void;
}

/** Creates an attempt of an engine. */
type CreateAttempt = (request: GatewayRequest, call: EngineCall) => Attempt;

/** Sends calls through one engine. One timer ends all calls in which the gateway is silent for too long. */
export class EngineCalls implements Gateway {
  readonly origin: string;
  readonly createAttempt: CreateAttempt;
  readonly clock: Clock;
  readonly idleSockets: IdleSockets;
  readonly #basePath: string;
  readonly #authorization: string;
  readonly #apiKey: string;
  readonly #running = new Running<EngineCall>();
  #timer: Timer | undefined;
  /** Time at which the timer fires, on the clock's monotonic scale. */
  #timerAt = Infinity;

  constructor({ baseUrl, apiKey, clock, idleMs }: GatewayOptions, createAttempt: CreateAttempt) {
    const { origin, pathname } = new URL(baseUrl);
    this.origin = origin;
    this.#basePath = pathname.replace(/\/+$/, "");
    this.#apiKey = apiKey;
    this.#authorization = `Bearer ${apiKey}`;
    this.createAttempt = createAttempt;
    this.clock = clock;
    this.idleSockets = new IdleSockets(clock, idleMs);
  }

  send(request: GatewayRequest, receiver: GatewayReceiver): GatewayCall {
    const call = new EngineCall(this.#outgoing(request), receiver, this);
    this.#running.add(call);
    this.#checkAt(call.startedAt + request.silenceMs, call.startedAt);
    call.start();
    return call;
  }

  /** Removes a call that has ended. */
  ended(call: EngineCall): void {
    this.#running.remove(call);
  }

  /**
   * Returns a request with base path, length and credential added. By default, paths under /v1 need a bearer token, all
   * others need `x-api-key` (gateway interface, section 5).
   */
  #outgoing({ method, path, headers: given, credential, body, silenceMs }: GatewayRequest): GatewayRequest {
    const headers: Record<string, string> = { ...given };
    if (body !== undefined) headers["content-length"] = String(body.length);
    const names = credential ?? (path.startsWith("/v1/") ? bearer : apiKeyHeader);
    if (names.includes("authorization")) headers["authorization"] = this.#authorization;
    if (names.includes("x-api-key")) headers["x-api-key"] = this.#apiKey;
    return { method, path: this.#basePath + path, headers, body, silenceMs };
  }

  #checkAt(at: number, now: number): void {
    if (at >= this.#timerAt) return;
    this.#timer?.cancel();
    this.#timerAt = at;
    this.#timer = this.clock.after(Math.max(1, Math.ceil(at - now)), () => this.#checkSilence());
  }

  #checkSilence(): void {
    this.#timer = undefined;
    this.#timerAt = Infinity;
    const now = this.clock.monotonic();
    for (const call of this.#running.all()) {
      const leftMs = call.silenceLeftMs(now);
      if (leftMs > 0) this.#checkAt(now + leftMs, now);
      else call.silent();
    }
  }
}

/** Call to the gateway. Converts the engine's events to the events that the receiver expects, and ends exactly once. */
export class EngineCall implements GatewayCall {
  /** Set by `Running`. */
  index = 0;
  readonly startedAt: number;
  readonly #request: GatewayRequest;
  readonly #receiver: GatewayReceiver;
  readonly #calls: EngineCalls;
  #attempt: Attempt;
  #path: string;
  #redirects = 0;
  #over = false;
  #sent = false;
  #use: SocketUse | undefined;
  #paused = false;
  /** True once the whole answer has arrived. A paused receiver gets `end` only after `resume`. */
  #isComplete = false;
  #lastByteAt: number;

  constructor(request: GatewayRequest, receiver: GatewayReceiver, calls: EngineCalls) {
    this.#request = request;
    this.#receiver = receiver;
    this.#calls = calls;
    this.#path = request.path;
    this.startedAt = calls.clock.monotonic();
    this.#lastByteAt = this.startedAt;
    this.#attempt = calls.createAttempt(this.#request, this);
  }

  start(): void {
    this.#attempt.start();
  }

  get sent(): boolean {
    return this.#sent;
  }

  pause(): void {
    if (this.#paused || this.#over) return;
    this.#paused = true;
    this.#attempt.pause();
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#lastByteAt = this.#calls.clock.monotonic();
    if (this.#isComplete) queueMicrotask(() => this.completed(this.#attempt));
    else this.#attempt.resume();
  }

  abort(): void {
    if (this.#finish()) this.#attempt.close();
  }

  /** Reports that an idle connection is chosen for the request, before `sending`. */
  reusing(attempt: Attempt, socket: Socket): void {
    if (this.#isCurrent(attempt)) this.#use = this.#calls.idleSockets.taken(socket);
  }

  /** Reports that the connection is established and the request is being written to its socket. */
  sending(attempt: Attempt, socket?: Socket): void {
    if (!this.#isCurrent(attempt)) return;
    this.#sent = true;
    if (socket !== this.#use?.socket) this.#use = socket && this.#calls.idleSockets.taken(socket);
    this.#use?.writing();
  }

  /** Reports the head of a response. */
  answered(attempt: Attempt, head: GatewayHead): void {
    if (!this.#isCurrent(attempt)) return;
    this.#lastByteAt = this.#calls.clock.monotonic();
    if (this.#use !== undefined) this.#calls.idleSockets.answered(this.#use.socket, head.header("keep-alive"));
    const { status } = head;
    if (status < 200) {
      this.broken(attempt, `the answer has the invalid status ${status}`);
      return;
    }
    const location = status >= 300 && status < 400 ? head.header("location") : undefined;
    if (location !== undefined) {
      this.#redirected(status, location);
      return;
    }
    this.#receiver.head(head);
    if (this.#paused) this.#attempt.pause();
  }

  /** Reports bytes of a response. `isLast` is true if `completed` follows immediately. */
  received(attempt: Attempt, bytes: Uint8Array, isLast = false): void {
    if (!this.#isCurrent(attempt)) return;
    this.#lastByteAt = this.#calls.clock.monotonic();
    this.#receiver.chunk(bytes, isLast);
  }

  /** Reports that the response is complete according to its HTTP framing. */
  completed(attempt: Attempt): void {
    if (!this.#isCurrent(attempt)) return;
    this.#isComplete = true;
    if (this.#paused || !this.#finish()) return;
    this.#receiver.end();
  }

  /** Reports that the engine could not connect, or that the connection broke before the response was complete. */
  broken(attempt: Attempt, error: Error | string): void {
    if (!this.#isCurrent(attempt) || this.#isComplete) return;
    const use = this.#use;
    const message = typeof error === "string" ? error : error.message;
    if (error instanceof ProxyFailed && !this.#sent) {
      this.#fail({ kind: "proxy_failed", message });
      return;
    }
    if (use === undefined || use.idleMs === null || !use.isUnanswered) {
      this.#fail(this.#sent ? { kind: "reset", message } : { kind: "unreachable", message });
      return;
    }
    this.#calls.idleSockets.wasReset(use.idleMs);
    if (use.isUnwritten) this.#sendAgain();
    else this.#fail({ kind: "reset_reused", message });
  }

  /** Returns false if the attempt was redirected or the call has ended. The call then ignores the attempt's events. */
  #isCurrent(attempt: Attempt): boolean {
    return attempt === this.#attempt && !this.#over;
  }

  #fail(failure: GatewayFailure): void {
    if (!this.#finish()) return;
    this.#attempt.close();
    this.#receiver.fail(failure);
  }

  /**
   * Follows a redirect within the gateway's origin, or ends the call with a failure. Follows only 307 and 308, because
   * they keep method and body.
   */
  #redirected(status: number, location: string): void {
    const { origin } = this.#calls;
    const target = URL.parse(location, new URL(this.#path, origin).href);
    const allowed = (status === 307 || status === 308) && target?.origin === origin && this.#redirects < redirectsMax;
    if (target === null || !allowed) {
      this.#fail({ kind: "redirect", status });
      return;
    }
    this.#redirects++;
    this.#attempt.discard();
    this.#path = target.pathname + target.search;
    this.#sendAgain();
  }

  /** Starts another attempt. Later events of the one before are ignored. */
  #sendAgain(): void {
    this.#sent = false;
    this.#use = undefined;
    this.#attempt = this.#calls.createAttempt({ ...this.#request, path: this.#path }, this);
    this.#attempt.start();
  }

  /**
   * Returns the time until the gateway has been silent for too long, in milliseconds; 0 or less if it already has.
   * Pauses do not count as silence.
   */
  silenceLeftMs(now: number): number {
    const { silenceMs } = this.#request;
    return this.#paused ? silenceMs : silenceMs - (now - this.#lastByteAt);
  }

  /** Ends the call because the gateway is silent. */
  silent(): void {
    this.#fail({ kind: "silent" });
  }

  /** Ends the call. Returns false if it has already ended. */
  #finish(): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#calls.ended(this);
    return true;
  }
}
