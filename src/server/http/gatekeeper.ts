import { randomUUIDv7 } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Refusal } from "../../core/refusals.ts";
import type { Clock } from "../../ports/clock.ts";
import type { HeaderList } from "../../ports/exchange.ts";
import type { BodyMemory } from "./body.ts";
import { HttpExchange } from "./exchange.ts";
import { browserOrigin, hostName, isLoopbackHost, isVisit } from "./origins.ts";
import { cleanPath } from "./paths.ts";

export interface GatekeeperOptions {
  readonly clock: Clock;
  /** True if we listen on loopback: then only loopback names are answered (DNS rebinding). */
  readonly loopbackOnly: boolean;
  /** The name under which the gateway reaches us, for its callbacks; null for none. */
  readonly publicHost: string | null;
  readonly corsOrigins: readonly string[];
  readonly bodyBytesMax: number;
  /** For the bodies of all requests. */
  readonly bodyMemory: BodyMemory;
  readonly onRefusal: (refusal: Refusal) => void;
}

/** Place of Express for data of one request. */
interface WithLocals {
  locals?: Record<string, unknown>;
}

/** The exchange that the gatekeeper made for a request. */
export function exchangeOf(response: ServerResponse): HttpExchange {
  return (response as WithLocals).locals?.["exchange"] as HttpExchange;
}

/**
 * The first step of every request, before Express looks at it: makes its exchange, and turns away what must not come
 * further.
 */
export function gatekeeper(
  options: GatekeeperOptions,
): (request: IncomingMessage, response: ServerResponse, next: () => void) => void {
  const permitted = new Set(options.corsOrigins);
  const judge = hostJudge();

  return (request, response, next) => {
    const clean = cleanPath(request.url ?? "");
    const origin = browserOrigin(request.headers, isOwnPagesOnly(clean?.path ?? "") ? noOrigins : permitted);
    const exchange = new HttpExchange(request, response, {
      id: randomUUIDv7(),
      startedAt: options.clock.monotonic(),
      path: clean?.path ?? "",
      query: clean?.query ?? "",
      answerHeaders: origin.kind === "permitted" ? corsHeaders(origin.origin) : [],
      bodyBytesMax: options.bodyBytesMax,
      bodyMemory: options.bodyMemory,
      clock: options.clock,
      onRefusal: options.onRefusal,
    });
    (response as WithLocals).locals = { exchange };

    const stated = exchange.header("host");
    const host = judge(stated);
    const isCallback = host.name === options.publicHost && clean?.path.startsWith(callbackPaths) === true;
    if (options.loopbackOnly && !isCallback && !host.isLoopback) {
      return exchange.refuse({ code: "unknown_host", host: stated ?? "" });
    }
    if (origin.kind === "foreign" && !isLinkedPage(request, clean?.path ?? ""))
      return exchange.refuse({ code: "cross_site", origin: origin.origin });
    if (/\bwebsocket\b/i.test(request.headers.upgrade ?? "")) return exchange.refuse({ code: "websocket_unsupported" });
    if (clean === undefined) return exchange.refuse({ code: "not_found", message: "There is no such path." });
    if (request.method === "OPTIONS" && origin.kind === "permitted")
      return exchange.answer(204, preflightHeaders(request), "");
    request.url = clean.path + clean.query;
    next();
  };
}

const noOrigins: ReadonlySet<string> = new Set();

interface JudgedHost {
  readonly stated: string | undefined;
  /** Without its port; undefined for a malformed one. */
  readonly name: string | undefined;
  readonly isLoopback: boolean;
}

/** Judges `Host` headers. Remembers the last one, because most requests repeat it. */
function hostJudge(): (stated: string | undefined) => JudgedHost {
  let last: JudgedHost = { stated: undefined, name: undefined, isLoopback: false };
  return (stated) => {
    if (stated === last.stated) return last;
    const name = hostName(stated);
    last = { stated, name, isLoopback: name !== undefined && isLoopbackHost(name) };
    return last;
  };
}

/** Only path that is served under the public name: callbacks, each with a token of its own. */
const callbackPaths = "/v1/farebox/callbacks/";

/** Paths that no page of another origin may call, whatever the settings permit. */
function isOwnPagesOnly(path: string): boolean {
  return path === "/admin" || path.startsWith("/admin/") || isDashboard(path);
}

function isDashboard(path: string): boolean {
  return path === "/dashboard" || path.startsWith("/dashboard/");
}

/** True for a link of another site to the dashboard. The page is the same for everyone and fetches its figures itself. */
function isLinkedPage(request: IncomingMessage, path: string): boolean {
  return isDashboard(path) && isVisit(request.method ?? "", request.headers);
}

function corsHeaders(origin: string): HeaderList {
  return [
    ["access-control-allow-origin", origin],
    ["access-control-expose-headers", "*"],
    ["vary", "origin"],
  ];
}

function preflightHeaders(request: IncomingMessage): HeaderList {
  return [
    ["access-control-allow-methods", "GET, POST, DELETE"],
    ["access-control-allow-headers", request.headers["access-control-request-headers"] ?? "*"],
    ["access-control-max-age", "600"],
  ];
}
