import { isIP, isIPv4 } from "node:net";

/**
 * Address of the gateway: its origin, and the path before `/v1`. The path is "" or one such as "/api", without a slash at its
 * end.
 */
export interface GatewayAddress {
  /** "https://gateway.example" */
  readonly origin: string;
  readonly basePath: string;
}

const hostName = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]{0,62})(?:\.[a-z0-9][a-z0-9-]{0,62})*\.?$/i;

/** Returns true if the host names only this machine: `localhost`, 127.0.0.0/8 or ::1. The host has no brackets and no port. */
export function isLoopback(host: string): boolean {
  const bare = host.toLowerCase().replace(/\.$/, "");
  if (bare === "localhost" || bare.endsWith(".localhost") || bare === "::1") return true;
  return isIPv4(bare) && bare.startsWith("127.");
}

/** Reads a host name or address to listen on. Removes the brackets around IPv6. */
export function parseHost(text: string): string | undefined {
  const bare = text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text;
  return isIP(bare) !== 0 || hostName.test(bare) ? bare : undefined;
}

/** Reads a browser origin such as "https://app.example". Returns undefined if the text is anything else. */
export function parseOrigin(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  const isWeb = url.protocol === "http:" || url.protocol === "https:";
  return isWeb && url.origin === text.toLowerCase().replace(/\/$/, "") ? url.origin : undefined;
}

/** Returns the host of an origin, without brackets and port. */
export function hostOf(origin: string): string {
  return new URL(origin).hostname.replace(/^\[(.*)\]$/, "$1");
}
