import { timingSafeEqual, createHash } from "node:crypto";
import type { HeaderList } from "../../ports/exchange.ts";
import { notForwarded, refuse, type Handler } from "../../request/handler.ts";
import type { PriceReview } from "../../reporting/price-review.ts";

const json: HeaderList = [["content-type", "application/json"]];

/** `GET /healthz`: the process answers. */
export const healthz: Handler = async (exchange) => {
  exchange.answer(200, json, JSON.stringify({ status: "ok" }));
  return notForwarded;
};

export interface Readiness {
  readonly ready: boolean;
  /** Each part by name, and whether it is fit for work. */
  readonly checks: Readonly<Record<string, boolean>>;
  /** Equal on proxies with the same prices. */
  readonly catalogue: string;
  /** The newest review of the prices; an old one leaves the proxy ready. */
  readonly prices: PriceReview;
  /** The other live proxies of the ledger, and the content ids of their prices that are not these; null for one that is alone by its nature. */
  readonly peers: { readonly live: number; readonly otherCatalogues: readonly string[] } | null;
}

/** `GET /readyz`: whether new requests should come here. */
export function readyz(readiness: () => Promise<Readiness>): Handler {
  return async (exchange) => {
    const { ready, checks, catalogue, prices, peers } = await readiness();
    const body = {
      status: ready ? "ready" : "not_ready",
      checks,
      catalogue,
      prices,
      ...(peers !== null && {
        peers: {
          live: peers.live,
          catalogue_differs: peers.otherCatalogues.length > 0,
          other_catalogues: peers.otherCatalogues,
        },
      }),
    };
    exchange.answer(ready ? 200 : 503, json, JSON.stringify(body));
    return notForwarded;
  };
}

/** `GET /metrics`: for the bearer of the token; without a token for this machine only. */
export function metricsPage(deps: {
  readonly token: string | null;
  readonly scrape: (
    format: "prometheus" | "openmetrics",
  ) => Promise<{ readonly contentType: string; readonly text: string }>;
}): Handler {
  return async (exchange) => {
    const bearer = /^Bearer\s+(\S+)\s*$/i.exec(exchange.header("authorization") ?? "")?.[1];
    if (deps.token === null && !exchange.isLocal)
      return refuse(exchange, { code: "not_found", message: "There is no such path." });
    if (deps.token !== null && (bearer === undefined || !sameText(bearer, deps.token))) {
      return refuse(exchange, {
        code: "invalid_api_key",
        message: "The metrics need their token: 'Authorization: Bearer <FAREBOX_METRICS_TOKEN>'.",
      });
    }
    const { contentType, text } = await deps.scrape(
      takesOpenMetrics(exchange.header("accept") ?? "") ? "openmetrics" : "prometheus",
    );
    exchange.answer(
      200,
      [
        ["content-type", contentType],
        ["vary", "accept"],
      ],
      text,
    );
    return notForwarded;
  };
}

/** True if OpenMetrics is accepted. Only Prometheus asks for it. */
function takesOpenMetrics(accept: string): boolean {
  return accept
    .split(",")
    .some(
      (range) => /^\s*application\/openmetrics-text\s*(;|$)/i.test(range) && !/;\s*q=0(\.0*)?\s*(;|$)/i.test(range),
    );
}

/** Compares in constant time. */
function sameText(a: string, b: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
