import type { Clock } from "../ports/clock.ts";
import type { Gateway } from "../ports/gateway.ts";
import { createHttpProxyGateway } from "./http-proxy-gateway.ts";
import { createUndiciGateway } from "./undici-gateway.ts";

/** What carries requests to the gateway. Both pass the same tests. */
export type Engine = "http-proxy-middleware" | "undici";

export interface GatewayOptions {
  /** Where the gateway's paths begin, without `/v1`: "https://gateway.example" or "https://host/base". */
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly clock: Clock;
  /** How long an unused connection is kept, in milliseconds; `idleSocketMs` unless given. */
  readonly idleMs?: number;
}

/** The gateway behind its port, with the engine that the settings name. */
export function createGateway(engine: Engine, options: GatewayOptions): Gateway & AsyncDisposable {
  return engine === "undici" ? createUndiciGateway(options) : createHttpProxyGateway(options);
}
