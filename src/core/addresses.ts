/**
 * Kind of an IP address. `reserved`: special-purpose ranges, such as multicast, and IPv6 space that is not allocated.
 */
export type AddressKind = "public" | "loopback" | "private" | "link_local" | "metadata" | "reserved";

/**
 * Rule for an address, depending on who chose it. `administrator`: an administrator configured it, so the local network
 * is allowed. `strict`: a client chose it, and might use Farebox to reach machines that only Farebox can reach.
 */
export type AddressRule = "administrator" | "strict";

const allowed: Readonly<Record<AddressRule, readonly AddressKind[]>> = {
  administrator: ["public", "loopback", "private"],
  strict: ["public"],
};

/** Returns true if Farebox may send a message to this IP address; false for a text that is not an IP address. */
export function isAllowed(address: string, rule: AddressRule): boolean {
  const kind = addressKind(address);
  return kind !== undefined && allowed[rule].includes(kind);
}

/**
 * Returns true if a scheme ("https:") may be used with an address. Unencrypted traffic is allowed only within this
 * machine, and never under `strict`.
 */
export function isSchemeAllowed(scheme: string, address: string, rule: AddressRule): boolean {
  if (scheme === "https:") return true;
  return scheme === "http:" && rule === "administrator" && addressKind(address) === "loopback";
}

/** Returns the host of a URL without its port, and without the brackets of IPv6. */
export function hostOf({ hostname }: URL): string {
  return withoutBrackets(hostname);
}

function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, "$1");
}

/** Returns a host as it is written in a URL: an IPv6 address in brackets. */
export function bracketed(host: string): string {
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}

/** Returns the address under which programs on this machine reach a server that listens on this host and port. */
export function localUrl(host: string, port: number | string): string {
  const own = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `http://${bracketed(own)}:${port}`;
}

/** Returns true for a host that only this machine can reach. An IPv6 address may have brackets. */
export function isLoopbackHost(host: string): boolean {
  const name = withoutBrackets(host).toLowerCase();
  return name === "localhost" || name.endsWith(".localhost") || isLoopbackAddress(name);
}

/** Returns true for a loopback address of this machine. */
export function isLoopbackAddress(address: string | undefined): boolean {
  if (address === undefined) return false;
  const plain = address.replace(/^::ffff:/i, "");
  return plain === "::1" || (parseV4(plain) !== undefined && plain.startsWith("127."));
}

/** Returns the kind of an IPv4 or IPv6 address; undefined for any other text. */
export function addressKind(text: string): AddressKind | undefined {
  const address = parseIp(text);
  return address === undefined ? undefined : kindOf(address);
}

function kindOf(address: Ip): AddressKind {
  const embedding = ipv4Embeddings.find(({ range }) => contains(range, address));
  if (embedding === undefined)
    return ranges.find(({ range }) => contains(range, address))?.kind ?? kindOfUnlisted(address);
  const embedded = kindOf({ bits: 32, value: (address.value >> embedding.shift) & 0xffff_ffffn });
  return embedded === "public" ? embedding.kindIfPublic : embedded;
}

/**
 * Returns the kind of an address that no listed range contains. Such an IPv4 address is public. Such an IPv6 address is
 * public only in the global unicast space that IANA has allocated.
 */
function kindOfUnlisted(address: Ip): AddressKind {
  return address.bits === 32 || contains(globalUnicast, address) ? "public" : "reserved";
}

interface Ip {
  readonly bits: 32 | 128;
  readonly value: bigint;
}

interface Range extends Ip {
  readonly prefix: number;
}

/**
 * The first range that contains an address decides its kind. Cloud metadata addresses come before the ranges that
 * contain them. The other ranges come from IANA's special-purpose registries, including anycast prefixes (AS112, AMT,
 * PCP, TURN). IANA lists these prefixes as globally reachable, but the nearest instance may be in the local network.
 */
const ranges: readonly { readonly kind: AddressKind; readonly range: Range }[] = (
  [
    [
      "metadata",
      "169.254.169.254/32 169.254.170.2/32 169.254.170.23/32 100.100.100.200/32 168.63.129.16/32 192.0.0.192/32",
    ],
    ["metadata", "fd00:ec2::254/128 fd00:ec2::23/128 fd20:ce::254/128"],
    ["loopback", "127.0.0.0/8 ::1/128"],
    ["private", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7 fec0::/10"],
    ["link_local", "169.254.0.0/16 fe80::/10"],
    ["reserved", "0.0.0.0/8 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.175.48.0/24"],
    ["reserved", "198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3"],
    // Inside the global unicast space. 2001::/23 contains Teredo, benchmarking, ORCHID and other protocol assignments.
    ["reserved", "2001::/23 2001:db8::/32 2620:4f:8000::/48 3fff::/20"],
  ] as const
).flatMap(([kind, list]) => list.split(" ").map((text) => ({ kind, range: parseRange(text) })));

const globalUnicast = parseRange("2000::/3");

/**
 * IPv6 ranges with an embedded IPv4 address, in the 32 bits above `shift`. `kindIfPublic` applies if the embedded
 * address is public. NAT64 (64:ff9b::/96) stays public: in a network without IPv4, DNS64 returns a NAT64 address for
 * every name. IPv4-mapped and 6to4 addresses are never public.
 */
const ipv4Embeddings: readonly { readonly range: Range; readonly shift: bigint; readonly kindIfPublic: AddressKind }[] =
  [
    { range: parseRange("64:ff9b::/96"), shift: 0n, kindIfPublic: "public" },
    { range: parseRange("::ffff:0:0/96"), shift: 0n, kindIfPublic: "reserved" },
    { range: parseRange("2002::/16"), shift: 80n, kindIfPublic: "reserved" },
  ];

function contains({ bits, value, prefix }: Range, address: Ip): boolean {
  const hostBits = BigInt(bits - prefix);
  return bits === address.bits && value >> hostBits === address.value >> hostBits;
}

function parseRange(text: string): Range {
  const range = rangeIn(text);
  if (range === undefined) throw new RangeError(`not a range of addresses: ${text}`);
  return range;
}

function rangeIn(text: string): Range | undefined {
  const [address = "", prefix, ...more] = text.split("/");
  const ip = parseIp(address);
  if (ip === undefined || more.length > 0) return undefined;
  if (prefix === undefined) return { ...ip, prefix: ip.bits };
  return /^\d{1,3}$/.test(prefix) && Number(prefix) <= ip.bits ? { ...ip, prefix: Number(prefix) } : undefined;
}

/** Range of IP addresses. */
export interface AddressRange {
  /** Returns true for an address in the range; false for any other text. */
  contains(address: string): boolean;
}

/** Reads an IP address, or a range such as "10.0.0.0/8". Returns undefined for any other text. */
export function readRange(text: string): AddressRange | undefined {
  const range = rangeIn(text);
  if (range === undefined) return undefined;
  return {
    contains(address) {
      const ip = parseIp(address);
      return ip !== undefined && contains(range, ip);
    },
  };
}

function parseIp(text: string): Ip | undefined {
  if (!text.includes(":")) return asIp(32, parseV4(text));
  return asIp(128, parseV6(text.replace(/%.*$/, "")));
}

function asIp(bits: Ip["bits"], value: bigint | undefined): Ip | undefined {
  return value === undefined ? undefined : { bits, value };
}

/**
 * Parses four plain decimal bytes. Returns undefined for other forms (octal, hexadecimal, fewer parts), which the
 * resolver handles.
 */
function parseV4(text: string): bigint | undefined {
  const match = /^(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})\.(0|[1-9]\d{0,2})$/.exec(text);
  const bytes = match?.slice(1).map(BigInt);
  if (bytes === undefined || bytes.some((byte) => byte > 255n)) return undefined;
  return bytes.reduce((value, byte) => (value << 8n) | byte, 0n);
}

function parseV6(text: string): bigint | undefined {
  const dotted = /^(.*:)([^:]*\.[^:]*)$/.exec(text);
  if (dotted !== null) {
    const low = parseV4(dotted[2] ?? "");
    return low === undefined
      ? undefined
      : parseV6(`${dotted[1]}${(low >> 16n).toString(16)}:${(low & 0xffffn).toString(16)}`);
  }
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const [head = [], tail = []] = halves.map((half) => (half === "" ? [] : half.split(":")));
  const missing = 8 - head.length - tail.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined;
  const groups = [...head, ...Array.from({ length: missing }, () => "0"), ...tail];
  if (!groups.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) return undefined;
  return groups.reduce((value, group) => (value << 16n) | BigInt(`0x${group}`), 0n);
}
