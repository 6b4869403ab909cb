import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { updateKey } from "../../src/admin/key-changes.ts";
import { createTeam } from "../../src/admin/team-changes.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { answeringGateway, type AnsweringGateway } from "../support/answering-gateway.ts";
import { priceFolder } from "../support/price-files.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { fetchAnswer, bytesOf, type WireAnswer } from "../support/wire-client.ts";

/* Tests of the output caps that Farebox writes into requests, checked on the bytes that the gateway receives. */

const prices = `provider: example
defaults: { tokenizer: o200k_base, context_tokens: 100000, max_output_tokens: 1000, reasoning: false, max_output_field: { chat: max_tokens, completions: max_tokens, responses: max_output_tokens } }
models:
  small:
    group: official
    prices: [{ from: 2026-01-01, source: "made up", official: { input: "1.00", output: "2.00" } }]
  thinker:
    group: official
    max_output_field: { chat: max_completion_tokens, responses: max_output_tokens }
    prices: [{ from: 2026-01-01, source: "made up", official: { input: "1.00", output: "2.00" } }]
  unlimited:
    group: official
    max_output_field: {}
    prices: [{ from: 2026-01-01, source: "made up", official: { input: "1.00", output: "2.00" } }]
`;

const answered = JSON.stringify({
  id: "a",
  object: "chat.completion",
  model: "small",
  choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 10, completion_tokens: 1, total_tokens: 11 },
});

let gateway: AnsweringGateway;
let proxy: RunningProxy;
let folder: string;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  folder = everything.use(priceFolder(prices)).path;
  gateway = everything.use(await answeringGateway(() => ({ body: answered })));
  proxy = everything.use(await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_PRICING: folder } }));
});
afterAll(() => everything.disposeAsync());

let keys = 0;
const keyWith = (outputCap: number | null) => proxy.addKey(`key-${keys++}`, { outputCap });

interface Sent {
  readonly answer: WireAnswer;
  /** Body as the gateway received it. */
  readonly body: string;
}

async function send(
  key: string,
  body: string,
  { path = "/v1/chat/completions", headers = {} }: { path?: string; headers?: Record<string, string> } = {},
): Promise<Sent> {
  const before = gateway.received.length;
  const answer = await fetchAnswer({ url: proxy.url, key }, body, { path, headers });
  return { answer, body: gateway.received.slice(before).at(-1)?.body.toString() ?? "" };
}

const messages = '"messages":[{"role":"user","content":"€ 😀"}]';
const capOf = ({ answer }: Sent) => answer.headers["x-farebox-output-cap"];

describe("an output cap", () => {
  it("is written into a request that states no maximum, and changes no other byte", async () => {
    const key = await keyWith(500);
    const request = `{"model":"small",${messages}}`;
    const first = await send(key, request);
    expect(first.answer.status).toBe(200);
    expect(first.body).toBe(`{"max_tokens":500,${request.slice(1)}`);
    expect(gateway.received.at(-1)?.headers["content-length"]).toBe(String(bytesOf(first.body).length));
    expect(capOf(first)).toBe("500");
    const stated = await send(proxy.key, first.body);
    expect(capOf(stated)).toBeUndefined();
    const [one, other] = (await proxy.charges()).slice(-2);
    expect(one?.hold).toBe(other?.hold);
    expect(one?.basis).toEqual({ by: "output_cap", outputTokens: 500, outputCap: 500, fitted: null });
    expect(other?.basis).toEqual({ by: "max_tokens", outputTokens: 500, outputCap: null, fitted: null });
  });

  it.each([
    ["lowers a larger maximum", `"max_tokens":900`, `"max_tokens":500`, "500"],
    [
      "lowers every larger maximum",
      `"max_tokens":900,"max_completion_tokens":2000`,
      `"max_tokens":500,"max_completion_tokens":500`,
      "500",
    ],
    ["leaves a smaller maximum as it is", `"max_tokens":499`, `"max_tokens":499`, undefined],
    ["replaces null in place", `"max_tokens":null`, `"max_tokens":500`, "500"],
    ["replaces an invalid maximum", `"max_tokens":-1`, `"max_tokens":500`, "500"],
  ])("%s", async (_, given, expected, header) => {
    const key = await keyWith(500);
    const result = await send(key, `{"model":"small",${given},${messages}}`);
    expect(result.body).toBe(`{"model":"small",${expected},${messages}}`);
    expect(capOf(result)).toBe(header);
  });

  it("is written into the field that the model and the endpoint use", async () => {
    const key = await keyWith(500);
    expect((await send(key, `{"model":"thinker",${messages}}`)).body).toBe(
      `{"max_completion_tokens":500,"model":"thinker",${messages}}`,
    );
    const response = `{"model":"thinker","input":"hello"}`;
    expect((await send(key, response, { path: "/v1/responses" })).body).toBe(
      `{"max_output_tokens":500,${response.slice(1)}`,
    );
  });

  it("never raises the default of /v1/completions or a model's own maximum", async () => {
    const completion = `{"model":"small","prompt":"hello"}`;
    const high = await send(await keyWith(500), completion, { path: "/v1/completions" });
    expect(high.body).toBe(`{"max_tokens":16,${completion.slice(1)}`);
    const low = await send(await keyWith(9), completion, { path: "/v1/completions" });
    expect(low.body).toBe(`{"max_tokens":9,${completion.slice(1)}`);
    const most = await send(await keyWith(5000), `{"model":"small",${messages}}`);
    expect([most.body, capOf(most)]).toEqual([`{"max_tokens":1000,"model":"small",${messages}}`, "1000"]);
    const stated = await send(await keyWith(5000), `{"model":"small","max_tokens":2000,${messages}}`);
    expect(stated.body).toBe(`{"model":"small","max_tokens":2000,${messages}}`);
  });

  it("applies to text endpoints only", async () => {
    const body = `{"model":"small","input":"hello"}`;
    const result = await send(await keyWith(500), body, { path: "/v1/embeddings" });
    expect([result.body, capOf(result)]).toEqual([body, undefined]);
  });

  it("refuses models without a known maximum field, and ambiguous spellings of the field", async () => {
    const key = await keyWith(500);
    for (const model of ["unlimited", "unheard-of"]) {
      const { answer, body } = await send(key, `{"model":"${model}",${messages}}`);
      expect([answer.status, body]).toEqual([400, ""]);
      expect(JSON.parse(answer.body.toString()).error).toMatchObject({
        param: "model",
        message: expect.stringContaining(`limits the output of ${model} (max_output_field)`),
      });
    }
    expect((await send(proxy.key, `{"model":"unlimited",${messages}}`)).answer.status).toBe(200);
    for (const twice of [`"max_tokens":1,"max_tokens":2`, `"Max_Tokens":1`, `"max_token\\u017f":1`])
      expect((await send(key, `{"model":"small",${twice},${messages}}`)).answer.status).toBe(400);
  });

  it.each([
    [
      "/v1/chat/completions",
      `{"model":"small","extra_body":{"max_tokens":90000},${messages}}`,
      "extra_body.max_tokens",
    ],
    ["/v1/chat/completions", `{"model":"small","max_output_tokens":90000,${messages}}`, "max_output_tokens"],
    ["/v1/chat/completions?max_tokens=90000", `{"model":"small",${messages}}`, "query max_tokens"],
    ["/v1/responses", '{"model":"small","input":"x","max_tokens":90000}', "max_tokens"],
    ["/v1/completions", '{"model":"small","prompt":"x","max_new_tokens":90000}', "max_new_tokens"],
  ])("refuses another maximum that the gateway may read: %s %s", async (path, body, member) => {
    const { answer, body: sent } = await send(await keyWith(500), body, { path });
    expect([answer.status, sent]).toEqual([400, ""]);
    expect(JSON.parse(answer.body.toString()).error).toMatchObject({
      param: member,
      message: expect.stringContaining(`may read '${member}' as another output maximum; leave it out`),
    });
    expect((await send(proxy.key, body, { path })).answer.status).toBe(200);
  });

  it("does not take the members of a tool's schema for maximums", async () => {
    const tools = '"tools":[{"name":"t","input_schema":{"properties":{"a":{"type":"string","maxLength":9}}}}]';
    const { answer } = await send(await keyWith(500), `{"model":"small",${tools},${messages}}`);
    expect([answer.status, answer.headers["x-farebox-output-cap"]]).toEqual([200, "500"]);
  });

  it("is the smallest of the key's, its team's and FAREBOX_OUTPUT_CAP, and changes apply to the next request", async () => {
    await using capped = await startProxy({
      gatewayUrl: gateway.url,
      env: { FAREBOX_PRICING: folder, FAREBOX_OUTPUT_CAP: "700" },
    });
    const tools = { clock: systemClock(), by: "test" };
    await createTeam({ ...tools, teams: capped.serving.teams }, { name: "red", outputCap: 600 });
    const bob = await capped.addKey("bob", { team: "red" });
    const capFor = async (key: string) => {
      const answer = await fetchAnswer({ url: capped.url, key }, `{"model":"small",${messages}}`);
      const me = await (
        await fetch(`${capped.url}/v1/farebox/me`, { headers: { authorization: `Bearer ${key}` } })
      ).json();
      return [answer.headers["x-farebox-output-cap"], (me as { output_cap: number }).output_cap];
    };
    expect(await capFor(capped.key)).toEqual(["700", 700]);
    expect(await capFor(bob)).toEqual(["600", 600]);
    await updateKey({ ...tools, keys: capped.serving.keys }, "bob", { outputCap: 50 });
    expect(await capFor(bob)).toEqual(["50", 50]);
    await updateKey({ ...tools, keys: capped.serving.keys }, "bob", { outputCap: null });
    expect(await capFor(bob)).toEqual(["600", 600]);
  });

  it("can be combined with FAREBOX_STREAM_USAGE=inject", async () => {
    await using injecting = await startProxy({
      gatewayUrl: gateway.url,
      env: { FAREBOX_PRICING: folder, FAREBOX_STREAM_USAGE: "inject", FAREBOX_OUTPUT_CAP: "700" },
    });
    await fetchAnswer({ url: injecting.url, key: injecting.key }, `{"model":"small","stream":true,${messages}}`);
    expect(gateway.received.at(-1)?.body.toString()).toBe(
      `{"stream_options":{"include_usage":true},"max_tokens":700,"model":"small","stream":true,${messages}}`,
    );
  });

  describe("on a path without a route", () => {
    const maximum = '"max_tokens":100000';
    let open: RunningProxy;
    let capped: string;
    beforeAll(async () => {
      open = await startProxy({
        gatewayUrl: gateway.url,
        env: { FAREBOX_PRICING: folder, FAREBOX_PASSTHROUGH: "all" },
      });
      capped = await open.addKey("capped", { outputCap: 10 });
    });
    afterAll(() => open[Symbol.asyncDispose]());

    interface Request {
      readonly body?: string | Buffer;
      readonly path?: string;
      readonly type?: string;
      readonly method?: string;
    }
    const sent = (key: string, { body, path = "/v1/anything", type = "application/json", method = "POST" }: Request) =>
      fetchAnswer({ url: open.url, key }, body, {
        path,
        method,
        headers: {
          "content-type": type,
          ...(body !== undefined && { "content-length": String(Buffer.byteLength(body)) }),
        },
      });
    const part = (name: string, value: string, more = "") =>
      `--b\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n${value}\r\n`;
    const form = (...parts: readonly string[]): Request => ({
      body: `${parts.join("")}--b--\r\n`,
      type: "multipart/form-data; boundary=b",
    });
    const file = part("file", "x".repeat(200_000), '; filename="a.jsonl"');
    const mega = `"text":"${"x".repeat(1024 * 1024)}"`;

    it.each<[what: string, request: Request, message: string]>([
      ["a model", { body: `{"model":"small",${messages}}` }, "limits the output of small"],
      ["a model after a megabyte", { body: `{${mega},"model":"small",${maximum}}` }, "limits the output of small"],
      ["a maximum after a megabyte", { body: `{${mega},${maximum}}` }, "'max_tokens' asks for"],
      ["a model inside", { body: '{"requests":[{"params":{"model":"new-one"}}]}' }, "limits the output of new-one"],
      ["a model in a list", { body: `[{"model":"new-one"}]` }, "limits the output of new-one"],
      ["other models", { body: '{"models":["small"]}' }, "limits the output of small"],
      ["a model in another letter case", { body: '{"Model":"small"}' }, "'Model' must be written 'model'"],
      ["two models", { body: '{"model":"","model":"small"}' }, "'model' is given twice"],
      ["two members inside", { body: '{"a":{"b":1,"b":2}}' }, "'a.b' is given twice"],
      ["a model in input", { body: '{"input":{"model":"new-one"}}' }, "'model' asks for"],
      ["a model that is no text", { body: '{"model":{"id":"new-one"}}' }, "'model' asks for"],
      ["the id of a model", { body: '{"modelId":"new-one"}' }, "'modelId' asks for"],
      ["a maximum inside", { body: '{"generationConfig":{"maxOutputTokens":9}}' }, "'maxOutputTokens' asks for"],
      ["a maximum in input", { body: '{"version":"1","input":{"max_new_tokens":9}}' }, "'max_new_tokens' asks for"],
      ["a maximum in camel case", { body: '{"inferenceConfig":{"maxTokens":9}}' }, "'maxTokens' asks for"],
      ["a maximum with an escape", { body: '{"max_t\\u006fkens":9}' }, "'max_tokens' asks for"],
      ["a maximum of another name", { body: '{"options":{"num_predict":9}}' }, "'num_predict' asks for"],
      ["a stored batch", { body: '{"input_file_id":"f"}', path: "/v1/batches" }, "'input_file_id' asks for"],
      ["a stored assistant", { body: '{"assistant_id":"a"}', path: "/v1/threads/t/runs" }, "'assistant_id' asks for"],
      ["a maximum with PUT", { body: `{${maximum}}`, method: "PUT" }, "'max_tokens' asks for"],
      ["a maximum with PATCH", { body: `{${maximum}}`, method: "PATCH" }, "'max_tokens' asks for"],
      ["a maximum with GET", { body: `{${maximum}}`, method: "GET" }, "'max_tokens' asks for"],
      ["a model in a form", form(file, part("model", "small")), "limits the output of small"],
      ["two models in a form", form(part("model", ""), part("model", "small")), "'model' is given twice"],
      ["a model as a file", form(part("model", "small", '; filename="m"')), "must be a field"],
      ["a maximum in a form", form(file, part("max_tokens", "100000")), "'max_tokens' asks for"],
      ["a maximum inside a form", form(part("config[maxOutputTokens]", "9")), "'maxOutputTokens' asks for"],
      ["a maximum in the JSON of a form", form(part("config", `{${maximum}}`)), "'max_tokens' asks for"],
      ["a model in the JSON of a form", form(part("config", '{"model":"new-one"}')), "limits the output of new-one"],
      ["a long field in a form", form(part("config", "x".repeat(70_000))), "'config' is too long to read"],
      [
        "many fields in a form",
        form(...Array.from({ length: 5 }, (_, index) => part(`x${index}`, "x".repeat(60_000)))),
        "the form's fields are too long to read",
      ],
      ["a form with a folded header", form(part("model", "x").replace("; name", ";\r\n name")), "in several ways"],
      ["a form without an end", { ...form(), body: part("model", "x") }, "in several ways"],
      ["lines of JSON", { body: `{"a":1}\n{${maximum}}\n` }, "not valid JSON in UTF-8"],
      ["lines of JSON by their type", { body: `{${maximum}}`, type: "application/x-ndjson" }, "body of type"],
      ["JSON as text", { body: `{${maximum}}`, type: "text/plain" }, "body of type 'text/plain'"],
      ["JSON with a byte order mark", { body: `\ufeff{${maximum}}` }, "not valid JSON in UTF-8"],
      ["JSON in UTF-16", { body: Buffer.from(`{${maximum}}`, "utf16le") }, "not valid JSON in UTF-8"],
      [
        "JSON that its type calls UTF-16",
        { body: "{}", type: "application/json; charset=utf-16" },
        "body of type 'application/json; charset=utf-16'",
      ],
      ["text in Latin-1", { body: Buffer.from('{"text":"é"}', "latin1") }, "not valid JSON in UTF-8"],
      ["a web form", { body: "max_tokens=100000", type: "application/x-www-form-urlencoded" }, "body of type"],
      [
        "a web form with JSON in its type",
        { body: "{}", type: "application/x-www-form-urlencoded; a=json" },
        "body of type 'application/x-www-form-urlencoded; a=json'",
      ],
      ["other bytes", { body: Buffer.alloc(9, 1), type: "application/octet-stream", method: "PUT" }, "body of type"],
      ["too many values", { body: `[${"0,".repeat(600_000)}0]` }, "too many values"],
      ["a model in the path", { body: "{}", path: "/v1beta/models/small:generate" }, "limits the output of small"],
      ["a model in the query", { path: "/v1/realtime?Model=x", method: "GET" }, "limits the output of x"],
      ["a maximum in the query", { path: "/v1/x?maxOutputTokens=9", method: "GET" }, "'maxOutputTokens' asks for"],
    ])("refuses %s, and passes it for other keys", async (_what, request, message) => {
      const before = gateway.received.length;
      const answer = await sent(capped, request);
      expect([answer.status, JSON.parse(answer.body.toString()).error.code]).toEqual([400, "invalid_request"]);
      expect(answer.body.toString()).toContain(message);
      expect(answer.body.toString()).toContain("an output cap applies to this key");
      expect(gateway.received.slice(before)).toEqual([]);
      expect((await sent(open.key, request)).status).toBe(200);
      const { body = "" } = request;
      expect(gateway.received.at(-1)?.body).toEqual(Buffer.from(body));
    });

    it.each<[what: string, request: Request]>([
      ["JSON that asks for no output", { body: '{"name":"x","chunking":{"max_chunk_size_tokens":800}}' }],
      ["a maximum of null", { body: '{"max_tokens":null}' }],
      ["JSON in UTF-8", { body: "{}", type: "application/vnd.api+json;charset=utf8" }],
      ["a text about a maximum", { body: '{"text":"max_tokens","list":["max_tokens"]}' }],
      ["a form with a file", { ...form(part("purpose", "user_data"), file), path: "/v1/files" }],
      ["a request without a body", { path: "/v1/files", method: "GET", type: "text/plain" }],
      ["a deletion", { path: "/v1/files/f", method: "DELETE" }],
    ])("passes %s", async (_what, request) => {
      expect((await sent(capped, request)).status).toBe(200);
    });

    it("is the cap of FAREBOX_OUTPUT_CAP or of the team too", async () => {
      const env = { FAREBOX_PRICING: folder, FAREBOX_PASSTHROUGH: "all", FAREBOX_OUTPUT_CAP: "10" };
      await using all = await startProxy({ gatewayUrl: gateway.url, env });
      const path = "/v1/anything";
      expect((await fetchAnswer({ url: all.url, key: all.key }, `{${mega},${maximum}}`, { path })).status).toBe(400);
      await createTeam({ teams: open.serving.teams, clock: systemClock(), by: "test" }, { name: "t", outputCap: 10 });
      const member = await open.addKey("member", { team: "t" });
      expect((await sent(member, { body: `{${mega},${maximum}}` })).status).toBe(400);
    });

    it("is no reason to refuse what a list of models refuses or permits", async () => {
      const narrow = await open.addKey("narrow", { models: ["small"] });
      const refused = async (request: Request) => {
        const answer = await sent(narrow, request);
        return [answer.status, JSON.parse(answer.body.toString()).error.code];
      };
      expect((await sent(narrow, { body: `{${mega},"model":"small",${maximum}}` })).status).toBe(200);
      expect((await sent(narrow, form(file, part("model", "small")))).status).toBe(200);
      expect(await refused({ body: `{${mega},"model":"thinker"}` })).toEqual([403, "model_not_allowed"]);
      expect(await refused(form(file, part("model", "thinker")))).toEqual([403, "model_not_allowed"]);
      expect(await refused({ body: '{"model":"small","requests":[{"model":"other"}]}' })).toEqual([
        403,
        "model_not_allowed",
      ]);
      expect(await refused({ body: '{"model":"small"}', type: "text/plain" })).toEqual([400, "invalid_request"]);
      expect(await refused({ body: '{"model":"small"}\n{"model":"thinker"}' })).toEqual([400, "invalid_request"]);
      expect(await refused({ ...form(), body: part("model", "small") })).toEqual([400, "invalid_request"]);
      const fillers = Array.from({ length: 5 }, (_, index) => part(`x${index}`, "x".repeat(60_000)));
      expect(await refused(form(part("model", "small"), part("engine", "thinker")))).toEqual([
        403,
        "model_not_allowed",
      ]);
      expect(await refused(form(part("model", "small"), part("engine", "thinker"), ...fillers))).toEqual([
        400,
        "invalid_request",
      ]);
    });
  });

  it("is held for each choice", async () => {
    await send(await keyWith(100), `{"model":"small","n":3,${messages}}`);
    expect((await proxy.charges()).at(-1)?.basis).toMatchObject({
      by: "output_cap",
      outputTokens: 300,
      outputCap: 100,
    });
  });
});

describe("a retry with the same idempotency key", () => {
  const request = `{"model":"small",${messages}}`;
  const headers = { "idempotency-key": "try" };
  const setCap = (name: string, outputCap: number | null) =>
    updateKey({ keys: proxy.serving.keys, clock: systemClock(), by: "test" }, name, { outputCap });

  it("repeats the written cap even after the cap has changed", async () => {
    const key = await proxy.addKey("retrying", { outputCap: 500 });
    const first = await send(key, request, { headers });
    await setCap("retrying", 800);
    const second = await send(key, request, { headers });
    expect(second.body).toBe(first.body);
    expect(capOf(second)).toBe("500");
    expect((await send(key, request, { headers: { "idempotency-key": "another" } })).body).toContain(
      '"max_tokens":800',
    );
    expect((await send(key, request)).body).toContain('"max_tokens":800');
  });

  it("is refused if the cap has become smaller", async () => {
    const key = await proxy.addKey("lowered", { outputCap: 500 });
    await send(key, request, { headers });
    await setCap("lowered", 400);
    const { answer, body } = await send(key, request, { headers });
    expect([answer.status, answer.headers["x-farebox-error"], body]).toEqual([409, "conflict", ""]);
  });

  it("is refused if a cap was set after a first try without one", async () => {
    const key = await proxy.addKey("free", {});
    const first = await send(key, request, { headers });
    expect(first.body).toBe(request);
    await setCap("free", 400);
    expect((await send(key, request, { headers })).answer.status).toBe(409);
    await setCap("free", null);
    expect((await send(key, request, { headers })).body).toBe(request);
  });

  it("does not use the cap written for another key", async () => {
    const one = await proxy.addKey("one", { outputCap: 500 });
    const other = await proxy.addKey("other", { outputCap: 300 });
    await send(one, request, { headers });
    expect((await send(other, request, { headers })).body).toContain('"max_tokens":300');
  });
});
