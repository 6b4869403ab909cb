import { Validator } from "@seriousme/openapi-schema-validator";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadCatalogue } from "../../../src/catalogue/load.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import type { Sandbox } from "../../../src/sandbox/options.ts";
import { fetchFromSandbox, hello, helloStream, type SandboxRequestOptions } from "../../support/sandbox-client.ts";
import { breachesOf, gatewayDocument, type Fields } from "../../support/gateway-document.ts";

describe("docs/gateway-openapi.yaml", () => {
  it("is a valid OpenAPI 3.1 document", async () => {
    const validator = new Validator();
    const result = await validator.validate(
      fileURLToPath(new URL("../../../docs/gateway-openapi.yaml", import.meta.url)),
    );
    expect(result.errors).toBeUndefined();
    expect([result.valid, validator.version]).toEqual([true, "3.1"]);
  });

  it("has no broken references", () => {
    const refs = [...JSON.stringify(gatewayDocument).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, ref = ""]) => ref);
    const resolve = (ref: string) =>
      ref.split("/").reduce<unknown>((at, name) => (at as Fields | undefined)?.[name], gatewayDocument);
    expect(refs.filter((ref) => resolve(ref) === undefined)).toEqual([]);
    expect(refs.length).toBeGreaterThan(50);
  });

  it("marks every operation without an official description as assumed, with evidence", () => {
    const operations = Object.entries(gatewayDocument.paths).flatMap(([path, item]) =>
      Object.entries(item)
        .filter(([method]) => ["get", "post", "delete"].includes(method))
        .map(([method, operation]) => [`${method} ${path}`, operation as Fields] as const),
    );
    const stated = operations.filter(([, operation]) => !("x-assumed" in operation)).map(([name]) => name);
    expect(stated).toEqual(["post /v1/chat/completions", "get /account/info", "get /api/v1/task/{task_id}"]);
    for (const reason of reasonsIn(gatewayDocument)) expect(reason).toMatch(/^.{10,}\.$/s);
  });

  /** Returns every x-assumed text. */
  function reasonsIn(value: unknown): unknown[] {
    if (typeof value !== "object" || value === null) return [];
    return Object.entries(value).flatMap(([name, inner]) => (name === "x-assumed" ? [inner] : reasonsIn(inner)));
  }
});

const fixture = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../fixtures/${name}.json`, import.meta.url), "utf8"));

describe("the fixtures of the gateway's interface", () => {
  it.each([
    ["account-record", "AccountAnswer"],
    ["task-video", "TaskUnified"],
    ["task-music", "TaskUnified"],
    ["task-conversation", "TaskEnvelope"],
  ])("%s matches the schema %s", (name, schema) => {
    const record = fixture(name) as Fields;
    expect(breachesOf(schema, record)).toEqual([]);
    // The check finds a missing field, a wrong type and an unknown field.
    const data = record["data"] as Fields;
    for (const field of Object.keys(data).filter((each) => each !== "equivalent_in_usd")) {
      const { [field]: _left, ...rest } = data;
      expect(breachesOf(schema, { ...record, data: rest }).join("\n"), field).toContain(field);
    }
    expect(breachesOf(schema, { ...record, data: { ...data, task_id: 5, id: "x" } })).not.toEqual([]);
    const wider = { ...record, data: { ...data, something_new: 1 } };
    expect([breachesOf(schema, wider).length, breachesOf(schema, wider, "open")]).toEqual([1, []]);
  });

  it.each([
    ["VideoInput", "task-video", "input"],
    ["VideoOutput", "task-video", "output"],
    ["MusicInput", "task-music", "input"],
  ])("match the schema %s", (schema, name, field) => {
    const { data } = fixture(name) as { data: Fields };
    expect(breachesOf(schema, data[field])).toEqual([]);
  });

  it("match the schema Track", () => {
    const { data } = fixture("task-music") as { data: { output: unknown[] } };
    expect(data.output.flatMap((track) => breachesOf("Track", track))).toEqual([]);
  });
});

describe("the sandbox's answers match the document:", () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await startSandbox();
  });
  afterAll(() => sandbox.close());

  /** Removes the unknown field that the sandbox sends on purpose. */
  const withoutExtra = ({ gateway: _extra, ...known }: Fields) => known;
  const json = async (body: object | undefined, options: SandboxRequestOptions = {}) => {
    const answer = await fetchFromSandbox(sandbox, body, options);
    return { status: answer.status, body: JSON.parse(answer.body.toString()) as Fields };
  };

  it.each([
    ["plain", hello, undefined],
    ["with several choices and log probabilities", { ...hello, n: 2, logprobs: true }, undefined],
    [
      "with a tool call",
      {
        ...hello,
        tool_choice: { type: "function", function: { name: "f" } },
        tools: [{ type: "function", function: { name: "f", parameters: {} } }],
      },
      undefined,
    ],
    ["with hidden reasoning and cached tokens", hello, "reasoning:50+cached:5"],
    ["without usage", hello, "no-usage"],
  ])("chat completion %s", async (_what, request, scenario) => {
    expect(breachesOf("ChatRequest", request, "open")).toEqual([]);
    const { status, body } = await json(request, scenario === undefined ? {} : { scenario });
    expect(status).toBe(200);
    expect(breachesOf("ChatCompletion", withoutExtra(body))).toEqual([]);
  });

  it.each([
    ["with a usage chunk", helloStream, undefined],
    ["with usage in the last chunk", helloStream, "usage-last"],
    ["with empty usage", { ...hello, stream: true }, "empty-usage"],
    [
      "of a tool call",
      {
        ...helloStream,
        tool_choice: { type: "function", function: { name: "f" } },
        tools: [{ type: "function", function: { name: "f", parameters: {} } }],
      },
      undefined,
    ],
  ])("stream %s", async (_what, request, scenario) => {
    const { status, body } = await fetchFromSandbox(sandbox, request, scenario === undefined ? {} : { scenario });
    expect(status).toBe(200);
    const events = body
      .toString()
      .split("\n\n")
      .filter((event) => event.startsWith("data: "))
      .map((event) => event.slice("data: ".length));
    expect(events.at(-1)).toBe("[DONE]");
    expect(events.length).toBeGreaterThan(3);
    for (const event of events.slice(0, -1))
      expect(breachesOf("ChatCompletionChunk", withoutExtra(JSON.parse(event)))).toEqual([]);
  });

  it("the account record", async () => {
    const { status, body } = await json(undefined, {
      path: "/account/info",
      method: "GET",
      headers: { "x-api-key": sandbox.apiKey },
    });
    expect([status, breachesOf("AccountAnswer", body)]).toEqual([200, []]);
  });

  it("the list of models", async () => {
    const { status, body } = await json(undefined, { path: "/v1/models", method: "GET" });
    expect([status, breachesOf("ModelList", body)]).toEqual([200, []]);
  });

  it.each([
    [401, "Error", hello, { headers: { authorization: "Bearer wrong" } }],
    [400, "Error", { model: "gpt-4o" }, {}],
    [404, "Error", hello, { path: "/v1/none" }],
    [429, "Error", hello, { scenario: "status:429" }],
    [500, "Error", hello, { scenario: "status:500" }],
    [401, "EnvelopeError", undefined, { path: "/account/info", method: "GET" }],
    [
      500,
      "EnvelopeError",
      undefined,
      { path: "/account/info", method: "GET", headers: { "x-api-key": "sk-sandbox" }, scenario: "status:500" },
    ],
  ] as const)("status %s as %s", async (status, schema, request, asked) => {
    const answer = await json(request, asked);
    expect([answer.status, breachesOf(schema, answer.body)]).toEqual([status, []]);
  });
});

describe("the routes of the shipped price files", () => {
  it("are all in the document with their methods", async () => {
    const loaded = await loadCatalogue({ shipped: new URL("../../../pricing", import.meta.url) });
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.faults));
    const { routes } = loaded.catalogue.data;
    expect(routes.length).toBeGreaterThan(30);
    expect(
      routes
        .filter(({ path, method }) => gatewayDocument.paths[path]?.[method.toLowerCase()] === undefined)
        .map(({ method, path }) => `${method} ${path}`),
    ).toEqual([]);
  });
});

describe("the sandbox's answers of model families match the document:", () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await startSandbox();
  });
  afterAll(() => sandbox.close());
  const call = async (method: string, path: string, body?: object) => {
    const answer = await fetchFromSandbox(sandbox, body, { method, path, headers: { "x-api-key": sandbox.apiKey } });
    return { status: answer.status, body: JSON.parse(answer.body.toString()) as Fields };
  };

  it.each<[string, object, string, string, (id: string) => readonly [string, string, object?]]>([
    [
      "/mj/v2/imagine",
      { prompt: "a" },
      "TaskTakenAtRoot",
      "TaskAtRoot",
      (id) => ["POST", "/mj/v2/fetch", { task_id: id }],
    ],
    ["/api/suno/v1/music", { input: {} }, "TaskTaken", "TaskAnswer", (id) => ["GET", `/api/suno/v1/music/${id}`]],
    ["/api/luma/v1/video", { prompt: "a" }, "TaskTaken", "TaskAnswer", (id) => ["GET", `/api/luma/v1/video/${id}`]],
    ["/api/kling/v1/video", { duration: 5 }, "TaskTaken", "TaskAnswer", (id) => ["GET", `/api/kling/v1/video/${id}`]],
    ["/api/flux/v1/image", { prompt: "a" }, "TaskTaken", "TaskAnswer", (id) => ["GET", `/api/flux/v1/image/${id}`]],
    [
      "/api/image_toolkit/v2/create",
      { task_type: "upscale", task_input: { scale: 2, image: "https://x.example/i.png" } },
      "TaskTaken",
      "TaskEnvelope",
      (id) => ["POST", "/api/image_toolkit/v2/fetch", { task_id: id }],
    ],
  ])("%s", async (path, body, taken, shown, fetching) => {
    const created = await call("POST", path, body);
    expect([created.status, breachesOf(taken, created.body)]).toEqual([200, []]);
    const id = String(created.body["task_id"] ?? (created.body["data"] as Fields)["task_id"]);
    const record = await call(...fetching(id));
    expect([record.status, breachesOf(shown, record.body)]).toEqual([200, []]);
    const refused = await call("POST", path, { ...body, model: "x+task-refused" });
    expect([refused.status, refused.body["code"], breachesOf("EnvelopeError", refused.body)]).toEqual([
      200,
      10_001,
      [],
    ]);
  });

  it("the history and an upload", async () => {
    const history = await call("GET", "/api/open/tasks/histories?page_size=2");
    expect([history.status, breachesOf("TaskHistory", history.body)]).toEqual([200, []]);
    expect(history.body["data"]).toMatchObject({ page: 1, page_size: 2 });
    const uploaded = await call("POST", "/api/ephemeral_resource", { file_name: "a.png", file_data: "aGk=" });
    expect([uploaded.status, breachesOf("Uploaded", uploaded.body)]).toEqual([200, []]);
    expect((await call("POST", "/api/ephemeral_resource", {})).status).toBe(400);
  });
});
