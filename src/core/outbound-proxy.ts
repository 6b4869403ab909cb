import { addressKind, bracketed, hostOf, isLoopbackHost, readRange, type AddressRange } from "./addresses.ts";

/** HTTP proxy of the network, through which Farebox connects to other machines. */
export interface OutboundProxy {
  readonly host: string;
  readonly port: number;
  /** True for a proxy that is itself reached with TLS. */
  readonly isTls: boolean;
  /** User name and password, joined by a colon; null if the proxy needs none. */
  readonly credentials: string | null;
}

/** Returns the name of a proxy for messages, always without its password: "proxy.corp:3128". */
export function shownProxy({ host, port }: Pick<OutboundProxy, "host" | "port">): string {
  return `${bracketed(host)}:${port}`;
}

/**
 * Reads the address of a proxy, such as "http://user:password@proxy.corp:3128" or "proxy.corp:3128". Returns undefined
 * for any other text.
 */
export function parseProxy(text: string): OutboundProxy | undefined {
  const url = URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`);
  if (url === null || !/^https?:$/.test(url.protocol)) return undefined;
  if (url.pathname !== "/" || url.search !== "" || url.hash !== "") return undefined;
  const isTls = url.protocol === "https:";
  const hasUser = url.username !== "" || url.password !== "";
  return {
    host: hostOf(url),
    port: portOf(url),
    isTls,
    credentials: hasUser ? `${decoded(url.username)}:${decoded(url.password)}` : null,
  };
}

/** Returns the port of an address, or the default port of its scheme. */
export function portOf({ protocol, port }: URL): number {
  return Number(port === "" ? (protocol === "https:" ? 443 : 80) : port);
}

/** Decodes percent-encoded text. Returns a text that is not encoded unchanged. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Hosts to which Farebox connects directly. The port is null for every port. */
type Exemption =
  | { readonly kind: "all" }
  /** A domain and its subdomains. */
  | { readonly kind: "domain"; readonly domain: string; readonly port: number | null }
  | { readonly kind: "range"; readonly range: AddressRange; readonly port: number | null };

/** Proxies for each scheme, and the hosts without a proxy. */
interface OutboundRules {
  readonly https: OutboundProxy | null;
  readonly http: OutboundProxy | null;
  readonly exemptions: readonly Exemption[];
}

/**
 * Returns the proxy for a connection to a URL; null to connect directly. `address`: the IP address of the host, if it is
 * known. This machine is always reached directly, also by a name that resolves to it.
 */
export type ChooseProxy = (url: URL, address?: string) => OutboundProxy | null;

/** Connects directly to every host. */
export const connectDirectly: ChooseProxy = () => null;

/** Creates the function that decides which connections use a proxy. */
export function chooseProxy({ https, http, exemptions }: OutboundRules): ChooseProxy {
  if (https === null && http === null) return connectDirectly;
  return (url, address) => {
    const proxy = url.protocol === "https:" ? https : http;
    const hosts = [hostOf(url).replace(/\.$/, ""), ...(address === undefined ? [] : [address])];
    const isDirect = hosts.some(
      (host) => isThisMachine(host) || exemptions.some((exemption) => isExempt(exemption, host, portOf(url))),
    );
    return isDirect ? null : proxy;
  };
}

function isThisMachine(host: string): boolean {
  return isLoopbackHost(host) || addressKind(host) === "loopback" || host === "0.0.0.0" || host === "::";
}

function isExempt(exemption: Exemption, host: string, port: number): boolean {
  if (exemption.kind === "all") return true;
  if (exemption.port !== null && exemption.port !== port) return false;
  if (exemption.kind === "range") return exemption.range.contains(host);
  return host === exemption.domain || host.endsWith(`.${exemption.domain}`);
}

/**
 * Reads a list of hosts without a proxy, separated by commas, semicolons or spaces: a domain (which includes its
 * subdomains), an IP address, a range of addresses, each also with a port, or `*` for every host. Other programs read the
 * same list, so Farebox ignores an entry in a form that it does not know.
 */
export function parseExemptions(text: string): readonly Exemption[] {
  return text
    .split(/[\s,;]+/)
    .map(parseExemption)
    .filter((exemption) => exemption !== undefined);
}

function parseExemption(entry: string): Exemption | undefined {
  if (entry === "*") return { kind: "all" };
  const range = rangeIn(entry);
  if (range !== undefined) return { kind: "range", range, port: null };
  const [, host = "", digits] = /^(\[[^\]]*\]|[^:/]+)(?::(\d{1,5}))?$/.exec(entry) ?? [];
  const port = digits === undefined ? null : Number(digits);
  const withPort = rangeIn(host.replace(/^\[(.*)\]$/, "$1"));
  if (withPort !== undefined) return { kind: "range", range: withPort, port };
  // Parsing gives the name the form that it has in other URLs: lower case, and Punycode for letters outside ASCII.
  const url = URL.parse(`http://${host.replace(/^\*?\./, "")}`);
  if (url === null || url.hostname === "" || url.username !== "" || /[*?#@\\]/.test(host.slice(1))) return undefined;
  return { kind: "domain", domain: url.hostname.replace(/\.$/, ""), port };
}

/**
 * Reads an address, a range such as "10.0.0.0/8", or the start of an IPv4 address: "10.*", "10.*.*.*", "10." or
 * "169.254/16".
 */
function rangeIn(text: string): AddressRange | undefined {
  const [, start, bits] = /^(\d{1,3}(?:\.\d{1,3}){0,2})(?:\/(\d{1,2})|\.|(?:\.\*)+)$/.exec(text) ?? [];
  if (start === undefined) return readRange(text);
  const bytes = start.split(".");
  const address = [...bytes, "0", "0", "0"].slice(0, 4).join(".");
  return readRange(`${address}/${bits ?? bytes.length * 8}`);
}
