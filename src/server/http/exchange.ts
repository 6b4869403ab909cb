import type { IncomingMessage, ServerResponse } from "node:http";
import type { Refusal } from "../../core/refusals.ts";
import type { Clock } from "../../ports/clock.ts";
import type { BodyOpening, BodyResult, Exchange, HeaderList } from "../../ports/exchange.ts";
import { refusalAnswer } from "../../wire/refusals.ts";
import { openBody, readBody, type BodyMemory, type BodyRules } from "./body.ts";
import { lingerAfterAnswer } from "./linger.ts";
import { isLocalRequest } from "./origins.ts";
import { TickWriter } from "./tick-writer.ts";

/** Parameters of an exchange. */
interface ExchangeParams {
  readonly id: string;
  readonly startedAt: number;
  readonly path: string;
  readonly query: string;
  /** Headers that every answer of this exchange carries. */
  readonly answerHeaders: HeaderList;
  readonly bodyBytesMax: number;
  readonly bodyMemory: BodyMemory;
  readonly clock: Clock;
  /** Called for each refusal, to count it in the metrics. */
  readonly onRefusal: (refusal: Refusal) => void;
}

/** An exchange that hides Express' request and response. */
export class HttpExchange implements Exchange {
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #facts: ExchangeParams;
  /** Writer of an answer that is passed on in pieces; undefined for other answers. */
  #writer: TickWriter | undefined;
  #onClientGone: (() => void) | undefined;
  #clientGone = false;
  /** Headers of the request, cached at the first call of `headers`. */
  #headers: HeaderList | undefined;
  #status: number | null = null;
  #replaced: { readonly prefix: string; readonly headers: () => HeaderList } | null = null;

  constructor(request: IncomingMessage, response: ServerResponse, facts: ExchangeParams) {
    this.#request = request;
    this.#response = response;
    this.#facts = facts;
    response.on("close", () => this.#closed());
  }

  get id(): string {
    return this.#facts.id;
  }
  get startedAt(): number {
    return this.#facts.startedAt;
  }
  get method(): string {
    return this.#request.method ?? "GET";
  }
  get path(): string {
    return this.#facts.path;
  }
  get query(): string {
    return this.#facts.query;
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

  header(name: string): string | undefined {
    // Node drops repeated values of these headers. It also does so for others, which are not read here.
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
    return readBody(this.#request, {
      ...this.#bodyRules(),
      limitBytes: Math.min(limitBytes, this.#facts.bodyBytesMax),
    });
  }

  openBody(): BodyOpening | Promise<BodyOpening> {
    return openBody(this.#request, this.#bodyRules());
  }

  #bodyRules(): BodyRules {
    const { bodyBytesMax: limitBytes, bodyMemory: memory, clock } = this.#facts;
    return { limitBytes, memory, clock };
  }

  onClientGone(listener: () => void): void {
    this.#onClientGone = listener;
  }

  replaceHeaders(prefix: string, headers: () => HeaderList): void {
    this.#replaced = { prefix, headers };
  }

  begin(status: number, headers: HeaderList): void {
    if (this.#writeHead(status, headers)) this.#pieces().begin();
  }

  write(bytes: Uint8Array): boolean {
    return this.#clientGone || this.#pieces().write(bytes);
  }

  onDrain(listener: () => void): void {
    this.#pieces().onDrain(listener);
  }

  end(): void {
    if (!this.#clientGone) this.#pieces().end();
  }

  answer(status: number, headers: HeaderList, body: Uint8Array | string): void {
    const length = typeof body === "string" ? Buffer.byteLength(body) : body.length;
    const bodiless = status === 204 || status === 304;
    const sized: HeaderList = bodiless ? headers : [...headers, ["content-length", String(length)]];
    if (!this.#writeHead(status, sized)) return;
    if (bodiless || this.#request.method === "HEAD") this.#response.end();
    else this.#response.end(body);
  }

  refuse(refusal: Refusal, extraHeaders: HeaderList = []): void {
    this.#facts.onRefusal(refusal);
    const { status, headers, body } = refusalAnswer(refusal);
    // If the rest of the body is large or has stalled, the connection is closed after the answer.
    const isStuck = refusal.code === "request_timeout";
    const closes = isStuck || hasMuchToCome(this.#request);
    if (closes && !isStuck && !this.#response.headersSent) lingerAfterAnswer(this.#request, this.#facts.clock);
    const close: HeaderList = closes ? [["connection", "close"]] : [];
    this.answer(status, [...headers, ...extraHeaders, ...close], body);
  }

  breakOff(): void {
    this.#response.destroy();
  }

  #pieces(): TickWriter {
    return (this.#writer ??= new TickWriter(this.#response));
  }

  #writeHead(status: number, headers: HeaderList): boolean {
    if (this.#clientGone || this.#response.headersSent) return false;
    this.#status = status;
    const flat: string[] = [];
    let hasRequestId = false;
    for (const [name, value] of this.#withReplaced(headers)) {
      hasRequestId ||= name.length === 12 && name.toLowerCase() === "x-request-id";
      flat.push(name, value);
    }
    if (!hasRequestId) flat.push("x-request-id", this.#facts.id);
    flat.push("x-farebox-request-id", this.#facts.id);
    for (const [name, value] of this.#facts.answerHeaders) flat.push(name, value);
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
    if (this.#response.writableFinished) return;
    this.#clientGone = true;
    this.#onClientGone?.();
  }
}

/** Largest rest of a refused request's body that is skipped, in bytes, so that its connection can serve the next request. */
const readPastBytesMax = 64 * 1024;

function hasMuchToCome({ complete, headers }: IncomingMessage): boolean {
  if (complete) return false;
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > readPastBytesMax;
}

function oneText(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(", ") : value;
}
