import { once } from "node:events";
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NewCharges, chatWith } from "../../support/new-charges.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import {
  delta,
  done,
  finish,
  scriptedGateway,
  usage,
  type OpenRequest,
  type ScriptedGateway,
} from "../../support/scripted-gateway.ts";
import { fetchAnswer, open, type Body, type WireAnswer, type WireOptions } from "../../support/wire-client.ts";

let gateway: ScriptedGateway;
let proxy: RunningProxy;
let newCharges: NewCharges;
let sandboxed: RunningProxy;
let sandboxCharges: NewCharges;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  gateway = everything.use(await scriptedGateway());
  proxy = everything.use(await startProxy({ gatewayUrl: gateway.url }));
  sandboxed = everything.use(await startProxy());
  newCharges = new NewCharges(proxy);
  sandboxCharges = new NewCharges(sandboxed);
});
afterAll(() => everything.disposeAsync());

const answerText = JSON.stringify({ choices: [{ message: { content: "x" } }], usage });

/** Sends a request that the gateway answers plainly. Returns what both ends received. */
async function passed(body: Body, options?: WireOptions): Promise<{ received: OpenRequest; answer: WireAnswer }> {
  const answering = fetchAnswer(proxy, body, options);
  const received = await gateway.nextChat();
  received.response.writeHead(200, { "content-type": "application/json" }).end(answerText);
  return { received, answer: await answering };
}

/** Answers a plain request with the given function. Returns what the client received. */
async function answeredWith(respond: (received: OpenRequest) => void): Promise<WireAnswer> {
  const answering = fetchAnswer(proxy, { model: "gpt-4o", messages: [{ role: "user", content: "hello" }] });
  respond(await gateway.nextChat());
  return answering;
}

describe("a request's body reaches the gateway unchanged", () => {
  const head = '"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]';
  it.each([
    ["odd spacing", `\r\n { "model" :\t"gpt-4o" ,\n "messages":[ {"role":"user" , "content":"hi"} ] }  \n`],
    [
      "literal and escaped letters",
      `{"model":"gpt-4o","messages":[{"role":"user","content":"é\\u00e9 日本 \\ud83d\\ude00 😀 \\/ \\u2028 "}]}`,
    ],
    [
      "numbers that JavaScript cannot represent",
      `{${head},"seed":12345678901234567890123,"temperature":0.10000000000000000555,"top_p":1e-400,"x":-0}`,
    ],
    ["keys in order and numeric keys", `{"zz":1,"10":1,"2":2,${head},"aa":{"b":1,"a":2}}`],
    [
      "unknown fields",
      `{${head},"gateway_option":{"deep":[1,[2,{"three":null}]]},"__proto__":{"x":1},"constructor":1}`,
    ],
    ["a duplicate field that no price depends on", `{${head},"user":"a","user":"b"}`],
    ["n, logprobs and stop", `{${head},"n":2,"logprobs":true,"top_logprobs":3,"stop":["\\n","END"]}`],
    [
      "response_format",
      `{${head},"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object"}}}}`,
    ],
    [
      "tools",
      `{${head},"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}],"tool_choice":"auto"}`,
    ],
    ["functions", `{${head},"functions":[{"name":"f","parameters":{}}],"function_call":{"name":"f"}}`],
    [
      "images",
      `{"model":"gpt-4o","messages":[{"role":"user","content":[{"type":"text","text":"?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo=","detail":"low"}}]}]}`,
    ],
    ["audio", `{${head},"modalities":["text","audio"],"audio":{"voice":"alloy","format":"wav"}}`],
    [
      "an audio part",
      `{"model":"gpt-4o","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]}]}`,
    ],
    ["a dated model name", `{"model":"gpt-4o-2024-11-20","messages":[{"role":"user","content":"hi"}]}`],
    ["stream options", `{${head},"stream":false,"stream_options":null}`],
    ["a megabyte of text", `{"model":"gpt-4o","messages":[{"role":"user","content":"${"naïve ".repeat(160_000)}"}]}`],
  ])("with %s", async (_what, text) => {
    const { received, answer } = await passed(text);
    expect(received.body.equals(Buffer.from(text))).toBe(true);
    expect(received.request.headers["content-length"]).toBe(String(Buffer.byteLength(text)));
    expect(received.request.headers["transfer-encoding"]).toBeUndefined();
    expect(answer.status).toBe(200);
    expect(await newCharges.settled()).toMatchObject({
      state: "posted",
      source: "reported",
      tokens: { input: 9, output: 3 },
    });
  });

  it("from chunks of a few bytes", async () => {
    const text = JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: "naïve 😀" }] });
    const socket = connect(Number(new URL(proxy.url).port), "127.0.0.1");
    await once(socket, "connect");
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${proxy.key}\r\n` +
        "content-type: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n",
    );
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; at += 5) {
      const piece = bytes.subarray(at, at + 5);
      socket.write(Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from("\r\n")]));
    }
    socket.write("0\r\n\r\n");
    const received = await gateway.nextChat();
    received.response.writeHead(200, { "content-type": "application/json" }).end(answerText);
    expect(received.body.toString()).toBe(text);
    expect(received.request.headers["connection"]).toBe("keep-alive");
    const chunks: Buffer[] = [];
    for await (const bytesBack of socket) chunks.push(bytesBack as Buffer);
    expect(Buffer.concat(chunks).toString()).toContain(answerText);
    expect(await newCharges.settled()).toMatchObject({ source: "reported" });
  });
});

it("a request reaches the gateway with its query, and with /v1 in its path even if the client omits it", async () => {
  const body = { model: "gpt-4o", messages: [{ role: "user", content: "hi" }] };
  expect((await passed(body, { path: "/v1/chat/completions?a=1&b=%2F" })).received.request.url).toBe(
    "/v1/chat/completions?a=1&b=%2F",
  );
  expect((await passed(body, { path: "/chat/completions" })).received.request.url).toBe("/v1/chat/completions");
  await newCharges.allSettled();
});

describe("a request's headers", () => {
  it("are forwarded only if they are on the allow-list", async () => {
    const sent = {
      accept: "application/json",
      "accept-language": "de",
      "accept-encoding": "gzip, br",
      "user-agent": "test/1",
      "openai-organization": "org-1",
      "openai-beta": "x=1",
      "x-stainless-retry-count": "0",
      "idempotency-key": "abc",
      cookie: "session=1",
      "proxy-authorization": "Basic eA==",
      "x-api-key": proxy.key,
      "api-key": proxy.key,
      "x-farebox-tag": "project=a",
      "x-forwarded-for": "10.0.0.1",
      "x-real-ip": "10.0.0.1",
      forwarded: "for=10.0.0.1",
      via: "1.1 x",
      origin: "http://127.0.0.1:1",
      referer: "http://127.0.0.1:1/",
      te: "trailers",
      "x-anything": "1",
    };
    const { received } = await passed(
      { model: "gpt-4o", messages: [{ role: "user", content: "hi" }] },
      { headers: withoutOrigin(sent) },
    );
    expect(received.request.headers).toEqual({
      accept: "application/json",
      "accept-language": "de",
      "accept-encoding": "identity",
      "content-type": "application/json",
      "content-length": String(received.body.length),
      "user-agent": "test/1",
      "openai-organization": "org-1",
      "openai-beta": "x=1",
      "x-stainless-retry-count": "0",
      "idempotency-key": expect.stringMatching(/^[0-9a-f]{64}$/),
      authorization: "Bearer sk-sandbox",
      host: `127.0.0.1:${gateway.port}`,
      connection: "keep-alive",
    });
    expect(JSON.stringify(received.request.rawHeaders)).not.toContain(proxy.key);
    expect(await newCharges.settled()).toMatchObject({ tags: { project: "a" } });
  });

  function withoutOrigin({ origin: _origin, ...headers }: Record<string, string>): Record<string, string> {
    return headers;
  }

  it("contain the gateway's credential instead of the key, whichever header had the key", async () => {
    for (const name of ["x-api-key", "api-key"]) {
      const { received } = await passed(
        { model: "gpt-4o", messages: [{ role: "user", content: "hi" }] },
        { headers: { authorization: "", [name]: proxy.key } },
      );
      expect(received.request.headers["authorization"]).toBe("Bearer sk-sandbox");
      for (const other of ["x-api-key", "api-key"]) expect(received.request.headers[other]).toBeUndefined();
      await newCharges.settled();
    }
  });
});

describe("an answer reaches the client unchanged", () => {
  it("in its body, and in its headers except cookies, hop-by-hop headers and the gateway's x-farebox headers", async () => {
    const text = ` {"choices":[{"message":{"content":"\\u00e9"}}],\n"usage":${JSON.stringify(usage)},"x_unknown":{"big":12345678901234567890,"t":1.0},"choices2":[]} \n`;
    const answer = await answeredWith(({ response }) => {
      response.writeHead(
        200,
        [
          ["Content-Type", "application/json; charset=utf-8"],
          ["X-Request-ID", "req_1"],
          ["X-Custom", "a"],
          ["x-custom", "b"],
          ["X-RateLimit-Remaining-Requests", "12"],
          ["OpenAI-Processing-MS", "17"],
          ["Set-Cookie", "a=1"],
          ["Set-Cookie", "b=2"],
          ["X-Farebox-Cost-Usd", "999"],
          ["Connection", "keep-alive, X-Hop"],
          ["X-Hop", "1"],
          ["Proxy-Authenticate", "Basic"],
          ["Trailer", "X-Late"],
          ["Cache-Control", "no-store"],
          ["Latin", "caf\u00e9"],
        ].flat(),
      );
      response.end(text);
    });
    expect(answer.body.toString()).toBe(text);
    const names = answer.rawHeaders.filter((_, index) => index % 2 === 0);
    expect(names.slice(0, 8)).toEqual([
      "Content-Type",
      "X-Request-ID",
      "X-Custom",
      "x-custom",
      "X-RateLimit-Remaining-Requests",
      "OpenAI-Processing-MS",
      "Cache-Control",
      "Latin",
    ]);
    expect(answer.headers).toMatchObject({ "x-custom": "a, b", "x-request-id": "req_1", latin: "caf\u00e9" });
    for (const name of ["set-cookie", "x-hop", "proxy-authenticate", "trailer"])
      expect(answer.headers[name]).toBeUndefined();
    expect(answer.headers["x-farebox-cost-usd"]).toBe("0.00002625");
    expect(answer.headers["x-farebox-request-id"]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/);
    expect(await newCharges.settled()).toMatchObject({
      gatewayRequestId: "req_1",
      source: "reported",
      id: answer.headers["x-farebox-request-id"],
    });
  });

  it("with Farebox's request id if the gateway sends none", async () => {
    const { answer } = await passed({ model: "gpt-4o", messages: [{ role: "user", content: "hi" }] });
    expect(answer.headers["x-request-id"]).toBe(answer.headers["x-farebox-request-id"]);
    expect(await newCharges.settled()).toMatchObject({ gatewayRequestId: null });
  });

  it.each([400, 404, 418, 429, 451, 500, 503, 529])("if it is an error with status %i", async (status) => {
    const text = `{ "error" : {"message":"n\\u00f6", "code":null, "more":[1.0]} }\n`;
    const answer = await answeredWith(({ response }) => {
      response.writeHead(status, {
        "content-type": "application/problem+json",
        "retry-after": "17",
        "x-should-retry": "true",
      });
      response.end(text);
    });
    expect(answer).toMatchObject({
      status,
      headers: { "content-type": "application/problem+json", "retry-after": "17", "x-should-retry": "true" },
    });
    expect(answer.body.toString()).toBe(text);
    expect(await newCharges.settled()).toMatchObject({ state: "voided", reason: `gateway_${status}`, cost: null });
  });

  it("if it is an error without a body or in HTML", async () => {
    const empty = await answeredWith(({ response }) => response.writeHead(503, { "content-length": "0" }).end());
    expect(empty).toMatchObject({ status: 503, headers: { "content-length": "0" } });
    expect(empty.headers["content-type"]).toBeUndefined();
    const page = await answeredWith(({ response }) =>
      response.writeHead(403, { "content-type": "text/html" }).end("<h1>no</h1>"),
    );
    expect(page.body.toString()).toBe("<h1>no</h1>");
    expect(await newCharges.allSettled()).toMatchObject([{ state: "voided" }, { state: "voided" }]);
  });
});

it("names from the gateway are stored with at most 256 characters, and reach the client complete", async () => {
  const model = "m".repeat(300_000);
  const answer = await answeredWith(({ response }) => {
    response
      .writeHead(200, { "content-type": "application/json", "x-request-id": "r".repeat(1000) })
      .end(JSON.stringify({ ...JSON.parse(answerText), model }));
  });
  expect(JSON.parse(answer.body.toString()).model).toBe(model);
  expect(answer.headers["x-request-id"]).toBe("r".repeat(1000));
  expect(await newCharges.settled()).toMatchObject({ servedModel: "m".repeat(256), gatewayRequestId: "r".repeat(256) });
});

describe("the gateway's credential", () => {
  const secret = "sk-sandbox";
  it("is hidden in a plain answer that repeats it", async () => {
    const answer = await fetchAnswer(sandboxed, chatWith("echo-key+tokens:60"));
    expect(answer.status).toBe(200);
    expect(answer.body.toString()).not.toContain(secret);
    expect(JSON.parse(answer.body.toString()).choices[0].message.content).toContain("You called with Bearer <hidden>.");
    expect(answer.headers["content-length"]).toBe(String(answer.body.length));
    const { charge, billed } = await sandboxCharges.settledAndBilled();
    expect(charge).toMatchObject({ source: "reported", cost: billed?.cost });
  });

  it("is hidden in a compressed answer", async () => {
    const answer = await fetchAnswer(sandboxed, chatWith("echo-key+gzip+tokens:60"));
    expect(answer.headers["content-encoding"]).toBeUndefined();
    expect(JSON.parse(answer.body.toString()).choices[0].message.content).toContain("Bearer <hidden>");
    await sandboxCharges.settledAndBilled();
  });

  it.each([400, 402, 429, 500])("is hidden in an error with status %i", async (status) => {
    const answer = await fetchAnswer(sandboxed, chatWith(`echo-key+status:${status}`));
    expect(answer.status).toBe(status);
    expect(answer.body.toString()).not.toContain(secret);
    expect(JSON.parse(answer.body.toString()).error.message).toContain("You called with Bearer <hidden>");
    await sandboxCharges.settledAndBilled();
  });

  it("is hidden in base64 and in escaped form", async () => {
    const echo = {
      plain: "x",
      basic: Buffer.from(`Bearer ${secret}`).toString("base64"),
      url: Buffer.from(`a:${secret}?`).toString("base64url"),
    };
    const answer = await answeredWith(({ response }) => {
      response
        .writeHead(400, { "content-type": "application/json" })
        .end(JSON.stringify(echo).replace('"x"', String.raw`"\u0073k-sandb\u006Fx"`));
    });
    const { plain, basic, url } = JSON.parse(answer.body.toString()) as typeof echo;
    expect(plain).toBe("<hidden>");
    for (const text of [basic, url])
      expect(Buffer.from(text.replace("<hidden>", ""), "base64").toString()).not.toMatch(/sk|andbox/);
    expect(basic + url).toMatch(/<hidden>.*<hidden>/);
    await newCharges.settled();
  });

  it("is hidden in the stored model and id of an answer", async () => {
    await answeredWith(({ response }) => {
      const answer = {
        model: `m ${secret}`,
        choices: [{ index: 0, message: { content: "Hi" }, finish_reason: "stop" }],
        usage: { prompt_tokens: 1, completion_tokens: 1 },
      };
      response
        .writeHead(200, { "content-type": "application/json", "x-request-id": `r-${secret}` })
        .end(JSON.stringify(answer));
    });
    expect(await newCharges.settled()).toMatchObject({ servedModel: "m <hidden>", gatewayRequestId: "r-<hidden>" });
  });

  it("is hidden in headers", async () => {
    const answer = await answeredWith(({ response, request }) => {
      const echoed = request.headers["authorization"] ?? "";
      response
        .writeHead(400, { "x-echo": echoed, "www-authenticate": `Bearer error="${echoed}"`, "x-plain": "kept" })
        .end("{}");
    });
    expect(answer.rawHeaders.join("\n")).not.toContain(secret);
    expect(answer.headers["x-plain"]).toBe("kept");
    await newCharges.settled();
  });

  it("is not in the charges or the metrics; a client's key is in neither, and does not reach the gateway", async () => {
    const charges = await sandboxed.charges();
    const seen =
      JSON.stringify(charges, (_, value) => (typeof value === "bigint" ? String(value) : value)) +
      (await sandboxed.metrics());
    expect(seen).not.toContain(secret);
    expect(seen).not.toContain(sandboxed.key.slice("sk-fb-".length));
    expect(JSON.stringify(sandboxed.sandbox.requests.map(({ headers }) => headers))).not.toContain(sandboxed.key);
  });
});

it("a stream keeps its own headers and has no cost header", async () => {
  const opening = open(proxy, { model: "gpt-4o", stream: true, messages: [{ role: "user", content: "hi" }] });
  const { response } = await gateway.nextChat();
  response.writeHead(200, {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
  });
  response.end(delta("a") + finish({ usage }) + done);
  const answer = await opening;
  expect(answer.response.headers).toMatchObject({ "cache-control": "no-cache", "x-accel-buffering": "no" });
  expect(answer.response.headers["x-farebox-cost-usd"]).toBeUndefined();
  await answer.rest();
  await newCharges.settled();
});
