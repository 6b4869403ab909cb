import type { Clock, Timer } from "../ports/clock.ts";
import type {
  GatewayCall,
  GatewayFailure,
  GatewayHead,
  GatewayReceiver,
  GatewayRequest,
  StreamedBody,
} from "../ports/gateway.ts";
import { isStreamed } from "./outgoing.ts";

/** Redirects to the same origin that are followed for one request. */
const redirectsMax = 5;

/** One attempt of an engine to send a request. An allowed redirect leads to another attempt. */
export interface Attempt {
  /** Starts, and reports its events to the call, with this attempt as the first argument. */
  start(): void;
  pause(): void;
  resume(): void;
  /** Reads a response to its end without using it. */
  discard(): void;
  /** Ends the request at the gateway at once. */
  close(): void;
}

/** Creates an attempt of an engine. */
export type Attempts = (request: GatewayRequest, call: EngineCall) => Attempt;

/** A request at the gateway. Turns an engine's events into the port's, and ends exactly once. */
export class EngineCall implements GatewayCall {
  readonly #request: GatewayRequest;
  readonly #receiver: GatewayReceiver;
  readonly #attempts: Attempts;
  readonly #origin: string;
  readonly #clock: Clock;
  #attempt: Attempt;
  #path: string;
  #redirects = 0;
  #over = false;
  #sent = false;
  #paused = false;
  /** True once the whole request was given to the engine. */
  #uploaded = true;
  #lastByteAt: number;
  #silence: Timer;

  constructor(
    request: GatewayRequest,
    receiver: GatewayReceiver,
    how: { readonly attempts: Attempts; readonly origin: string; readonly clock: Clock },
  ) {
    this.#request = isStreamed(request.body) ? { ...request, body: this.#noted(request.body) } : request;
    this.#receiver = receiver;
    this.#attempts = how.attempts;
    this.#origin = how.origin;
    this.#clock = how.clock;
    this.#path = request.path;
    this.#lastByteAt = how.clock.monotonic();
    this.#silence = how.clock.after(request.silenceMs, () => this.#checkSilence());
    this.#attempt = how.attempts(this.#request, this);
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
    this.#lastByteAt = this.#clock.monotonic();
    this.#attempt.resume();
  }

  abort(): void {
    if (this.#finish()) this.#attempt.close();
  }

  /** The connection is established, and the request is sent on it. */
  sending(attempt: Attempt): void {
    if (this.#isCurrent(attempt)) this.#sent = true;
  }

  /** The head of a response has arrived. */
  answered(attempt: Attempt, head: GatewayHead): void {
    if (!this.#isCurrent(attempt)) return;
    this.#lastByteAt = this.#clock.monotonic();
    const { status } = head;
    if (status < 200) {
      this.broken(attempt, "the answer has no status that HTTP knows");
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

  received(attempt: Attempt, bytes: Uint8Array): void {
    if (!this.#isCurrent(attempt)) return;
    this.#lastByteAt = this.#clock.monotonic();
    this.#receiver.chunk(bytes);
  }

  /** The response is complete by its own framing. */
  completed(attempt: Attempt): void {
    if (!this.#isCurrent(attempt) || !this.#finish()) return;
    // The response came before the end of the request: the rest of the request is not needed.
    if (!this.#uploaded) this.#attempt.close();
    this.#receiver.end();
  }

  /** The engine could not connect, or the connection broke before the response was complete. */
  broken(attempt: Attempt, message: string): void {
    if (!this.#isCurrent(attempt)) return;
    this.#fail(this.#sent ? { kind: "reset", message } : { kind: "unreachable", message });
  }

  /** Returns the same body. While it is written, the gateway is not silent. */
  #noted(body: StreamedBody): StreamedBody {
    this.#uploaded = false;
    return {
      length: body.length,
      resume: () => body.resume(),
      start: (sink) =>
        body.start({
          write: (bytes) => {
            if (this.#over) return false;
            this.#lastByteAt = this.#clock.monotonic();
            return sink.write(bytes);
          },
          end: () => {
            this.#uploaded = true;
            if (!this.#over) sink.end();
          },
        }),
    };
  }

  /** Returns false for an attempt that was redirected, and after the end of the call: its events are ignored. */
  #isCurrent(attempt: Attempt): boolean {
    return attempt === this.#attempt && !this.#over;
  }

  #fail(failure: GatewayFailure): void {
    if (!this.#finish()) return;
    this.#attempt.close();
    this.#receiver.fail(failure);
  }

  /** 307 and 308 keep method and body, so they alone can be followed, and only within the gateway's own origin. */
  #redirected(status: number, location: string): void {
    const target = URL.parse(location, new URL(this.#path, this.#origin).href);
    const canRepeat = !isStreamed(this.#request.body);
    const allowed =
      canRepeat &&
      (status === 307 || status === 308) &&
      target?.origin === this.#origin &&
      this.#redirects < redirectsMax;
    if (target === null || !allowed) {
      this.#fail({ kind: "redirect", status });
      return;
    }
    this.#redirects++;
    this.#attempt.discard();
    this.#sent = false;
    this.#path = target.pathname + target.search;
    this.#attempt = this.#attempts({ ...this.#request, path: this.#path }, this);
    this.#attempt.start();
  }

  /** One timer for each call, set again only when it fires: bytes cost no timer. */
  #checkSilence(): void {
    const silentMs = this.#clock.monotonic() - this.#lastByteAt;
    const { silenceMs } = this.#request;
    if (!this.#paused && silentMs >= silenceMs) {
      this.#fail({ kind: "silent" });
      return;
    }
    const wait = this.#paused ? silenceMs : silenceMs - silentMs;
    this.#silence = this.#clock.after(Math.max(1, Math.ceil(wait)), () => this.#checkSilence());
  }

  #finish(): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#silence.cancel();
    return true;
  }
}
