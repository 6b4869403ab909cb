import type { GatewayRequest, StreamedBody } from "../ports/gateway.ts";

/** Idle sockets are closed before common servers (5 s and more) close them, so that no request is sent into a closing one. Milliseconds. */
export const idleSocketMs = 4_000;

/** Returns true for a body that is sent as it arrives. */
export function isStreamed(body: GatewayRequest["body"]): body is StreamedBody {
  return body !== undefined && "start" in body;
}

/** Address that an engine sends to. */
export interface Destination {
  readonly origin: string;
  /** Prefix of the paths of requests, without a slash at its end. */
  readonly basePath: string;
}

/** `baseUrl`: prefix of the gateway's paths, without `/v1`. */
export function destinationOf(baseUrl: string): Destination {
  const { origin, pathname } = new URL(baseUrl);
  return { origin, basePath: pathname.replace(/\/+$/, "") };
}

/**
 * Returns the request with base path, length and credential added. Paths under /v1 take a bearer token, all others
 * `x-api-key` (gateway interface, section 5).
 */
export function outgoing(request: GatewayRequest, { basePath }: Destination, apiKey: string): GatewayRequest {
  const headers: Record<string, string> = { ...request.headers };
  if (request.body !== undefined && request.body.length !== null)
    headers["content-length"] = String(request.body.length);
  if (request.path.startsWith("/v1/")) headers["authorization"] = `Bearer ${apiKey}`;
  else headers["x-api-key"] = apiKey;
  return { ...request, path: basePath + request.path, headers };
}
