import { Pool } from "undici";
import type { Gateway } from "../ports/gateway.ts";
import { EngineCall } from "./call.ts";
import type { GatewayOptions } from "./gateway.ts";
import { destinationOf, idleSocketMs, outgoing } from "./outgoing.ts";
import { UndiciAttempt } from "./undici-attempt.ts";

/** The gateway, with undici as its engine. */
export function createUndiciGateway({
  baseUrl,
  apiKey,
  clock,
  idleMs = idleSocketMs,
}: GatewayOptions): Gateway & AsyncDisposable {
  const destination = destinationOf(baseUrl);
  const { origin } = destination;
  const pool = new Pool(origin, {
    connections: null,
    pipelining: 1,
    keepAliveTimeout: idleMs,
    // Caps a server's own hint, which may be far longer.
    keepAliveMaxTimeout: idleMs,
    allowH2: false,
    // The call detects silence, with one timer for connecting, head and body.
    headersTimeout: 0,
    bodyTimeout: 0,
    connectTimeout: 0,
  });
  const how = {
    attempts: (request, call) => new UndiciAttempt(request, call, pool),
    origin,
    clock,
  } satisfies ConstructorParameters<typeof EngineCall>[2];
  return {
    send: (request, receiver) => new EngineCall(outgoing(request, destination, apiKey), receiver, how),
    [Symbol.asyncDispose]: () => pool.destroy(),
  };
}
