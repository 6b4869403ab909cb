import { createHash, createHmac, hkdfSync } from "node:crypto";
import type { Caller } from "../core/budget.ts";
import type { Exchange } from "../ports/exchange.ts";
import { forwardableHeaders, isIdempotencyHeader } from "../wire/headers.ts";

/** Returns the headers of a request that is forwarded for a caller, without the gateway's credential. */
export type GatewayHeaders = (exchange: Exchange, caller: Caller) => Record<string, string>;

/**
 * Replaces an idempotency key by an HMAC-SHA-256 of the internal key's id and the value, so that two internal keys never
 * share one at the gateway. The secret is derived from the gateway's key, so all restarts, workers and proxies use the same.
 */
export function createGatewayHeaders(gatewayKey: string): GatewayHeaders {
  const secret = Buffer.from(hkdfSync("sha256", gatewayKey, "farebox", "idempotency v1", 32));
  return (exchange, { key }) => {
    // Neither a key's id nor a header's value can contain the separator.
    const idempotencyKey = (value: string) => createHmac("sha256", secret).update(`${key}\0${value}`).digest("hex");
    // Asks for answers without compression, because Farebox reads them. A gateway may compress them nevertheless.
    return { ...forwardableHeaders(exchange.headers(), idempotencyKey), "accept-encoding": "identity" };
  };
}

/** Returns the headers of the second try. Its idempotency key differs, because its body does. */
export function headersWithoutUsage(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, isIdempotencyHeader(name) ? derivedKey(value) : value]),
  );
}

function derivedKey(value: string): string {
  return createHash("sha256").update(`${value}\0without stream usage`).digest("hex");
}

/**
 * Returns a digest of the route and the idempotency headers, which all retries share. Returns null without an idempotency
 * key.
 */
export function idempotencyOf(route: string, headers: Readonly<Record<string, string>>): string | null {
  const keys = Object.entries(headers).filter(([name]) => isIdempotencyHeader(name));
  if (keys.length === 0) return null;
  return createHash("sha256")
    .update(JSON.stringify([route, ...keys]))
    .digest("hex");
}
