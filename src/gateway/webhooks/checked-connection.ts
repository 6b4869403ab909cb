import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { hostOf, type AddressRule } from "../../core/addresses.ts";
import { portOf, type ChooseProxy } from "../../core/outbound-proxy.ts";
import { openTunnel, ProxyFailed, type Connected, type TunnelOptions } from "../tunnel.ts";
import { guardedLookup } from "./guarded-lookup.ts";

export interface CheckedConnectionOptions extends TunnelOptions {
  readonly choose: ChooseProxy;
}

/**
 * Connects to a receiver of webhooks. Resolves the receiver's name and checks its addresses. A proxy gets a checked
 * address instead of the name, because it could resolve the name to another address. TLS verifies the name in any case.
 * Callers check an IP address in the URL themselves.
 */
export function connectChecked(
  url: URL,
  rule: AddressRule,
  { choose, ...options }: CheckedConnectionOptions,
  callback: Connected,
): void {
  const host = hostOf(url);
  const port = portOf(url);
  const connected = (socket: Socket) => callback(null, url.protocol === "https:" ? withTls(socket, host) : socket);
  const connectTo = ([address = "", ...others]: readonly string[]) => {
    const proxy = choose(url, address);
    if (proxy === null) return connected(connectTcp({ host, port, lookup: guardedLookup(url, rule) }));
    openTunnel(proxy, { host: address, port }, options, (error, socket) => {
      if (socket !== undefined) connected(socket);
      // A proxy may be unable to reach one kind of address, such as IPv6.
      else if (error instanceof ProxyFailed && others.length > 0 && !options.signal.aborted) connectTo(others);
      else callback(error);
    });
  };
  if (isIP(host) !== 0 || choose(url) === null) return connectTo([host]);
  guardedLookup(url, rule)(host, { all: true }, (error, found) => {
    if (options.signal.aborted) return;
    if (error !== null) callback(error);
    else connectTo((Array.isArray(found) ? found : []).map(({ address }) => address));
  });
}

function withTls(socket: Socket, host: string): Socket {
  const name = isIP(host) === 0 ? { servername: host } : {};
  return connectTls({ socket, host, ...name, ALPNProtocols: ["http/1.1"] });
}
