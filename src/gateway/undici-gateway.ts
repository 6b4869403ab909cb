import type { BodyBytes } from "../ports/exchange.ts";
import type { IncomingHttpHeaders } from "node:http";
import type { Readable } from "node:stream";
import type { Socket } from "node:net";
import { buildConnector, Client, Pool, type Dispatcher } from "undici";
import type { Gateway, GatewayHead, GatewayRequest } from "../ports/gateway.ts";
import { EngineCalls, headerIn, type Attempt, type EngineCall, type GatewayOptions } from "./call.ts";
import { connectThrough } from "./undici-tunnel.ts";
import { idleSocketMsMax, marginMs, type IdleSockets } from "./idle-sockets.ts";

/** Creates a gateway that uses undici as its engine. */
export function createUndiciGateway(options: GatewayOptions): Gateway & AsyncDisposable {
  const calls = new EngineCalls(options, (request, call) => new UndiciAttempt(request, call, idleSockets, pool));
  const { idleSockets } = calls;
  const ending = new AbortController();
  const { proxy, clock } = options;
  const createConnector = () => {
    const direct = buildConnector({ allowH2: false, timeout: 0 });
    return proxy ? connectThrough(() => proxy, direct, { clock, signal: ending.signal }) : direct;
  };
  const pool = new Pool(new URL(options.baseUrl).origin, {
    connections: null,
    pipelining: 1,
    keepAliveTimeout: idleSockets.defaultMs,
    keepAliveTimeoutThreshold: marginMs,
    keepAliveMaxTimeout: idleSocketMsMax,
    allowH2: false,
    // The call detects silence while it connects and while it waits for the head and the body.
    headersTimeout: 0,
    bodyTimeout: 0,
    factory: (origin, given) => new Connection(origin, { ...given, connect: createConnector() }, idleSockets),
  });
  return {
    send: (request, receiver) => calls.send(request, receiver),
    [Symbol.asyncDispose]() {
      ending.abort();
      return pool.destroy();
    },
  };
}

/** Connection of the pool, for one request at a time. Connects again after the gateway or `dispatch` has closed it. */
class Connection extends Client {
  readonly #idle: IdleSockets;
  readonly #current: { socket?: Socket };

  constructor(
    origin: URL,
    options: Client.Options & { readonly connect: buildConnector.connector },
    idle: IdleSockets,
  ) {
    const current: { socket?: Socket } = {};
    const connect = withoutInterim(options.connect, (socket) => (current.socket = socket));
    super(origin, { ...options, connect });
    this.#idle = idle;
    this.#current = current;
  }

  get socket(): Socket | undefined {
    return this.#current.socket;
  }

  override dispatch(options: Dispatcher.DispatchOptions, attempt: Dispatcher.DispatchHandler): boolean {
    const { socket } = this;
    if (socket !== undefined && !this.#idle.isUsable(socket)) socket.destroy();
    (attempt as UndiciAttempt).assigned(this);
    return super.dispatch(options, attempt);
  }
}

/** Attempt to send a request through undici. */
class UndiciAttempt implements Attempt, Dispatcher.DispatchHandler {
  readonly #request: GatewayRequest;
  readonly #call: EngineCall;
  readonly #idle: IdleSockets;
  readonly #dispatcher: Dispatcher;
  #connection: Connection | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #closed = false;
  #paused = false;
  #isComplete = false;
  /** Chunks that arrived in this turn of the event loop. The gateway may send hundreds at once. */
  #chunks: Buffer[] = [];

  constructor(request: GatewayRequest, call: EngineCall, idle: IdleSockets, dispatcher: Dispatcher) {
    this.#request = request;
    this.#call = call;
    this.#idle = idle;
    this.#dispatcher = dispatcher;
  }

  start(): void {
    const { method, path, headers, body } = this.#request;
    const sent = sentBody(body);
    this.#dispatcher.dispatch({ method: method as Dispatcher.HttpMethod, path, headers, body: sent }, this);
  }

  pause(): void {
    this.#paused = true;
    this.#controller?.pause();
  }

  resume(): void {
    this.#paused = false;
    process.nextTick(() => this.#pass());
    this.#controller?.resume();
  }

  /** Does nothing, because the engine reads responses to their end. */
  discard(): void {}

  close(): void {
    this.#closed = true;
    this.#controller?.abort(new Error("the call is over"));
  }

  /** Called with the connection that will carry the request, which may not be established yet. */
  assigned(connection: Connection): void {
    this.#connection = connection;
    const { socket } = connection;
    if (socket?.destroyed === false) this.#call.reusing(this, socket);
  }

  /** Called once the connection is established, including TLS. Aborts a request that was closed in the meantime. */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#closed) controller.abort(new Error("the call is over"));
    else this.#call.sending(this, this.#connection?.socket);
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    statusText?: string,
  ): void {
    // Ignores interim responses (100, 103).
    if (status < 200) return;
    this.#call.answered(this, headOf(status, statusText ?? "", headers, controller.rawHeaders));
  }

  onResponseData(_controller: Dispatcher.DispatchController, bytes: Buffer): void {
    if (this.#chunks.push(bytes) === 1) process.nextTick(() => this.#pass());
  }

  onResponseEnd(): void {
    this.#isComplete = true;
    const socket = this.#connection?.socket;
    if (socket !== undefined) this.#idle.freed(socket);
    this.#pass();
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    this.#paused = false;
    this.#pass();
    this.#call.broken(this, error);
  }

  /**
   * Reports all chunks that have arrived, as one piece. After a pause begins, the engine may read one more chunk. That
   * chunk waits until the pause ends.
   */
  #pass(): void {
    if (this.#paused) return;
    const [first, ...more] = this.#chunks;
    if (first !== undefined) {
      const bytes = more.length === 0 ? first : Buffer.concat(this.#chunks);
      this.#chunks = [];
      this.#call.received(this, bytes, this.#isComplete);
    }
    if (this.#isComplete) this.#call.completed(this);
  }
}

/** Returns a connector whose sockets skip interim responses. `connected` receives each socket. */
function withoutInterim(
  connect: buildConnector.connector,
  connected: (socket: Socket) => void,
): buildConnector.connector {
  return (options, callback) =>
    connect(options, (...[error, socket]: Parameters<buildConnector.Callback>) => {
      if (error !== null) return callback(error, null);
      skipInterim(socket);
      connected(socket);
      callback(null, socket);
    });
}

/** Largest size of interim responses that are skipped before a response, in bytes. */
const interimBytesMax = 16 * 1024;

/**
 * Makes a socket skip interim responses. The engine treats `100 Continue` as a broken response, although a client must
 * skip it (RFC 9110, 15.2).
 */
function skipInterim(socket: Socket): void {
  const read = socket.read.bind(socket);
  const write = socket.write.bind(socket) as (...sent: unknown[]) => boolean;
  /**
   * Start of a response, as far as it has arrived. Undefined while the engine reads a response, because its body may
   * contain any bytes.
   */
  let start: Buffer | undefined;
  socket.write = (...sent: unknown[]) => {
    // The engine writes the head of a request as text.
    if (typeof sent[0] === "string" && sent[0].includes(" HTTP/1.1\r\n")) start = Buffer.alloc(0);
    return write(...sent);
  };
  socket.read = (size?: number) => {
    const bytes = read(size) as Buffer | null;
    if (bytes === null || start === undefined) return bytes;
    start = start.length === 0 ? bytes : Buffer.concat([start, bytes]);
    const final = finalResponse(start) ?? (start.length > interimBytesMax ? start : undefined);
    if (final === undefined) return null;
    start = undefined;
    return final;
  };
}

const interimStart = "HTTP/1.1 1";
const statusLength = "HTTP/1.1 100".length;

/** Returns the bytes after interim responses; undefined if more bytes are needed. */
function finalResponse(bytes: Buffer): Buffer | undefined {
  let at = 0;
  for (;;) {
    const status = bytes.toString("latin1", at, at + statusLength);
    // A switch of protocols is a final response.
    if (!interimStart.startsWith(status.slice(0, interimStart.length)) || status.endsWith(" 101"))
      return bytes.subarray(at);
    const end = status.length < statusLength ? -1 : bytes.indexOf("\r\n\r\n", at);
    if (end === -1) return undefined;
    at = end + 4;
  }
}

/**
 * Returns a body for the engine; null if there is no body. Returns a single piece as a buffer, which the
 * engine sends with the least work. Returns several pieces as an iterable.
 */
function sentBody(body: BodyBytes | undefined): Buffer | Readable | null {
  if (body === undefined || body.pieces.length <= 1) return body?.whole ?? null;
  // The engine accepts every iterable, but its types do not allow that.
  return body.pieces as Iterable<Buffer> as unknown as Readable;
}

function headOf(
  status: number,
  statusText: string,
  headers: IncomingHttpHeaders,
  raw: Dispatcher.DispatchController["rawHeaders"],
): GatewayHead {
  return {
    status,
    statusText,
    rawHeaders: Array.isArray(raw)
      ? raw.map((text) => (typeof text === "string" ? text : text.toString("latin1")))
      : [],
    header: (name) => headerIn(headers, name),
  };
}
