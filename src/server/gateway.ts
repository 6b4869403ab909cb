import { proxyChoice } from "../config/outbound.ts";
import type { Settings } from "../config/settings.ts";
import { createGateway } from "../gateway/gateway.ts";
import type { Clock } from "../ports/clock.ts";
import type { Gateway } from "../ports/gateway.ts";

interface GatewayParams {
  /** Prefix of the gateway's paths, without `/v1`. */
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly clock: Clock;
}

/** Opens the gateway with the engine of the settings, and through the proxy that they state for its address. */
export function openGateway(
  { gateway: { engine }, outbound }: Pick<Settings, "gateway" | "outbound">,
  params: GatewayParams,
): Promise<Gateway & AsyncDisposable> {
  return createGateway(engine, { ...params, proxy: proxyChoice(outbound)(new URL(params.baseUrl)) });
}
