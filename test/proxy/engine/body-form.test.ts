import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { answeringGateway, type AnsweringGateway, type ReceivedRequest } from "../../support/answering-gateway.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { fetchAnswer, errorCode, readToEnd, type Body, type WireOptions } from "../../support/wire-client.ts";

let gateway: AnsweringGateway;
let proxy: RunningProxy;
let narrow: string;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  gateway = everything.use(await answeringGateway(({ path }) => ({ body: path === "/api/v1/task" ? task() : "{}" })));
  proxy = everything.use(await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_PASSTHROUGH: "all" } }));
  narrow = await proxy.addKey("narrow", { models: ["gpt-4o-mini", "kling", "whisper-1"] });
});
afterAll(() => everything.disposeAsync());

let tasks = 0;
const task = () => JSON.stringify({ data: { task_id: `t-${++tasks}`, status: "pending" } });

/** Sends a request. Returns the request that the gateway received. */
async function received(body: Body | undefined, options: WireOptions, key = proxy.key): Promise<ReceivedRequest> {
  const before = gateway.received.length;
  const answer = await fetchAnswer({ url: proxy.url, key }, body, options);
  const forwarded = gateway.received[before];
  if (forwarded === undefined) throw new Error(`nothing was forwarded: ${answer.status} ${answer.body.toString()}`);
  return forwarded;
}

/** A text that other readers would take for a form which names another model. */
const formText = '&model=o1-pro&"\r\n--b\r\ncontent-disposition: form-data; name="model"\r\n\r\no1-pro\r\n--b--\r\n';
/** Every path whose body Farebox reads as JSON. */
const jsonPaths: readonly (readonly [path: string, body: object])[] = [
  ["/v1/chat/completions", { model: "gpt-4o-mini", messages: [{ role: "user", content: formText }] }],
  ["/v1/completions", { model: "gpt-4o-mini", prompt: formText }],
  ["/v1/embeddings", { model: "gpt-4o-mini", input: formText }],
  ["/v1/responses", { model: "gpt-4o-mini", input: formText }],
  ["/v1/images/generations", { model: "gpt-4o-mini", prompt: formText }],
  ["/v1/images/edits", { model: "gpt-4o-mini", prompt: formText }],
  ["/v1/audio/speech", { model: "gpt-4o-mini", input: formText, voice: "x" }],
  ["/api/v1/task", { model: "kling", task_type: "video_generation", input: { prompt: formText } }],
];
const types = [
  "application/json",
  "application/x-www-form-urlencoded",
  "text/plain",
  "application/json; charset=utf-16",
  "application/yaml",
  "application/json, application/x-www-form-urlencoded",
];

describe("a body that Farebox reads as JSON reaches the gateway unchanged as application/json", () => {
  it.each(jsonPaths)("at %s", async (path, body) => {
    for (const type of [...types, ...(path === "/v1/images/edits" ? [] : ["multipart/form-data; boundary=b"])]) {
      const forwarded = await received(body, { path, headers: { "content-type": type } }, narrow);
      expect([type, forwarded.headers["content-type"]]).toEqual([type, "application/json"]);
      expect(forwarded.body.toString()).toBe(JSON.stringify(body));
    }
  });

  it("also if the request has no content type, or says something else about its body", async () => {
    const [path, body] = jsonPaths[0] ?? ["", {}];
    const untyped = await fetch(proxy.url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${proxy.key}` },
      body: new Blob([JSON.stringify(body)]),
    });
    expect(untyped.status).toBe(200);
    expect(gateway.received.at(-1)?.headers["content-type"]).toBe("application/json");
    const headers = { "content-language": "de", "x-http-method-override": "GET", "content-location": "/v1/other" };
    const forwarded = await received(body, { path, headers });
    for (const name of Object.keys(headers)) expect(forwarded.headers[name]).toBeUndefined();
  });

  it("at a path without a route, if it has no content type", async () => {
    const untyped = await fetch(`${proxy.url}/v1/other`, {
      method: "POST",
      headers: { authorization: `Bearer ${proxy.key}` },
      body: new Blob([JSON.stringify({ model: "o3", input: formText })]),
    });
    expect(untyped.status).toBe(200);
    expect(gateway.received.at(-1)?.headers["content-type"]).toBe("application/json");
  });
});

describe("a body that Farebox cannot read as JSON", () => {
  const json = JSON.stringify(jsonPaths[0]?.[1]);

  it.each([
    ["UTF-16", Buffer.from(json, "utf16le")],
    ["UTF-16 with a byte order mark", Buffer.from(`\ufeff${json}`, "utf16le")],
    ["UTF-8 with a byte order mark", Buffer.from(`\ufeff${json}`)],
  ])("because it is %s is refused, and not forwarded", async (_what, body) => {
    const before = gateway.received.length;
    for (const charset of ["utf-8", "utf-16", "utf-16le"]) {
      const headers = { "content-type": `application/json; charset=${charset}` };
      expect((await fetchAnswer(proxy, body, { headers })).status).toBe(400);
      // A path without a route takes any body, but no key with a list of models may use a body that cannot be read.
      const other = { path: "/v1/other", headers };
      expect((await fetchAnswer({ url: proxy.url, key: narrow }, body, other)).status).toBe(400);
    }
    expect(gateway.received.length).toBe(before);
  });

  it("keeps its content type at a path without a route", async () => {
    for (const [type, body] of [
      ["text/csv", "a,b\n"],
      ["application/x-ndjson", '{"a":1}\n{"a":2}\n'],
      ["multipart/form-data; boundary=x; charset=utf-16", "--x--"],
      ["text/plain", `{"model":"o3","input":"${formText}"}`],
    ] as const)
      expect((await received(body, { path: "/v1/files", headers: { "content-type": type } })).headers).toMatchObject({
        "content-type": type,
      });
  });

  it("is refused to a key with a list of models if only a parameter of its content type is JSON", async () => {
    for (const type of ["multipart/form-data; boundary=json", "text/plain; format=json"]) {
      const options = { path: "/v1/other", headers: { "content-type": type } };
      const answer = await fetchAnswer({ url: proxy.url, key: narrow }, "&model=o1-pro", options);
      expect([type, answer.status, errorCode(answer)]).toEqual([type, 400, "invalid_request"]);
    }
  });
});

describe("a form", () => {
  const part = (name: string, value: string, more = "") =>
    `--b\r\ncontent-disposition: form-data; name="${name}"${more}\r\n\r\n${value}\r\n`;
  const body = `${part("model", "whisper-1")}${part("file", "x", '; filename="a.wav"')}--b--\r\n`;
  const path = "/v1/audio/transcriptions";

  it.each([
    ["multipart/form-data; boundary=b", "multipart/form-data; boundary=b"],
    ['Multipart/Form-Data; Boundary="b"', "multipart/form-data; boundary=b"],
  ])("of type %s reaches the gateway as %s", async (given, sent) => {
    const forwarded = await received(body, { path, headers: { "content-type": given } }, narrow);
    expect(forwarded.headers["content-type"]).toBe(sent);
    expect(forwarded.body.toString()).toBe(body);
  });

  it("with two content types reaches the gateway with the one that Farebox has read", async () => {
    const types = ["multipart/form-data; boundary=b", "multipart/form-data; boundary=c"];
    const request = httpRequest(proxy.url + path, {
      method: "POST",
      agent: false,
      headers: [
        "host",
        new URL(proxy.url).host,
        "authorization",
        `Bearer ${narrow}`,
        ...types.flatMap((type) => ["content-type", type]),
      ],
    });
    request.end(body);
    const [response] = (await once(request, "response")) as [IncomingMessage];
    expect((await readToEnd(response)).status).toBe(200);
    expect(gateway.received.at(-1)?.headers["content-type"]).toBe(types[0]);
  });

  it.each([
    "multipart/form-data; boundary=b; boundary=c",
    "multipart/form-data; boundary=c; boundary=b",
    "multipart/form-data; boundary*=utf-8''b; boundary=b",
    'multipart/form-data; boundary="b;c"',
    "multipart/form-data; charset=utf-16; boundary=b",
    "multipart/mixed; boundary=b",
  ])("of type %s is refused to a key with a list of models", async (type) => {
    const before = gateway.received.length;
    const answer = await fetchAnswer({ url: proxy.url, key: narrow }, body, {
      path,
      headers: { "content-type": type },
    });
    expect(answer.status).toBe(400);
    expect(gateway.received.length).toBe(before);
  });
});
