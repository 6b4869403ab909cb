import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTeam } from "../../../src/admin/team-changes.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { scriptedGateway, type ScriptedGateway } from "../../support/scripted-gateway.ts";
import { fetchAnswer, errorCode, type WireAnswer } from "../../support/wire-client.ts";

describe("FAREBOX_PASSTHROUGH=all", () => {
  let gateway: ScriptedGateway;
  let proxy: RunningProxy;
  let charges = 0;
  const everything = new AsyncDisposableStack();

  beforeAll(async () => {
    gateway = everything.use(await scriptedGateway());
    proxy = everything.use(await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_PASSTHROUGH: "all" } }));
  });
  afterAll(() => everything.disposeAsync());

  async function newCharges() {
    const all = await proxy.charges();
    return all.slice(charges, (charges = all.length));
  }

  it("forwards any method and path, and records the request without a price", async () => {
    const answered = fetchAnswer(proxy, "some bytes", {
      method: "PUT",
      path: "/v2/things/7?a=b",
      headers: { "content-type": "text/plain" },
    });
    const { request, response, body } = await gateway.nextChat();
    expect([request.method, request.url, request.headers["content-type"], body.toString()]).toEqual([
      "PUT",
      "/v2/things/7?a=b",
      "text/plain",
      "some bytes",
    ]);
    expect(request.headers).toMatchObject({ "x-api-key": "sk-sandbox" });
    expect(JSON.stringify(request.headers)).not.toContain(proxy.key);
    response.writeHead(201, { "content-type": "text/csv", "x-thing": "7" }).end("a,b\n");
    const answer = await answered;
    expect([answer.status, answer.headers["x-thing"], answer.body.toString()]).toEqual([201, "7", "a,b\n"]);
    expect(await newCharges()).toMatchObject([
      { route: "/*path", model: "unnamed", state: "posted", cost: null, formula: "unpriced" },
    ]);
  });

  it("records the stated model and tokens, but no cost", async () => {
    const answered = fetchAnswer(proxy, { model: "gpt-4o", input: "x" }, { path: "/v1/moderations" });
    const { response } = await gateway.nextChat();
    response
      .writeHead(200, { "content-type": "application/json" })
      .end('{"usage":{"prompt_tokens":5,"total_tokens":5}}');
    expect((await answered).headers["x-farebox-cost-usd"]).toBeUndefined();
    expect(await newCharges()).toMatchObject([
      { model: "gpt-4o", cost: null, source: "reported", tokens: { input: 5 } },
    ]);
  });

  it("records the model after a megabyte, in JSON and in a form", async () => {
    const long = "x".repeat(1024 * 1024);
    const form = `--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n${long}\r\n--b\r\nContent-Disposition: form-data; name="model"\r\n\r\ngpt-4o\r\n--b--\r\n`;
    for (const [text, type] of [
      [JSON.stringify({ input: long, model: "gpt-4o" }), "application/json"],
      [form, "multipart/form-data; boundary=b"],
    ] as const) {
      const answered = fetchAnswer(proxy, text, { path: "/v1/moderations", headers: { "content-type": type } });
      const { body, response } = await gateway.nextChat();
      expect(body.toString()).toBe(text);
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
      expect((await answered).status).toBe(200);
      expect(await newCharges()).toMatchObject([{ model: "gpt-4o", cost: null }]);
    }
  });

  it("refuses a body above FAREBOX_BODY_LIMIT", async () => {
    const body = Buffer.alloc(33 * 1024 * 1024, "x");
    const answer = await fetchAnswer(proxy, body, { path: "/v1/files", headers: { "content-type": "text/plain" } });
    expect([answer.status, errorCode(answer)]).toEqual([413, "request_too_large"]);
    expect(await newCharges()).toEqual([]);
  });

  it("forwards GET and HEAD without a body, and streams unchanged", async () => {
    for (const method of ["GET", "HEAD"]) {
      const answered = fetchAnswer(proxy, undefined, { method, path: "/v1/files" });
      const { request, response } = await gateway.nextChat();
      expect(request.headers["content-length"]).toBeUndefined();
      expect(request.headers["transfer-encoding"]).toBeUndefined();
      response
        .writeHead(200, { "content-type": "application/json", "content-length": "2" })
        .end(method === "GET" ? "{}" : undefined);
      expect((await answered).headers["content-length"]).toBe("2");
    }
    const answered = fetchAnswer(proxy, { stream: true }, { path: "/v1/anything" });
    const { response } = await gateway.nextChat();
    response.writeHead(200, { "content-type": "text/event-stream" }).end("event: done\ndata: {}\n\n");
    expect((await answered).body.toString()).toBe("event: done\ndata: {}\n\n");
    expect(await newCharges()).toHaveLength(3);
  });

  it("does not forward Farebox's own paths or paths of records that belong to keys, in any spelling", async () => {
    const paths = [
      "/admin",
      "/v1/farebox/none",
      "/metrics/x",
      "/healthz/x",
      "/api/v1/task/x/y",
      "/api/v1/t%61sk/1/2",
      "/API/v1/task/1/2",
      "/account/info/x",
    ];
    for (const path of paths) {
      const answer = await fetchAnswer(proxy, {}, { method: "PATCH", path });
      expect([path, answer.status]).toEqual([path, 404]);
    }
    for (const path of ["/healthz", "/account/info", "/api/v1/task", "/admin/v1/none"])
      expect([401, 404, 405]).toContain((await fetchAnswer(proxy, {}, { method: "PATCH", path })).status);
    expect(await newCharges()).toEqual([]);
  });

  it("requires a key, and refuses one limited to some models if the request names none", async () => {
    expect((await fetchAnswer({ url: proxy.url, key: "no" }, {}, { path: "/v1/files" })).status).toBe(401);
    const narrow = await proxy.addKey("narrow", { models: ["gpt-4o"] });
    expect(
      (await fetchAnswer({ url: proxy.url, key: narrow }, undefined, { method: "GET", path: "/v1/files" })).status,
    ).toBe(403);
  });

  it.each<[string, string, string, string]>([
    ["a duplicate model", "/v1/moderations", '{"model":"o3","model":"gpt-4o"}', "'model' is given twice"],
    [
      "a second model under an escaped name",
      "/v1/moderations",
      '{"model":"gpt-4o","\\u006dodel":"o3"}',
      "'model' is given twice",
    ],
    [
      "a model in another letter case",
      "/v1/moderations",
      '{"model":"gpt-4o","Model":"o3"}',
      "'Model' must be written 'model'",
    ],
    [
      "a second model in a list of models",
      "/v1/anything",
      '{"model":"gpt-4o","fallbacks":[{"model":"o3","model":"gpt-4o"}]}',
      "'fallbacks.model' is given twice",
    ],
    [
      "a second member of an unknown field",
      "/v1/anything",
      '{"model":"gpt-4o","wonder":{"a":["o3"],"a":[]}}',
      "'wonder.a' is given twice",
    ],
    ["only a model in another letter case", "/v1/moderations", '{"MODEL":"gpt-4o"}', "'MODEL' must be written 'model'"],
    [
      "a model in the path",
      "/v1beta/models/gemini-2.5-flash:generateContent",
      '{"model":"gpt-4o"}',
      "the path names the model 'gemini-2.5-flash:generateContent'",
    ],
    [
      "the same model in the path",
      "/v1/engines/gpt-4o/completions",
      '{"model":"gpt-4o"}',
      "the path names the model 'gpt-4o'",
    ],
    [
      "a model in the path that no price file knows",
      "/openai/deployments/mine/chat/completions",
      '{"model":"gpt-4o"}',
      "the path names the model 'mine'",
    ],
    [
      "a model anywhere in the path",
      "/v2/gemini-2.5-flash:generate",
      '{"model":"gpt-4o"}',
      "the path names the model 'gemini-2.5-flash'",
    ],
    [
      "a model in the path in escapes and capitals",
      "/v2/%47emini%2D2.5-flash",
      '{"model":"gpt-4o"}',
      "the path names the model 'Gemini-2.5-flash'",
    ],
    [
      "a dated model in the path",
      "/v2/gpt-4o-2024-11-20/x",
      '{"model":"gpt-4o"}',
      "the path names the model 'gpt-4o-2024-11-20'",
    ],
    ["a model in the query", "/v1/realtime?Model=o3", '{"model":"gpt-4o"}', "the query names the model 'o3'"],
    [
      "a model in the query by another name",
      "/v1/realtime?with=o3",
      '{"model":"gpt-4o"}',
      "the query names the model 'o3'",
    ],
  ])(
    "refuses %s to a key limited to some models and to a key under a hard budget",
    async (what, path, body, message) => {
      const name = what.replaceAll(" ", "-");
      const narrow = await proxy.addKey(`narrow-${name}`, { models: ["gpt-4o"] });
      await createTeam(
        { teams: proxy.serving.teams, clock: systemClock(), by: "test" },
        { name: `team-${name}`, models: ["gpt-4o"] },
      );
      const member = await proxy.addKey(`member-${name}`, { team: `team-${name}` });
      for (const key of [narrow, member]) {
        const answer = await fetchAnswer({ url: proxy.url, key }, body, { path });
        expect([answer.status, errorCode(answer)]).toEqual([400, "invalid_request"]);
        expect(answer.body.toString()).toContain(message);
      }
      const poor = await proxy.addKey(`poor-${name}`);
      await proxy.budget(`key:poor-${name}`, "100");
      expect((await fetchAnswer({ url: proxy.url, key: poor }, body, { path })).status).toBe(400);
      const answered = fetchAnswer(proxy, body, { path });
      const { request, response } = await gateway.nextChat();
      expect(request.url).toBe(path);
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
      expect((await answered).status).toBe(200);
      expect(await newCharges()).toHaveLength(1);
    },
  );

  it("refuses a body that is not JSON to a key limited to some models", async () => {
    const narrow = await proxy.addKey("narrow-form", { models: ["gpt-4o"] });
    const body = '{"model":"gpt-4o","x":"&model=o3&"}';
    const answer = await fetchAnswer({ url: proxy.url, key: narrow }, body, {
      path: "/v1/moderations",
      headers: { "content-type": "application/x-www-form-urlencoded" },
    });
    expect([answer.status, errorCode(answer)]).toEqual([400, "invalid_request"]);
    const answered = fetchAnswer({ url: proxy.url, key: narrow }, body, {
      path: "/v1/moderations",
      headers: { "content-type": "application/json; charset=utf-8" },
    });
    (await gateway.nextChat()).response.writeHead(200, { "content-type": "application/json" }).end("{}");
    expect((await answered).status).toBe(200);
    expect(await newCharges()).toHaveLength(1);
  });

  it("refuses every method to a key under a hard budget", async () => {
    const poor = await proxy.addKey("poor");
    await proxy.budget("key:poor", "100");
    const refused = (method: string): Promise<WireAnswer> =>
      fetchAnswer({ url: proxy.url, key: poor }, undefined, { method, path: "/v1/files" });
    for (const method of ["GET", "POST", "DELETE"]) {
      const answer = await refused(method);
      expect([answer.status, errorCode(answer)]).toEqual([400, "invalid_request"]);
    }
    expect(await newCharges()).toEqual([]);
  });

  it("shows one route in the metrics for all paths", async () => {
    const page = await proxy.metrics();
    expect(page).toContain('route="/*path"');
    expect(page).not.toContain("moderations");
  });
});

it("paths without a route are not found by default, including stored responses", async () => {
  await using proxy = await startProxy();
  for (const [method, path] of [
    ["GET", "/v1/files"],
    ["GET", "/v1/responses/resp_1"],
    ["DELETE", "/v1/responses/resp_1"],
  ] as const) {
    expect((await fetchAnswer(proxy, undefined, { method, path })).status).toBe(404);
  }
  expect(await proxy.charges()).toEqual([]);
});
