import { assert, ipV4, ipV6, property } from "fast-check";
import { describe, expect, it } from "vitest";
import {
  addressKind,
  bracketed,
  hostOf,
  isAllowed,
  isLoopbackAddress,
  isLoopbackHost,
  isSchemeAllowed,
  localUrl,
  readRange,
  type AddressKind,
} from "../../../src/core/addresses.ts";

const table: Readonly<Record<AddressKind, readonly string[]>> = {
  public: [
    "8.8.8.8",
    "1.1.1.1",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "192.169.0.0",
    "11.0.0.0",
    "9.255.255.255",
    "100.63.255.255",
    "100.128.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "223.255.255.255",
    "198.17.255.255",
    "198.20.0.0",
    "2606:4700::1111",
    "2a00:1450:4001::200e",
    "64:ff9b::8.8.8.8",
    "192.0.1.0",
    "192.31.195.255",
    "192.31.197.0",
    "2000::1",
    "2001:200::",
    "2001:db7:ffff::1",
    "2001:db9::",
    "2003::1",
    "2620:4f:7fff::1",
    "2620:4f:8001::",
    "3ffe:ffff::1",
    "3fff:1000::",
  ],
  loopback: [
    "127.0.0.1",
    "127.255.255.254",
    "::1",
    "0:0:0:0:0:0:0:1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "64:ff9b::127.0.0.1",
    "2002:7f00:1::",
  ],
  private: [
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "fc00::1",
    "fdff::1",
    "fec0::1",
    "::ffff:10.1.2.3",
    "::FFFF:C0A8:1",
    "2002:a00:1::5",
  ],
  link_local: ["169.254.1.1", "169.254.0.0", "fe80::1", "fe80::1%eth0", "febf::1", "::ffff:169.254.9.9"],
  metadata: [
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "168.63.129.16",
    "fd00:ec2::254",
    "FD00:EC2:0:0:0:0:0:254",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "64:ff9b::169.254.169.254",
    "2002:a9fe:a9fe::",
  ],
  reserved: [
    "0.0.0.0",
    "0.1.2.3",
    "192.0.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::7f00:1",
    "::127.0.0.1",
    "ff02::1",
    "2001:db8::1",
    "2001::1",
    "100::1",
    "64:ff9b:1::1",
    "::ffff:0.0.0.0",
    "5f00::1",
    "::ffff:8.8.8.8",
    "2002:808:808::1",
    "100:0:0:1::1",
    "192.0.0.9",
    "192.31.196.1",
    "2620:4f:8000::1",
    "4000::1",
    "1::1",
  ],
};

describe.each(Object.entries(table))("addresses of the kind %s", (kind, addresses) => {
  it.each(addresses)("include %s", (address) => {
    expect(addressKind(address)).toBe(kind);
    expect(isAllowed(address, "strict")).toBe(kind === "public");
    expect(isAllowed(address, "administrator")).toBe(["public", "loopback", "private"].includes(kind));
  });
});

it.each([
  "",
  "localhost",
  "example.com",
  "1.2.3",
  "1.2.3.4.5",
  "256.1.1.1",
  "01.2.3.4",
  "0x7f.0.0.1",
  "2130706433",
  "1.2.3.4 ",
  ":",
  ":::",
  "1::2::3",
  // Valid but for the last part.
  "1:2:3:4::5:6:7:8::9",
  "1:2:3:4:5:6:7",
  "1:2:3:4:5:6:7:8:9",
  "12345::",
  "g::",
  "::1.2.3",
  "1:2:3:4:5:6:7::8",
  "[::1]",
  "::ffff:1.2.3.256",
  "1.2.3.4:80",
  // A valid address with characters before or after it.
  "x\n::1.2.3.4",
  "::1.2.3.4:5",
])("%s is not an address, and is refused", (text) => {
  expect(addressKind(text)).toBeUndefined();
  expect(isAllowed(text, "administrator")).toBe(false);
});

it("allows http only to this machine, and never for addresses that clients choose", () => {
  expect(isSchemeAllowed("https:", "8.8.8.8", "strict")).toBe(true);
  expect(isSchemeAllowed("http:", "127.0.0.1", "administrator")).toBe(true);
  expect(isSchemeAllowed("http:", "10.0.0.1", "administrator")).toBe(false);
  expect(isSchemeAllowed("http:", "127.0.0.1", "strict")).toBe(false);
  expect(isSchemeAllowed("ftp:", "127.0.0.1", "administrator")).toBe(false);
});

it("gives an IPv6 address that embeds an IPv4 address its kind; only NAT64 addresses may be public", () => {
  assert(
    property(ipV4(), (v4) => {
      const [a = 0, b = 0, c = 0, d = 0] = v4.split(".").map(Number);
      const hex = `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
      const kind = addressKind(v4);
      expect(addressKind(`64:ff9b::${hex}`)).toBe(kind);
      for (const form of [`::ffff:${v4}`, `::ffff:${hex}`, `0:0:0:0:0:ffff:${hex}`, `2002:${hex}::1`])
        expect(addressKind(form)).toBe(kind === "public" ? "reserved" : kind);
    }),
  );
});

/** IANA's special-purpose registries of IPv4 and IPv6 addresses, including deprecated ranges and multicast. */
const specialPrefixes = [
  ["0.0.0.0", "0.255.255.255"],
  ["0.0.0.0", "0.0.0.0"],
  ["10.0.0.0", "10.255.255.255"],
  ["100.64.0.0", "100.127.255.255"],
  ["127.0.0.0", "127.255.255.255"],
  ["169.254.0.0", "169.254.255.255"],
  ["172.16.0.0", "172.31.255.255"],
  ["192.0.0.0", "192.0.0.255"],
  ["192.0.0.0", "192.0.0.7"],
  ["192.0.0.8", "192.0.0.8"],
  ["192.0.0.9", "192.0.0.10"],
  ["192.0.0.170", "192.0.0.171"],
  ["192.0.2.0", "192.0.2.255"],
  ["192.31.196.0", "192.31.196.255"],
  ["192.52.193.0", "192.52.193.255"],
  ["192.88.99.0", "192.88.99.255"],
  ["192.168.0.0", "192.168.255.255"],
  ["192.175.48.0", "192.175.48.255"],
  ["198.18.0.0", "198.19.255.255"],
  ["198.51.100.0", "198.51.100.255"],
  ["203.0.113.0", "203.0.113.255"],
  ["224.0.0.0", "239.255.255.255"],
  ["240.0.0.0", "255.255.255.255"],
  ["::1", "::1"],
  ["::", "::"],
  ["::ffff:0:0", "::ffff:ffff:ffff"],
  ["::ffff:8.8.8.8", "::ffff:1.1.1.1"],
  ["64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"],
  ["100::", "100::ffff:ffff:ffff:ffff"],
  ["100:0:0:1::", "100:0:0:1:ffff:ffff:ffff:ffff"],
  ["2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"],
  ["2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff"],
  ["2001:1::1", "2001:1::3"],
  ["2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff"],
  ["2001:3::", "2001:3:ffff:ffff:ffff:ffff:ffff:ffff"],
  ["2001:4:112::", "2001:4:112:ffff:ffff:ffff:ffff:ffff"],
  ["2001:10::", "2001:1f:ffff:ffff:ffff:ffff:ffff:ffff"],
  ["2001:20::", "2001:2f:ffff:ffff:ffff:ffff:ffff:ffff"],
  ["2001:30::", "2001:3f:ffff:ffff:ffff:ffff:ffff:ffff"],
  ["2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"],
  ["2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
  ["2002:808:808::1", "2002:101:101::1"],
  ["2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff"],
  ["3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"],
  ["5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
  ["fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
  ["fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
  ["fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
  ["ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
  // Unallocated.
  ["::2", "::fffe:ffff:ffff"],
  ["1::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
  ["4000::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
] as const;

it.each(specialPrefixes)("%s to %s is not public", (first, last) => {
  for (const address of [first, last]) {
    expect(addressKind(address), address).toBeDefined();
    expect(isAllowed(address, "strict"), address).toBe(false);
  }
});

it("recognizes every IPv6 address", () => {
  assert(property(ipV6(), (v6) => addressKind(v6) !== undefined));
});

it.each([
  ["127.0.0.1", "http://127.0.0.1:4000"],
  ["farebox.internal", "http://farebox.internal:4000"],
  ["0.0.0.0", "http://127.0.0.1:4000"],
  ["::", "http://[::1]:4000"],
  ["fd00::1", "http://[fd00::1]:4000"],
])("reaches a server that listens on %s at %s", (host, url) => {
  expect(localUrl(host, 4000)).toBe(url);
});

describe("this machine", () => {
  it.each([
    "localhost",
    "LOCALHOST",
    "a.localhost",
    "127.0.0.1",
    "127.9.9.9",
    "[::1]",
    "::1",
    "[::ffff:127.0.0.1]",
    "[::FFFF:127.0.0.1]",
  ])("has the host %s", (host) => expect(isLoopbackHost(host)).toBe(true));

  it.each([
    "",
    "evil.example",
    "localhost.evil.example",
    ".localhost.evil.example",
    "127.0.0.1.evil.example",
    "127.evil",
    "127.1",
    "2130706433",
    "0.0.0.0",
    "0",
    "[::]",
    "[::1]x",
    "[local]host",
    "local[host]",
    "x[::1]",
    "[::1",
    "localhost.",
    "xlocalhost",
    "10.0.0.1",
    "10.127.0.127",
    "0x7f.0.0.1",
  ])("does not have the host %j", (host) => expect(isLoopbackHost(host)).toBe(false));

  it.each(["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "::FFFF:127.0.0.1"])(
    "has the address %s",
    (address) => expect(isLoopbackAddress(address)).toBe(true),
  );

  it.each([undefined, "", "10.0.0.1", "1.2.3.127", "127.x", "::ffff:10.0.0.1", "127.::ffff:0.0.1", "fe80::1", "::2"])(
    "does not have the address %j",
    (address) => expect(isLoopbackAddress(address)).toBe(false),
  );
});

it.each([
  ["http://[::1]:4000/v1", "::1"],
  ["http://[2001:db8::1]/", "2001:db8::1"],
  ["https://a.example:8443/x", "a.example"],
  ["http://10.0.0.1/", "10.0.0.1"],
])("the host of %s is %s", (url, host) => expect(hostOf(new URL(url))).toBe(host));

it.each([
  ["::1", "[::1]"],
  ["[::1]", "[::1]"],
  ["10.0.0.1", "10.0.0.1"],
  ["a.example", "a.example"],
])("the host %s is written as %s in a URL", (host, written) => expect(bracketed(host)).toBe(written));

describe("a range of addresses", () => {
  it.each<[string, readonly string[], readonly string[]]>([
    ["10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0", "::a00:0", "a.example", ""]],
    ["10.0.0.0/08", ["10.0.0.0", "10.255.255.255"], ["11.0.0.0"]],
    ["10.1.2.3", ["10.1.2.3"], ["10.1.2.2", "10.1.2.4"]],
    ["10.1.2.3/32", ["10.1.2.3"], ["10.1.2.2", "10.1.2.4"]],
    ["0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["::", "x"]],
    ["fd00::/8", ["fd00::", "fdff::1"], ["fc00::", "fe00::", "253.0.0.0"]],
    ["::1/128", ["::1"], ["::", "::2"]],
    ["::1", ["::1"], ["::", "::2"]],
  ])("%s contains only its own addresses", (text, inside, outside) => {
    const range = readRange(text);
    expect([...inside, ...outside].filter((address) => range?.contains(address))).toEqual(inside);
  });

  it.each([
    "",
    "a.example/8",
    "10.0.0.0/",
    "10.0.0.0/33",
    "::/129",
    "10.0.0.0/8/8",
    "10.0.0.0/x8",
    "10.0.0.0/8x",
    "10.0.0.0/0008",
  ])("is not read from %j", (text) => expect(readRange(text)).toBeUndefined());
});
