import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { fetchRaw, expectRefusal, head, RawClient } from "../../support/raw-client.ts";

let proxy: RunningProxy;
let bearer: string;
beforeAll(async () => {
  proxy = await startProxy({ env: { FAREBOX_CORS_ORIGINS: "https://app.example", FAREBOX_BODY_LIMIT: "2kb" } });
  bearer = `Authorization: Bearer ${proxy.key}`;
});
afterAll(() => proxy[Symbol.asyncDispose]());

const chat = JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "hi" }], max_tokens: 5 });
const get = (target: string, ...lines: string[]) => fetchRaw(proxy.url, head(proxy.url, `GET ${target}`, ...lines));
const post = (body: string, ...lines: string[]) =>
  fetchRaw(
    proxy.url,
    head(proxy.url, "POST /v1/chat/completions", `Content-Length: ${Buffer.byteLength(body)}`, ...lines),
    body,
  );

describe("the Host header", () => {
  it.each([
    "evil.example",
    "evil.example:4000",
    "localhost.evil.example",
    "0.0.0.0",
    "[::]",
    "127.1",
    "::1",
    "localhost:port",
    "a@localhost",
    "",
  ])("%j is refused", async (host) => {
    expectRefusal(await get("/healthz", `Host: ${host}`), 421, "unknown_host");
  });

  it.each(["localhost", "LocalHost:1", "127.0.0.1", "127.0.0.2:80", "[::1]", "[::1]:80", "farebox.localhost"])(
    "%s is accepted",
    async (host) => {
      expect(await get("/healthz", `Host: ${host}`)).toMatchObject({ status: 200 });
    },
  );

  it("is required exactly once", async () => {
    expectRefusal(await fetchRaw(proxy.url, "GET /healthz HTTP/1.0\r\n\r\n"), 421, "unknown_host");
    expectRefusal(await get("/healthz", "Host: localhost", "Host: evil.example"), 421, "unknown_host");
  });
});

describe("the request target", () => {
  it.each([
    "http://127.0.0.1/healthz",
    "http://[",
    "http://evil.example/healthz",
    "*",
    "//healthz",
    "//evil.example/healthz",
    "/v1//models",
    "/v1%2fmodels",
    "/v1%2Fmodels",
    "/v1%5cmodels",
    "/v1\\models",
    "/v1/./models",
    "/x/../healthz",
    "/x/%2e%2e/healthz",
    "/%2E/healthz",
    "/healthz#",
    "/v1/models#x",
    "/v1/models/%ff",
    "/v1/models/%",
    "/V1/models",
    "/v1/Models",
    "/HEALTHZ",
    "/healthz/",
    "/v1/models/",
    "/v1/models/gpt-4o/",
    "/v1",
    "/",
    "/nothing",
    "/v1/%6dodels",
    "/v1/chat/completions/x",
    "/v1/chat/completions;x",
  ])("%s gives a 404", async (target) => {
    expectRefusal(await get(target, bearer), 404, "not_found");
  });

  it.each([
    [
      "/v1/v1/models?x=secret",
      "There is no path '/v1/v1/models'; did you mean '/v1/models'? The base URL ends with /v1 only once.",
    ],
    [
      "/v1//models?x=secret",
      "There is no path '/v1//models'; did you mean '/v1/models'? Remove the doubled slash from the base URL.",
    ],
    ["/v1/models/", "There is no path '/v1/models/'; did you mean '/v1/models'? Remove the slash at its end."],
    ["/V1/models", "There is no path '/V1/models'; did you mean '/v1/models'? Write it in lower case."],
  ])("%s gets the cause and the right path", async (target, message) => {
    expect(JSON.parse((await get(target, bearer)).body)).toMatchObject({ error: { message, param: null } });
  });

  it("of a path without a price gets the setting that forwards it", async () => {
    const forwarded = proxy.sandbox.requests.length;
    for (const target of ["/v1/moderations", "/moderations", "/v1/files", "/v1/realtime"]) {
      const { body } = await fetchRaw(proxy.url, head(proxy.url, `POST ${target}`, bearer, "Content-Length: 0"));
      expect(body).toContain("with FAREBOX_PASSTHROUGH=all, Farebox forwards it without a price");
    }
    expect(proxy.sandbox.requests).toHaveLength(forwarded);
  });

  it("can omit /v1", async () => {
    const [short, long] = await Promise.all([get("/models", bearer), get("/v1/models?x=//#".slice(0, -1), bearer)]);
    expect(short).toMatchObject({ status: 200, body: long.body });
    const body = await fetchRaw(
      proxy.url,
      head(proxy.url, "POST /chat/completions", bearer, `Content-Length: ${chat.length}`),
      chat,
    );
    expect(body.status).toBe(200);
    expect(proxy.sandbox.requests.at(-1)?.path).toBe("/v1/chat/completions");
  });

  it("with another method gives a 405 with the methods that the path accepts", async () => {
    const answer = await get("/v1/chat/completions", bearer);
    expectRefusal(answer, 405, "method_not_allowed");
    expect(answer.headers["allow"]).toEqual(["POST"]);
    expect(answer.body).toContain("This path accepts POST.");
    for (const method of ["PUT", "DELETE", "OPTIONS", "PATCH", "QUERY"]) {
      const refused = await fetchRaw(proxy.url, head(proxy.url, `${method} /healthz`, "Content-Length: 0"));
      expectRefusal(refused, 405, "method_not_allowed");
    }
  });

  it("with HEAD is answered without a body", async () => {
    using client = new RawClient(proxy.url);
    const healthy = await client.send(head(proxy.url, "HEAD /healthz")).answer({ toHead: true });
    expect(healthy).toMatchObject({ status: 200, headers: { "content-length": ["15"] } });
    const refused = await client.send(head(proxy.url, "HEAD /nothing")).answer({ toHead: true });
    expect(refused).toMatchObject({ status: 404, headers: { "x-farebox-error": ["not_found"] } });
    const other = await client.send(head(proxy.url, "HEAD /v1/responses")).answer({ toHead: true });
    expect(other).toMatchObject({ status: 405, headers: { allow: ["POST"] } });
    expect(await client.send(head(proxy.url, "GET /healthz")).answer()).toMatchObject({
      status: 200,
      body: '{"status":"ok"}',
    });
  });
});

describe("a browser page", () => {
  it.each([
    ["Origin: https://evil.example"],
    ["Origin: null"],
    ["Origin: http://127.0.0.1:1"],
    ["Sec-Fetch-Site: cross-site"],
    ["Sec-Fetch-Site: same-site"],
    ["Origin: https://evil.example", "Sec-Fetch-Mode: no-cors"],
  ])("on another site is refused: %s", async (...lines) => {
    const answer = await get("/healthz", ...lines);
    expectRefusal(answer, 403, "cross_site");
    expect(answer.headers["access-control-allow-origin"]).toBeUndefined();
  });

  it("on another site gets no preflight", async () => {
    expectRefusal(
      await fetchRaw(
        proxy.url,
        head(
          proxy.url,
          "OPTIONS /v1/chat/completions",
          "Origin: https://evil.example",
          "Access-Control-Request-Method: POST",
        ),
      ),
      403,
      "cross_site",
    );
  });

  it("on Farebox's own origin can call", async () => {
    expect(await get("/healthz", `Origin: ${proxy.url}`, "Sec-Fetch-Site: same-origin")).toMatchObject({ status: 200 });
  });

  it("on a permitted origin gets a preflight and can read the headers", async () => {
    const asked = ["Origin: https://app.example", "Sec-Fetch-Site: cross-site"];
    const preflight = await fetchRaw(
      proxy.url,
      head(
        proxy.url,
        "OPTIONS /v1/chat/completions",
        ...asked,
        "Access-Control-Request-Method: POST",
        "Access-Control-Request-Headers: authorization, x-stainless-os",
      ),
    );
    expect(preflight).toMatchObject({
      status: 204,
      headers: {
        "access-control-allow-origin": ["https://app.example"],
        "access-control-allow-headers": ["authorization, x-stainless-os"],
        "access-control-allow-methods": [expect.stringContaining("POST")],
        vary: expect.arrayContaining(["origin", expect.stringContaining("access-control-request-headers")]),
      },
    });
    expect(preflight.headers["content-length"]).toBeUndefined();
    expect(preflight.headers).not.toHaveProperty("access-control-allow-private-network");
    const answer = await post(chat, bearer, ...asked);
    expect(answer).toMatchObject({
      status: 200,
      headers: {
        "access-control-allow-origin": ["https://app.example"],
        "access-control-expose-headers": ["*"],
        "x-farebox-cost-usd": [expect.any(String)],
      },
    });
    const refused = await post(chat, ...asked);
    expectRefusal(refused, 401, "invalid_api_key");
    expect(refused.headers["access-control-allow-origin"]).toEqual(["https://app.example"]);
  });
});

describe("a preflight for a less public network", () => {
  const preflight = (path: string, ...lines: string[]) =>
    fetchRaw(proxy.url, head(proxy.url, `OPTIONS ${path}`, "Access-Control-Request-Method: POST", ...lines));
  const permitted = "Origin: https://app.example";

  it.each(["Private-Network", "Local-Network"])("is answered for a permitted origin: %s", async (network) => {
    const allowed = `access-control-allow-${network.toLowerCase()}`;
    const answer = await preflight("/v1/chat/completions", permitted, `Access-Control-Request-${network}: true`);
    expect(answer).toMatchObject({ status: 204, headers: { [allowed]: ["true"] } });
    expect(answer.headers["vary"]?.join(", ")).toContain(`access-control-request-${network.toLowerCase()}`);
    const names = Object.keys(answer.headers).filter((name) => name.endsWith("-network"));
    expect(names).toEqual([allowed]);
  });

  it.each(["false", "", "TRUE", "true, true"])("is not assumed for the value %j", async (value) => {
    const answer = await preflight("/v1/models", permitted, `Access-Control-Request-Private-Network: ${value}`);
    expect(answer.status).toBe(204);
    expect(answer.headers).not.toHaveProperty("access-control-allow-private-network");
  });

  it.each([
    ["another origin", "/v1/models", "Origin: https://evil.example"],
    ["an origin that begins like a permitted one", "/v1/models", "Origin: https://app.example.evil.example"],
    ["an opaque origin", "/v1/models", "Origin: null"],
    ["the admin API", "/admin/v1/keys", permitted],
    ["the dashboard", "/dashboard", permitted],
  ])("is refused for %s", async (_, path, origin) => {
    const asked = ["private", "local"].map((network) => `Access-Control-Request-${network}-Network: true`);
    const answer = await preflight(path, origin, ...asked);
    expectRefusal(answer, 403, "cross_site");
    expect(Object.keys(answer.headers).filter((name) => name.startsWith("access-control-"))).toEqual([]);
  });

  it("is answered for a misspelled path, so that the page can read the refusal", async () => {
    expect((await preflight("/v1//models", permitted)).status).toBe(204);
    const answer = await get("/v1//models", permitted, "Sec-Fetch-Site: cross-site");
    expectRefusal(answer, 404, "not_found");
    expect(answer.headers["access-control-allow-origin"]).toEqual(["https://app.example"]);
  });

  it("is not answered at a host name that may be rebound", async () => {
    const asked = ["Host: app.example", "Access-Control-Request-Private-Network: true"];
    expectRefusal(await preflight("/v1/models", permitted, ...asked), 421, "unknown_host");
  });
});

describe("an answer to a client without an origin", () => {
  it("varies by origin if some origins are permitted", async () => {
    expect((await get("/v1/models", bearer)).headers["vary"]).toEqual(["origin"]);
    await using closed = await startProxy();
    const answer = await fetchRaw(closed.url, head(closed.url, "GET /healthz"));
    expect(answer.headers).not.toHaveProperty("vary");
  });
});

describe("a WebSocket handshake", () => {
  it.each(["/v1/responses", "/v1/realtime?model=gpt-4o", "/nothing"])(
    "is refused at once with a hint to use HTTP: %s",
    async (target) => {
      const sent = proxy.sandbox.requests.length;
      const handshake = ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"];
      const answer = await get(target, "Connection: Upgrade", "Upgrade: WebSocket", ...handshake);
      expectRefusal(answer, 426, "websocket_unsupported");
      expect(answer.body).toContain("send the request over HTTP");
      expect(answer.headers["upgrade"]).toEqual(["HTTP/1.1"]);
      expect(proxy.sandbox.requests).toHaveLength(sent);
    },
  );

  it("is not assumed for an upgrade of HTTP itself, which is ignored", async () => {
    expect(await get("/v1/models", bearer, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c")).toMatchObject({
      status: 200,
    });
  });
});

describe("credentials", () => {
  const models = (...lines: string[]) => get("/v1/models", ...lines);

  it("can be a bearer token, x-api-key or api-key, in any letter case of the scheme", async () => {
    for (const line of [
      bearer,
      `authorization: bearer ${proxy.key}`,
      `Authorization: BEARER   ${proxy.key} `,
      `X-Api-Key: ${proxy.key}`,
      `Api-Key: ${proxy.key}`,
    ]) {
      expect(await models(line), line).toMatchObject({ status: 200 });
    }
    const same = [bearer, `x-api-key: ${proxy.key}`, `api-key: ${proxy.key}`];
    expect(await models(...same, ...same)).toMatchObject({ status: 200 });
  });

  it("are refused if two of them differ", async () => {
    const other = await proxy.addKey("other");
    const headers = ["Authorization: Bearer ", "x-api-key: ", "api-key: "];
    for (const first of headers) {
      for (const second of headers) {
        for (const wrong of [other, "sk-something"]) {
          const pair = [first + proxy.key, second + wrong];
          for (const lines of [pair, pair.toReversed()]) {
            const answer = await models(...lines);
            expectRefusal(answer, 401, "invalid_api_key");
            expect(answer.body, lines.join("; ")).toContain("carry different keys");
          }
        }
      }
    }
  });

  it.each([
    "",
    "Authorization:",
    "Authorization: Bearer",
    "Authorization: Bearer a b",
    "Authorization: Basic c2stZmI=",
    "Authorization: Bearer sk-fb-",
    "Authorization: Bearer sk-proj-abc",
    `Authorization: Bearer sk-fb-aaaa-${"x".repeat(43)}`,
    "x-api-key:",
  ])("are refused if the header is %j", async (line) => {
    expectRefusal(await models(...(line === "" ? [] : [line])), 401, "invalid_api_key");
  });

  it("are refused if the secret is wrong", async () => {
    const wrong = proxy.key.slice(0, -1) + (proxy.key.endsWith("A") ? "B" : "A");
    expectRefusal(await models(`Authorization: Bearer ${wrong}`), 401, "invalid_api_key");
  });
});

describe("request bodies", () => {
  const large = JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "x".repeat(5000) }] });

  it("with a stated length over the limit are refused unread, and the connection is closed", async () => {
    using client = new RawClient(proxy.url);
    client.send(head(proxy.url, "POST /v1/chat/completions", bearer, "Content-Length: 100000000"));
    const answer = await client.answer();
    expectRefusal(answer, 413, "request_too_large");
    expect(answer.headers["connection"]).toEqual(["close"]);
    await client.closed();
  });

  it("in chunks are refused once they exceed the limit, and the connection is closed", async () => {
    using client = new RawClient(proxy.url);
    client.send(
      head(proxy.url, "POST /v1/chat/completions", bearer, "Transfer-Encoding: chunked"),
      `${large.length.toString(16)}\r\n${large}\r\n`,
    );
    const answer = await client.answer();
    expectRefusal(answer, 413, "request_too_large");
    expect(answer.headers["connection"]).toEqual(["close"]);
    await client.closed();
  });

  it("of exactly the limit are accepted", async () => {
    const body = chat.padEnd(2048, " ");
    expect(await post(body, bearer)).toMatchObject({ status: 200 });
    expectRefusal(await post(`${body} `, bearer), 413, "request_too_large");
  });

  it("in chunks are read completely, and reach the gateway with their length", async () => {
    const chunks = [...chat].map((letter) => `1\r\n${letter}\r\n`).join("");
    const answer = await fetchRaw(
      proxy.url,
      head(proxy.url, "POST /v1/chat/completions", bearer, "Transfer-Encoding: chunked"),
      `${chunks}0\r\n\r\n`,
    );
    expect(answer.status).toBe(200);
    const seen = proxy.sandbox.requests.at(-1);
    expect(seen?.body.toString()).toBe(chat);
    expect(seen?.headers).toMatchObject({ "content-length": String(chat.length) });
    expect(seen?.headers["transfer-encoding"]).toBeUndefined();
  });

  it.each(["compress", "gzip, br", "gzip, identity", "constructor"])(
    "encoded with %s are refused",
    async (encoding) => {
      expectRefusal(await post(chat, bearer, `Content-Encoding: ${encoding}`), 415, "unsupported_encoding");
    },
  );

  it("encoded with identity are accepted", async () => {
    expect(await post(chat, bearer, "Content-Encoding: identity")).toMatchObject({ status: 200 });
  });

  it.each(["", "{", "[]", '{"model":"gpt-4o"}'])(
    "with invalid content %j are refused without being forwarded",
    async (body) => {
      const before = proxy.sandbox.requests.length;
      const answer = await post(body, bearer);
      expect(answer.status).toBe(400);
      expectRefusal(answer, 400, body.includes("model") ? "invalid_request" : "invalid_json");
      expect(proxy.sandbox.requests).toHaveLength(before);
    },
  );

  it("are requested from a client that waits for 100-continue", async () => {
    using client = new RawClient(proxy.url);
    client.send(
      head(proxy.url, "POST /v1/chat/completions", bearer, "Expect: 100-continue", `Content-Length: ${chat.length}`),
    );
    expect(await client.answer()).toMatchObject({ status: 100 });
    expect(await client.send(chat).answer()).toMatchObject({ status: 200 });
    expect(proxy.sandbox.requests.at(-1)?.headers["expect"]).toBeUndefined();
  });

  it("that break off leave no active request", async () => {
    using client = new RawClient(proxy.url);
    client.send(
      head(proxy.url, "POST /v1/chat/completions", bearer, `Content-Length: ${chat.length}`),
      chat.slice(0, 10),
    );
    client.socket.end();
    await client.closed();
    expect(await get("/healthz")).toMatchObject({ status: 200 });
    await proxy.serving.settled();
    expect(await proxy.metrics()).toContain("farebox_active_requests 1");
  });
});

describe("a client connection", () => {
  it("stays open after every refusal that left nothing unread", async () => {
    using client = new RawClient(proxy.url);
    const refusals: [string, number, string][] = [
      [head(proxy.url, "GET /nothing"), 404, "not_found"],
      [head(proxy.url, "GET //x"), 404, "not_found"],
      [head(proxy.url, "GET /healthz", "Host: evil.example"), 421, "unknown_host"],
      [head(proxy.url, "GET /healthz", "Origin: null"), 403, "cross_site"],
      [head(proxy.url, "GET /v1/models"), 401, "invalid_api_key"],
      [head(proxy.url, "POST /v1/chat/completions", "Content-Length: 2") + "{}", 401, "invalid_api_key"],
      [head(proxy.url, "POST /v1/chat/completions", bearer, "Content-Length: 2") + "{}", 400, "invalid_request"],
    ];
    for (const [request, status, code] of refusals) expectRefusal(await client.send(request).answer(), status, code);
    expect(await client.send(head(proxy.url, "GET /healthz")).answer()).toMatchObject({ status: 200 });
  });

  it("answers pipelined requests in order", async () => {
    using client = new RawClient(proxy.url);
    const good = head(proxy.url, "POST /v1/chat/completions", bearer, `Content-Length: ${chat.length}`) + chat;
    client.send(
      head(proxy.url, "GET /nothing") + good + head(proxy.url, "GET /v1/models") + head(proxy.url, "GET /healthz"),
    );
    const statuses = [];
    for (let count = 0; count < 4; count++) statuses.push((await client.answer()).status);
    expect(statuses).toEqual([404, 200, 401, 200]);
  });

  it("does not take a refused body for a second request", async () => {
    const inner = head(proxy.url, "GET /healthz");
    using small = new RawClient(proxy.url);
    small.send(
      head(proxy.url, "POST /nothing", `Content-Length: ${inner.length}`) + inner + head(proxy.url, "GET /v1/models"),
    );
    expectRefusal(await small.answer(), 404, "not_found");
    expectRefusal(await small.answer(), 401, "invalid_api_key");
    using large = new RawClient(proxy.url);
    large.send(head(proxy.url, "POST /nothing", "Content-Length: 100000") + inner.repeat(10));
    expectRefusal(await large.answer(), 404, "not_found");
    await large.closed();
    await expect(large.answer()).rejects.toThrow('closed after ""');
  });

  it("refuses a body with two statements of its length", async () => {
    using client = new RawClient(proxy.url);
    client.send(
      head(proxy.url, "POST /v1/chat/completions", bearer, "Content-Length: 5", "Transfer-Encoding: chunked"),
      "0\r\n\r\n",
    );
    expect((await client.answer()).status).toBe(400);
    await client.closed();
  });
});

describe("a client that leaves", () => {
  it("before its plain answer is still charged what the gateway reports", async () => {
    await using own = await startProxy({ sandbox: { scenario: () => "latency:50" } });
    const client = new RawClient(own.url);
    client.send(
      head(own.url, "POST /v1/chat/completions", `Authorization: Bearer ${own.key}`, `Content-Length: ${chat.length}`),
      chat,
    );
    await own.sandbox.waitFor((sandbox) => sandbox.requests.length === 1);
    client.socket.destroy();
    await once(client.socket, "close");
    await own.sandbox.waitFor((sandbox) => sandbox.requests[0]?.ended === "answered");
    expect(await own.onlyCharge()).toMatchObject({ state: "posted", source: "reported" });
  });
});
