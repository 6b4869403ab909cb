import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { isIP } from "node:net";

/** True for an address of this machine. */
export function isLoopbackAddress(address: string | undefined): boolean {
  if (address === undefined) return false;
  const plain = address.replace(/^::ffff:/i, "");
  return plain === "::1" || (isIP(plain) === 4 && plain.startsWith("127."));
}

/** True for a host that only this machine can reach. */
export function isLoopbackHost(host: string): boolean {
  const name = host.replace(/^\[(.*)\]$/, "$1").toLowerCase();
  return name === "localhost" || name.endsWith(".localhost") || isLoopbackAddress(name);
}

/** The host name of a `Host` header without its port; undefined when it is malformed. */
export function hostName(header: string | undefined): string | undefined {
  const match = /^(\[[0-9a-f:.]+\]|[^:[\]\s/@]+)(?::\d{1,5})?$/i.exec(header ?? "");
  return match?.[1]?.toLowerCase();
}

const forwardingHeaders = [
  "cf-connecting-ip",
  "forwarded",
  "true-client-ip",
  "via",
  "x-client-ip",
  "x-forwarded",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-port",
  "x-forwarded-proto",
  "x-forwarded-server",
  "x-real-ip",
];

/** Reports whether another proxy forwarded the request, so that the peer's address is not the client's. */
export function isForwarded(headers: IncomingHttpHeaders): boolean {
  return forwardingHeaders.some((name) => headers[name] !== undefined);
}

/** A page that has its own name lead here (DNS rebinding) asks from this machine too, but not under a loopback name. */
export function isLocalRequest({ socket, headers }: IncomingMessage): boolean {
  return (
    isLoopbackAddress(socket.remoteAddress) && isLoopbackHost(hostName(headers.host) ?? "") && !isForwarded(headers)
  );
}

/** Origin of a request as the browser states it. */
type BrowserOrigin =
  /** No browser, or the page is our own. */
  | { readonly kind: "own" }
  /** A page of an origin that the settings permit. */
  | { readonly kind: "permitted"; readonly origin: string }
  | { readonly kind: "foreign"; readonly origin: string | null };

export function browserOrigin(headers: IncomingHttpHeaders, permitted: ReadonlySet<string>): BrowserOrigin {
  const { origin } = headers;
  const site = headers["sec-fetch-site"];
  if (origin !== undefined && permitted.has(origin)) return { kind: "permitted", origin };
  if (site === "cross-site" || site === "same-site") return { kind: "foreign", origin: origin ?? null };
  if (site !== undefined || origin === undefined) return { kind: "own" };
  const host = URL.parse(origin)?.host;
  return host !== undefined && host === headers.host ? { kind: "own" } : { kind: "foreign", origin };
}

/** True if a browser asks for a page of a window, not of a frame or for a script. */
export function isVisit(method: string, headers: IncomingHttpHeaders): boolean {
  return method === "GET" && headers["sec-fetch-mode"] === "navigate" && headers["sec-fetch-dest"] === "document";
}
