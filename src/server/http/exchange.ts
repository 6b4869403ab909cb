import { randomUUIDv7 } from "node:crypto";
import type { IncomingMessage, ServerResponse, IncomingHttpHeaders } from "node:http";
import type { Refusal } from "../../core/refusals.ts";
import type { Clock } from "../../ports/clock.ts";
import type { RefusedEvent, RefusedRequest } from "../../ports/events.ts";
import type { BodyResult, Exchange, HeaderList } from "../../ports/exchange.ts";
import type { RequestSpan } from "../../ports/tracing.ts";
import { errorShapeOf, refusalIn } from "../../wire/anthropic-error.ts";
import { lingerAfterAnswer, readBody, type BodyRules } from "./body.ts";
import type { BodyPool } from "./body-memory.ts";
import { isLoopbackAddress, isLoopbackHost } from "../../core/addresses.ts";

/** Settings and effects that all exchanges of a server share. */
export interface ExchangeDeps {
  readonly bodyBytesMax: number;
  /** Memory for the bodies of all requests. */
  readonly bodyMemory: BodyPool;
  readonly clock: Clock;
  /** Called for each refusal, to count it in the metrics. */
  readonly onRefusal: (event: RefusedEvent) => void;
}

/** Exchange that hides Express' request and response. */
export class HttpExchange implements Exchange {
  readonly id = randomUUIDv7();
  readonly startedAt: number;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  recordAs: RefusedRequest | null = null;
  span: RequestSpan | null = null;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #deps: ExchangeDeps;
  readonly #answerHeaders: HeaderList;
  /** True once a part of a streamed answer has been written. */
  #hasWritten = false;
  #onClientGone: (() => void) | undefined;
  #clientGone = false;
  /** Headers of the request, cached at the first call of `headers`. */
  #headers: HeaderList | undefined;
  #status: number | null = null;
  #replaced: { readonly prefix: string; readonly headers: () => HeaderList } | null = null;

  /** `target`: undefined if the path is not valid. `answerHeaders`: headers that every answer of this exchange has. */
  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    deps: ExchangeDeps,
    target: { readonly path: string; readonly query: string } | undefined,
    answerHeaders: HeaderList,
  ) {
    this.startedAt = deps.clock.monotonic();
    this.method = request.method ?? "GET";
    this.path = target?.path ?? "";
    this.query = target?.query ?? "";
    this.#request = request;
    this.#response = response;
    this.#deps = deps;
    this.#answerHeaders = answerHeaders;
    response.on("close", () => this.#closed());
  }

  get isLocal(): boolean {
    return isLocalRequest(this.#request);
  }
  get remoteAddress(): string {
    return this.#request.socket.remoteAddress ?? "";
  }
  get status(): number | null {
    return this.#status;
  }
  get clientGone(): boolean {
    return this.#clientGone;
  }
  get hasLargeRemainder(): boolean {
    return mayRemain(this.#request, checkedBytesMin);
  }

  header(name: string): string | undefined {
    // Node keeps only the first of repeated values of some headers. For these two, all values matter.
    if (name === "authorization" || name === "host") return this.#joined(name);
    return oneText(this.#request.headers[name]);
  }

  headers(): Iterable<readonly [string, string]> {
    if (this.#headers !== undefined) return this.#headers;
    const { headers } = this.#request;
    const all: [string, string][] = [];
    for (const name in headers) all.push([name, oneText(headers[name]) ?? ""]);
    this.#headers = all;
    return all;
  }

  #joined(name: string): string | undefined {
    const { rawHeaders } = this.#request;
    let found: string | undefined;
    for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
      if (rawHeaders[index]?.length !== name.length || rawHeaders[index]?.toLowerCase() !== name) continue;
      found = found === undefined ? rawHeaders[index + 1] : `${found}, ${rawHeaders[index + 1]}`;
    }
    return found;
  }

  readBody(limitBytes = Infinity): Promise<BodyResult> {
    return readBody(this.#request, this.#bodyRules(limitBytes));
  }

  #bodyRules(limitBytes: number): BodyRules {
    const { bodyBytesMax, bodyMemory, clock } = this.#deps;
    const owner = this.recordAs === null ? null : (this.recordAs.key?.id ?? "");
    return { limitBytes: Math.min(limitBytes, bodyBytesMax), memory: bodyMemory.open(owner), clock };
  }

  onClientGone(listener: () => void): void {
    this.#onClientGone = listener;
  }

  replaceHeaders(prefix: string, headers: () => HeaderList): void {
    this.#replaced = { prefix, headers };
  }

  begin(status: number, headers: HeaderList): void {
    if (!this.#writeHead(status, headers, null)) return;
    // The first bytes usually arrive in the same turn as the head. Both then leave with one system call.
    setImmediate(() => {
      if (!this.#hasWritten) this.#response.flushHeaders();
    });
  }

  write(bytes: Uint8Array): boolean {
    // Node reports a write after the end as an error that would end the process.
    if (this.#clientGone || this.#response.writableEnded) return true;
    this.#hasWritten = true;
    return this.#response.write(bytes);
  }

  onDrain(listener: () => void): void {
    this.#response.once("drain", listener);
  }

  end(): void {
    this.#hasWritten = true;
    if (!this.#clientGone) this.#response.end();
  }

  answer(status: number, headers: HeaderList, body: Uint8Array | string): void {
    const length = typeof body === "string" ? Buffer.byteLength(body) : body.length;
    const bodiless = status === 204 || status === 304;
    if (!this.#writeHead(status, headers, bodiless ? null : length)) return;
    if (bodiless || this.method === "HEAD") this.#response.end();
    else this.#response.end(body);
  }

  refuse(refusal: Refusal, extraHeaders: HeaderList = []): void {
    this.#deps.onRefusal({ refusal, request: this.recordAs });
    this.span?.note({ refusal: refusal.code });
    const shape = errorShapeOf(this.path, this.header("anthropic-version") !== undefined);
    const { status, headers, body } = refusalIn(shape, refusal, this.id);
    // If the remaining body is large or has stalled, the connection is closed after the answer.
    const isStuck = refusal.code === "request_timeout";
    const closes = isStuck || mayRemain(this.#request, discardedBytesMax);
    if (closes && !isStuck && !this.#response.headersSent) lingerAfterAnswer(this.#request, this.#deps.clock);
    const close: HeaderList = closes ? [["connection", "close"]] : [];
    this.answer(status, [...headers, ...extraHeaders, ...close], body);
  }

  breakOff(): void {
    this.#response.destroy();
  }

  /**
   * Sends the head. Returns false if the head was sent before, or the client has disconnected. `length` is the length
   * of the body in bytes; null omits the header `content-length`.
   */
  #writeHead(status: number, headers: HeaderList, length: number | null): boolean {
    if (this.#clientGone || this.#response.headersSent) return false;
    this.#status = status;
    const flat: string[] = [];
    let hasRequestId = false;
    for (const [name, value] of this.#withReplaced(headers)) {
      hasRequestId ||= name.length === 12 && name.toLowerCase() === "x-request-id";
      flat.push(name, value);
    }
    if (length !== null) flat.push("content-length", String(length));
    if (!hasRequestId) flat.push("x-request-id", this.id);
    flat.push("x-farebox-request-id", this.id);
    for (const [name, value] of this.#answerHeaders) flat.push(name, value);
    this.#response.writeHead(status, flat);
    return true;
  }

  #withReplaced(headers: HeaderList): HeaderList {
    if (this.#replaced === null) return headers;
    const { prefix } = this.#replaced;
    const ours = this.#replaced.headers();
    if (ours.length === 0) return headers;
    return [...headers.filter(([name]) => !name.toLowerCase().startsWith(prefix)), ...ours];
  }

  #closed(): void {
    const listener = this.#onClientGone;
    // An idle connection keeps its last response. These references would keep the request's data in memory.
    this.#onClientGone = undefined;
    this.#replaced = null;
    if (this.#response.writableFinished) return;
    this.#clientGone = true;
    listener?.();
  }
}

/**
 * Largest remaining body of a refused request that Farebox reads and discards, in bytes. The connection can then serve
 * the next request.
 */
const discardedBytesMax = 64 * 1024;

/**
 * Smallest body for which the budgets are checked before it is read, in bytes. The check takes about 0.1 ms, a tenth of the
 * time to read such a body.
 */
const checkedBytesMin = 256 * 1024;

/** Returns true if the body has not arrived yet, and may have more than this number of bytes. */
function mayRemain({ complete, headers }: IncomingMessage, bytes: number): boolean {
  if (complete) return false;
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > bytes;
}

function oneText(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(", ") : value;
}

/** Returns the host name of a `Host` header without its port; undefined if the header is malformed. */
export function hostName(header: string | undefined): string | undefined {
  const match = /^(\[[0-9a-f:.]+\]|[^:[\]\s/@]+)(?::\d{1,5})?$/i.exec(header ?? "");
  return match?.[1]?.toLowerCase();
}

const forwardingHeaders = [
  "cf-connecting-ip",
  "forwarded",
  "true-client-ip",
  "via",
  "x-client-ip",
  "x-forwarded",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-port",
  "x-forwarded-proto",
  "x-forwarded-server",
  "x-real-ip",
];

/** Returns true if another proxy forwarded the request. The address of the connection is then not the client's. */
export function isForwarded(headers: IncomingHttpHeaders): boolean {
  return forwardingHeaders.some((name) => headers[name] !== undefined);
}

/**
 * Returns true for a request from this machine. Requires a loopback host name, because DNS rebinding lets a page send
 * requests from this machine under the page's own host name.
 */
function isLocalRequest({ socket, headers }: IncomingMessage): boolean {
  return (
    isLoopbackAddress(socket.remoteAddress) && isLoopbackHost(hostName(headers.host) ?? "") && !isForwarded(headers)
  );
}
