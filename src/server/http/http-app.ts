import {
  IncomingMessage,
  ServerResponse,
  type RequestListener,
  type IncomingHttpHeaders,
  createServer,
  type Server,
} from "node:http";
import express, { type ErrorRequestHandler, type RequestHandler } from "express";
import type { Clock } from "../../ports/clock.ts";
import type { Events } from "../../ports/events.ts";
import {
  type Exchange,
  type HeaderList,
  faultCode,
  notForwarded,
  type Handler,
  type Summary,
} from "../../ports/exchange.ts";
import { LedgerUnavailable } from "../../ports/ledger.ts";
import type { Log } from "../../ports/log.ts";
import { HttpExchange, type ExchangeDeps, hostName } from "./exchange.ts";
import { callbackPath, unversionedPaths } from "../../core/task-routes.ts";
import { isLoopbackHost } from "../../core/addresses.ts";
import { hourMs } from "../../core/time.ts";
import { randomUUIDv7 } from "node:crypto";
import type { Duplex } from "node:stream";
import type { Refusal } from "../../core/refusals.ts";
import { refusalAnswer } from "../../wire/refusals.ts";
import { isLingering } from "./body.ts";
import { createPathExplainer, type PathExplainer } from "./unknown-path.ts";

export interface Route {
  readonly method: "get" | "post" | "put" | "patch" | "delete" | "all";
  /** Path in Express' form: "/v1/models/:id". Metrics use it as the route's name. */
  readonly path: string;
  readonly handler: Handler;
  /**
   * Returns true for requests that this route answers. Other requests continue to the next route. By default, the route
   * answers all requests.
   */
  readonly accepts?: (method: string, path: string, exchange: Pick<Exchange, "header">) => boolean;
}

export interface HttpAppOptions extends Omit<ExchangeDeps, "onRefusal"> {
  /** True if the proxy listens on loopback. It then accepts only loopback host names, to prevent DNS rebinding. */
  readonly loopbackOnly: boolean;
  /** Host name that the gateway uses for its callbacks; null if there is none. */
  readonly publicHost: string | null;
  readonly corsOrigins: readonly string[];
  readonly routes: readonly Route[];
  readonly events: Events;
  readonly log: Log;
  readonly clock: Clock;
  /** Receives the work of each exchange, so that a shutdown can wait for it. */
  readonly running: (work: Promise<void>) => void;
}

/**
 * Creates the gatekeeper and the Express application behind it. The application tries the routes in the given order,
 * and refuses requests that no route answers.
 */
export function createHttpApp(options: HttpAppOptions): RequestListener {
  const { events } = options;
  const app = express();
  app.disable("x-powered-by");
  app.disable("etag");
  app.enable("case sensitive routing");
  app.enable("strict routing");
  // Handlers use exchanges, never Express' own methods. Without this line, Express would change the prototypes of each
  // request and response, which is slow.
  Object.assign(app, { request: IncomingMessage.prototype, response: ServerResponse.prototype });
  for (const route of options.routes) app[route.method](route.path, observed(route, options));
  const paths = createPathExplainer(options.routes);
  app.use((_request, response) => {
    const exchange = exchangeOf(response);
    exchange.refuse(paths.unanswered(exchange.method, exchange.path));
  });
  app.use(failed(options.log));
  const enter = gatekeeper({ ...options, paths, onRefusal: (event) => events.refused(event) });
  return (request, response) => enter(request, response, () => app(request, response));
}

/** Runs a route's handler and reports its result. */
function observed({ path, handler, accepts }: Route, options: HttpAppOptions): RequestHandler {
  const { events, log, clock } = options;
  return (_request, response, next) => {
    const exchange = exchangeOf(response);
    if (accepts !== undefined && !accepts(exchange.method, exchange.path, exchange)) return next();
    events.requestStarted("request");
    options.running(run(exchange));
  };

  async function run(exchange: HttpExchange): Promise<void> {
    let summary: Summary;
    try {
      summary = await handler(exchange);
      if (summary.error !== undefined) fail(exchange, summary.error, summary.route);
    } catch (error) {
      summary = notForwarded;
      fail(exchange, error);
    }
    const { route = path, model, stream, firstTokenMs, overheadMs } = summary;
    const durationMs = clock.monotonic() - exchange.startedAt;
    const status = exchange.status ?? clientLeftStatus;
    events.requestEnded({ id: exchange.id, route, model, status, stream, durationMs, firstTokenMs, overheadMs });
    const fields = { request_id: exchange.id, route, status, model, duration_ms: Math.round(durationMs) };
    // One line for each request. Server errors are warnings, so that they are logged even if other requests are not.
    if (status >= serverErrorStatus) log.warn(fields, "request failed");
    else log.debug(fields, "request");
  }

  function fail(exchange: HttpExchange, error: unknown, route = path): void {
    if (!(error instanceof LedgerUnavailable))
      log.error({ request_id: exchange.id, route, err: error }, "a request failed inside Farebox");
    abort(exchange, error);
  }
}

const serverErrorStatus = 500;

/** Status in metrics for a client that disconnected before the answer, as in nginx. */
const clientLeftStatus = 499;

function abort(exchange: HttpExchange, error: unknown): void {
  if (exchange.status === null) exchange.refuse({ code: faultCode(error) });
  else exchange.breakOff();
}

function failed(log: Log): ErrorRequestHandler {
  return (error, _request, response, _next) => {
    const exchange = exchangeOf(response);
    log.error({ request_id: exchange.id, err: error }, "a request failed inside Farebox");
    abort(exchange, error);
  };
}

/** Property in which Express keeps data of one request. */
interface WithLocals {
  locals?: Record<string, unknown>;
}

/** Returns the exchange that the gatekeeper created for a request. */
function exchangeOf(response: ServerResponse): HttpExchange {
  return (response as WithLocals).locals?.["exchange"] as HttpExchange;
}

/**
 * Returns a function that receives every request before Express does. It creates the exchange, and refuses requests
 * that no handler may receive.
 */
function gatekeeper(
  options: ExchangeDeps & HttpAppOptions & { readonly paths: PathExplainer },
): (request: IncomingMessage, response: ServerResponse, next: () => void) => void {
  const permitted = new Set(options.corsOrigins);
  const checkHost = createHostCheck();

  return (request, response, next) => {
    const clean = cleanPath(request.url ?? "");
    const origins = permitsOnlyOwnPages(clean?.path ?? "") ? noOrigins : permitted;
    const origin = browserOrigin(request.headers, origins);
    const corsAnswer = origin.kind === "permitted" ? corsHeaders(origin.origin) : withoutCors(origins);
    const exchange = new HttpExchange(request, response, options, clean, corsAnswer);
    (response as WithLocals).locals = { exchange };

    const stated = exchange.header("host");
    const host = checkHost(stated);
    // At its public host name, a proxy on loopback serves only callbacks.
    const isCallback = host.name === options.publicHost && clean?.path.startsWith(`${callbackPath}/`) === true;
    if (options.loopbackOnly && !isCallback && !host.isLoopback) {
      return exchange.refuse({ code: "unknown_host", host: stated ?? "" });
    }
    if (origin.kind === "foreign" && !isLinkedPage(request, clean?.path ?? ""))
      return exchange.refuse({ code: "cross_site", origin: origin.origin });
    if (/\bwebsocket\b/i.test(request.headers.upgrade ?? "")) return exchange.refuse({ code: "websocket_unsupported" });
    // Also for a path that does not exist: otherwise the page could not read the refusal of its request.
    if (request.method === "OPTIONS" && origin.kind === "permitted")
      return exchange.answer(204, preflightHeaders(request), "");
    if (clean === undefined)
      return exchange.refuse(options.paths.misspelled(exchange.method, withoutQuery(request.url ?? "")));
    request.url = clean.path + clean.query;
    next();
  };
}

const noOrigins: ReadonlySet<string> = new Set();
const noHeaders: HeaderList = [];

interface CheckedHost {
  readonly stated: string | undefined;
  /** Host name without its port; undefined if the header is malformed. */
  readonly name: string | undefined;
  readonly isLoopback: boolean;
}

/** Returns a function that checks `Host` headers. It remembers the latest header, because most requests repeat it. */
function createHostCheck(): (stated: string | undefined) => CheckedHost {
  let last: CheckedHost = { stated: undefined, name: undefined, isLoopback: false };
  return (stated) => {
    if (stated === last.stated) return last;
    const name = hostName(stated);
    last = { stated, name, isLoopback: name !== undefined && isLoopbackHost(name) };
    return last;
  };
}

/** Returns true for paths that pages of other origins may never call, even if the settings permit the origin. */
function permitsOnlyOwnPages(path: string): boolean {
  return path === "/admin" || path.startsWith("/admin/") || isDashboard(path);
}

function isDashboard(path: string): boolean {
  return path === "/dashboard" || path.startsWith("/dashboard/");
}

/**
 * Returns true if a link on another site leads to the dashboard, or to `/`, which redirects there. The page is the same
 * for everyone and fetches its data itself, so such a visit is harmless.
 */
function isLinkedPage(request: IncomingMessage, path: string): boolean {
  return (path === "/" || isDashboard(path)) && isVisit(request.method ?? "", request.headers);
}

const varies = ["vary", "origin"] as const;

function corsHeaders(origin: string): HeaderList {
  return [["access-control-allow-origin", origin], ["access-control-expose-headers", "*"], varies];
}

/** Returns the headers of an answer that no other origin may read. A cache must not show it to a permitted one. */
function withoutCors(permitted: ReadonlySet<string>): HeaderList {
  return permitted.size === 0 ? noHeaders : [varies];
}

/**
 * Names of networks that a preflight can ask for: Farebox's address is less public than the page's. Browsers have used
 * both names for the same question. Current ones ask their user instead.
 */
const lessPublicNetworks = ["private-network", "local-network"] as const;

function preflightHeaders({ headers }: IncomingMessage): HeaderList {
  const networks = lessPublicNetworks.filter((network) => headers[`access-control-request-${network}`] === "true");
  return [
    ["access-control-allow-methods", "GET, POST, DELETE"],
    ["access-control-allow-headers", headers["access-control-request-headers"] ?? "*"],
    ["access-control-max-age", "600"],
    ...networks.map((network) => [`access-control-allow-${network}`, "true"] as const),
    ["vary", ["headers", ...lessPublicNetworks].map((asked) => `access-control-request-${asked}`).join(", ")],
  ];
}

interface CleanPath {
  /** Path without the query. `/v1` is added if the client omitted it. */
  readonly path: string;
  /** Query with its question mark; "" if there is none. */
  readonly query: string;
}

const encodedSeparators = /%(?:2f|5c)/i;
const dotSegment = /^(?:\.|%2e){1,2}$/i;
/** Visible ASCII without "#", because a request must not contain a fragment. */
const plainTarget = /^[!-"$-~]*$/;

/**
 * Returns the path of a request target. Returns undefined for forms that two programs could read differently: absolute
 * or authority forms, doubled or encoded slashes, backslashes, dot segments, fragments, and escapes that are not UTF-8.
 */
export function cleanPath(target: string): CleanPath | undefined {
  if (!plainTarget.test(target)) return undefined;
  const path = withoutQuery(target);
  if (!path.startsWith("/") || path.includes("//") || path.includes("\\")) return undefined;
  if (path.includes("%") && (encodedSeparators.test(path) || !decodes(path))) return undefined;
  if (path.includes(".") || path.includes("%")) {
    if (path.split("/").some((segment) => dotSegment.test(segment))) return undefined;
  }
  const query = target.slice(path.length);
  return { path: isUnversioned(path) ? `/v1${path}` : path, query };
}

function withoutQuery(target: string): string {
  const mark = target.indexOf("?");
  return mark === -1 ? target : target.slice(0, mark);
}

function isUnversioned(path: string): boolean {
  if (path.startsWith("/v1/")) return false;
  return unversionedPaths.some(
    (known) => path.startsWith(known) && (path.length === known.length || path[known.length] === "/"),
  );
}

function decodes(path: string): boolean {
  try {
    // The bundler removes calls of pure functions whose result is unused.
    return decodeURIComponent(path) !== "";
  } catch {
    return false;
  }
}

/** Origin of a request, as the browser states it. */
type BrowserOrigin =
  /** The client is not a browser, or the page is Farebox's own. */
  | { readonly kind: "own" }
  /** The page has an origin that the settings permit. */
  | { readonly kind: "permitted"; readonly origin: string }
  | { readonly kind: "foreign"; readonly origin: string | null };

export function browserOrigin(headers: IncomingHttpHeaders, permitted: ReadonlySet<string>): BrowserOrigin {
  const { origin } = headers;
  const site = headers["sec-fetch-site"];
  if (origin !== undefined && permitted.has(origin)) return { kind: "permitted", origin };
  if (site === "cross-site" || site === "same-site") return { kind: "foreign", origin: origin ?? null };
  if (site !== undefined || origin === undefined) return { kind: "own" };
  const host = URL.parse(origin)?.host;
  return host !== undefined && host === headers.host ? { kind: "own" } : { kind: "foreign", origin };
}

/** Returns true if a browser requests a page for a window, not for a frame or a script. */
function isVisit(method: string, headers: IncomingHttpHeaders): boolean {
  return method === "GET" && headers["sec-fetch-mode"] === "navigate" && headers["sec-fetch-dest"] === "document";
}

/**
 * Time until an idle connection is closed, in milliseconds. Common clients close idle connections earlier, so they do
 * not send a request on a closing connection.
 */
const idleConnectionMs = 65_000;
/**
 * Longest time for a whole request, in milliseconds. It allows a large upload on a slow connection; `BodyPace` aborts a
 * stalled upload much earlier.
 */
const requestMs = hourMs;

interface HttpServerOptions {
  /** Called for each request that cannot be read, to count it in the metrics. */
  readonly onRefusal?: (refusal: Refusal) => void;
  /** Longest time for a request's head to arrive, in milliseconds. */
  readonly headMs?: number;
}

/**
 * Creates the HTTP server. If it cannot read a request, it answers with a refusal. Node's own error answers would state
 * no reason.
 */
export function createHttpServer(
  listener: RequestListener,
  { onRefusal, headMs = 60_000 }: HttpServerOptions = {},
): Server {
  const answers = new WeakMap<Duplex, ServerResponse>();
  const remembering: RequestListener = (request, response) => {
    if (isLingering(request.socket)) return void request.socket.destroy();
    answers.set(request.socket, response);
    listener(request, response);
  };
  // The gatekeeper refuses requests without a host.
  const server = createServer(
    {
      keepAliveTimeout: idleConnectionMs,
      requestTimeout: requestMs,
      headersTimeout: headMs,
      connectionsCheckingInterval: headMs / 2,
      requireHostHeader: false,
    },
    remembering,
  );
  server.on("checkExpectation", remembering);
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const answer = answers.get(socket);
    const isMidAnswer = answer !== undefined && answer.headersSent && !answer.writableFinished;
    if (!socket.writable || isMidAnswer || error.code === "ECONNRESET") socket.destroy();
    else {
      const unreadable = unreadableFor(error.code);
      onRefusal?.(unreadable.refusal);
      socket.end(answerText(unreadable));
    }
  });
  return server;
}

const malformed = (message: string): Refusal => ({ code: "invalid_request", message, param: null });

const known: Readonly<Record<string, Unreadable>> = {
  HPE_HEADER_OVERFLOW: {
    status: 431,
    line: "Request Header Fields Too Large",
    refusal: malformed("The request's headers are too large."),
  },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, line: "Request Timeout", refusal: { code: "request_timeout" } },
};

interface Unreadable {
  readonly status: number;
  readonly line: string;
  readonly refusal: Refusal;
}

function unreadableFor(code: string | undefined): Unreadable {
  return (
    known[code ?? ""] ?? {
      status: 400,
      line: "Bad Request",
      refusal: malformed("This is not a well-formed HTTP request."),
    }
  );
}

/** Returns the whole answer to a request that cannot be read, including the head. */
function answerText({ status, line, refusal }: Unreadable): string {
  const { headers, body } = refusalAnswer(refusal);
  const id = randomUUIDv7();
  const all = [
    ...headers,
    ["x-request-id", id],
    ["x-farebox-request-id", id],
    ["content-length", String(Buffer.byteLength(body))],
    ["connection", "close"],
  ];
  return `HTTP/1.1 ${status} ${line}\r\n${all.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body}`;
}

/** Counts work in progress, so that the process can wait for it before exiting. */
export class Work {
  #running = 0;
  #waiting: (() => void)[] = [];

  readonly add = (work: Promise<unknown>): void => {
    this.#running++;
    // The caller reports failures. Here, failed work only counts as ended.
    void work.then(this.#ended, this.#ended);
  };

  /** Resolves when no work is in progress, including work that is added during the wait. */
  async done(): Promise<void> {
    while (this.#running > 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  readonly #ended = (): void => {
    this.#running--;
    if (this.#running > 0) return;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  };
}
