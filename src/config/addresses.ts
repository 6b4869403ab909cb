import { isIP, isIPv4 } from "node:net";
import { addressKind, isAllowed } from "../core/addresses.ts";

/** Where the gateway is: its origin, and the path before `/v1`, "" or such as "/api" (no slash at its end). */
export interface GatewayAddress {
  /** "https://gateway.example" */
  readonly origin: string;
  readonly basePath: string;
}

export type AddressResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problem: string };

const hostName = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]{0,62})(?:\.[a-z0-9][a-z0-9-]{0,62})*\.?$/i;

/** Whether a host, without brackets and port, names this machine only: `localhost`, 127.0.0.0/8 or ::1. */
export function isLoopback(host: string): boolean {
  const bare = host.toLowerCase().replace(/\.$/, "");
  if (bare === "localhost" || bare.endsWith(".localhost") || bare === "::1") return true;
  return isIPv4(bare) && bare.startsWith("127.");
}

/** A name or address to listen on; brackets around IPv6 are taken off. */
export function parseHost(text: string): string | undefined {
  const bare = text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text;
  return isIP(bare) !== 0 || hostName.test(bare) ? bare : undefined;
}

/** Reads the gateway's base address, given with or without `/v1` at its end. */
export function parseGatewayAddress(text: string): AddressResult<GatewayAddress> {
  const parsed = parseWebAddress(text);
  if (!parsed.ok) return parsed;
  const basePath = trimmedPath(parsed.value).replace(/\/v1$/, "");
  return { ok: true, value: { origin: parsed.value.origin, basePath } };
}

/** Reads Farebox's own address: origin and path, no slash at its end. */
export function parsePublicAddress(text: string): AddressResult<string> {
  const parsed = parseWebAddress(text);
  return parsed.ok ? { ok: true, value: parsed.value.origin + trimmedPath(parsed.value) } : parsed;
}

/** Reads where a webhook goes: path and query may hold its secret. The host is judged again, by its addresses, at each sending. */
export function parseWebhookAddress(text: string): AddressResult<URL> {
  const refused = (problem: string) => ({ ok: false, problem }) as const;
  if (!URL.canParse(text)) return refused("must be an address such as https://hooks.example/farebox");
  const url = new URL(text);
  const host = hostOf(url.origin);
  if (url.protocol !== "https:" && !(url.protocol === "http:" && isLoopback(host))) {
    return refused("must begin with https://; plain http only to this machine");
  }
  if (url.username !== "" || url.password !== "") return refused("must not hold a user name or password");
  if (url.hash !== "") return refused("must not have a fragment");
  if (addressKind(host) !== undefined && !isAllowed(host, "administrator")) {
    return refused("must not name a link-local, metadata or reserved address");
  }
  return { ok: true, value: url };
}

/** Reads one browser origin such as "https://app.example"; undefined when it is more or less than that. */
export function parseOrigin(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  const isWeb = url.protocol === "http:" || url.protocol === "https:";
  return isWeb && url.origin === text.toLowerCase().replace(/\/$/, "") ? url.origin : undefined;
}

/** The host of an origin without its brackets and port. */
export function hostOf(origin: string): string {
  return new URL(origin).hostname.replace(/^\[(.*)\]$/, "$1");
}

function trimmedPath(url: URL): string {
  return url.pathname.replace(/\/+$/, "");
}

function parseWebAddress(text: string): AddressResult<URL> {
  const refused = (problem: string) => ({ ok: false, problem }) as const;
  if (!URL.canParse(text)) return refused("must be an address such as https://gateway.example");
  const url = new URL(text);
  if (url.protocol !== "http:" && url.protocol !== "https:") return refused("must begin with https:// or http://");
  if (url.username !== "" || url.password !== "") return refused("must not hold a user name or password");
  if (url.search !== "" || url.hash !== "") return refused("must not have a query or a fragment");
  return { ok: true, value: url };
}
