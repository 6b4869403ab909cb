import type { GatewayRequest } from "../ports/gateway.ts";

type Listener = (...values: unknown[]) => void;

/**
 * The request and the response that http-proxy-middleware sees. It is made for passing one connection straight on; we
 * hand it a pair of our own instead of Express' one, because the two ends of our requests do not live and die together:
 * a plain answer is read to its end when its client has left, headers pass by an allow-list, and a redirect is sent
 * again. It has exactly the members that the engine touches; the engine's version is pinned, and each trap is tested.
 */
export class EnginePair {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly httpVersion = "1.1";
  readonly httpVersionMajor = 1;
  /** Looked at for its server (none: nothing to subscribe to) and to tell a client's reset from the gateway's. */
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

  /** Only `close` ever happens here: it is how the engine is told to let go of the gateway. */
  on(event: string, listener: Listener): this {
    if (event !== "close") return this;
    // Closed before the engine came to it: its request must end before it has a socket.
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

  /** The engine calls it where it would break the client's connection off; what the client gets is not its affair. */
  destroy(): this {
    this.destroyed = true;
    return this;
  }
}
