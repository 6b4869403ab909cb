import type { Gateway } from "../ports/gateway.ts";
import type { GatewayOptions } from "./call.ts";

/** Engine that carries requests to the gateway. Both engines pass the same tests. */
export type Engine = "http-proxy-middleware" | "undici";

/** Creates a gateway that uses the given engine, and loads only that engine. */
export async function createGateway(engine: Engine, options: GatewayOptions): Promise<Gateway & AsyncDisposable> {
  if (engine === "undici") return (await import("./undici-gateway.ts")).createUndiciGateway(options);
  return (await import("./http-proxy-gateway.ts")).createHttpProxyGateway(options);
}
