import { describe, expect, it } from "vitest";
import { browserOrigin, cleanPath } from "../../../../src/server/http/http-app.ts";
import { hostName, isForwarded } from "../../../../src/server/http/exchange.ts";

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
  ])("rejects %j", (target) => {
    expect(cleanPath(target)).toBeUndefined();
  });
});

describe("hostName and isForwarded", () => {
  it.each([
    ["localhost", "localhost"],
    ["LOCALHOST:4000", "localhost"],
    ["127.0.0.1:1", "127.0.0.1"],
    ["[::1]", "[::1]"],
    ["[::1]:80", "[::1]"],
    ["a.localhost", "a.localhost"],
    ["evil.example:80", "evil.example"],
  ])("read the name in %s", (header, name) => expect(hostName(header)).toBe(name));

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
  ])("find no name in %j", (header) => {
    expect(hostName(header)).toBeUndefined();
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
  ])("recognize a request with %s as forwarded", (name) => {
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
  ])("classifies %j as %s", (headers, kind) => {
    expect(browserOrigin({ host: "127.0.0.1:4000", ...headers }, permitted).kind).toBe(kind);
  });
});
