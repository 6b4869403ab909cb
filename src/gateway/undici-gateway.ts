import type { IncomingHttpHeaders } from "node:http";
import { Readable } from "node:stream";
import { Pool, type Dispatcher } from "undici";
import type { Gateway, GatewayHead, GatewayRequest, StreamedBody } from "../ports/gateway.ts";
import { EngineCall, type Attempt } from "./call.ts";
import type { GatewayOptions } from "./gateway.ts";
import { destinationOf, idleSocketMs, isStreamed, outgoing } from "./outgoing.ts";

/** The gateway, with undici as its engine. */
export function createUndiciGateway({
  baseUrl,
  apiKey,
  clock,
  idleMs = idleSocketMs,
}: GatewayOptions): Gateway & AsyncDisposable {
  const destination = destinationOf(baseUrl);
  const { origin } = destination;
  const pool = new Pool(origin, {
    connections: null,
    pipelining: 1,
    keepAliveTimeout: idleMs,
    // Caps a server's own hint, which may be far longer.
    keepAliveMaxTimeout: idleMs,
    allowH2: false,
    // The call detects silence, with one timer for connecting, head and body.
    headersTimeout: 0,
    bodyTimeout: 0,
    connectTimeout: 0,
  });
  const how = {
    attempts: (request, call) => new UndiciAttempt(request, call, pool),
    origin,
    clock,
  } satisfies ConstructorParameters<typeof EngineCall>[2];
  return {
    send: (request, receiver) => new EngineCall(outgoing(request, destination, apiKey), receiver, how),
    [Symbol.asyncDispose]: () => pool.destroy(),
  };
}

/** One request through undici. */
class UndiciAttempt implements Attempt, Dispatcher.DispatchHandler {
  readonly #request: GatewayRequest;
  readonly #call: EngineCall;
  readonly #dispatcher: Dispatcher;
  #controller: Dispatcher.DispatchController | undefined;
  #closed = false;

  constructor(request: GatewayRequest, call: EngineCall, dispatcher: Dispatcher) {
    this.#request = request;
    this.#call = call;
    this.#dispatcher = dispatcher;
  }

  start(): void {
    const { method, path, headers, body } = this.#request;
    const sent = isStreamed(body) ? readableOf(body) : (body ?? null);
    this.#dispatcher.dispatch({ method: method as Dispatcher.HttpMethod, path, headers, body: sent }, this);
  }

  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    this.#controller?.resume();
  }

  /** The engine reads it to its end automatically. */
  discard(): void {}

  close(): void {
    this.#closed = true;
    this.#controller?.abort(new Error("the call is over"));
  }

  /** The connection is established, with TLS if the gateway has it. A request that was closed meanwhile is not sent. */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#closed) controller.abort(new Error("the call is over"));
    else this.#call.sending(this);
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    statusText?: string,
  ): void {
    // An interim response (100, 103) is not the response.
    if (status < 200) return;
    this.#call.answered(this, headOf(status, statusText ?? "", headers, controller.rawHeaders));
  }

  onResponseData(_controller: Dispatcher.DispatchController, bytes: Buffer): void {
    this.#call.received(this, bytes);
  }

  onResponseEnd(): void {
    this.#call.completed(this);
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    this.#call.broken(this, error.message);
  }
}

/** Returns the body for the engine. It is read once the engine reads it. */
function readableOf(body: StreamedBody): Readable {
  let begun = false;
  const readable = new Readable({
    read() {
      if (begun) return body.resume();
      begun = true;
      body.start({
        write: (bytes) => !readable.destroyed && readable.push(bytes),
        end: () => void readable.push(null),
      });
    },
  });
  // The engine destroys it with the request, which reports the error.
  readable.on("error", () => undefined);
  return readable;
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
    header: (name) => {
      const value = headers[name];
      return Array.isArray(value) ? value[value.length - 1] : value;
    },
  };
}
