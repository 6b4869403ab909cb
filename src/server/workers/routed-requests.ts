import type { Refusal } from "../../core/refusals.ts";
import type { Route } from "../http/http-app.ts";
import type { Clock } from "../../ports/clock.ts";
import type { RefusedRequest } from "../../ports/events.ts";
import {
  BodyBytes,
  type BodyResult,
  type Exchange,
  type HeaderList,
  type Handler,
  type Summary,
} from "../../ports/exchange.ts";
import type { RequestSpan } from "../../ports/tracing.ts";
import { errorShapeOf, refusalIn } from "../../wire/anthropic-error.ts";
import type {
  PrimaryLink,
  ReplacedHeaders,
  RoutedAnswer,
  RoutedBody,
  RoutedHead,
  RoutedRequest,
  WorkerCalls,
} from "./protocol.ts";

/*
 * Requests that the primary answers for its workers: sessions, tasks, the admin API, metrics. Their handlers are the
 * same as in a proxy with one process. Long answers are sent in parts. A worker answers all streams of models itself.
 */

/** Worker side: sends requests to the primary if no worker serves their paths. */
export class RoutedRequests {
  readonly #link: PrimaryLink;
  readonly #clock: Clock;
  readonly #exchanges = new Map<string, { readonly exchange: Exchange; release: () => void }>();

  constructor(link: PrimaryLink, clock: Clock) {
    this.#link = link;
    this.#clock = clock;
  }

  /** Returns a handler that lets the primary answer. `route` is the index of the route in `Start.routes`. */
  handler(route: number): Handler {
    return async (exchange) => {
      const { id } = exchange;
      const open = { exchange, release: () => {} };
      this.#exchanges.set(id, open);
      exchange.onClientGone(() => this.#link.notify("clientGone", id));
      try {
        const answering = this.#link.ask("answer", requestOf(route, exchange, this.#clock));
        if (exchange.clientGone) this.#link.notify("clientGone", id);
        const answer = await answering;
        sendAnswer(exchange, answer);
        return answer.summary;
      } finally {
        this.#exchanges.delete(id);
        open.release();
      }
    };
  }

  async readBody({ id, limitBytes, recordAs }: Parameters<WorkerCalls["readBody"]>[0]): Promise<RoutedBody> {
    const open = this.#exchanges.get(id);
    if (open === undefined) return { ok: false, refusal: null };
    open.exchange.recordAs = recordAs;
    const body = await open.exchange.readBody(limitBytes ?? undefined);
    if (!body.ok) return body;
    open.release = body.release;
    return { ok: true, bytes: body.bytes.whole };
  }

  async sendPart({ id, head, bytes }: Parameters<WorkerCalls["sendPart"]>[0]): Promise<void> {
    const exchange = this.#exchanges.get(id)?.exchange;
    if (exchange === undefined || exchange.clientGone) return;
    if (head !== null) sendHead(exchange, head);
    if (exchange.write(bytes)) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    exchange.onDrain(resolve);
    exchange.onClientGone(() => {
      this.#link.notify("clientGone", id);
      resolve();
    });
    await promise;
  }
}

function requestOf(route: number, exchange: Exchange, clock: Clock): RoutedRequest {
  const { id, method, path, query, isLocal, remoteAddress, hasLargeRemainder } = exchange;
  const headers = [...exchange.headers()].map(([name]) => [name, exchange.header(name) ?? ""] as const);
  return {
    route,
    id,
    ageMs: clock.monotonic() - exchange.startedAt,
    method,
    path,
    query,
    headers,
    isLocal,
    remoteAddress,
    hasLargeRemainder,
  };
}

function sendHead(exchange: Exchange, { status, headers, replaced }: RoutedHead): void {
  if (replaced !== null) exchange.replaceHeaders(replaced.prefix, () => replaced.headers);
  exchange.begin(status, headers);
}

function sendAnswer(exchange: Exchange, answer: RoutedAnswer): void {
  if (answer.kind === "none") return;
  if (answer.kind === "broken") return exchange.breakOff();
  if (answer.kind === "end") {
    if (answer.head !== null) sendHead(exchange, answer.head);
    return exchange.end();
  }
  const { replaced } = answer;
  if (replaced !== null) exchange.replaceHeaders(replaced.prefix, () => replaced.headers);
  if (answer.kind === "refusal") {
    exchange.recordAs = answer.request;
    exchange.refuse(answer.refusal, answer.headers);
  } else exchange.answer(answer.status, answer.headers, answer.body);
}

type Without<Field extends string, Union> = Union extends unknown ? Omit<Union, Field> : never;

/** Answer of a handler, before the replaced headers and the summary are known. */
type HandlerAnswer = Exclude<Without<"summary" | "replaced" | "head", RoutedAnswer>, { readonly kind: "none" }>;

/** Calls of the primary to the worker that has the client's connection. Neither call rejects. */
interface WorkerSide {
  readBody(limitBytes: number | null, recordAs: RefusedRequest | null): Promise<RoutedBody>;
  sendPart(head: RoutedHead | null, bytes: Uint8Array): Promise<void>;
}

/** Primary side: exchange through which a route's handler answers a request from a worker. */
export class RoutedExchange implements Exchange {
  readonly id: string;
  readonly startedAt: number;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly isLocal: boolean;
  readonly remoteAddress: string;
  readonly hasLargeRemainder: boolean;
  recordAs: RefusedRequest | null = null;
  span: RequestSpan | null = null;
  readonly #headers: ReadonlyMap<string, string>;
  readonly #worker: WorkerSide;
  /** Status and headers that were not sent to the worker yet. */
  #head: RoutedHead | null = null;
  #onDrain: () => void = () => {};
  #answered: HandlerAnswer | null = null;
  #status: number | null = null;
  #replaced: { readonly prefix: string; readonly headers: () => HeaderList } | null = null;
  /** Replacement headers as they were when the handler answered. */
  #replacedAtHead: ReplacedHeaders | null = null;
  #clientGone = false;
  #onClientGone: () => void = () => {};

  constructor(request: RoutedRequest, clock: Clock, worker: WorkerSide) {
    this.id = request.id;
    this.startedAt = clock.monotonic() - request.ageMs;
    this.method = request.method;
    this.path = request.path;
    this.query = request.query;
    this.isLocal = request.isLocal;
    this.remoteAddress = request.remoteAddress;
    this.hasLargeRemainder = request.hasLargeRemainder;
    this.#headers = new Map(request.headers);
    this.#worker = worker;
  }

  get clientGone(): boolean {
    return this.#clientGone;
  }
  get status(): number | null {
    return this.#status;
  }

  header(name: string): string | undefined {
    return this.#headers.get(name);
  }

  headers(): Iterable<readonly [name: string, value: string]> {
    return this.#headers;
  }

  async readBody(limitBytes?: number): Promise<BodyResult> {
    const body = await this.#worker.readBody(limitBytes ?? null, this.recordAs);
    if (!body.ok) return body;
    const { buffer, byteOffset, byteLength } = body.bytes;
    // The worker releases the body's memory when the request is answered.
    const bytes = new BodyBytes([Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)]);
    return { ok: true, bytes, release: () => {} };
  }

  onClientGone(listener: () => void): void {
    this.#onClientGone = listener;
  }

  /** Reports that the client has disconnected or the worker has died. */
  clientLeft(): void {
    if (this.#clientGone) return;
    this.#clientGone = true;
    this.#onClientGone();
  }

  replaceHeaders(prefix: string, headers: () => HeaderList): void {
    this.#replaced = { prefix, headers };
  }

  begin(status: number, headers: HeaderList): void {
    if (this.#status !== null || this.#clientGone) return;
    this.#setStatus(status);
    this.#head = { status, headers, replaced: this.#replacedAtHead };
  }

  /**
   * Sends the next part of the answer to the worker. Always returns false, because only the worker knows when the
   * client accepts more.
   */
  write(bytes: Uint8Array): boolean {
    const head = this.#head;
    this.#head = null;
    void this.#worker.sendPart(head, bytes).then(() => this.#onDrain());
    return false;
  }

  onDrain(listener: () => void): void {
    this.#onDrain = listener;
  }

  end(): void {
    this.#answered ??= { kind: "end" };
  }

  breakOff(): void {
    this.#answered = { kind: "broken" };
  }

  answer(status: number, headers: HeaderList, body: Uint8Array | string): void {
    this.#setAnswer(status, { kind: "answer", status, headers, body });
  }

  refuse(refusal: Refusal, extraHeaders: HeaderList = []): void {
    this.span?.note({ refusal: refusal.code });
    const shape = errorShapeOf(this.path, this.header("anthropic-version") !== undefined);
    this.#setAnswer(refusalIn(shape, refusal, this.id).status, {
      kind: "refusal",
      refusal,
      request: this.recordAs,
      headers: extraHeaders,
    });
  }

  /** Returns the answer for the worker, once the handler is done. */
  result(summary: Summary): RoutedAnswer {
    const answered = this.#answered;
    if (answered === null) return { kind: "none", summary };
    if (answered.kind === "broken") return { kind: answered.kind, summary };
    if (answered.kind === "end") return { kind: answered.kind, head: this.#head, summary };
    return { ...answered, replaced: this.#replacedAtHead, summary };
  }

  #setAnswer(status: number, answered: HandlerAnswer): void {
    if (this.#status !== null || this.#clientGone) return;
    this.#setStatus(status);
    this.#answered = answered;
  }

  #setStatus(status: number): void {
    this.#status = status;
    if (this.#replaced !== null)
      this.#replacedAtHead = { prefix: this.#replaced.prefix, headers: this.#replaced.headers() };
  }
}

/** Returns a name that identifies the same route in the primary and in its workers. */
export function routeName({ method, path }: Pick<Route, "method" | "path">): string {
  return `${method} ${path}`;
}
