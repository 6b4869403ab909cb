import { describe, expect, it } from "vitest";
import { chooseProxy, parseExemptions, parseProxy, shownProxy } from "../../../src/core/outbound-proxy.ts";

const proxyOf = (text: string) => {
  const proxy = parseProxy(text);
  if (proxy === undefined) throw new Error(`no proxy: ${text}`);
  return proxy;
};

describe("the address of a proxy", () => {
  it.each([
    ["http://proxy.corp:3128", "proxy.corp", 3128, false, null],
    ["http://proxy.corp:3128/", "proxy.corp", 3128, false, null],
    ["proxy.corp:3128", "proxy.corp", 3128, false, null],
    ["proxy", "proxy", 80, false, null],
    ["10.0.0.1:8080", "10.0.0.1", 8080, false, null],
    ["HTTPS://Proxy.Corp", "proxy.corp", 443, true, null],
    ["http://[fd00::1]:3128", "fd00::1", 3128, false, null],
    ["http://user:pass@proxy:3128", "proxy", 3128, false, "user:pass"],
    ["user:pass@proxy:3128", "proxy", 3128, false, "user:pass"],
    ["http://corp%5Cuser:p%40ss%3a%C3%A9@proxy", "proxy", 80, false, "corp\\user:p@ss:é"],
    ["http://user@proxy", "proxy", 80, false, "user:"],
    ["http://user:50%@proxy", "proxy", 80, false, "user:50%"],
  ])("%s is read", (text, host, port, isTls, credentials) => {
    expect(parseProxy(text)).toEqual({ host, port, isTls, credentials });
  });

  it.each([
    "socks5://proxy:1080",
    "socks5h://proxy:1080",
    "ftp://proxy",
    "http://",
    "http://proxy:99999",
    "http://proxy:3128/proxy.pac",
    "http://proxy?x",
    "http://user:pa#ss@proxy:3128",
    "a proxy",
  ])("%s is refused", (text) => {
    expect(parseProxy(text)).toBeUndefined();
  });

  it("is shown without credentials", () => {
    expect(shownProxy(proxyOf("http://user:secret@proxy.corp:3128"))).toBe("proxy.corp:3128");
    expect(shownProxy(proxyOf("https://user:secret@[fd00::1]"))).toBe("[fd00::1]:443");
  });
});

describe("the choice of a proxy", () => {
  const [https, http] = [proxyOf("secure.corp:1"), proxyOf("plain.corp:2")];
  const choose = (noProxy = "") => chooseProxy({ https, http, exemptions: parseExemptions(noProxy) });

  it("depends on the scheme", () => {
    expect(choose()(new URL("https://gateway.example"))).toBe(https);
    expect(choose()(new URL("http://gateway.example"))).toBe(http);
    const onlyHttp = chooseProxy({ https: null, http, exemptions: [] });
    expect(onlyHttp(new URL("https://gateway.example"))).toBeNull();
  });

  it.each([
    "https://localhost",
    "http://LOCALHOST.:8080",
    "https://api.localhost",
    "https://127.0.0.1",
    "https://127.9.9.9",
    "https://2130706433",
    "https://[::1]:8443",
    "https://[::ffff:127.0.0.1]",
    "http://0.0.0.0:4000",
  ])("never proxies this machine: %s", (url) => {
    expect(choose()(new URL(url))).toBeNull();
  });

  it("never proxies a name that resolves to this machine, nor one that resolves to an exempt address", () => {
    const url = new URL("https://hooks.example");
    expect(choose()(url, "203.0.113.5")).toBe(https);
    expect(choose()(url, "127.0.0.1")).toBeNull();
    expect(choose()(url, "::1")).toBeNull();
    expect(choose("10.0.0.0/8")(url, "10.1.2.3")).toBeNull();
  });

  it.each([
    ["*", "https://gateway.example"],
    ["internal, *", "https://gateway.example"],
    ["gateway.example", "https://gateway.example"],
    ["GATEWAY.Example.", "https://gateway.example"],
    ["gateway.example", "https://gateway.example./"],
    ["example", "https://gateway.example"],
    [".example", "https://gateway.example"],
    [".gateway.example", "https://gateway.example"],
    ["*.example", "https://a.b.example"],
    ["other,gateway.example", "https://gateway.example"],
    ["other  gateway.example", "https://gateway.example"],
    ["gateway.example:443", "https://gateway.example"],
    ["gateway.example:8443", "https://gateway.example:8443"],
    ["bücher.example", "https://xn--bcher-kva.example"],
    ["10.1.2.3", "https://10.1.2.3"],
    ["10.1.2.3:8443", "https://10.1.2.3:8443"],
    ["10.0.0.0/8", "https://10.255.0.1"],
    ["10.*", "https://10.255.0.1"],
    ["192.168.1.*", "https://192.168.1.77"],
    ["172.16.*.*", "https://172.16.3.4"],
    ["192.168.", "https://192.168.7.7"],
    // As macOS and other tools write it.
    ["*.local, 169.254/16", "https://169.254.3.4"],
    ["10/8", "https://10.1.2.3"],
    ["localhost;gateway.example", "https://gateway.example"],
    // Entries that Farebox cannot read do not affect others.
    ["<local>,http://x,10.0.0.0/40,a*b,gateway.example", "https://gateway.example"],
    ["fd00::1", "https://[fd00::1]"],
    ["[fd00::1]:8443", "https://[fd00::1]:8443"],
    ["fd00::/8", "https://[fd12::1]"],
  ])("%s exempts %s", (noProxy, url) => {
    expect(choose(noProxy)(new URL(url))).toBeNull();
  });

  it.each([
    ["", "https://gateway.example"],
    ["way.example", "https://gateway.example"],
    ["gateway.example", "https://gateway.example.org"],
    ["gateway.example:8443", "https://gateway.example"],
    ["a.gateway.example", "https://gateway.example"],
    ["10.1.2.3", "https://10.1.2.30"],
    ["10.0.0.0/8", "https://11.0.0.1"],
    ["10.0.0.0/8", "https://10.example"],
    ["192.168.1.*", "https://192.168.10.7"],
    ["fd00::1", "https://[fd00::2]"],
    ["169.254/16", "https://169.25.4.1"],
    ["10.", "https://100.1.2.3"],
  ])("%s does not exempt %s", (noProxy, url) => {
    expect(choose(noProxy)(new URL(url))).toBe(https);
  });

  it.each([
    "http://gateway.example",
    "10.0.0.0/33",
    "10.0.0.256",
    "a/b",
    "host:port",
    "user@host",
    "a*b",
    "fd00::/129",
    "10.1/33",
    "<local>",
  ])("%s exempts nothing", (text) => {
    expect(parseExemptions(text)).toEqual([]);
  });
});
