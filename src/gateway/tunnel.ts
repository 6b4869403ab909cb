import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP, type Socket } from "node:net";
import { bracketed } from "../core/addresses.ts";
import { shownProxy, type OutboundProxy } from "../core/outbound-proxy.ts";
import type { Clock } from "../ports/clock.ts";

/** Longest time for a proxy to connect, in milliseconds. Common proxies themselves try for a minute. */
const tunnelMsMax = 70_000;

/** Time without data after which the system begins to probe a connection, in milliseconds. */
const keepAliveMs = 1_000;

/**
 * Error of a proxy that opened no tunnel, so nothing was sent through it. The message names the proxy without
 * credentials, and not the host to connect to.
 */
export class ProxyFailed extends Error {
  readonly code = "proxy_failed";
}

/** Host and port to connect to. */
export interface Target {
  readonly host: string;
  readonly port: number;
}

export interface TunnelOptions {
  readonly clock: Clock;
  /** Ends an attempt to open a tunnel. Has no effect on an open tunnel. */
  readonly signal: AbortSignal;
}

/** Receives a connected socket, or the error. */
export type Connected = (error: Error | null, socket?: Socket) => void;

/**
 * Opens a connection to a host through a proxy. Uses CONNECT even for plain http, so that an error of the proxy is never
 * mistaken for an answer of the host, and is known before a request is sent.
 */
export function openTunnel(
  proxy: OutboundProxy,
  { host, port }: Target,
  { clock, signal }: TunnelOptions,
  callback: Connected,
): void {
  const place = `the proxy ${shownProxy(proxy)}`;
  const authority = `${bracketed(host)}:${port}`;
  const { credentials } = proxy;
  const authorization = credentials === null ? {} : { "proxy-authorization": `Basic ${base64(credentials)}` };
  let isSettled = false;
  const settle: Connected = (error, socket) => {
    if (isSettled) return;
    isSettled = true;
    timer.cancel();
    callback(error, socket);
  };
  const request = (proxy.isTls ? requestHttps : requestHttp)({
    method: "CONNECT",
    host: proxy.host,
    port: proxy.port,
    path: authority,
    headers: { host: authority, connection: "keep-alive", ...authorization },
    agent: false,
    signal,
    // Without it, Node would verify the proxy's certificate for the name in the header `host`.
    servername: isIP(proxy.host) === 0 ? proxy.host : "",
  });
  const timer = clock.after(tunnelMsMax, () => {
    request.destroy();
    settle(new ProxyFailed(`${place} did not connect within ${tunnelMsMax / 1000} s`));
  });
  request.once("connect", ({ statusCode = 0 }, connection, head) => {
    const socket = connection as Socket;
    // The connection over the tunnel reports its own errors.
    socket.on("error", () => undefined);
    if (statusCode < 200 || statusCode > 299) {
      socket.destroy();
      return settle(new ProxyFailed(`${place} ${refusalOf(statusCode, credentials !== null)}`));
    }
    // An HTTP server never sends first, so these bytes are the proxy's. They must not be read as the host's answer.
    if (head.length > 0) {
      socket.destroy();
      return settle(new ProxyFailed(`${place} sent data after its answer (${statusCode})`));
    }
    // As with direct connections, so that no router forgets a connection while a model thinks.
    socket.setKeepAlive(true, keepAliveMs);
    settle(null, socket);
  });
  request.on("error", (error: NodeJS.ErrnoException) => {
    const reason = /^[A-Z0-9_]{1,64}$/.test(error.code ?? "") ? error.code : "the connection failed";
    settle(new ProxyFailed(`${place} cannot be reached (${reason})`));
  });
  request.on("close", () => settle(new ProxyFailed(`${place} closed the connection`)));
  request.end();
}

function refusalOf(status: number, hasCredentials: boolean): string {
  if (status !== 407) return `refused or could not make the connection (${status})`;
  return hasCredentials ? "does not accept the user name and password (407)" : "needs a user name and password (407)";
}

function base64(text: string): string {
  return Buffer.from(text, "utf8").toString("base64");
}
