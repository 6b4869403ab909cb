import type { Clock } from "../ports/clock.ts";
import type { Gateway } from "../ports/gateway.ts";
import { createHttpProxyGateway } from "./http-proxy-gateway.ts";
import { createUndiciGateway } from "./undici-gateway.ts";

/** The engines that carry requests to the gateway. Both pass the same tests. */
export type Engine = "http-proxy-middleware" | "undici";

export interface GatewayOptions {
  /** Prefix of the gateway's paths, without `/v1`: "https://gateway.example" or "https://host/base". */
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly clock: Clock;
  /** Time for which an unused connection is kept, in milliseconds; `idleSocketMs` unless given. */
  readonly idleMs?: number;
}

/** Creates the gateway's port over the engine that the settings name. */
export function createGateway(engine: Engine, options: GatewayOptions): Gateway & AsyncDisposable {
  return engine === "undici" ? createUndiciGateway(options) : createHttpProxyGateway(options);
}
