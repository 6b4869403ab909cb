import { brotliCompressSync, gzipSync } from "node:zlib";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createGateway } from "../../../src/gateway/gateway.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { RecordFetcher } from "../../../src/request/fetch-whole.ts";
import { answeringGateway, type Answering, type AnsweringGateway } from "../../support/answering-gateway.ts";
import { captureLog, type CapturedLog } from "../../support/captured-log.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { scriptedGateway } from "../../support/scripted-gateway.ts";
import {
  fetchAnswer,
  errorCode,
  readToEnd,
  send,
  type WireAnswer,
  type WireOptions,
} from "../../support/wire-client.ts";

const message = "The gateway refuses the key of this proxy; its operator must check FAREBOX_GATEWAY_API_KEY.";
const refusedLine = "the gateway refuses the key of this proxy; check FAREBOX_GATEWAY_API_KEY";
const acceptedLine = "the gateway accepts the key of this proxy again";

const chat = { model: "gpt-4o", max_tokens: 5, messages: [{ role: "user", content: "hello" }] };
const stream = { ...chat, stream: true };
const done = `{"id":"c","model":"gpt-4o","choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":1,"total_tokens":9}}`;
const invalidKey = '{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}';
const json = (status: number, body: string, headers = {}): Answering => ({ status, headers, body });
const events = (...data: string[]) => data.map((each) => `data: ${each}\n\n`).join("");
const typed = (type: string) => ({ "content-type": type });

let answer: Answering;
let account: Answering;
let gateway: AnsweringGateway;
let proxy: RunningProxy;
let log: CapturedLog;
beforeAll(async () => {
  gateway = await answeringGateway(
    () => answer,
    (path) => (path === "/account/info" ? account : answer),
  );
});
afterAll(() => gateway[Symbol.asyncDispose]());
beforeEach(async () => {
  account = { status: 404 };
  log = captureLog();
  proxy = await startProxy({
    gatewayUrl: gateway.url,
    log,
    env: { FAREBOX_PASSTHROUGH: "all", FAREBOX_LOG_LEVEL: "info" },
  });
  return () => proxy[Symbol.asyncDispose]();
});

const logged = () =>
  log.lines.map(({ message: text }) => text).filter((text) => [refusedLine, acceptedLine].includes(text));

function expectKeyRefused(got: WireAnswer): void {
  expect(JSON.parse(got.body.toString())).toEqual({
    error: { message, type: "api_error", param: null, code: "gateway_key_refused" },
  });
  expect([got.status, errorCode(got)]).toEqual([502, "gateway_key_refused"]);
  expect(got.headers).toMatchObject({ "x-farebox-error": "gateway_key_refused", "x-should-retry": "false" });
  expect(got.headers["www-authenticate"]).toBeUndefined();
}

describe("an answer that refuses the key of this proxy", () => {
  it.each<[string, Answering]>([
    ["401", json(401, '{"error":{"message":"Incorrect API key provided: sk-…","code":"invalid_api_key"}}')],
    ["401 without a body", json(401, "")],
    ["401 in HTML", json(401, "<h1>401</h1>", { "content-type": "text/html", "www-authenticate": "Bearer" })],
    ["401 with the label of a stream", json(401, events(invalidKey), typed("text/event-stream"))],
    ["401 compressed", json(401, gzipSync(invalidKey) as never, { "content-encoding": "gzip" })],
    ["401 with a broken encoding", json(401, "no gzip", { "content-encoding": "gzip" })],
    ["401 in 2 MB", json(401, "x".repeat(2_000_000))],
    ["403 with the code", json(403, invalidKey)],
    ["403 with the code, compressed", json(403, brotliCompressSync(invalidKey) as never, { "content-encoding": "br" })],
    ["403 with a message", json(403, '{"message":"Your API key has been disabled."}')],
    ["403 in plain text", json(403, "Invalid API key", typed("text/plain"))],
    ["403 as an event", json(403, events(invalidKey), typed("text/event-stream"))],
    ["400 with the code", json(400, invalidKey)],
    [
      "400 of Gemini",
      json(
        400,
        '[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]',
      ),
    ],
    ["200 with the code", json(200, invalidKey)],
    ["200 with 401 in an envelope", json(200, '{"code":401,"data":null,"message":"unauthorized"}')],
    [
      "200 with 401 as a text, compressed",
      json(200, gzipSync('{"code":"401","data":null}') as never, { "content-encoding": "gzip" }),
    ],
  ])("gets the client a refusal of Farebox: %s", async (_, given) => {
    answer = given;
    for (const body of [chat, stream]) {
      expectKeyRefused(await fetchAnswer(proxy, body));
    }
    expectKeyRefused(await fetchAnswer(proxy, { model: "gpt-4o", input: "hello" }, { path: "/v1/responses" }));
    expectKeyRefused(await fetchAnswer(proxy, { model: "tts-1", input: "hello" }, { path: "/v1/audio/speech" }));
    await proxy.serving.settled();
    const charges = await proxy.charges();
    expect(charges.map(({ state, cost, status }) => [state, cost, status])).toEqual(
      Array.from({ length: 4 }, () => ["voided", null, 502]),
    );
    expect(
      gateway.received.filter(({ path }) => path === "/v1/chat/completions").length % 2,
      "none is sent again",
    ).toBe(0);
    expect(logged()).toEqual([refusedLine]);
    expect(await proxy.metrics()).toContain('farebox_refusals_total{code="gateway_key_refused"} 4');
  });

  it.each<[string, Answering]>([
    [
      "403 for a model",
      json(403, '{"error":{"message":"Your API key does not have access to model o3","code":"model_not_found"}}'),
    ],
    [
      "403 for a region",
      json(403, '{"error":{"message":"Country not supported","code":"unsupported_country_region_territory"}}'),
    ],
    [
      "403 for content",
      json(403, '{"error":{"message":"The prompt contains an invalid API key","code":"content_policy"}}'),
    ],
    ["403 in HTML", json(403, "<h1>Forbidden</h1>", typed("text/html"))],
    [
      "400 that repeats a name",
      json(400, '{"error":{"message":"Unknown parameter","param":"invalid_api_key","code":"unknown_parameter"}}'),
    ],
    ["400 that repeats a text", json(400, '{"error":{"message":"Not a model: invalid API key"}}')],
    ["402 with the code", json(402, invalidKey)],
    ["429 about the key", json(429, '{"error":{"message":"Invalid API key quota","code":"rate_limit"}}')],
    ["500 about a key behind it", json(500, '{"error":{"message":"invalid x-api-key","code":"invalid_api_key"}}')],
    ["404", json(404, '{"error":{"message":"no"}}')],
    ["200 about a provider", json(200, '{"code":500,"data":null,"message":"invalid api key"}')],
  ])("is not confused with another answer, which passes unchanged: %s", async (_, given) => {
    answer = given;
    const got = await fetchAnswer(proxy, chat);
    expect([got.status, got.body.toString()]).toEqual([
      (given as { status: number }).status,
      (given as { body: string }).body,
    ]);
    expect(got.headers["x-farebox-error"]).toBeUndefined();
    expect(logged()).toEqual([]);
  });

  it("is withheld if it arrives in pieces, or breaks off", async () => {
    await using scripted = await scriptedGateway();
    await using other = await startProxy({ gatewayUrl: scripted.url });
    for (const end of ["end", "destroy"] as const) {
      const sending = send(other, stream);
      const { response } = await scripted.nextChat();
      response.writeHead(401, typed("text/event-stream")).write("data: ");
      await new Promise<void>((resolve) => response.write(invalidKey.slice(0, 20), () => resolve()));
      if (end === "end") response.end(`${invalidKey.slice(20)}\n\n`);
      else response.destroy();
      const [received] = await new Promise<[Parameters<typeof readToEnd>[0]]>((resolve) =>
        sending.on("response", (got) => resolve([got])),
      );
      expectKeyRefused(await readToEnd(received));
    }
    await other.serving.settled();
    expect((await other.charges()).map(({ state, reason }) => [state, reason])).toEqual(
      Array.from({ length: 2 }, () => ["voided", "gateway_401"]),
    );
  });

  it("is logged once, and again after the gateway accepted the key", async () => {
    for (const given of [
      json(401, ""),
      json(401, ""),
      json(500, ""),
      json(429, ""),
      json(401, ""),
      json(200, done),
      json(200, done),
      json(401, ""),
    ]) {
      answer = given;
      await fetchAnswer(proxy, chat);
    }
    expect(logged()).toEqual([refusedLine, acceptedLine, refusedLine]);
    expect(log.lines.find(({ message: text }) => text === refusedLine)).toMatchObject({ level: "error", fields: {} });
  });

  it("is logged at most ten times an hour if the gateway refuses the key only for some requests", async () => {
    for (let request = 0; request < 14; request++) {
      answer = request % 2 === 0 ? json(401, "") : json(200, done);
      await fetchAnswer(proxy, chat);
    }
    expect(logged()).toHaveLength(10);
  });

  it("does not count as a refusal of the key if the client named an organization or a project", async () => {
    answer = json(401, '{"error":{"message":"No such organization: org-x","code":"invalid_organization"}}');
    for (const options of [
      { headers: { "openai-organization": "org-x" } },
      { headers: { "openai-project": "org-x" } },
      { path: "/v1/chat/completions?organization=org-x" },
      { path: "/v1/chat/completions?k%65y=sk-x" },
    ]) {
      const got = await fetchAnswer(proxy, chat, options);
      expect([got.status, JSON.parse(got.body.toString()).error.code]).toEqual([401, "invalid_organization"]);
    }
    expect(logged()).toEqual([]);
    answer = json(401, invalidKey);
    expectKeyRefused(await fetchAnswer(proxy, chat, { headers: { "openai-organization": "org-x" } }));
  });

  it("is no refusal of stream usage", async () => {
    const before = gateway.received.length;
    for (const given of [
      json(401, ""),
      json(400, invalidKey),
      json(200, invalidKey),
      json(200, events(invalidKey), typed("text/event-stream")),
    ]) {
      answer = given;
      await fetchAnswer(proxy, stream);
    }
    expect(gateway.received.slice(before).map(({ body }) => body.includes("include_usage"))).toEqual([
      true,
      true,
      true,
      true,
    ]);
  });
});

describe("an error event that refuses the key", () => {
  const first = `: hello\n\n${events('{"error":{"code":401,"message":"no"}}')}data: [DONE]\n\n`;

  it.each([
    ["with a status", first],
    ["with a code in words", events(invalidKey)],
  ])("passes once, and is withheld from later streams: %s", async (_, text) => {
    answer = json(200, text, typed("text/event-stream"));
    const passed = await fetchAnswer(proxy, stream);
    expect([passed.status, passed.body.toString()]).toEqual([200, text]);
    expect(logged()).toEqual([refusedLine]);
    for (const path of ["/v1/chat/completions", "/v1/completions"]) {
      const body = path.includes("chat") ? stream : { model: "gpt-4o", prompt: "hello", stream: true };
      expectKeyRefused(await fetchAnswer(proxy, body, { path }));
    }
    await proxy.serving.settled();
    expect((await proxy.charges()).map(({ state }) => state)).toEqual(["voided", "voided", "voided"]);
    expect(logged()).toEqual([refusedLine]);
  });

  it("is not withheld next to output, and the next stream shows that the key is accepted", async () => {
    answer = json(401, "");
    await fetchAnswer(proxy, stream);
    const cut = events('{"choices":[{"index":0,"delta":{"content":"Hi"}}],"error":{"code":401}}');
    answer = json(200, cut, typed("text/event-stream"));
    expect((await fetchAnswer(proxy, stream)).status).toBe(200);
    answer = json(
      200,
      `${events('{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}')}data: [DONE]\n\n`,
      typed("text/event-stream"),
    );
    expect((await fetchAnswer(proxy, stream)).status).toBe(200);
    await proxy.serving.settled();
    expect((await proxy.charges()).map(({ state }) => state)).toEqual(["voided", "posted", "posted"]);
    expect(logged().at(-1)).toBe(acceptedLine);
  });
});

describe("a task", () => {
  const task = { model: "kling", task_type: "video_generation", input: { prompt: "a fox" } };
  const created = '{"code":200,"data":{"task_id":"t-1","status":"pending"},"message":"success"}';
  const call = (method: string, path = "/api/v1/task/t-1") =>
    fetchAnswer(proxy, method === "POST" ? task : undefined, { method, path });

  it.each<[string, Answering]>([
    ["401", json(401, '{"code":401,"message":"unauthorized"}')],
    ["an envelope", json(200, '{"code":401,"data":null,"message":"unauthorized"}')],
    ["an envelope with words", json(200, '{"code":403,"data":null,"message":"Invalid API key"}')],
  ])("is not created, retrieved or canceled with a key that the gateway refuses: %s", async (_, given) => {
    answer = given;
    expectKeyRefused(await call("POST", "/api/v1/task"));
    await proxy.serving.settled();
    expect(await proxy.onlyCharge()).toMatchObject({ state: "voided", cost: null });
    answer = json(200, created);
    expect((await call("POST", "/api/v1/task")).status).toBe(200);
    answer = given;
    expectKeyRefused(await call("GET"));
    expectKeyRefused(await call("DELETE"));
    expect(logged()).toEqual([refusedLine, acceptedLine, refusedLine]);
  });

  it.each([
    '{"code":200,"data":{"task_id":"t-1","status":"failed","error":{"code":401,"message":"invalid api key"}},"message":"success"}',
    '{"code":200,"data":{"status":"failed","error":{"code":401,"message":"unauthorized"}},"message":"success"}',
    '{"id":"t-1","status":"FAILURE","error":{"code":401,"message":"invalid api key"}}',
    '{"uuid":"t-1","status":"error","error_code":401}',
  ])("that failed at a provider with 401 has its record shown: %s", async (failed) => {
    answer = json(200, created);
    await call("POST", "/api/v1/task");
    answer = json(200, failed);
    const got = await call("GET");
    expect([got.status, got.body.toString()]).toEqual([200, failed]);
    expect(logged()).toEqual([]);
  });

  it("is not retrieved with HEAD either, whose answer has no body", async () => {
    answer = json(200, created);
    await call("POST", "/api/v1/task");
    answer = json(401, "");
    const head = await call("HEAD");
    expect([head.status, head.headers["x-farebox-error"], head.body.length]).toEqual([502, "gateway_key_refused", 0]);
    answer = json(200, '{"code":401,"data":null}');
    expect((await call("HEAD")).status).toBe(200);
    expect(logged()).toEqual([refusedLine]);
  });

  it.each([
    ["401", json(401, "")],
    ["an envelope", json(200, '{"code":401,"data":null}')],
  ])("that Farebox polls shows that the key is refused, and stays pending: %s", async (_, given) => {
    const keys: boolean[] = [];
    await using engine = await createGateway("undici", { baseUrl: gateway.url, apiKey: "sk", clock: systemClock() });
    const limits = { silenceMs: 15_000, wholeMs: 15_000 };
    const keyWatch = { setRefused: (isRefused: boolean) => void keys.push(isRefused) };
    const records = new RecordFetcher({ gateway: engine, clock: systemClock(), limits, keyWatch });
    answer = given;
    await records.fetch("/api/v1/task/t-1");
    expect(keys).toEqual([true]);
    answer = json(200, created);
    await records.fetch("/api/v1/task/t-1");
    expect(keys).toEqual([true, false]);
    answer = json(200, '{"id":"t-1","status":"FAILURE","error":{"code":401,"message":"invalid api key"}}');
    await records.fetch("/api/v1/task/t-1");
    expect(keys.filter((isRefused) => isRefused)).toEqual([true]);
  });
});

describe("a path that Farebox only passes", () => {
  const pass = (options: WireOptions = {}) =>
    fetchAnswer(proxy, undefined, { method: "GET", path: "/v1/organization/costs", ...options });

  it("may require another credential, so its 401 passes unless it names the key", async () => {
    answer = json(401, '{"error":{"message":"This endpoint needs an admin session"}}', { "www-authenticate": "Basic" });
    expect((await pass()).status).toBe(401);
    expect((await pass({ method: "HEAD" })).status).toBe(401);
    expect(logged()).toEqual([]);
    answer = json(401, invalidKey);
    expectKeyRefused(await pass());
    expect(logged()).toEqual([refusedLine]);
    answer = json(200, "{}");
    expect((await pass()).status).toBe(200);
    expect(logged(), "it may accept any key").toEqual([refusedLine]);
  });
});

describe("the account record", () => {
  it.each<[string, Answering]>([
    ["401", json(401, '{"code":401,"message":"unauthorized"}')],
    ["401 in HTML", json(401, "<h1>no</h1>", typed("text/html"))],
    ["an envelope", json(200, '{"code":401,"data":null}')],
    ["403 with words", json(403, invalidKey)],
  ])("that the gateway refuses to this key is a refusal of Farebox: %s", async (_, given) => {
    account = given;
    expectKeyRefused(await fetchAnswer(proxy, undefined, { method: "GET", path: "/account/info" }));
    expect(await proxy.serving.sampler.sample()).toBeUndefined();
    expect(logged()).toEqual([refusedLine]);
    account = json(200, '{"code":200,"data":{"equivalent_in_usd":5}}');
    expect(await proxy.serving.sampler.sample()).toBeDefined();
    expect(logged()).toEqual([refusedLine, acceptedLine]);
  });

  it("or the list of models shows at the start that the key is refused; the proxy serves nevertheless", async () => {
    account = json(401, "");
    await proxy.serving.checkGatewayKey();
    expect(logged()).toEqual([refusedLine]);
    expect((await fetchAnswer(proxy, undefined, { method: "GET", path: "/v1/models" })).status).toBe(200);
    expect((await fetch(`${proxy.url}/readyz`)).status).toBe(200);
  });

  it("that does not exist is replaced by the list of models", async () => {
    answer = json(200, '{"object":"list","data":[]}');
    await proxy.serving.checkGatewayKey();
    expect(logged()).toEqual([]);
    answer = json(403, invalidKey);
    await proxy.serving.checkGatewayKey();
    expect(logged()).toEqual([refusedLine]);
  });
});
