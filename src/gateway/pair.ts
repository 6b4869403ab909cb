import type { GatewayRequest } from "../ports/gateway.ts";

type Listener = (...values: unknown[]) => void;

/**
 * The request and the response that http-proxy-middleware gets. The engine is made to pass one connection through. We give
 * it our own pair instead of Express' one, because the two ends of our requests end separately: a plain response is read to
 * its end after its client has disconnected, headers pass by an allow-list, and a redirect is sent again. It has exactly
 * the members that the engine uses; the engine's version is pinned, and each pitfall is tested.
 */
export class EnginePair {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly httpVersion = "1.1";
  readonly httpVersionMajor = 1;
  /** Read for its server (none: nothing to subscribe to) and to distinguish a client's reset from the gateway's. */
  readonly socket = { writable: true };
  readonly writableFinished = false;
  readonly finished = false;
  readonly headersSent = false;
  url: string;
  destroyed = false;
  #closeListeners: Listener[] = [];

  constructor({ method, path, headers }: GatewayRequest) {
    this.method = method;
    this.url = path;
    this.headers = headers;
  }

  /** Emits only `close`, which makes the engine disconnect from the gateway. */
  on(event: string, listener: Listener): this {
    if (event !== "close") return this;
    // Closed before the engine uses it: its request must end before it has a socket.
    if (this.destroyed) queueMicrotask(listener);
    else this.#closeListeners.push(listener);
    return this;
  }

  /** Ends the engine's request at the gateway. */
  close(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    for (const listener of this.#closeListeners) listener();
  }

  /** The engine calls it to break the client's connection off, which is not its task here. */
  destroy(): this {
    this.destroyed = true;
    return this;
  }
}
