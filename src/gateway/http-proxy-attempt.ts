import type { ClientRequest, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { GatewayHead, GatewayRequest } from "../ports/gateway.ts";
import type { Attempt, EngineCall } from "./call.ts";
import { EnginePair } from "./pair.ts";

/** Gives a pair to http-proxy-middleware, which pipes the body to the gateway. */
export type Launch = (pair: EnginePair, attempt: HttpProxyAttempt) => void;

/** One request through http-proxy-middleware. */
export class HttpProxyAttempt implements Attempt {
  readonly body: GatewayRequest["body"];
  readonly #call: EngineCall;
  readonly #launch: Launch;
  readonly #pair: EnginePair;
  #answer: IncomingMessage | undefined;
  #closed = false;

  constructor(request: GatewayRequest, call: EngineCall, launch: Launch) {
    this.body = request.body;
    this.#call = call;
    this.#launch = launch;
    this.#pair = new EnginePair(request);
  }

  start(): void {
    this.#launch(this.#pair, this);
  }

  pause(): void {
    this.#answer?.pause();
  }

  resume(): void {
    this.#answer?.resume();
  }

  discard(): void {
    this.#answer?.on("error", () => undefined);
    this.#answer?.resume();
  }

  close(): void {
    this.#closed = true;
    this.#pair.close();
  }

  /** The engine has a socket for the request; it is sent as soon as that is connected, with TLS once that is agreed on. */
  connecting(request: ClientRequest): void {
    const { socket } = request;
    if (socket === null || !isConnecting(socket)) this.#call.sending(this);
    else socket.once(socket instanceof TLSSocket ? "secureConnect" : "connect", () => this.#call.sending(this));
    // A connection that ends with neither a response nor an error, such as after 101, which was not requested.
    request.once("close", () => {
      if (this.#answer === undefined) this.#call.broken(this, "the connection closed without an answer");
    });
  }

  /** The engine has the head of a response. */
  answered(answer: IncomingMessage): void {
    if (this.#closed) {
      answer.destroy();
      return;
    }
    this.#answer = answer;
    this.#call.answered(this, headOf(answer));
    // The response is ignored or being discarded.
    if (this.#closed || answer.readableFlowing === true) return;
    answer.on("data", (bytes: Buffer) => this.#call.received(this, bytes));
    answer.on("end", () => {
      if (answer.complete) this.#call.completed(this);
    });
    answer.on("close", () => this.#call.broken(this, "the connection closed before the answer was complete"));
  }

  /** The engine could not connect, or the connection broke. An error after a complete response is ignored. */
  broken({ message }: Error): void {
    if (this.#answer?.complete !== true) this.#call.broken(this, message);
  }
}

function isConnecting(socket: Socket): boolean {
  // Node's TLS sockets have it, its types do not.
  const { secureConnecting } = socket as { readonly secureConnecting?: boolean };
  return socket.connecting || secureConnecting === true;
}

function headOf(answer: IncomingMessage): GatewayHead {
  return {
    status: answer.statusCode ?? 0,
    statusText: answer.statusMessage ?? "",
    rawHeaders: answer.rawHeaders,
    header: (name) => {
      const value = answer.headers[name];
      return Array.isArray(value) ? value[value.length - 1] : value;
    },
  };
}
