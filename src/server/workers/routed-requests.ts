import type { Refusal } from "../../core/refusals.ts";
import type { Route } from "../http/http-app.ts";
import type { Clock } from "../../ports/clock.ts";
import type { BodyOpening, BodyResult, Exchange, HeaderList } from "../../ports/exchange.ts";
import type { Handler, Summary } from "../../request/handler.ts";
import { refusalAnswer } from "../../wire/refusals.ts";
import type { PrimaryLink, ReplacedHeaders, RoutedAnswer, RoutedBody, RoutedRequest } from "./protocol.ts";

/*
 * Requests that the primary answers for its workers: sessions, tasks, the admin API, the metrics. They work as in a proxy of
 * one process. Their responses are whole; a worker answers what streams itself.
 */

/** A worker's side: its requests of paths that the primary serves. */
export class RoutedRequests {
  readonly #link: PrimaryLink;
  readonly #clock: Clock;
  readonly #exchanges = new Map<string, { readonly exchange: Exchange; release: () => void }>();

  constructor(link: PrimaryLink, clock: Clock) {
    this.#link = link;
    this.#clock = clock;
  }

  /** Returns a handler that asks the primary, whose route has this index. */
  handler(route: number): Handler {
    return async (exchange) => {
      const { id } = exchange;
      const asked = { exchange, release: () => {} };
      this.#exchanges.set(id, asked);
      exchange.onClientGone(() => this.#link.notify("clientGone", id));
      try {
        const answering = this.#link.ask("answer", requestOf(route, exchange, this.#clock));
        if (exchange.clientGone) this.#link.notify("clientGone", id);
        const answer = await answering;
        give(exchange, answer);
        return answer.summary;
      } finally {
        this.#exchanges.delete(id);
        asked.release();
      }
    };
  }

  async readBody(id: string, limitBytes: number | null): Promise<RoutedBody> {
    const asked = this.#exchanges.get(id);
    if (asked === undefined) return { ok: false, refusal: null };
    const body = await asked.exchange.readBody(limitBytes ?? undefined);
    if (!body.ok) return body;
    asked.release = body.release;
    return { ok: true, bytes: body.bytes };
  }
}

function requestOf(route: number, exchange: Exchange, clock: Clock): RoutedRequest {
  const { id, method, path, query, isLocal, remoteAddress } = exchange;
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
  };
}

function give(exchange: Exchange, answer: RoutedAnswer): void {
  if (answer.kind === "none") return;
  const { replaced } = answer;
  if (replaced !== null) exchange.replaceHeaders(replaced.prefix, () => replaced.headers);
  if (answer.kind === "refusal") exchange.refuse(answer.refusal, answer.headers);
  else exchange.answer(answer.status, answer.headers, answer.body);
}

type Answered =
  | {
      readonly kind: "answer";
      readonly status: number;
      readonly headers: HeaderList;
      readonly body: Uint8Array | string;
    }
  | { readonly kind: "refusal"; readonly refusal: Refusal; readonly headers: HeaderList };

/** The primary's side: a worker's request as an exchange for the handler of its route. */
export class RoutedExchange implements Exchange {
  readonly startedAt: number;
  readonly #request: RoutedRequest;
  readonly #headers: ReadonlyMap<string, string>;
  readonly #readBody: (limitBytes: number | null) => Promise<RoutedBody>;
  #answered: Answered | null = null;
  #status: number | null = null;
  #replaced: { readonly prefix: string; readonly headers: () => HeaderList } | null = null;
  /** As of the moment when the head would have been sent. */
  #replacedThen: ReplacedHeaders | null = null;
  #clientGone = false;
  #onClientGone: () => void = () => {};

  constructor(request: RoutedRequest, clock: Clock, body: (limitBytes: number | null) => Promise<RoutedBody>) {
    this.startedAt = clock.monotonic() - request.ageMs;
    this.#request = request;
    this.#headers = new Map(request.headers);
    this.#readBody = body;
  }

  get id(): string {
    return this.#request.id;
  }
  get method(): string {
    return this.#request.method;
  }
  get path(): string {
    return this.#request.path;
  }
  get query(): string {
    return this.#request.query;
  }
  get isLocal(): boolean {
    return this.#request.isLocal;
  }
  get remoteAddress(): string {
    return this.#request.remoteAddress;
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
    const body = await this.#readBody(limitBytes ?? null);
    if (!body.ok) return body;
    const { buffer, byteOffset, byteLength } = body.bytes;
    // The worker releases the body's memory when the request is answered.
    return { ok: true, bytes: Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength), release: () => {} };
  }

  openBody(): BodyOpening {
    throw new Error("a request that another process answers is read whole");
  }

  onClientGone(listener: () => void): void {
    this.#onClientGone = listener;
  }

  /** The client has disconnected, or the worker has died. */
  leave(): void {
    if (this.#clientGone) return;
    this.#clientGone = true;
    this.#onClientGone();
  }

  replaceHeaders(prefix: string, headers: () => HeaderList): void {
    this.#replaced = { prefix, headers };
  }

  begin(): void {
    this.#never();
  }
  write(): boolean {
    return this.#never();
  }
  onDrain(): void {
    this.#never();
  }
  end(): void {
    this.#never();
  }
  breakOff(): void {
    this.#never();
  }

  answer(status: number, headers: HeaderList, body: Uint8Array | string): void {
    this.#give(status, { kind: "answer", status, headers, body });
  }

  refuse(refusal: Refusal, extraHeaders: HeaderList = []): void {
    this.#give(refusalAnswer(refusal).status, { kind: "refusal", refusal, headers: extraHeaders });
  }

  /** Returns the answer for the worker, once the handler is done. */
  result(summary: Summary): RoutedAnswer {
    return this.#answered === null
      ? { kind: "none", summary }
      : { ...this.#answered, replaced: this.#replacedThen, summary };
  }

  #give(status: number, answered: Answered): void {
    if (this.#answered !== null || this.#clientGone) return;
    this.#status = status;
    this.#answered = answered;
    if (this.#replaced !== null)
      this.#replacedThen = { prefix: this.#replaced.prefix, headers: this.#replaced.headers() };
  }

  #never(): never {
    throw new Error("a request that another process answers is answered whole");
  }
}

/** Returns a name by which a route is found in another list. */
export function routeName({ method, path }: Pick<Route, "method" | "path">): string {
  return `${method} ${path}`;
}
