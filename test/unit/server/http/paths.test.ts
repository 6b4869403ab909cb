import { describe, expect, it } from "vitest";
import {
  browserOrigin,
  hostName,
  isForwarded,
  isLoopbackAddress,
  isLoopbackHost,
} from "../../../../src/server/http/origins.ts";
import { cleanPath } from "../../../../src/server/http/paths.ts";

describe("cleanPath", () => {
  it.each([
    ["/v1/models", "/v1/models", ""],
    ["/models", "/v1/models", ""],
    ["/models/gpt-4o", "/v1/models/gpt-4o", ""],
    ["/chat/completions?a=b", "/v1/chat/completions", "?a=b"],
    ["/modelsx", "/modelsx", ""],
    ["/farebox/charges?limit=5", "/v1/farebox/charges", "?limit=5"],
    ["/account/info", "/account/info", ""],
    ["/v1/models/gpt-4.1..x", "/v1/models/gpt-4.1..x", ""],
    ["/v1/models/%C3%A9", "/v1/models/%C3%A9", ""],
    ["/v1/models?x=//..%2f\\%zz?", "/v1/models", "?x=//..%2f\\%zz?"],
    ["/", "/", ""],
  ])("reads %s", (target, path, query) => {
    expect(cleanPath(target)).toEqual({ path, query });
  });

  it.each([
    "",
    "*",
    "v1/models",
    "http://localhost/v1/models",
    "//v1/models",
    "/v1//models",
    "/v1/models//",
    "/v1%2fmodels",
    "/v1/models/a%2Fb",
    "/v1%5cmodels",
    "/v1\\models",
    "/./v1",
    "/v1/../admin",
    "/v1/models/..",
    "/v1/%2e%2e/x",
    "/v1/.%2E/x",
    "/v1/%2e",
    "/v1/%",
    "/v1/%g0",
    "/v1/%ff",
    "/v1/%c0%af",
    "/v1/models#x",
    "/v1/models?a#b",
    "/v1/models\u00a0",
    "/v1/\u00e9",
    "/v1 x",
  ])("turns %j away", (target) => {
    expect(cleanPath(target)).toBeUndefined();
  });
});

describe("hosts", () => {
  it.each([
    ["localhost", "localhost"],
    ["LOCALHOST:4000", "localhost"],
    ["127.0.0.1:1", "127.0.0.1"],
    ["[::1]", "[::1]"],
    ["[::1]:80", "[::1]"],
    ["a.localhost", "a.localhost"],
    ["evil.example:80", "evil.example"],
  ])("reads the name in %s", (header, name) => expect(hostName(header)).toBe(name));

  it.each([
    undefined,
    "",
    ":80",
    "::1",
    "a:b",
    "localhost:",
    "localhost:123456",
    "a b",
    "user@localhost",
    "localhost/",
    "localhost, evil.example",
    "[::1",
    "[x]",
    "[::1]x",
  ])("finds none in %j", (header) => {
    expect(hostName(header)).toBeUndefined();
  });

  it.each(["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]", "::1", "[::ffff:127.0.0.1]"])(
    "%s is this machine",
    (host) => expect(isLoopbackHost(host)).toBe(true),
  );
  it.each([
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "127.evil",
    "127.1",
    "2130706433",
    "0.0.0.0",
    "0",
    "[::]",
    "localhost.",
    "xlocalhost",
    "10.0.0.1",
    "0x7f.0.0.1",
  ])("%s is another", (host) => expect(isLoopbackHost(host)).toBe(false));

  it("knows this machine's addresses", () => {
    expect(["127.0.0.1", "::1", "::ffff:127.0.0.1"].every(isLoopbackAddress)).toBe(true);
    expect([undefined, "", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1"].some(isLoopbackAddress)).toBe(false);
  });

  it.each([
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-real-ip",
    "via",
    "cf-connecting-ip",
    "true-client-ip",
  ])("a request with %s was passed on", (name) => {
    expect(isForwarded({ [name]: "" })).toBe(true);
    expect(isForwarded({ host: "x" })).toBe(false);
  });
});

describe("browserOrigin", () => {
  const permitted = new Set(["https://app.example"]);
  it.each([
    [{}, "own"],
    [{ origin: "http://127.0.0.1:4000" }, "own"],
    [{ origin: "http://127.0.0.1:4001" }, "foreign"],
    [{ origin: "http://127.0.0.1" }, "foreign"],
    [{ origin: "null" }, "foreign"],
    [{ origin: "" }, "foreign"],
    [{ origin: "https://evil.example" }, "foreign"],
    [{ origin: "https://app.example" }, "permitted"],
    [{ origin: "https://app.example.evil" }, "foreign"],
    [{ origin: "https://app.example", "sec-fetch-site": "cross-site" }, "permitted"],
    [{ "sec-fetch-site": "cross-site" }, "foreign"],
    [{ "sec-fetch-site": "same-site" }, "foreign"],
    [{ "sec-fetch-site": "same-origin" }, "own"],
    [{ "sec-fetch-site": "none" }, "own"],
    [{ origin: "null", "sec-fetch-site": "cross-site" }, "foreign"],
  ])("of %j: %s", (headers, kind) => {
    expect(browserOrigin({ host: "127.0.0.1:4000", ...headers }, permitted).kind).toBe(kind);
  });
});
