import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { fetchRaw, expectRefusal, head, RawClient } from "../../support/raw-client.ts";

const owned = new AsyncDisposableStack();
let proxy: RunningProxy;
/** Proxy with a gateway that answers at once, so that all delay is Farebox's. */
let plainProxy: RunningProxy;
let plainGateway: string;
let bearer: string;
beforeAll(async () => {
  const gateway = createServer((request, response) => {
    let start = "";
    request.on("data", (bytes: Buffer) => (start += start.length > 100 ? "" : bytes.toString("latin1", 0, 101)));
    request.on("end", () => {
      const usage = start.startsWith('{"user":"no-usage"')
        ? {}
        : { usage: { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 } };
      const choices = [{ index: 0, message: { role: "assistant", content: "Hello." }, finish_reason: "stop" }];
      response
        .writeHead(200, { "content-type": "application/json" })
        .end(JSON.stringify({ object: "chat.completion", model: "gpt-4o", choices, ...usage }));
    });
  });
  owned.defer(() => void gateway.close().closeAllConnections());
  gateway.listen(0, "127.0.0.1");
  await once(gateway, "listening");
  const { port } = gateway.address() as AddressInfo;
  plainGateway = `http://127.0.0.1:${port}`;
  plainProxy = owned.use(await startProxy({ gatewayUrl: plainGateway, env: { FAREBOX_BODY_MEMORY: "128mb" } }));
  // The first field of the client's body selects the sandbox's scenario.
  const scenario = ({ body }: { readonly body: Buffer }) =>
    /^\{(?:"stream_options":\{[^}]*\},)?"user":"([^"]*)"/.exec(body.toString("latin1", 0, 100))?.[1];
  proxy = owned.use(await startProxy({ sandbox: { scenario, keepRequests: 5000 } }));
  bearer = `Authorization: Bearer ${proxy.key}`;
});
afterAll(() => owned.disposeAsync());

const chat = JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "hi" }], max_tokens: 5 });
const chatHead = (bytes: number, ...lines: string[]) =>
  head(proxy.url, "POST /v1/chat/completions", bearer, `Content-Length: ${bytes}`, ...lines);
const post = (body: string | Buffer, ...lines: string[]) =>
  fetchRaw(proxy.url, chatHead(Buffer.byteLength(body), ...lines), Buffer.from(body));

/** Checks that another request is answered meanwhile. */
async function othersAreServed(): Promise<void> {
  expect((await post(chat)).status).toBe(200);
}

/** Checks that a hostile request leaves nothing running or pending, and that another request is answered. */
async function nothingIsLeft(): Promise<void> {
  await othersAreServed();
  await proxy.serving.settled();
  expect(await proxy.serving.ledger.pending()).toMatchObject({ count: 0 });
}

/** Returns the number of refusals with this code from the metrics. */
async function refusals(code: string): Promise<number> {
  const line = (await proxy.metrics())
    .split("\n")
    .find((text) => text.startsWith(`farebox_refusals_total{code="${code}"}`));
  return Number(line?.split(" ").at(-1) ?? 0);
}

/** Returns the number of requests that the gateway has received, without account lookups. */
const forwarded = () => proxy.sandbox.requests.filter(({ path }) => path !== "/account/info").length;

describe("request headers", () => {
  it.each<[string, () => string]>([
    ["10,000 lines", () => Array.from({ length: 10_000 }, (_, index) => `X-${index}: 1`).join("\r\n")],
    ["10,000 lines with one name", () => Array.from({ length: 10_000 }, () => "X: 1").join("\r\n")],
    ["one line of 64 kB", () => `X: ${"x".repeat(65_536)}`],
    ["a name of 64 kB", () => `${"x".repeat(65_536)}: 1`],
    ["a credential of 64 kB", () => `Authorization: Bearer ${"x".repeat(65_536)}`],
  ])("of %s are refused with 431, and counted", async (_, lines) => {
    const before = { refused: await refusals("invalid_request"), forwarded: forwarded() };
    const answer = await fetchRaw(
      proxy.url,
      head(proxy.url, "POST /v1/chat/completions", lines(), `Content-Length: ${chat.length}`),
    );
    expectRefusal(answer, 431, "invalid_request");
    expect({ refused: await refusals("invalid_request"), forwarded: forwarded() }).toEqual({
      ...before,
      refused: before.refused + 1,
    });
    await nothingIsLeft();
  });

  it("that never end are refused once they are too large", async () => {
    using client = new RawClient(proxy.url);
    client.send("GET /healthz HTTP/1.1\r\n");
    for (let line = 0; line < 2_000; line++) client.send(`X-${line}: ${"y".repeat(20)}\r\n`);
    expectRefusal(await client.answer(), 431, "invalid_request");
    await client.closed();
  });
});

describe("request smuggling", () => {
  const inner = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";
  it.each<[string, readonly string[]]>([
    ["a length before chunks", [`Content-Length: ${chat.length}`, "Transfer-Encoding: chunked"]],
    ["chunks before a length", ["Transfer-Encoding: chunked", `Content-Length: ${chat.length}`]],
    ["two lengths", [`Content-Length: ${chat.length}`, "Content-Length: 0"]],
    ["two lengths in one line", [`Content-Length: ${chat.length}, 0`]],
    ["a length with a sign", [`Content-Length: +${chat.length}`]],
    ["a length in hexadecimal", ["Content-Length: 0x10"]],
    ["a negative length", ["Content-Length: -1"]],
    ["an unknown coding", ["Transfer-Encoding: xchunked"]],
    ["chunks that are not last", ["Transfer-Encoding: chunked, identity"]],
    ["a line feed in a value", ["X: a\nTransfer-Encoding: chunked", `Content-Length: ${chat.length}`]],
    ["a carriage return in a value", [`X: a\rContent-Length: 0`, `Content-Length: ${chat.length}`]],
    ["a zero byte in a value", ["X: a\0b", `Content-Length: ${chat.length}`]],
    ["a folded line", ["X: a\r\n Transfer-Encoding: chunked", `Content-Length: ${chat.length}`]],
    ["a space before the colon", ["Content-Length : 5"]],
  ])("with %s gives one refusal and no second request from the body", async (_, lines) => {
    const before = forwarded();
    using client = new RawClient(proxy.url);
    client.send(head(proxy.url, "POST /v1/chat/completions", bearer, ...lines), `${chat}${inner}`);
    const answer = await client.answer();
    expectRefusal(answer, 400, "invalid_request");
    await client.closed();
    await expect(client.answer()).rejects.toThrow('the connection closed after ""');
    expect(forwarded()).toBe(before);
    await nothingIsLeft();
  });

  it("with hop-by-hop headers fails because Farebox does not forward them", async () => {
    const names = [
      "te: trailers",
      "trailer: x",
      "upgrade: h2c",
      "proxy-authorization: Basic eDp5",
      "proxy-connection: keep-alive",
      "keep-alive: timeout=5",
      "http2-settings: AAMAAABk",
      "x-mine: 1",
    ];
    expect((await post(chat, "Connection: x-mine, keep-alive", ...names)).status).toBe(200);
    const sent = Object.keys(
      proxy.sandbox.requests.findLast(({ path }) => path.endsWith("/chat/completions"))?.headers ?? {},
    );
    expect(
      sent.filter((name) =>
        [
          "te",
          "trailer",
          "upgrade",
          "proxy-authorization",
          "proxy-connection",
          "keep-alive",
          "http2-settings",
          "x-mine",
        ].includes(name),
      ),
    ).toEqual([]);
  });
});

describe("an ambiguous target", () => {
  it.each([
    "/v1/../admin/v1/keys",
    "/v1/%2e%2e/admin/v1/keys",
    "/v1/%2E./admin",
    "/v1/chat%2fcompletions",
    "/v1%2Fchat/completions",
    "//evil.example/v1/models",
    "/v1//chat/completions",
    "http://evil.example/v1/models",
    "/v1\\chat\\completions",
    "/V1/chat/completions",
    "/v1/Chat/Completions",
    "/v1/chat/completions/",
    "/v1/chat/completions;x",
    "/v1/chat/completions%00",
    "/v1/chat/completions%ff",
    "/./v1/models",
    "/v1/models/..",
    "/api/v1/task/..%2f..%2faccount",
    "/v1/chat/completions#x",
    "/admin/v1/../../v1/models",
  ])("gives a 404 and reaches no handler: %s", async (target) => {
    const before = forwarded();
    expectRefusal(
      await fetchRaw(proxy.url, head(proxy.url, `POST ${target}`, bearer, `Content-Length: ${chat.length}`), chat),
      404,
      "not_found",
    );
    expect(forwarded()).toBe(before);
  });

  it("of 64 kB is refused", async () => {
    expectRefusal(
      await fetchRaw(proxy.url, head(proxy.url, `GET /v1/${"x".repeat(65_536)}`, bearer)),
      431,
      "invalid_request",
    );
  });
});

describe("request bodies", () => {
  const large = 32 * 1024 * 1024 - 1024;
  const filled = (piece: string) =>
    Buffer.from(`{"model":"gpt-4o","messages":[${piece.repeat(Math.floor(large / piece.length))}1]}`);

  it.each<[string, () => Buffer, string]>([
    ["nested 32 million deep", () => filled("["), "invalid_request"],
    ["of 11 million empty lists", () => filled("[],"), "invalid_request"],
    ["of 16 million numbers", () => filled("1,"), "invalid_request"],
    ["of white space", () => Buffer.alloc(large, " "), "invalid_request"],
    [
      "of invalid UTF-8",
      () =>
        Buffer.concat([
          Buffer.from('{"model":"gpt-4o","messages":[{"role":"user","content":"'),
          Buffer.alloc(1000, 0xff),
          Buffer.from('"}]}'),
        ]),
      "invalid_json",
    ],
    [
      "with a duplicate model",
      () => Buffer.from('{"model":"gpt-4o-mini","messages":[1],"model":"gpt-4o"}'),
      "invalid_request",
    ],
    [
      "with a model in another letter case",
      () => Buffer.from('{"model":"gpt-4o-mini","messages":[1],"MODEL":"gpt-4o"}'),
      "invalid_request",
    ],
    [
      "with a field name that folds from another script",
      () => Buffer.from('{"model":"gpt-4o-mini","messages":[1],"ſtream":true}'),
      "invalid_request",
    ],
  ])("%s are refused, and nothing is forwarded", async (_, make, code) => {
    const before = { refused: await refusals(code), forwarded: forwarded() };
    expectRefusal(await post(make()), 400, code);
    expect({ refused: await refusals(code), forwarded: forwarded() }).toEqual({
      ...before,
      refused: before.refused + 1,
    });
    await nothingIsLeft();
  });

  it.each(["__proto__", "constructor", "toString", "hasOwnProperty"])(
    "with a field called %s are forwarded unchanged",
    async (name) => {
      const body = `{"${name}":{"model":"gpt-4o","stream":true,"n":1000},"model":"gpt-4o","messages":[{"role":"user","content":"hi","${name}":{"x":1}}],"max_tokens":5}`;
      expect((await post(body)).status).toBe(200);
      expect(proxy.sandbox.requests.at(-1)?.body.toString()).toBe(body);
      expect(({} as Record<string, unknown>)["model"]).toBeUndefined();
      await nothingIsLeft();
    },
  );

  it("that are huge or slow to tokenize do not delay other clients", async () => {
    // Without usage the prompt has to be counted, which could be quadratic in the tokenizer's regular expression.
    const slow = [
      "a".repeat(100_000),
      "漢".repeat(30_000),
      " ".repeat(100_000),
      "'".repeat(50_000),
      "\u0301".repeat(50_000),
      "<|endoftext|>".repeat(5_000),
    ];
    const uncounted = [...slow, "b".repeat(large - 200)];
    const bodies = [...uncounted.map((content) => request("no-usage", content)), request("", "b".repeat(large - 200))];
    const answers = bodies.map((body) => plainPost(body));
    const quick = await Promise.all(Array.from({ length: 20 }, () => plainPost(request("", "hi"))));
    expect(quick.map(({ status }) => status)).toEqual(quick.map(() => 200));
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(bodies.map(() => 200));
    const charges = await plainProxy.charges();
    const counted = charges.filter(({ source }) => source === "counted");
    expect(counted).toHaveLength(uncounted.length);
    // 32 MB are counted up to the model's context; no gateway accepts more.
    expect(Math.max(...counted.map(({ tokens }) => tokens.input))).toBe(128_000);
    expect(charges.filter(({ source }) => source === "reported")).toHaveLength(quick.length + 1);
  });

  it("of 4 MB at once are accepted while there is memory, and the others are refused", async () => {
    await using narrow = await startProxy({ gatewayUrl: plainGateway, env: { FAREBOX_BODY_MEMORY: "32mb" } });
    const body = request("", "c".repeat(4 * 1024 * 1024));
    const clients = Array.from({ length: 20 }, () => new RawClient(narrow.url));
    const statuses: (number | undefined)[] = clients.map(() => undefined);
    const refusedAll = Promise.withResolvers<void>();
    const outcomes = clients.map(async (client, index) => {
      statuses[index] = await client.answer().then(
        ({ status }) => status,
        () => 0,
      );
      if (statuses.filter((status) => status !== undefined).length === 13) refusedAll.resolve();
    });
    // All lengths are stated before any body is complete, so that no body frees memory for another.
    for (const client of clients) client.send(plainHead(body, narrow), Buffer.from(body.slice(0, -1)));
    await refusedAll.promise;
    expect(statuses.filter((status) => status === 503 || status === 0)).toHaveLength(13);
    clients.forEach((client, index) => statuses[index] === undefined && client.send(body.slice(-1)));
    await Promise.all(outcomes);
    for (const client of clients) client[Symbol.dispose]();
    expect(statuses.filter((status) => status === 200).length).toBe(7);
    expect((await plainPost(body, narrow)).status).toBe(200);
  });
});

const request = (user: string, content: string) =>
  JSON.stringify({ user, model: "gpt-4o", messages: [{ role: "user", content }], max_tokens: 5 });
const plainHead = (body: string, { url, key } = plainProxy) =>
  head(url, "POST /v1/chat/completions", `Authorization: Bearer ${key}`, `Content-Length: ${Buffer.byteLength(body)}`);
const plainPost = (body: string, to = plainProxy) => fetchRaw(to.url, plainHead(body, to), Buffer.from(body));

describe("client sockets", () => {
  it("that are half-closed after their request leave settled charges and nothing pending", async () => {
    await nothingIsLeft();
    const before = (await proxy.charges()).length;
    using client = new RawClient(proxy.url);
    client.send(chatHead(chat.length), chat);
    client.socket.end();
    await client.closed();
    await nothingIsLeft();
    const charges = await proxy.charges();
    expect(charges.length).toBeLessThanOrEqual(before + 2);
    const isMetered = (source: string | null) => ["reported", "counted", "partial"].includes(source ?? "");
    expect(charges.filter(({ state, source }) => state !== "voided" && !isMetered(source))).toEqual([]);
  });

  it("that send nothing, half a head or half a body do not affect other clients", async () => {
    const silent = Array.from({ length: 300 }, () => new RawClient(proxy.url));
    silent.forEach((client, index) =>
      client.send(["", "GET /healthz HTT", chatHead(chat.length) + chat.slice(0, 10)][index % 3] ?? ""),
    );
    await othersAreServed();
    for (const client of silent) client[Symbol.dispose]();
    await Promise.all(silent.map((client) => client.closed()));
    await nothingIsLeft();
  });

  it("with unread streams do not affect other clients, and are settled when they close", async () => {
    const body = JSON.stringify({
      user: "endless:1",
      model: "gpt-4o",
      messages: [{ role: "user", content: "hi" }],
      max_tokens: 5000,
      stream: true,
    });
    const unread = Array.from({ length: 50 }, () => new RawClient(proxy.url));
    for (const client of unread) {
      client.socket.pause();
      client.send(chatHead(body.length), body);
    }
    const running = () =>
      proxy.sandbox.requests.filter(({ ended, scenario }) => ended === "open" && scenario === "endless:1").length;
    while (running() < 50) await othersAreServed();
    for (const client of unread) client[Symbol.dispose]();
    await nothingIsLeft();
  });

  it("that are reset at any point leave nothing pending", async () => {
    const pieces = [
      chatHead(chat.length),
      chatHead(chat.length) + chat.slice(0, 20),
      chatHead(chat.length) + chat,
      "POST /v1/chat",
      chatHead(chat.length) + chat + "GARBAGE",
    ];
    const clients = Array.from({ length: 100 }, () => new RawClient(proxy.url));
    await Promise.all(
      clients.map(async ({ socket }, index) => {
        if (socket.connecting) await once(socket, "connect");
        socket.write(pieces[index % pieces.length] ?? "", () => socket.resetAndDestroy());
      }),
    );
    await Promise.all(clients.map((client) => client.closed()));
    await nothingIsLeft();
  });
});
