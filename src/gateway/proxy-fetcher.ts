import { Agent, buildConnector, fetch } from "undici";
import type { ChooseProxy } from "../core/outbound-proxy.ts";
import type { Clock } from "../ports/clock.ts";
import { connectThrough } from "./undici-tunnel.ts";

/** Creates a `fetch` that connects through proxies, each address as `choose` decides. `end` closes its connections. */
export function createProxyFetcher(choose: ChooseProxy, clock: Clock) {
  const ending = new AbortController();
  const direct = buildConnector({ allowH2: false });
  const dispatcher = new Agent({
    connect: connectThrough(choose, direct, { clock, signal: ending.signal }),
    allowH2: false,
  });
  return {
    fetch: (address: string, init: Pick<RequestInit, "headers" | "redirect" | "signal">) =>
      fetch(address, { ...(init as object), dispatcher }),
    async end(): Promise<void> {
      ending.abort();
      await dispatcher.destroy();
    },
  };
}
