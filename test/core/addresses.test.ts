import { assert, ipV4, ipV6, property } from "fast-check";
import { describe, expect, it } from "vitest";
import { addressKind, isAllowed, isSchemeAllowed, type AddressKind } from "../../src/core/addresses.ts";

const table: Readonly<Record<AddressKind, readonly string[]>> = {
  public: [
    "8.8.8.8", "1.1.1.1", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "11.0.0.0", "9.255.255.255", "100.63.255.255", "100.128.0.0",
    "169.253.255.255", "169.255.0.0", "223.255.255.255", "198.17.255.255", "198.20.0.0", "2606:4700::1111", "2a00:1450:4001::200e", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
  ],
  loopback: ["127.0.0.1", "127.255.255.254", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "::ffff:7f00:1", "64:ff9b::127.0.0.1", "2002:7f00:1::"],
  private: [
    "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fc00::1", "fdff::1", "fec0::1", "::ffff:10.1.2.3", "::FFFF:C0A8:1", "2002:a00:1::5",
  ],
  link_local: ["169.254.1.1", "169.254.0.0", "fe80::1", "fe80::1%eth0", "febf::1", "::ffff:169.254.9.9"],
  metadata: [
    "169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "FD00:EC2:0:0:0:0:0:254", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe",
    "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::",
  ],
  reserved: [
    "0.0.0.0", "0.1.2.3", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::7f00:1", "::127.0.0.1", "ff02::1", "2001:db8::1", "2001::1", "100::1", "64:ff9b:1::1", "::ffff:0.0.0.0", "5f00::1",
  ],
};

describe.each(Object.entries(table))("%s", (kind, addresses) => {
  it.each(addresses)("%s", (address) => {
    expect(addressKind(address)).toBe(kind);
    expect(isAllowed(address, "strict")).toBe(kind === "public");
    expect(isAllowed(address, "administrator")).toBe(["public", "loopback", "private"].includes(kind));
  });
});

it.each([
  "", "localhost", "example.com", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "0x7f.0.0.1", "2130706433", "1.2.3.4 ", ":", ":::", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9",
  "12345::", "g::", "::1.2.3", "1:2:3:4:5:6:7::8", "[::1]", "::ffff:1.2.3.256", "1.2.3.4:80",
])("%s is no address, and nobody may go there", (text) => {
  expect(addressKind(text)).toBeUndefined();
  expect(isAllowed(text, "administrator")).toBe(false);
});

it("goes in the clear to this machine only, and never where somebody else chose", () => {
  expect(isSchemeAllowed("https:", "8.8.8.8", "strict")).toBe(true);
  expect(isSchemeAllowed("http:", "127.0.0.1", "administrator")).toBe(true);
  expect(isSchemeAllowed("http:", "10.0.0.1", "administrator")).toBe(false);
  expect(isSchemeAllowed("http:", "127.0.0.1", "strict")).toBe(false);
  expect(isSchemeAllowed("ftp:", "127.0.0.1", "administrator")).toBe(false);
});

it("reads every form of an IPv6 address that embeds an IPv4 one as that one", () => {
  assert(
    property(ipV4(), (v4) => {
      const [a = 0, b = 0, c = 0, d = 0] = v4.split(".").map(Number);
      const hex = `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
      const kind = addressKind(v4);
      for (const form of [`::ffff:${v4}`, `::ffff:${hex}`, `0:0:0:0:0:ffff:${hex}`, `64:ff9b::${hex}`, `2002:${hex}::1`]) expect(addressKind(form)).toBe(kind);
    }),
  );
});

it("reads every IPv6 address that there is", () => {
  assert(property(ipV6(), (v6) => addressKind(v6) !== undefined));
});
