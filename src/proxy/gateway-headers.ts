import { createHmac, hkdfSync } from "node:crypto";
import type { Caller } from "../core/budget.ts";
import type { Exchange } from "../ports/exchange.ts";
import { forwardableHeaders } from "../wire/headers.ts";

/** Returns the headers of a request that is forwarded for a caller, without the gateway's credential. */
export type GatewayHeaders = (exchange: Exchange, caller: Caller) => Record<string, string>;

/**
 * Replaces an idempotency key by HMAC-SHA-256 over the internal key's id and the value, so that two internal keys never
 * share one at the gateway. The secret follows from the gateway's key: the same over restarts, workers and proxies.
 */
export function createGatewayHeaders(gatewayKey: string): GatewayHeaders {
  const secret = Buffer.from(hkdfSync("sha256", gatewayKey, "farebox", "idempotency v1", 32));
  return (exchange, { key }) => {
    // Neither a key's id nor a header's value can contain the separator.
    const idempotencyKey = (value: string) => createHmac("sha256", secret).update(`${key}\0${value}`).digest("hex");
    // An answer that we read should come readable; what is compressed all the same passes as it is.
    return { ...forwardableHeaders(exchange.headers(), idempotencyKey), "accept-encoding": "identity" };
  };
}
