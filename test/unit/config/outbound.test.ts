import { inspect } from "node:util";
import { expect, it } from "vitest";
import { loadSettings } from "../../../src/config/load.ts";
import { exempting, noOutbound, proxyChoice, readOutbound } from "../../../src/config/outbound.ts";
import { shownProxy } from "../../../src/core/outbound-proxy.ts";

const gateway = new URL("https://gateway.example");

function wayTo(url: URL, env: Record<string, string>): string | null {
  const { outbound, problems } = readOutbound(env, [url]);
  expect(problems).toEqual([]);
  const proxy = proxyChoice(outbound)(url);
  return proxy && shownProxy(proxy);
}

it.each([
  [{}, null],
  [{ NO_PROXY: "nonsense/nonsense" }, null],
  [{ HTTPS_PROXY: "http://upper:1" }, "upper:1"],
  [{ https_proxy: "http://lower:1" }, "lower:1"],
  [{ HTTPS_PROXY: "http://upper:1", https_proxy: "http://lower:1" }, "lower:1"],
  [{ HTTPS_PROXY: "http://upper:1", https_proxy: "" }, "upper:1"],
  [{ HTTPS_PROXY: " upper:1 " }, "upper:1"],
  [{ HTTP_PROXY: "http://upper:1" }, null],
  [{ HTTPS_PROXY: "http://upper:1", NO_PROXY: "example" }, null],
  [{ HTTPS_PROXY: "http://upper:1", NO_PROXY: "example", no_proxy: "other" }, "upper:1"],
])("the variables %o lead to an https gateway via %s", (env, way) => {
  expect(wayTo(gateway, env as Record<string, string>)).toBe(way);
});

it("HTTP_PROXY applies to http addresses, in both letter cases", () => {
  const plain = new URL("http://gateway.example");
  expect(wayTo(plain, { HTTP_PROXY: "upper:1" })).toBe("upper:1");
  expect(wayTo(plain, { HTTP_PROXY: "upper:1", http_proxy: "lower:1" })).toBe("lower:1");
  expect(wayTo(plain, { HTTPS_PROXY: "upper:1" })).toBeNull();
});

it.each([
  [{ HTTPS_PROXY: "socks5://user:secret@proxy:1080" }, "HTTPS_PROXY"],
  [{ https_proxy: "http://user:secret@proxy:port" }, "https_proxy"],
  [{ HTTP_PROXY: "http://user:sec#ret@proxy:1" }, "HTTP_PROXY"],
])("a wrong value is one sentence with the name of its variable, without its text: %o", (env, name) => {
  const { problems } = readOutbound(env as Record<string, string>, [gateway, new URL("http://gateway.example")]);
  expect(problems).toHaveLength(1);
  expect(problems[0]).toMatch(new RegExp(`^${name} must be the address of an HTTP proxy`));
  expect(problems[0]).not.toMatch(/secret|1080|socks/);
});

function load(env: Record<string, string>, uses: "all" | readonly ("gateway_url" | "database")[] = "all") {
  return loadSettings({
    env: { FAREBOX_GATEWAY_URL: gateway.href, ...env },
    flags: {},
    readFile: () => ({ ok: false, code: "ENOENT" }),
    uses,
  });
}

// Such variables are set for other programs. They stopped no farebox before it read them.
it.each<[string, Record<string, string>]>([
  ["the scheme of no address", { HTTP_PROXY: "socks5://proxy" }],
  ["an exempt gateway", { HTTPS_PROXY: "socks5://proxy", NO_PROXY: "gateway.example" }],
  ["a gateway on this machine", { HTTPS_PROXY: "socks5://proxy", FAREBOX_GATEWAY_URL: "https://localhost:8443" }],
  [
    "exempt receivers",
    { HTTPS_PROXY: "socks5://proxy", NO_PROXY: "example", FAREBOX_ALERT_WEBHOOK: "https://hooks.example" },
  ],
  [
    "nothing",
    { HTTPS_PROXY: "  ", HTTP_PROXY: "", ALL_PROXY: "socks5://proxy", NO_PROXY: "<local>,http://x,169.254/16" },
  ],
])("a wrong value for %s is no problem", (_, env) => {
  expect(load(env)).toMatchObject({ ok: true, settings: { outbound: noOutbound } });
});

it.each<[string, Record<string, string>]>([
  ["the gateway", {}],
  ["alerts", { NO_PROXY: "gateway.example", FAREBOX_ALERT_WEBHOOK: "https://hooks.example" }],
  ["webhooks of tasks", { NO_PROXY: "gateway.example", FAREBOX_PUBLIC_URL: "https://farebox.example" }],
])("a wrong value for %s is a problem", (_, env) => {
  expect(load({ HTTPS_PROXY: "socks5://proxy", ...env })).toMatchObject({
    ok: false,
    problems: [expect.stringContaining("HTTPS_PROXY must be")],
  });
});

it("are a problem only for commands that call other machines, and are never shown", () => {
  expect(load({ HTTPS_PROXY: "socks5://proxy" }, ["database"])).toMatchObject({ ok: true });
  expect(load({ HTTPS_PROXY: "socks5://proxy" }, ["gateway_url"])).toMatchObject({ ok: false });
  const loaded = load({ HTTPS_PROXY: "http://user:hunter2@proxy:3128" });
  expect(loaded).toMatchObject({ ok: true, settings: { outbound: { noProxy: null } } });
  expect(inspect(loaded, { depth: null }) + JSON.stringify(loaded)).not.toContain("hunter2");
});

it.each<[Record<string, string>, Record<string, string>]>([
  [{}, {}],
  [{ NO_PROXY: "a", HTTP_PROXY: "" }, {}],
  [{ HTTP_PROXY: "p:1" }, { NO_PROXY: "127.0.0.1", no_proxy: "127.0.0.1" }],
  [
    { all_proxy: "socks5://p", NO_PROXY: "a,.b" },
    { NO_PROXY: "a,.b,127.0.0.1", no_proxy: "a,.b,127.0.0.1" },
  ],
  [
    { https_proxy: "p", no_proxy: "a", NO_PROXY: "b" },
    { NO_PROXY: "b,127.0.0.1", no_proxy: "a,127.0.0.1" },
  ],
  [
    { http_proxy: "p", NO_PROXY: "*" },
    { NO_PROXY: "*", no_proxy: "*" },
  ],
  [
    { http_proxy: "p", NO_PROXY: "127.0.0.1" },
    { NO_PROXY: "127.0.0.1", no_proxy: "127.0.0.1" },
  ],
])("programs with %o reach this machine with %o", (env, added) => {
  expect(exempting("127.0.0.1", env)).toEqual(added);
});

it("programs reach an IPv6 address in both spellings", () => {
  expect(exempting("::1", { HTTP_PROXY: "p" })).toMatchObject({ NO_PROXY: "::1,[::1]" });
});
