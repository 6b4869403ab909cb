import type { buildConnector } from "undici";
import { portOf, type ChooseProxy } from "../core/outbound-proxy.ts";
import { openTunnel, type TunnelOptions } from "./tunnel.ts";

/** Returns a connector of undici that opens a tunnel to each host with a proxy. Connects to other hosts with `direct`. */
export function connectThrough(
  choose: ChooseProxy,
  direct: buildConnector.connector,
  options: TunnelOptions,
): buildConnector.connector {
  return (target, callback) => {
    const url = new URL(`${target.protocol}//${target.host ?? target.hostname}`);
    const proxy = choose(url);
    if (proxy === null) return direct(target, callback);
    openTunnel(proxy, { host: target.hostname, port: portOf(url) }, options, (error, socket) => {
      if (socket === undefined) callback(error ?? new Error("no connection"), null);
      else if (target.protocol === "https:") direct({ ...target, httpSocket: socket }, callback);
      else callback(null, socket);
    });
  };
}
