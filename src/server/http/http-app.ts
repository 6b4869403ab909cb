import { IncomingMessage, ServerResponse, type RequestListener } from "node:http";
import express, { type ErrorRequestHandler, type RequestHandler } from "express";
import type { Clock } from "../../ports/clock.ts";
import type { Events } from "../../ports/events.ts";
import { LedgerUnavailable } from "../../ports/ledger.ts";
import type { Log } from "../../ports/log.ts";
import { notForwarded, type Handler, type Summary } from "../../request/handler.ts";
import type { HttpExchange } from "./exchange.ts";
import { exchangeOf, gatekeeper, type GatekeeperOptions } from "./gatekeeper.ts";

export interface Route {
  readonly method: "get" | "post" | "put" | "patch" | "delete" | "all";
  /** Express' form: "/v1/models/:id". It is the route's name in metrics too. */
  readonly path: string;
  readonly handler: Handler;
  /** Requests that it answers; all unless given. Others continue to the next route. */
  readonly isMine?: (method: string, path: string) => boolean;
}

interface HttpAppOptions extends Omit<GatekeeperOptions, "onRefusal"> {
  readonly routes: readonly Route[];
  readonly events: Events;
  readonly log: Log;
  readonly clock: Clock;
  /** Takes each exchange over while it runs, so that a shutdown can wait for it. */
  readonly running: (work: Promise<void>) => void;
}

/** The gatekeeper, and behind it the Express application: the routes in their order, and what is left. */
export function createHttpApp(options: HttpAppOptions): RequestListener {
  const { events } = options;
  const app = express();
  app.disable("x-powered-by");
  app.disable("etag");
  app.enable("case sensitive routing");
  app.enable("strict routing");
  // Handlers see exchanges, never Express' own methods: changing the prototypes of living objects is slow.
  Object.assign(app, { request: IncomingMessage.prototype, response: ServerResponse.prototype });
  for (const route of options.routes) app[route.method](route.path, observed(route, options));
  app.use((_request, response) => {
    const exchange = exchangeOf(response);
    const paths = options.routes.filter(({ path }) => path === exchange.path).map(({ method }) => method.toUpperCase());
    const message =
      paths.length === 0
        ? "There is no such path. Chat completions are at POST /v1/chat/completions, models at GET /v1/models."
        : `This path takes ${paths.join(", ")}.`;
    exchange.refuse({ code: "not_found", message });
  });
  app.use(failed(options.log));
  const enter = gatekeeper({ ...options, onRefusal: (refusal) => events.refused(refusal) });
  return (request, response) => enter(request, response, () => app(request, response));
}

/** Runs a route's handler and reports its result. */
function observed({ path, handler, isMine }: Route, options: HttpAppOptions): RequestHandler {
  const { events, log, clock } = options;
  return (_request, response, next) => {
    const exchange = exchangeOf(response);
    if (isMine !== undefined && !isMine(exchange.method, exchange.path)) return next();
    events.requestStarted("request");
    options.running(run(exchange));
  };

  async function run(exchange: HttpExchange): Promise<void> {
    const summary = await answer(exchange);
    const durationMs = clock.monotonic() - exchange.startedAt;
    const status = exchange.status ?? clientLeftStatus;
    const { route = path, model } = summary;
    events.requestEnded({ ...summary, id: exchange.id, route, status, durationMs });
    const fields = { request_id: exchange.id, route, status, model, duration_ms: Math.round(durationMs) };
    // One line a request: those that failed on the gateway's side or ours are seen without asking for all of them.
    if (status >= serverErrorStatus) log.warn(fields, "request failed");
    else log.debug(fields, "request");
  }

  async function answer(exchange: HttpExchange): Promise<Summary> {
    try {
      const summary = await handler(exchange);
      if (summary.error === undefined) return summary;
      fail(exchange, summary.error);
      return { ...summary, error: undefined };
    } catch (error) {
      fail(exchange, error);
      return notForwarded;
    }
  }

  function fail(exchange: HttpExchange, error: unknown): void {
    if (!(error instanceof LedgerUnavailable))
      log.error({ request_id: exchange.id, route: path, err: error }, "a request failed inside Farebox");
    abort(exchange, error);
  }
}

const serverErrorStatus = 500;

/** Status in metrics for a client that left before it was answered, as in nginx. */
const clientLeftStatus = 499;

function abort(exchange: HttpExchange, error: unknown): void {
  if (exchange.status === null)
    exchange.refuse({ code: error instanceof LedgerUnavailable ? "ledger_unavailable" : "internal_error" });
  else exchange.breakOff();
}

function failed(log: Log): ErrorRequestHandler {
  return (error, _request, response, _next) => {
    const exchange = exchangeOf(response);
    log.error({ request_id: exchange.id, err: error }, "a request failed inside Farebox");
    abort(exchange, error);
  };
}
