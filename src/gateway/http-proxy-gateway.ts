import http, { type ClientRequest, type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { createProxyMiddleware, type Plugin } from "http-proxy-middleware";
import type { OutboundProxy } from "../core/outbound-proxy.ts";
import type { Clock, Timer } from "../ports/clock.ts";
import type { Gateway, GatewayHead, GatewayRequest } from "../ports/gateway.ts";
import { EngineCalls, headerIn, type Attempt, type EngineCall, type GatewayOptions } from "./call.ts";
import type { IdleSockets } from "./idle-sockets.ts";
import { openTunnel, type Target, type TunnelOptions } from "./tunnel.ts";

/** Creates a gateway that uses http-proxy-middleware 4 as its engine. */
export function createHttpProxyGateway(options: GatewayOptions): Gateway & AsyncDisposable {
  const target = new URL(new URL(options.baseUrl).origin);
  const calls = new EngineCalls(options, (request, call) => new HttpProxyAttempt(request, call, launch));
  const agentOptions = { keepAlive: true, maxSockets: Infinity, maxFreeSockets: 1024 } as const;
  const agent = target.protocol === "https:" ? new https.Agent(agentOptions) : new http.Agent(agentOptions);
  // All requests have the same options, for which Node would otherwise build a name several times a request.
  agent.getName = () => "gateway";
  limitIdleSockets(agent, calls.idleSockets, options.clock);
  const ending = new AbortController();
  if (options.proxy) connectThrough(options.proxy, agent, { clock: options.clock, signal: ending.signal });
  // The engine passes on the client's request or response, and the attempt is both.
  const attemptOf = (client: unknown) => client as HttpProxyAttempt;

  const events: Plugin = (proxy) => {
    proxy.on("proxyReq", (request: ClientRequest, client) => attemptOf(client).connecting(request));
    proxy.on("proxyRes", (answer: IncomingMessage, client) => attemptOf(client).answered(answer));
    proxy.on("error", (error, client) => attemptOf(client).broken(error));
    proxy.on("econnreset", (error, client) => attemptOf(client).broken(error));
  };

  const engine = createProxyMiddleware({
    target,
    agent,
    changeOrigin: true,
    selfHandleResponse: true,
    ejectPlugins: true,
    plugins: [events],
    pathFilter: (_path, attempt) => attemptOf(attempt).passesFilter(),
  });

  const launch = (attempt: HttpProxyAttempt) => {
    void engine(attempt as unknown as IncomingMessage, attempt as unknown as ServerResponse, (error) => {
      if (error instanceof Error) attempt.broken(error);
    });
  };
  return {
    send: (request, receiver) => calls.send(request, receiver),
    async [Symbol.asyncDispose]() {
      ending.abort();
      agent.destroy();
    },
  };
}

/** Makes an agent connect through a proxy. A tunnel becomes a connection of the agent once it is open. */
function connectThrough(proxy: OutboundProxy, agent: http.Agent, options: TunnelOptions): void {
  const connect = agent.createConnection.bind(agent);
  agent.createConnection = (target, callback) => {
    const { host, port } = target as Target;
    openTunnel(proxy, { host, port: Number(port) }, options, (error, socket) => {
      if (socket === undefined) callback?.(error, undefined as unknown as Socket);
      else
        callback?.(
          null,
          agent instanceof https.Agent ? (connect({ ...target, socket } as typeof target) as Socket) : socket,
        );
    });
    return undefined;
  };
}

/** Time between two checks of the idle connections, in milliseconds. */
const idleCheckMs = 500;
/** Time after which the system probes whether the other side of an idle connection is still there, in milliseconds. */
const probeMs = 1_000;

/**
 * Makes an agent reuse only connections that `idle` permits. One timer checks all idle connections, because separate
 * timeouts would have to be set again for each request.
 */
function limitIdleSockets(agent: http.Agent, idle: IdleSockets, clock: Pick<Clock, "after">): void {
  // Node calls this method of the agent for each request, but its types do not have it.
  const inner = agent as http.Agent & { addRequest(request: ClientRequest, options: object): void };
  const addRequest = inner.addRequest.bind(agent);
  // The agent has only one list.
  const idleSockets = (): readonly Socket[] => Object.values(agent.freeSockets)[0] ?? [];
  const close = (socket: Socket): void => {
    socket.destroy();
    socket.emit("agentRemove");
  };
  let check: Timer | undefined;
  const closeUnusable = (): void => {
    check = undefined;
    for (const socket of idleSockets().filter((each) => !idle.isUsable(each))) close(socket);
    if (idleSockets().length > 0) check = clock.after(idleCheckMs, closeUnusable);
  };
  agent.keepSocketAlive = (socket: Socket) => {
    if (!idle.freed(socket)) return false;
    socket.setKeepAlive(true, probeMs);
    socket.unref();
    check ??= clock.after(idleCheckMs, closeUnusable);
    return true;
  };
  inner.addRequest = (request, options) => {
    // The agent takes the last one.
    const sockets = idleSockets();
    for (let at = sockets.length - 1; at >= 0; at--) {
      const socket = sockets[at];
      if (socket === undefined || (!socket.destroyed && idle.isUsable(socket))) break;
      close(socket);
    }
    addRequest(request, options);
  };
}

/**
 * Attempt to send a request through http-proxy-middleware. The engine expects the client's request and response, as in
 * Express, and gets the attempt as both. It does not get the real ones, because Farebox does more than pass bytes
 * between them. Farebox reads a response to its end after the client has disconnected, filters headers by an
 * allow-list, and follows redirects. The attempt has only the members that the engine uses. The engine's version is
 * pinned, and tests cover each pitfall.
 */
class HttpProxyAttempt implements Attempt {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Empty until the engine calls its path filter. Before that, the engine would parse any URL that is not empty. */
  url = "";
  readonly httpVersion = "1.1";
  readonly httpVersionMajor = 1;
  readonly socket = engineSocket;
  readonly writableFinished = false;
  readonly finished = false;
  readonly headersSent = false;
  destroyed = false;
  readonly #path: string;
  readonly #body: GatewayRequest["body"];
  readonly #call: EngineCall;
  readonly #launch: (attempt: HttpProxyAttempt) => void;
  readonly #closeListeners: (() => void)[] = [];
  #answer: IncomingMessage | undefined;
  /**
   * True if the gateway may send the answer in hundreds of small chunks. The attempt then joins the chunks that have
   * arrived.
   */
  #isChunked = false;
  #paused = false;
  #closed = false;

  constructor(
    { method, path, headers, body }: GatewayRequest,
    call: EngineCall,
    launch: (attempt: HttpProxyAttempt) => void,
  ) {
    this.method = method;
    this.#path = path;
    this.headers = headers;
    this.#body = body;
    this.#call = call;
    this.#launch = launch;
  }

  start(): void {
    this.#launch(this);
  }

  /** Sets the URL and permits the engine to send the request. */
  passesFilter(): boolean {
    this.url = this.#path;
    return true;
  }

  pause(): void {
    if (!this.#isChunked) this.#answer?.pause();
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    if (!this.#isChunked) this.#answer?.resume();
    else process.nextTick(() => this.#read());
  }

  discard(): void {
    this.#answer?.on("error", () => undefined);
    this.#answer?.resume();
  }

  close(): void {
    this.#closed = true;
    if (this.destroyed) return;
    this.destroyed = true;
    for (const listener of this.#closeListeners) listener();
  }

  /**
   * Adds a listener for the engine. The attempt emits only `close`, which makes the engine disconnect from the gateway.
   */
  on(event: string, listener: () => void): this {
    if (event !== "close") return this;
    // If the attempt was closed before the engine used it, the engine's request must end before it gets a socket.
    if (this.destroyed) queueMicrotask(listener);
    else this.#closeListeners.push(listener);
    return this;
  }

  /**
   * Sends the body with the head in one system call. The engine calls this method once it has a socket.
   */
  pipe(to: ClientRequest): void {
    const body = this.#body;
    if (body === undefined) to.end();
    else {
      to.cork();
      for (const piece of body.pieces) to.write(piece);
      to.end();
      to.uncork();
    }
  }

  /**
   * Marks the attempt as destroyed. The engine calls this method to end the client's connection, but other code of
   * Farebox ends that connection.
   */
  destroy(): this {
    this.destroyed = true;
    return this;
  }

  /**
   * Handles the socket of a request. The engine sends the request once the socket is connected, including the TLS
   * handshake.
   */
  connecting(request: ClientRequest): void {
    const { socket } = request;
    if (socket === null) this.#call.sending(this);
    else if (!isConnecting(socket)) this.#call.sending(this, socket);
    else socket.once(socket instanceof TLSSocket ? "secureConnect" : "connect", () => this.#call.sending(this, socket));
    // A connection may end with neither a response nor an error, for example after an unrequested 101.
    request.once("close", () => {
      if (this.#answer === undefined) this.#call.broken(this, "the connection closed without an answer");
    });
  }

  /** Handles the head of a response. */
  answered(answer: IncomingMessage): void {
    if (this.#closed) {
      answer.destroy();
      return;
    }
    this.#answer = answer;
    this.#isChunked = answer.headers["content-length"] === undefined;
    this.#call.answered(this, headOf(answer));
    // Ignores the body if the call has closed this attempt or discards the response.
    if (this.#closed || answer.readableFlowing === true) return;
    if (this.#isChunked) answer.on("readable", () => this.#read());
    else {
      answer.on("data", (bytes: Buffer) => this.#call.received(this, bytes));
      answer.on("end", () => {
        if (answer.complete) this.#call.completed(this);
      });
    }
    answer.on("close", () => this.broken("the connection closed before the answer was complete"));
  }

  /** Reports all chunks that have arrived, as one piece. */
  #read(): void {
    const answer = this.#answer;
    if (answer === undefined || this.#paused || this.#closed) return;
    const bytes = answer.read() as Buffer | null;
    if (bytes !== null) this.#call.received(this, bytes, answer.complete);
    if (answer.complete) this.#call.completed(this);
  }

  /** Handles a failed or broken connection. Ignores an error after a complete response. */
  broken(error: Error | string): void {
    if (this.#answer?.complete === true) return;
    if (this.#isChunked) {
      this.#paused = false;
      this.#read();
    }
    this.#call.broken(this, error);
  }
}

/**
 * Client's socket as the engine sees it. The engine uses it to detect a reset by the client. The engine would also
 * listen to the socket's server, which is missing here.
 */
const engineSocket = { writable: true };

function isConnecting(socket: Socket): boolean {
  // Node's TLS sockets have this property, but its types do not.
  const { secureConnecting } = socket as { readonly secureConnecting?: boolean };
  return socket.connecting || secureConnecting === true;
}

function headOf(answer: IncomingMessage): GatewayHead {
  return {
    status: answer.statusCode ?? 0,
    statusText: answer.statusMessage ?? "",
    rawHeaders: answer.rawHeaders,
    header: (name) => headerIn(answer.headers, name),
  };
}
