import { describe, expect, it } from "vitest";
import {
  answerHeaders,
  forwardableHeaders,
  readTags,
  readUserHeader,
  sentContentType,
  withHeaderTags,
} from "../../../src/wire/headers.ts";

// cspell:ignore tracestate

describe("forwardableHeaders", () => {
  it("forwards the listed headers and no others", () => {
    const kept = {
      accept: "*/*",
      "accept-language": "de",
      traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      tracestate: "vendor=1",
      "user-agent": "x",
      "x-client-request-id": "2",
      "openai-organization": "o",
      "anthropic-version": "v",
      "x-stainless-lang": "js",
    };
    const withheld = {
      authorization: "Bearer sk-fb-x",
      "x-api-key": "sk-fb-x",
      "proxy-authorization": "Basic x",
      cookie: "a=b",
      "api-key": "x",
      "x-goog-api-key": "x",
      "x-farebox-tag": "a=b",
      "x-farebox-anything": "1",
      forwarded: "for=1",
      "x-forwarded-for": "1",
      "x-forwarded-host": "h",
      "x-real-ip": "1",
      via: "1.1 x",
      "cf-connecting-ip": "1",
      baggage: "user=alice",
      host: "h",
      origin: "o",
      referer: "r",
      connection: "keep-alive",
      te: "trailers",
      // These would make a gateway read the body in another way. Farebox sets the content type itself.
      "content-type": "application/json",
      "content-encoding": "gzip",
      "content-language": "de",
      "content-disposition": 'form-data; name="model"',
      "content-transfer-encoding": "base64",
      "x-http-method-override": "PUT",
      "x-http-method": "PUT",
      "x-method-override": "PUT",
      "x-original-url": "/v1/other",
      "x-rewrite-url": "/v1/other",
      "transfer-encoding": "chunked",
      "content-length": "5",
      "accept-encoding": "gzip",
      expect: "100-continue",
      "x-sandbox-scenario": "gzip",
      openai: "1",
      "sec-fetch-site": "none",
      "x-request-id": "mine",
      "x-openai-organization": "1",
    };
    expect(forwardableHeaders(Object.entries({ ...kept, ...withheld }), String)).toEqual(kept);
  });

  it("replaces each header that a gateway may read as an idempotency key, and drops empty ones", () => {
    const sent = {
      "idempotency-key": "1",
      "x-stainless-idempotency-key": "2",
      "openai-idempotency-token": "3",
      "anthropic-idempotency-key": " ",
      "x-idempotency-key": "5",
    };
    expect(forwardableHeaders(Object.entries(sent), (value) => `<${value}>`)).toEqual({
      "idempotency-key": "<1>",
      "x-stainless-idempotency-key": "<2>",
      "openai-idempotency-token": "<3>",
    });
  });
});

describe("sentContentType", () => {
  const typesOfOthers = [
    undefined,
    "text/plain",
    "application/x-www-form-urlencoded",
    "application/json; charset=utf-16",
    "application/json; charset=utf-7",
    "multipart/form-data; boundary=b",
    "application/yaml",
    "application/json, text/plain",
  ];

  it("is JSON for every body that Farebox reads as JSON", () => {
    for (const given of typesOfOthers) expect(sentContentType(given, "json")).toBe("application/json");
  });

  it("is absent without a body, and unchanged for a body that Farebox does not read", () => {
    for (const given of typesOfOthers) {
      expect(sentContentType(given, "none")).toBeUndefined();
      expect(sentContentType(given, "unread")).toBe(given);
    }
  });

  it.each([
    ["multipart/form-data; boundary=abc", "multipart/form-data; boundary=abc"],
    ['Multipart/Form-Data ;\tBoundary="abc"', "multipart/form-data; boundary=abc"],
    ['multipart/form-data; boundary="a=b:c?"', 'multipart/form-data; boundary="a=b:c?"'],
    ["multipart/form-data; boundary=a=b", 'multipart/form-data; boundary="a=b"'],
    ["multipart/form-data; boundary=a; boundary=b", "multipart/form-data; boundary=a; boundary=b"],
  ])("of the form %s is %s", (given, sent) => {
    expect(sentContentType(given, "form")).toBe(sent);
  });
});

const harmless = [
  ["x-content-type-options", "nosniff"],
  ["content-security-policy", "sandbox"],
];

describe("answerHeaders", () => {
  it("keeps order, spelling and repeated headers", () => {
    const raw = [
      "Content-Type",
      "application/json",
      "X-Request-Id",
      "req_1",
      "openai-processing-ms",
      "12",
      "x-ratelimit-remaining",
      "5",
      "Link",
      "a",
      "link",
      "b",
    ];
    expect(answerHeaders(raw).flat()).toEqual([...raw, ...harmless.flat()]);
  });

  it("adds headers that keep a browser from sniffing or running an answer, next to the gateway's own policy", () => {
    const raw = ["content-security-policy", "default-src https:", "X-Content-Type-Options", "nosniff, nosniff"];
    expect(answerHeaders(raw)).toEqual([["content-security-policy", "default-src https:"], ...harmless]);
  });

  it.each([
    "Set-Cookie",
    "connection",
    "Keep-Alive",
    "Transfer-Encoding",
    "TE",
    "trailer",
    "Upgrade",
    "Proxy-Authenticate",
    "proxy-connection",
    "X-Farebox-Request-Id",
    "x-farebox-cost-usd",
    "X-Farebox-Error",
    // These apply to the gateway's origin. A second allow-origin makes a browser refuse the answer.
    "Access-Control-Allow-Origin",
    "access-control-expose-headers",
    "Alt-Svc",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
  ])("drops %s", (name) => {
    expect(answerHeaders(["a", "1", name, "x", "b", "2"])).toEqual([["a", "1"], ["b", "2"], ...harmless]);
  });

  it("drops the headers that a connection header names, in any position", () => {
    expect(
      answerHeaders([
        "X-Hop",
        "1",
        "X-Stay",
        "2",
        "Connection",
        "close, X-Hop ,",
        "x-other",
        "3",
        "connection",
        "X-OTHER",
      ]),
    ).toEqual([["X-Stay", "2"], ...harmless]);
  });
});

/** Returns a text as Node reads it from a header in UTF-8. */
const utf8 = (text: string) => Buffer.from(text).toString("latin1");

describe("readUserHeader", () => {
  it.each<[string, string]>([
    [utf8("検索 太郎"), "検索 太郎"],
    [utf8("🦊".repeat(128)), "🦊".repeat(128)],
    ["Zo\u00eb", "Zoë"],
    [utf8("Zoë, Ana"), "Zoë, Ana"],
    ["\u00c1\u00a1", "Á¡"],
  ])("reads %j", (header, user) => {
    expect(readUserHeader(header)).toEqual({ ok: true, user });
  });

  it.each([utf8("検".repeat(129)), utf8("a\u0085"), utf8("\u009b"), "\u0085", "\u00ed\u00a0\u0080"])(
    "refuses %j",
    (header) => {
      expect(readUserHeader(header)).toMatchObject({ ok: false, refusal: { code: "invalid_request" } });
    },
  );
});

describe("readTags", () => {
  it.each<[string | undefined, object]>([
    [undefined, {}],
    ["", {}],
    ["  ", {}],
    ["team=blue", { team: "blue" }],
    [" a = b , c.d-e_f=x=y ", { a: "b", "c.d-e_f": "x=y" }],
    ["a=ä€", { a: "ä€" }],
    ["a=à, b=Zoë", { a: "à", b: "Zoë" }],
    [Buffer.from("a=à, b=Zoë €").toString("latin1"), { a: "à", b: "Zoë €" }],
    [
      Array.from({ length: 8 }, (_, index) => `t${index}=v`).join(","),
      Object.fromEntries(Array.from({ length: 8 }, (_, index) => [`t${index}`, "v"])),
    ],
    [`a=${"x".repeat(128)}`, { a: "x".repeat(128) }],
    [utf8("feature=検索"), { feature: "検索" }],
    [utf8(`a=${"検".repeat(128)}`), { a: "検".repeat(128) }],
    [utf8(`a=${"🦊".repeat(128)}`), { a: "🦊".repeat(128) }],
    // Two spellings of the same letter are different values.
    [utf8("a=e\u0301, b=\u00e9"), { a: "e\u0301", b: "\u00e9" }],
    // A value that is not valid UTF-8 is Latin-1: cut, overlong, a surrogate, above U+10FFFF, a lone byte.
    ["a=\u00e6\u00a4", { a: "æ¤" }],
    ["a=\u00c1\u00a1", { a: "Á¡" }],
    ["a=\u00ed\u00a1\u00a1", { a: "í¡¡" }],
    ["a=\u00f5\u00a1\u00a1\u00a1", { a: "õ¡¡¡" }],
    ["a=\u00bf", { a: "¿" }],
    [`a=Zo\u00eb, ${utf8("b=検索")}`, { a: "Zoë", b: "検索" }],
  ])("reads %j", (header, tags) => {
    expect(readTags(header)).toEqual({ ok: true, tags });
  });

  it.each([
    "a",
    "=b",
    "a=",
    "a=b,",
    ",a=b",
    "A=b",
    "__proto__=b",
    "a b=c",
    "a=b,a=c",
    "a=b\tc",
    "a=b\u0085c",
    // Control characters in UTF-8, and continuation bytes that are control characters in Latin-1.
    utf8("a=b\u0085c"),
    utf8("a=\u009b31m"),
    "a=\u0080",
    "a=\u00c0\u0085",
    "a=\u00ed\u00a0\u0080",
    utf8(`a=${"検".repeat(129)}`),
    utf8("検=a"),
    `${"x".repeat(64)}=b`,
    `a=${"x".repeat(129)}`,
    Array.from({ length: 9 }, (_, index) => `t${index}=v`).join(","),
  ])("refuses %j", (header) => {
    expect(readTags(header)).toMatchObject({ ok: false, refusal: { code: "invalid_request" } });
  });
});

describe("withHeaderTags", () => {
  const rules = [
    { header: "x-one", tag: "agent_session" },
    { header: "x-two", tag: "agent" },
    { header: "x-three", tag: "agent_session" },
    { header: "x-run", tag: "session" },
  ];
  const seven = Object.fromEntries(Array.from({ length: 7 }, (_, index) => [`t${index}`, "v"]));

  it.each<[string, Record<string, string>, Record<string, string>, Record<string, string>]>([
    ["adds values", { "x-one": " s 1 ", "x-two": utf8("検索") }, {}, { agent_session: "s 1", agent: "検索" }],
    ["prefers the first header of a tag", { "x-one": "1", "x-three": "3" }, {}, { agent_session: "1" }],
    [
      "reads a later header if the first has no valid value",
      { "x-one": "", "x-three": "3" },
      {},
      { agent_session: "3" },
    ],
    ["keeps stated tags", { "x-one": "1", "x-two": "2" }, { agent: "mine" }, { agent: "mine", agent_session: "1" }],
    [
      "ignores invalid values",
      { "x-one": "a, b", "x-two": "x".repeat(129), "x-three": "a\tb" },
      { feature: "search" },
      { feature: "search" },
    ],
    ["gives no request the tag of a session", { "x-run": "run_abc" }, {}, {}],
    ["may give another value of that tag", { "x-run": "s1" }, {}, { session: "s1" }],
    ["drops tags above the limit", { "x-one": "1", "x-two": "2" }, seven, { ...seven, agent_session: "1" }],
  ])("%s", (_, headers, tags, expected) => {
    expect(withHeaderTags(tags, rules, { header: (name) => headers[name] })).toEqual(expected);
  });
});
