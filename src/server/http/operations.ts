import { hash, timingSafeEqual } from "node:crypto";
import { type HeaderList, notForwarded, refuse, type Handler } from "../../ports/exchange.ts";
import type { Preset } from "../../core/price.ts";
import type { PriceReview } from "../../reporting/prices.ts";

const json: HeaderList = [["content-type", "application/json"]];

/** Handles `GET /healthz`, which shows that the process answers. */
export const healthz: Handler = async (exchange) => {
  exchange.answer(200, json, JSON.stringify({ status: "ok" }));
  return notForwarded;
};

export interface Readiness {
  readonly ready: boolean;
  /** Parts of the proxy by name. True for each part that is ready. */
  readonly checks: Readonly<Record<string, boolean>>;
  /** Digest of the prices. Proxies with the same prices have the same digest. */
  readonly catalogue: string;
  /** Preset and newest review of the prices. An old review does not make the proxy unready. */
  /** `preset_setting`: the setting that selects the preset. */
  readonly prices: PriceReview & { readonly preset: Preset; readonly preset_setting: "FAREBOX_PRESET" };
  /**
   * Number of other live proxies on the ledger, and the digests of their prices that differ from this proxy's prices.
   * Null if the ledger cannot be shared.
   */
  readonly peers: { readonly live: number; readonly otherCatalogues: readonly string[] } | null;
}

/** Handles `GET /readyz`, which shows whether the proxy should receive new requests. */
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

/** Handles `GET /metrics`. Requires the token; if none is set, answers only requests from this machine. */
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
        message: "The metrics need a token; send 'Authorization: Bearer <FAREBOX_METRICS_TOKEN>'.",
      });
    }
    const { contentType, text } = await deps.scrape(
      acceptsOpenMetrics(exchange.header("accept") ?? "") ? "openmetrics" : "prometheus",
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

/** Returns true if the client accepts OpenMetrics. Only Prometheus requests it. */
function acceptsOpenMetrics(accept: string): boolean {
  return accept
    .split(",")
    .some(
      (range) => /^\s*application\/openmetrics-text\s*(;|$)/i.test(range) && !/;\s*q=0(\.0*)?\s*(;|$)/i.test(range),
    );
}

/** Compares two texts in constant time. */
function sameText(a: string, b: string): boolean {
  const digest = (text: string) => hash("sha256", text, "buffer");
  return timingSafeEqual(digest(a), digest(b));
}
