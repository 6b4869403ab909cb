import type { ClientRequest, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { Clock, Timer } from "../ports/clock.ts";
import type { GatewayCall, GatewayFailure, GatewayHead, GatewayReceiver, GatewayRequest } from "../ports/gateway.ts";
import { EnginePair } from "./pair.ts";

/** Redirects to the same origin that are followed for one request. */
const redirectsMax = 5;

/** Hands a pair to the engine; the body is what the engine pipes to the gateway. */
export type Launch = (pair: EnginePair, call: EngineCall) => void;

/** One request at the gateway: turns the engine's events into the port's, and ends exactly once. */
export class EngineCall implements GatewayCall {
  readonly request: GatewayRequest;
  readonly #receiver: GatewayReceiver;
  readonly #launch: Launch;
  readonly #origin: string;
  readonly #clock: Clock;
  #pair: EnginePair;
  #answer: IncomingMessage | undefined;
  #redirects = 0;
  #over = false;
  #sent = false;
  #paused = false;
  #lastByteAt: number;
  #silence: Timer;

  constructor(
    request: GatewayRequest,
    receiver: GatewayReceiver,
    how: { readonly launch: Launch; readonly origin: string; readonly clock: Clock },
  ) {
    this.request = request;
    this.#receiver = receiver;
    this.#launch = how.launch;
    this.#origin = how.origin;
    this.#clock = how.clock;
    this.#lastByteAt = how.clock.monotonic();
    this.#silence = how.clock.after(request.silenceMs, () => this.#checkSilence());
    this.#pair = new EnginePair(request);
    this.#launch(this.#pair, this);
  }

  get sent(): boolean {
    return this.#sent;
  }

  /** Whether this is the pair in use: one that was redirected away has nothing more to say. */
  uses(pair: unknown): boolean {
    return pair === this.#pair;
  }

  pause(): void {
    this.#paused = true;
    this.#answer?.pause();
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#lastByteAt = this.#clock.monotonic();
    this.#answer?.resume();
  }

  abort(): void {
    if (this.#finish()) this.#pair.close();
  }

  /** The engine has a socket for the request; it is sent as soon as that is connected, with TLS once that is agreed on. */
  connecting(request: ClientRequest): void {
    const { socket } = request;
    if (socket === null || !isConnecting(socket)) this.#sent = true;
    else socket.once(socket instanceof TLSSocket ? "secureConnect" : "connect", () => (this.#sent = true));
    const pair = this.#pair;
    // A connection that ends with neither an answer nor an error: after 101, for one, which nobody asked for.
    request.once("close", () => {
      if (this.uses(pair) && this.#answer === undefined) this.broken(new Error("the connection closed without an answer"));
    });
  }

  /** The engine has the head of an answer. */
  answered(answer: IncomingMessage): void {
    if (this.#over) {
      answer.destroy();
      return;
    }
    this.#lastByteAt = this.#clock.monotonic();
    const status = answer.statusCode ?? 0;
    if (status < 200) {
      this.broken(new Error("the answer has no status that HTTP knows"));
      return;
    }
    const { location } = answer.headers;
    if (status >= 300 && status < 400 && location !== undefined) {
      this.#redirected(answer, status, location);
      return;
    }
    this.#answer = answer;
    this.#receiver.head(headOf(answer, status));
    if (this.#over) return;
    answer.on("data", (bytes: Buffer) => {
      if (this.#over) return;
      this.#lastByteAt = this.#clock.monotonic();
      this.#receiver.chunk(bytes);
    });
    answer.on("end", () => {
      if (answer.complete && this.#finish()) this.#receiver.end();
    });
    answer.on("close", () => this.failed({ kind: "reset", message: "the connection closed before the answer was complete" }));
    if (this.#paused) answer.pause();
  }

  /** The engine could not connect, or the connection broke. What breaks behind a complete answer does not concern it. */
  broken(error: Error): void {
    if (this.#answer?.complete === true) return;
    const { message } = error;
    this.failed(this.#sent ? { kind: "reset", message } : { kind: "unreachable", message });
  }

  failed(failure: GatewayFailure): void {
    if (!this.#finish()) return;
    this.#pair.close();
    this.#receiver.fail(failure);
  }

  /** 307 and 308 keep method and body, so they alone can be followed, and only within the gateway's own origin. */
  #redirected(answer: IncomingMessage, status: number, location: string): void {
    const target = URL.parse(location, new URL(this.#pair.url, this.#origin).href);
    const allowed = (status === 307 || status === 308) && target?.origin === this.#origin && this.#redirects < redirectsMax;
    if (target === null || !allowed) {
      this.failed({ kind: "redirect", status });
      return;
    }
    this.#redirects++;
    answer.on("error", () => undefined);
    answer.resume();
    this.#sent = false;
    this.#pair = new EnginePair({ ...this.request, path: target.pathname + target.search });
    this.#launch(this.#pair, this);
  }

  /** One timer a call, armed anew only when it fires: bytes cost no timer. */
  #checkSilence(): void {
    const silentMs = this.#clock.monotonic() - this.#lastByteAt;
    if (!this.#paused && silentMs >= this.request.silenceMs) {
      this.failed({ kind: "silent" });
      return;
    }
    const wait = this.#paused ? this.request.silenceMs : this.request.silenceMs - silentMs;
    this.#silence = this.#clock.after(Math.max(1, Math.ceil(wait)), () => this.#checkSilence());
  }

  #finish(): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#silence.cancel();
    return true;
  }
}

function isConnecting(socket: Socket): boolean {
  // Node's TLS sockets have it, its types do not.
  const { secureConnecting } = socket as { readonly secureConnecting?: boolean };
  return socket.connecting || secureConnecting === true;
}

function headOf(answer: IncomingMessage, status: number): GatewayHead {
  return {
    status,
    statusText: answer.statusMessage ?? "",
    rawHeaders: answer.rawHeaders,
    header: (name) => {
      const value = answer.headers[name];
      return Array.isArray(value) ? value[value.length - 1] : value;
    },
  };
}
