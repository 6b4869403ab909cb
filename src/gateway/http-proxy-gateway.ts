import http, { type ClientRequest, type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { createProxyMiddleware, type Plugin } from "http-proxy-middleware";
import type { Gateway, GatewayHead, GatewayRequest } from "../ports/gateway.ts";
import { EngineCall, type Attempt } from "./call.ts";
import type { GatewayOptions } from "./gateway.ts";
import { destinationOf, idleSocketMs, isStreamed, outgoing } from "./outgoing.ts";
import { EnginePair } from "./pair.ts";

/** The gateway, with http-proxy-middleware 4 as its engine. */
export function createHttpProxyGateway({
  baseUrl,
  apiKey,
  clock,
  idleMs = idleSocketMs,
}: GatewayOptions): Gateway & AsyncDisposable {
  const destination = destinationOf(baseUrl);
  const { origin } = destination;
  const target = new URL(origin);
  const agentOptions = { keepAlive: true, maxSockets: Infinity, maxFreeSockets: 1024, timeout: idleMs } as const;
  const agent = target.protocol === "https:" ? new https.Agent(agentOptions) : new http.Agent(agentOptions);
  const attemptOf = (pair: unknown) => (pair as Launched).attempt;

  const events: Plugin = (proxy) => {
    proxy.on("proxyReq", (request: ClientRequest, pair) => attemptOf(pair)?.connecting(request));
    proxy.on("proxyRes", (answer: IncomingMessage, pair) => attemptOf(pair)?.answered(answer));
    proxy.on("error", (error, pair) => attemptOf(pair)?.broken(error));
    proxy.on("econnreset", (error, pair) => attemptOf(pair)?.broken(error));
  };

  const engine = createProxyMiddleware({
    target,
    agent,
    changeOrigin: true,
    selfHandleResponse: true,
    ejectPlugins: true,
    plugins: [events],
    // Here the engine allows the body to be set for one request.
    router: (pair, _response, options) => {
      const body = attemptOf(pair)?.body;
      options.buffer = bodySource(body) as NonNullable<typeof options.buffer>;
      return target;
    },
  });

  const launch = (pair: EnginePair, attempt: HttpProxyAttempt) => {
    (pair as Launched).attempt = attempt;
    void engine(pair as unknown as IncomingMessage, pair as unknown as ServerResponse, (error) => {
      if (error instanceof Error) attempt.broken(error);
    });
  };
  const how = {
    attempts: (request, call) => new HttpProxyAttempt(request, call, launch),
    origin,
    clock,
  } satisfies ConstructorParameters<typeof EngineCall>[2];

  return {
    send: (request, receiver) => new EngineCall(outgoing(request, destination, apiKey), receiver, how),
    async [Symbol.asyncDispose]() {
      agent.destroy();
    },
  };
}

/**
 * Links a pair to its attempt. It is a member and not a WeakMap, which keeps its keys, and with them whole requests, until
 * a full garbage collection.
 */
type Launched = EnginePair & { attempt?: HttpProxyAttempt };

/** Returns the stream that the engine pipes into its request: the exact bytes, in one write or as they arrive. */
function bodySource(body: GatewayRequest["body"]): { pipe(to: ClientRequest): void } {
  if (!isStreamed(body)) return { pipe: (to) => void (body === undefined ? to.end() : to.end(body)) };
  return {
    pipe(to) {
      to.on("drain", () => body.resume());
      body.start({ write: (bytes) => !to.destroyed && to.write(bytes), end: () => void to.end() });
    },
  };
}

/** Gives a pair to http-proxy-middleware, which pipes the body to the gateway. */
type Launch = (pair: EnginePair, attempt: HttpProxyAttempt) => void;

/** One request through http-proxy-middleware. */
class HttpProxyAttempt implements Attempt {
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
    // The connection ended with neither a response nor an error, as after an unrequested 101.
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
