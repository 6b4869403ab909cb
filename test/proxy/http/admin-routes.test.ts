import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { adminRoutes } from "../../../src/server/http/admin/routes.ts";
import { addAdmin, callAdmin, unusedAddress, type AdminCallOptions } from "../../support/admin-client.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

/* Tests every route of the admin API, taken from the table that serves them. */

const settingsToken = "a-token-from-the-settings";
const routes = adminRoutes("1.0.0");
const cases = routes.map((route) => ({ name: `${route.method.toUpperCase()} ${route.path}`, route }));

let proxy: RunningProxy;
let viewer: string;
let editor: string;
let chargeId: string;
let taskId: string;
beforeAll(async () => {
  proxy = await startProxy({ env: { FAREBOX_ADMIN_TOKEN: settingsToken } });
  viewer = await addAdmin(proxy.database, "vera", "viewer");
  editor = await addAdmin(proxy.database, "edward", "editor");
  await proxy.addKey("bob", { team: "red" });
  // Created before the budgets, which would refuse it because its model has no price.
  const created = await fetch(`${proxy.url}/api/v1/task`, {
    method: "POST",
    headers: { "x-api-key": proxy.key },
    body: '{"model":"kling+task-wait:0+task-run:0","task_type":"video_generation","input":{"duration":2}}',
  });
  taskId = ((await created.json()) as { data: { task_id: string } }).data.task_id;
  await (await fetch(`${proxy.url}/api/v1/task/${taskId}`, { headers: { "x-api-key": proxy.key } })).arrayBuffer();
  await proxy.budget("each-key", "5", "1d");
  await proxy.budget("all", "0.000001", "1mo", "soft");
  await sendChat(proxy);
  chargeId = (await proxy.charges()).at(-1)?.id ?? "";
  await proxy.serving.sampler.sample();
  await sendChat(proxy);
  await proxy.serving.settled();
  await proxy.serving.sampler.sample();
  await proxy.serving.alerts.evaluate();
});
afterAll(() => proxy[Symbol.asyncDispose]());

async function sendChat({ chat }: RunningProxy): Promise<void> {
  await (await chat({}, { headers: { "x-farebox-tag": "feature=search, agent_session=s1" } })).arrayBuffer();
}

function pathOf(path: string): string {
  return path
    .replace("{key}", "bob")
    .replace("{team}", "red")
    .replace("{request_id}", chargeId)
    .replace("{model}", "gpt-4o")
    .replace("{task_id}", taskId)
    .replace("{session}", "s1")
    .replace("{admin}", "vera");
}

function callRoute(route: (typeof routes)[number], how: AdminCallOptions & { readonly query?: string }) {
  return callAdmin(proxy.url, route.method, pathOf(route.path) + (how.query ?? ""), how);
}

describe.each(cases)("$name", ({ route }) => {
  it.each<[string, () => AdminCallOptions]>([
    ["no token", () => ({})],
    ["a wrong token", () => ({ token: "sk-fba-000000000000-0000000000000000000000000000000000000000000" })],
    [
      "a token with a wrong last character",
      () => ({ token: `${editor.slice(0, -1)}${editor.endsWith("A") ? "B" : "A"}` }),
    ],
    ["an internal key", () => ({ token: proxy.key })],
    [
      "basic credentials",
      () => ({ headers: { authorization: `Basic ${Buffer.from(`edward:${editor}`).toString("base64")}` } }),
    ],
    ["a token in x-api-key", () => ({ headers: { "x-api-key": editor } })],
    ["two tokens", () => ({ headers: { authorization: `Bearer ${editor}, Bearer ${editor}` } })],
  ])("answers 401 to %s", async (_, wrong) => {
    const reply = await callRoute(route, { ...wrong(), from: unusedAddress() });
    expect([reply.status, reply.headers["www-authenticate"], reply.json]).toEqual([
      401,
      "Bearer",
      { error: { message: expect.any(String), type: "invalid_request_error", param: null, code: "invalid_api_key" } },
    ]);
    expect(reply.headers["cache-control"]).toBe("no-store");
  });

  it.runIf(route.role === "editor")("answers 403 read_only to a viewer", async () => {
    const reply = await callRoute(route, { token: viewer, body: {} });
    expect([reply.status, reply.json]).toMatchObject([403, { error: { code: "read_only" } }]);
  });

  it("refuses an unknown parameter by name", async () => {
    const reply = await callRoute(route, { token: editor, query: "?surprise=1" });
    expect([reply.status, reply.json]).toMatchObject([400, { error: { code: "invalid_request", param: "surprise" } }]);
  });

  it("refuses an unknown field by name, or any body if it takes none", async () => {
    const reply = await callRoute(route, { token: editor, body: { surprise: 1 } });
    const param =
      route.body === null && route.query === null ? null : route.body === null ? expect.anything() : "surprise";
    expect(reply.status).toBe(400);
    if (route.body !== null) expect(reply.json).toMatchObject({ error: { code: "invalid_request", param } });
  });

  it("answers 413 to a body with a stated length of 10 MB", async () => {
    const query = route.method === "delete" && route.query !== null ? "?scope=all&period=1d" : "";
    const stated = await callRoute(route, {
      token: editor,
      query,
      headers: { "content-type": "application/json", "content-length": String(10 * 1024 * 1024) },
    });
    expect([stated.status, stated.json]).toMatchObject([
      413,
      { error: { code: "request_too_large", message: expect.stringContaining("1048576") } },
    ]);
  });

  it.runIf(route.body !== null)("accepts only JSON objects without duplicate fields", async () => {
    const form = await callRoute(route, {
      token: editor,
      raw: "name=x",
      headers: { "content-type": "application/x-www-form-urlencoded" },
    });
    expect([form.status, form.json]).toMatchObject([415, { error: { code: "unsupported_media_type" } }]);
    const broken = await callRoute(route, { token: editor, raw: "{" });
    expect([broken.status, broken.json]).toMatchObject([400, { error: { code: "invalid_json" } }]);
    const list = await callRoute(route, { token: editor, raw: "[]" });
    expect(list.status).toBe(400);
    const twice = await callRoute(route, { token: editor, raw: '{"name":"a","name":"b"}' });
    expect([twice.status, twice.json]).toMatchObject([
      400,
      { error: { param: "name", message: expect.stringContaining("twice") } },
    ]);
  });

  it.runIf(route.method === "get")("answers a viewer according to its schema", async () => {
    const reply = await callRoute(route, { token: viewer });
    expect([reply.status, reply.headers["content-type"], reply.headers["cache-control"]]).toEqual([
      200,
      "application/json",
      "no-store",
    ]);
    expect(route.answer.safeParse(reply.json).error?.issues ?? []).toEqual([]);
  });
});

it("the examples of this file leave no list empty", async () => {
  for (const [path, list] of [
    ["/alerts", "alerts"],
    ["/charges", "charges"],
    ["/budgets", "budgets"],
    ["/teams", "teams"],
    ["/audit", "entries"],
    ["/usage", "rows"],
  ] as const) {
    const { json } = await callAdmin(proxy.url, "GET", path, { token: viewer });
    expect([path, (json as Record<string, unknown[]>)[list]?.length]).not.toEqual([path, 0]);
  }
});

it("a request counts for its route in metrics, whatever its parameters are, and HEAD like GET", async () => {
  const headers = { authorization: `Bearer ${viewer}` };
  expect((await fetch(`${proxy.url}/admin/v1/models/gpt-4o`, { method: "HEAD", headers })).status).toBe(200);
  const page = await (await fetch(`${proxy.url}/metrics`)).text();
  expect(page).toContain('route="/admin/v1/models/*model"');
});

describe("the OpenAPI document", () => {
  it("has every route and is valid", async () => {
    const { json } = await callAdmin(proxy.url, "GET", "/openapi.json", { token: viewer });
    const document = json as {
      readonly openapi: string;
      readonly paths: Record<
        string,
        Record<string, { readonly operationId: string; readonly parameters?: { name: string; in: string }[] }>
      >;
    };
    expect(document.openapi).toBe("3.1.0");
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
    );
    expect(operations.map(({ path, method }) => `${method} ${path}`).sort()).toEqual(
      routes.map(({ path, method }) => `${method} /admin/v1${path}`).sort(),
    );
    expect(new Set(operations.map(({ operation }) => operation.operationId)).size).toBe(operations.length);
    for (const { path, operation } of operations) {
      const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      expect((operation.parameters ?? []).filter((each) => each.in === "path").map(({ name }) => name)).toEqual(named);
    }
    for (const [, target = ""] of JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]*)"/g)) {
      const there = target
        .split("/")
        .reduce<unknown>((here, step) => (here as Record<string, unknown>)[step], document);
      expect(there).toBeTypeOf("object");
    }
    expect(JSON.stringify(document)).not.toContain('"schema":{}');
  });
});
