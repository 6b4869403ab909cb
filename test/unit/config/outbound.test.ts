import { inspect } from "node:util";
import { expect, it } from "vitest";
import { loadSettings } from "../../../src/config/load.ts";
import { noOutbound, proxyChoice, readOutbound } from "../../../src/config/outbound.ts";
import { shownProxy } from "../../../src/core/outbound-proxy.ts";

const gateway = new URL("https://gateway.example");

function wayTo(url: URL, env: Record<string, string>): string | null {
  const { outbound, problems } = readOutbound(env);
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
  [{ HTTP_PROXY: "http://secret@proxy", NO_PROXY: "http://secret" }, "NO_PROXY"],
  [{ HTTP_PROXY: "http://secret@proxy", no_proxy: "10.0.0.0/40" }, "no_proxy"],
])("a wrong value is one sentence with the name of its variable, without its text: %o", (env, name) => {
  const { problems } = readOutbound(env as Record<string, string>);
  expect(problems).toHaveLength(1);
  expect(problems[0]).toMatch(new RegExp(`^${name} must be (the address of an HTTP proxy|a list of host names)`));
  expect(problems[0]).not.toMatch(/secret|1080|socks/);
});

it("are read only by commands that call other machines, and are never shown", () => {
  const load = (uses: "all" | readonly ("gateway_url" | "database")[], proxy: string) =>
    loadSettings({
      env: { HTTPS_PROXY: proxy, FAREBOX_GATEWAY_URL: gateway.href },
      flags: {},
      readFile: () => ({ ok: false, code: "ENOENT" }),
      uses,
    });
  expect(load(["database"], "socks5://proxy")).toMatchObject({ ok: true, settings: { outbound: noOutbound } });
  expect(load(["gateway_url"], "socks5://proxy")).toMatchObject({ ok: false });
  const loaded = load("all", "http://user:hunter2@proxy:3128");
  expect(loaded).toMatchObject({ ok: true, settings: { outbound: { noProxy: null } } });
  expect(inspect(loaded, { depth: null }) + JSON.stringify(loaded)).not.toContain("hunter2");
});
