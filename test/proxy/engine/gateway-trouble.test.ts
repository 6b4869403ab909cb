import { once } from "node:events";
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from "node:http";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Charge } from "../../../src/core/charge.ts";
import { NewCharges, chatWith } from "../../support/new-charges.ts";
import { startProxy, type ProxyOptions, type RunningProxy } from "../../support/running-proxy.ts";
import {
  delta,
  done,
  finish,
  rawGateway,
  scriptedGateway,
  usage,
  type OpenRequest,
  type ScriptedGateway,
} from "../../support/scripted-gateway.ts";
import { fetchAnswer, errorCode, lastErrorCode, open, send, type WireAnswer } from "../../support/wire-client.ts";
import { stillClock } from "../../support/still-clock.ts";
import { freePort } from "../../support/free-port.ts";

const hello = { model: "gpt-4o", messages: [{ role: "user", content: "hello" }] };
const helloStream = { ...hello, stream: true };

/** Starts a proxy with a soft budget, and `Books` that follow its charges and the sandbox's bill. */
async function proxyWith(
  options: ProxyOptions = {},
): Promise<{ proxy: RunningProxy; newCharges: NewCharges } & AsyncDisposable> {
  const proxy = await startProxy(options);
  await proxy.budget("key:alice", "1000", "total", "soft");
  return { proxy, newCharges: new NewCharges(proxy), [Symbol.asyncDispose]: () => proxy[Symbol.asyncDispose]() };
}

type Running = Awaited<ReturnType<typeof proxyWith>>;

/** Proxies with a sandbox, with a gateway that each test scripts, and with a gateway that writes raw bytes. */
let sandboxed: Running;
let scripted: Running & { readonly gateway: ScriptedGateway };
let raw: Running & { answer: (socket: Socket) => void };
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  const early = ({ headers }: { headers: IncomingHttpHeaders }) =>
    headers["x-stainless-os"] === "early" ? "early-response:413" : undefined;
  // After `keep-alive: timeout=1` no connection is used again, so that resets are of new connections.
  sandboxed = everything.use(await proxyWith({ sandbox: { scenarioAtHeaders: early, keepAliveMs: 1_000 } }));
  const gateway = everything.use(await scriptedGateway());
  scripted = { ...everything.use(await proxyWith({ gatewayUrl: gateway.url })), gateway };
  const bytes = everything.use(await rawGateway((socket) => raw.answer(socket)));
  raw = { ...everything.use(await proxyWith({ gatewayUrl: bytes.url })), answer: () => undefined };
});
afterAll(() => everything.disposeAsync());

const withSilence =
  (silenceMs: number): NonNullable<ProxyOptions["adjust"]> =>
  (settings) => ({
    ...settings,
    gateway: { ...settings.gateway, silenceMs },
  });

const voided = (reason: string) => ({ state: "voided", cost: null, listCost: null, source: null, reason });

/** Checks that the whole hold was charged, because the outcome of the request is unknown. */
function expectHold(charge: Charge, reason: string): void {
  expect(charge).toMatchObject({ state: "posted", source: "assumed", formula: "assumed", reason, overage: 0n });
  expect(charge.hold).toBeGreaterThan(0n);
  expect(charge.cost).toBe(charge.hold);
  expect(charge.listCost).toBe(charge.hold);
}

describe("an answer of the gateway", () => {
  it.each([400, 402, 403, 404, 413, 422, 429, 500, 502, 503])(
    "passes with status %i unchanged, and the charge is voided",
    async (status) => {
      const { proxy, newCharges } = sandboxed;
      for (const stream of [false, true]) {
        const body = chatWith(`status:${status}`, { stream });
        const direct = await fetchAnswer({ url: proxy.sandbox.url, key: proxy.sandbox.apiKey }, body);
        const answer = await fetchAnswer(proxy, body);
        expect(answer.status).toBe(status);
        expect(answer.body).toEqual(direct.body);
        expect(answer.headers["content-type"]).toBe(direct.headers["content-type"]);
        expect(answer.headers["retry-after"]).toBe(status === 429 ? "1" : undefined);
        expect(answer.headers["x-farebox-error"]).toBeUndefined();
        expect(answer.headers["x-farebox-cost-usd"]).toBeUndefined();
        const { charge, billed } = await newCharges.settledAndBilled();
        expect(charge).toMatchObject({ ...voided(`gateway_${status}`), status, stream });
        expect(charge.gatewayRequestId).toBe(answer.headers["x-request-id"]);
        expect(billed).toBeUndefined();
      }
    },
  );

  it.each([408, 504, 520, 524])(
    "passes with status %i unchanged, and the hold is charged because it may have been billed",
    async (status) => {
      const { proxy, newCharges } = sandboxed;
      for (const stream of [false, true]) {
        const body = chatWith(`status:${status}+billed`, { stream, max_tokens: 200 });
        const direct = await fetchAnswer({ url: proxy.sandbox.url, key: proxy.sandbox.apiKey }, body);
        newCharges.billed();
        const answer = await fetchAnswer(proxy, body);
        expect(answer.status).toBe(status);
        expect(answer.body).toEqual(direct.body);
        expect(answer.headers["content-type"]).toBe(direct.headers["content-type"]);
        const { charge } = await newCharges.settledAndBilled();
        expectHold(charge, `gateway_${status}`);
        expect(charge.status).toBe(status);
      }
    },
  );

  it("passes as an HTML page with status 502, and the charge is voided", async () => {
    const { proxy, newCharges } = sandboxed;
    const answer = await fetchAnswer(proxy, chatWith("html:502"));
    expect(answer).toMatchObject({ status: 502, headers: { "content-type": "text/html; charset=UTF-8" } });
    expect(answer.body.toString()).toContain("502 Bad Gateway");
    expect(await newCharges.settled()).toMatchObject(voided("gateway_502"));
  });

  it.each([
    ["an HTML page", "html:200", "text/html; charset=UTF-8"],
    ["no body", "empty", undefined],
    ["incomplete JSON", "bad-json", "application/json"],
  ])("with %s and status 200 passes unchanged, and the hold is charged", async (_what, scenario, contentType) => {
    const { proxy, newCharges } = sandboxed;
    for (const stream of [false, true]) {
      const body = chatWith(`${scenario}+billed`, { stream, max_tokens: 200 });
      const direct = await fetchAnswer({ url: proxy.sandbox.url, key: proxy.sandbox.apiKey }, body);
      newCharges.billed();
      const answer = await fetchAnswer(proxy, body);
      expect(answer).toMatchObject({ status: 200, broken: null });
      expect(answer.headers["content-type"]).toBe(contentType);
      expect(answer.body).toEqual(direct.body);
      const { charge } = await newCharges.settledAndBilled();
      expectHold(charge, "unreadable_answer");
    }
  });

  it("passes if it arrives before the request's body is read", async () => {
    const { proxy, newCharges } = sandboxed;
    const huge = { model: "gpt-4o", messages: [{ role: "user", content: "x".repeat(6_000_000) }] };
    const answer = await fetchAnswer(proxy, huge, { headers: { "x-stainless-os": "early" } });
    expect(answer.status).toBe(413);
    expect(JSON.parse(answer.body.toString()).error.message).toBe("The request is too large.");
    expect(await newCharges.settled()).toMatchObject({ ...voided("gateway_413"), status: 413 });
  });

  it("passes if it arrives early and the gateway closes without reading the rest", async () => {
    const text = '{"error":{"message":"too large","type":"invalid_request_error","param":null,"code":null}}';
    await using gateway = await scriptedGateway({ readBodies: false });
    await using early = await proxyWith({ gatewayUrl: gateway.url });
    const huge = { model: "gpt-4o", messages: [{ role: "user", content: "x".repeat(12_000_000) }] };
    const answering = fetchAnswer(early.proxy, huge);
    const { request, response } = await gateway.nextChat();
    response.writeHead(413, {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(text),
      connection: "close",
    });
    response.end(text, () => request.socket.end());
    const answer = await answering;
    expect(answer).toMatchObject({ status: 413, broken: null });
    expect(answer.body.toString()).toBe(text);
    expect(await early.newCharges.settled()).toMatchObject({ ...voided("gateway_413"), status: 413 });
  });
});

describe("an unreachable gateway", () => {
  it("gives a 502 if nothing listens, and the charge is voided", async () => {
    await using running = await proxyWith({ gatewayUrl: `http://127.0.0.1:${await freePort()}` });
    for (const body of [hello, helloStream]) {
      const answer = await fetchAnswer(running.proxy, body);
      expect(answer.status).toBe(502);
      expect(errorCode(answer)).toBe("gateway_unreachable");
      expect(answer.headers["x-farebox-error"]).toBe("gateway_unreachable");
      expect(await running.newCharges.settled()).toMatchObject({ ...voided("gateway_unreachable"), status: 502 });
    }
  });

  it("gives a 502 if TLS fails, and the charge is voided because no byte was sent", async () => {
    const plain = createServer((socket) => socket.on("error", () => undefined).end("no TLS here")).listen(
      0,
      "127.0.0.1",
    );
    await once(plain, "listening");
    const { port } = plain.address() as AddressInfo;
    await using running = await proxyWith({ gatewayUrl: `https://127.0.0.1:${port}` });
    const answer = await fetchAnswer(running.proxy, hello);
    expect(answer.status).toBe(502);
    expect(errorCode(answer)).toBe("gateway_unreachable");
    expect(await running.newCharges.settled()).toMatchObject({ ...voided("gateway_unreachable"), status: 502 });
    plain.close();
  });

  it("gives a 504 if the connection is not established in time, and the charge is voided", async () => {
    const mute = createServer((socket) => socket.on("error", () => undefined).resume()).listen(0, "127.0.0.1");
    await once(mute, "listening");
    const { port } = mute.address() as AddressInfo;
    await using running = await proxyWith({ gatewayUrl: `https://127.0.0.1:${port}`, adjust: withSilence(150) });
    const answer = await fetchAnswer(running.proxy, hello);
    expect(answer.status).toBe(504);
    expect(errorCode(answer)).toBe("gateway_timeout");
    expect(await running.newCharges.settled()).toMatchObject({ ...voided("gateway_unreachable"), status: 504 });
    mute.close();
  });
});

describe("a gateway connection that breaks", () => {
  it.each([false, true])("before the headers gives a 502, and the hold is charged (stream: %s)", async (stream) => {
    const { proxy, newCharges } = sandboxed;
    const answer = await fetchAnswer(proxy, chatWith("reset-before+billed", { stream, max_tokens: 200 }));
    expect(answer.status).toBe(502);
    expect(errorCode(answer)).toBe("gateway_unreachable");
    const { charge } = await newCharges.settledAndBilled();
    expectHold(charge, "gateway_reset");
    expect(charge.status).toBe(502);
  });

  it("after the headers of a plain answer gives a 502, and the hold is charged", async () => {
    const { proxy, newCharges } = sandboxed;
    for (const scenario of ["reset-after-headers", "cut", "wrong-length:long"]) {
      const answer = await fetchAnswer(proxy, chatWith(scenario, { max_tokens: 200 }));
      expect(answer.status).toBe(502);
      expect(errorCode(answer)).toBe("gateway_unreachable");
      const { charge, billed } = await newCharges.settledAndBilled();
      expectHold(charge, "gateway_reset");
      expect(billed).toBeDefined();
    }
  });

  it("after the headers of a stream ends in an error event, and the prompt is charged", async () => {
    const { proxy, newCharges } = sandboxed;
    const answer = await fetchAnswer(proxy, chatWith("reset-after-headers", { stream: true }));
    expect(answer).toMatchObject({ status: 200, broken: null });
    expect(lastErrorCode(answer.body)).toBe("gateway_stream_broken");
    const { charge, billed } = await newCharges.settledAndBilled();
    expect(charge).toMatchObject({ state: "posted", source: "partial", reason: "gateway_reset", status: 200 });
    expect(charge.tokens).toMatchObject({ input: billed?.promptTokens, output: 0 });
  });

  it.each([
    ["plain", {}],
    ["with usage", { stream_options: { include_usage: true } }],
    ["with two choices", { n: 2 }],
  ])(
    "in the middle of a stream ends in an error event, and the delivered part is charged: %s",
    async (_which, more) => {
      const { proxy, newCharges } = sandboxed;
      const answer = await fetchAnswer(proxy, chatWith("cut:7", { stream: true, ...more }));
      expect(answer).toMatchObject({ status: 200, broken: null });
      expect(lastErrorCode(answer.body)).toBe("gateway_stream_broken");
      expect(answer.body.toString()).not.toContain("[DONE]");
      const { charge, billed } = await newCharges.settledAndBilled();
      expect(charge).toMatchObject({ state: "posted", source: "partial", reason: "gateway_reset", status: 200 });
      expect(charge.tokens).toMatchObject({ input: billed?.promptTokens, output: billed?.deliveredTokens });
      expect(charge.cost).toBe(billed?.cost);
      expect(charge.cost).toBeLessThan(charge.hold ?? 0n);
    },
  );

  it("with a clean end in an incomplete stream ends in an error event, and the charge is partial", async () => {
    const { proxy, newCharges } = sandboxed;
    const answer = await fetchAnswer(proxy, chatWith("no-finish+tokens:12", { stream: true }));
    expect(answer).toMatchObject({ status: 200, broken: null });
    expect(lastErrorCode(answer.body)).toBe("gateway_stream_broken");
    const { charge } = await newCharges.settledAndBilled();
    expect(charge).toMatchObject({ source: "partial", reason: "gateway_cut", tokens: { output: 12 } });
  });

  it("after the gateway's own error event passes the event, and the charge is partial", async () => {
    const { proxy, newCharges } = sandboxed;
    const answer = await fetchAnswer(proxy, chatWith("stream-error:4", { stream: true }));
    const messages = eventsWithErrors(answer.body);
    expect(messages[0]).toBe("The server had an error while processing your request.");
    const { charge } = await newCharges.settledAndBilled();
    expect(charge).toMatchObject({ source: "partial", reason: "gateway_failed", tokens: { output: 4 } });
  });

  it("at a stated length that is too short for a plain answer has the hold charged", async () => {
    const { proxy, newCharges } = sandboxed;
    const answer = await fetchAnswer(proxy, chatWith("wrong-length:short", { max_tokens: 200 }));
    expect(answer).toMatchObject({ status: 200, broken: null });
    const { charge } = await newCharges.settledAndBilled();
    expectHold(charge, "unreadable_answer");
  });

  it("before the stated length of a stream ends in Farebox's error event", async () => {
    const { gateway, ...running } = scripted;
    const opening = open(running.proxy, helloStream);
    const { request, response } = await gateway.nextChat();
    const first = delta("Hello");
    response.writeHead(200, { "content-type": "text/event-stream", "content-length": first.length + 20 });
    response.write(first);
    const answer = await opening;
    await answer.take(first.length);
    request.socket.destroy();
    expect(lastErrorCode(await answer.rest())).toBe("gateway_stream_broken");
    expect(await running.newCharges.settled()).toMatchObject({
      source: "partial",
      reason: "gateway_reset",
      tokens: { output: 1 },
    });
  });

  it("in the middle of an answer too large to buffer breaks the client's connection, and the hold is charged", async () => {
    const { gateway, ...running } = scripted;
    const opening = open(running.proxy, hello);
    const { request, response } = await gateway.nextChat();
    response.writeHead(200, { "content-type": "application/json" });
    response.write(`{"choices":[{"message":{"content":"${"x".repeat(1_500_000)}`);
    const answer = await opening;
    await answer.take(1_000_000);
    request.socket.destroy();
    await expect(answer.rest()).rejects.toThrow("aborted");
    expectHold(await running.newCharges.settled(), "gateway_reset");
  });
});

describe("a gateway that closes idle connections after 2 s without notice", () => {
  it.each([false, true])("costs one hold, not one for each request after a pause (stream: %s)", async (stream) => {
    const clock = stillClock();
    const idleSince = new WeakMap<Socket, number>();
    const chunk = delta("Hello") + finish({ usage }) + done;
    const plain = JSON.stringify({ model: "gpt-4o", choices: [{ message: { content: "Hello" } }], usage });
    const [type, text] = stream ? ["text/event-stream", chunk] : ["application/json", plain];
    await using gateway = await rawGateway((socket, head) => {
      if (head.startsWith("GET /account/info"))
        return void socket.end("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
      if (clock.monotonic() - (idleSince.get(socket) ?? Infinity) >= 2_000) return void socket.resetAndDestroy();
      idleSince.set(socket, clock.monotonic());
      return void socket.write(
        `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\nkeep-alive: timeout=60\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
      );
    });
    await using running = await proxyWith({ gatewayUrl: gateway.url, clock });
    const failures: WireAnswer[] = [];
    for (let round = 0; round < 9; round++) {
      // A client that tries again, as SDKs do.
      for (;;) {
        const answer = await fetchAnswer(running.proxy, { ...hello, stream });
        if (answer.status === 200) break;
        failures.push(answer);
      }
      await running.proxy.serving.settled();
      clock.forward(3_000);
    }
    expect(failures.map(({ status, body }) => [status, JSON.parse(body.toString()).error])).toMatchObject([
      [502, { code: "gateway_unreachable", message: "The gateway closed a reused connection before it answered." }],
    ]);
    const charges = await running.newCharges.allSettled();
    const [lost, ...others] = charges.filter(({ reason }) => reason !== null);
    expect(others).toEqual([]);
    expectHold(lost as Charge, "gateway_reset_reused");
    expect(charges.filter(({ source }) => source === "reported")).toHaveLength(9);
  });
});

function eventsWithErrors(body: Buffer): string[] {
  return body
    .toString()
    .split("\n\n")
    .filter((event) => event.startsWith('data: {"error"'))
    .map((event) => JSON.parse(event.slice(6)).error.message);
}

describe("a silent gateway", () => {
  const silenceMs = 500;
  // Only the test lets time pass, so that no answer is late on a busy machine.
  const clock = stillClock();
  let impatient: Running;
  beforeAll(async () => {
    impatient = await proxyWith({ adjust: withSilence(silenceMs), clock });
  });
  afterAll(() => impatient[Symbol.asyncDispose]());

  /** Sends a request, and lets the time limit pass once the sandbox has handled it. */
  async function outwaited(body: object): Promise<WireAnswer> {
    const { sandbox } = impatient.proxy;
    const seen = sandbox.requests.length;
    const answering = fetchAnswer(impatient.proxy, body);
    await sandbox.waitFor(({ requests }) => {
      const request = requests.slice(seen).find(({ path }) => path === "/v1/chat/completions");
      return request?.scenario === "silent-stream" ? request.status === 200 : request !== undefined;
    });
    // What the sandbox has written arrives before the answer to another request.
    await impatient.proxy.metrics();
    return clock.forwardUntil(silenceMs, answering);
  }

  it("gives a 504, and the hold is charged", async () => {
    const { proxy, newCharges } = impatient;
    for (const stream of [false, true]) {
      const answer = await outwaited(chatWith("silent+billed", { stream, max_tokens: 200 }));
      expect(answer.status).toBe(504);
      expect(errorCode(answer)).toBe("gateway_timeout");
      await proxy.sandbox.waitFor(({ requests }) => requests.every(({ ended }) => ended === "clientLeft"));
      const { charge } = await newCharges.settledAndBilled();
      expectHold(charge, "gateway_silent");
      expect(charge.status).toBe(504);
    }
  });

  it("after a stream's headers ends the stream with an error event, and the delivered part is charged", async () => {
    const { proxy, newCharges } = impatient;
    const answer = await open(proxy, chatWith("silent-stream", { stream: true }));
    expect(lastErrorCode(await clock.forwardUntil(silenceMs, answer.rest()))).toBe("gateway_stream_broken");
    await proxy.sandbox.waitFor(({ requests }) => requests.every(({ ended }) => ended === "clientLeft"));
    const { charge } = await newCharges.settledAndBilled();
    expect(charge).toMatchObject({ source: "partial", reason: "gateway_silent", status: 200, tokens: { output: 0 } });
  });

  it("after a plain answer's headers gives a 504, and the hold is charged", async () => {
    const answer = await outwaited(chatWith("silent-stream", { max_tokens: 200 }));
    expect(answer.status).toBe(504);
    const { charge } = await impatient.newCharges.settledAndBilled();
    expectHold(charge, "gateway_silent");
  });

  it("does not time out while bytes arrive", async () => {
    await using gateway = await scriptedGateway();
    await using running = await proxyWith({ gatewayUrl: gateway.url, adjust: withSilence(silenceMs), clock });
    const opening = open(running.proxy, helloStream);
    const { response } = await gateway.nextChat();
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (let count = 0; count < 12; count++) {
      response.write(delta("word"));
      await (await opening).take(delta("word").length);
      clock.forward(silenceMs - 1);
    }
    response.end(finish() + done);
    expect(lastErrorCode(await (await opening).rest())).toBeUndefined();
    expect(await running.newCharges.settled()).toMatchObject({
      source: "counted",
      tokens: { output: 12 },
      durationMs: 12 * (silenceMs - 1),
    });
  });
});

describe("a redirect", () => {
  it("to the same origin is followed for status 307 with the same bytes, and charged once", async () => {
    const { proxy, newCharges } = sandboxed;
    const text = JSON.stringify(chatWith("redirect-307"), null, 3);
    const answer = await fetchAnswer(proxy, text);
    expect(answer.status).toBe(200);
    const [first, second, ...more] = proxy.sandbox.requests.slice(-2);
    expect(more).toEqual([]);
    expect(first?.body.toString()).toBe(text);
    expect(second?.body.toString()).toBe(text);
    expect([first?.path, second?.path]).toEqual(["/v1/chat/completions", "/moved/1/v1/chat/completions"]);
    const { charge, billed } = await newCharges.settledAndBilled();
    expect(charge).toMatchObject({ state: "posted", source: "reported", cost: billed?.cost });
  });

  it("to another origin gives a 502, and the other server gets no connection", async () => {
    await using foreign = await scriptedGateway();
    const running = sandboxed;
    for (const stream of [false, true]) {
      const body = chatWith(`redirect-foreign:${foreign.url}/v1/chat/completions`, { stream });
      const answer = await fetchAnswer(running.proxy, body);
      expect(answer.status).toBe(502);
      expect(errorCode(answer)).toBe("gateway_redirect");
      expect(answer.headers["location"]).toBeUndefined();
      expect(await running.newCharges.settled()).toMatchObject({ ...voided("gateway_307"), status: 502 });
    }
    expect(foreign.connections).toBe(0);
  });

  it("to another name of the same machine counts as one to another origin", async () => {
    const { proxy, newCharges } = sandboxed;
    const before = proxy.sandbox.requests.length;
    const answer = await fetchAnswer(proxy, chatWith("redirect-foreign"));
    expect(errorCode(answer)).toBe("gateway_redirect");
    expect(proxy.sandbox.requests).toHaveLength(before + 1);
    expect(await newCharges.settled()).toMatchObject({ state: "voided" });
  });

  it("in a loop gives a 502, and the charge is voided", async () => {
    const { proxy, newCharges } = sandboxed;
    const answer = await fetchAnswer(proxy, chatWith("redirect-loop"));
    expect(answer.status).toBe(502);
    expect(errorCode(answer)).toBe("gateway_redirect");
    expect(await newCharges.settled()).toMatchObject({ state: "voided", status: 502 });
  });

  it.each([301, 302, 303])(
    "with status %i is refused instead of turning a POST into a GET, and the charge is voided",
    async (status) => {
      const { gateway, ...running } = scripted;
      const answering = fetchAnswer(running.proxy, hello);
      const { response } = await gateway.nextChat();
      response.writeHead(status, { location: "/elsewhere" }).end();
      const answer = await answering;
      expect(answer.status).toBe(502);
      expect(errorCode(answer)).toBe("gateway_redirect");
      expect(await running.newCharges.settled()).toMatchObject({ state: "voided" });
    },
  );

  it("to the same origin that is then unreachable gives a 502, and the charge is voided", async () => {
    await using gateway = await scriptedGateway();
    await using running = await proxyWith({ gatewayUrl: gateway.url });
    const answering = fetchAnswer(running.proxy, hello);
    const { response, request } = await gateway.nextChat();
    await gateway.stopListening();
    response.writeHead(307, { location: "/moved", connection: "close", "content-length": "0" });
    response.end(() => request.socket.destroy());
    const answer = await answering;
    expect(answer.status).toBe(502);
    expect(errorCode(answer)).toBe("gateway_unreachable");
    expect(await running.newCharges.settled()).toMatchObject(voided("gateway_unreachable"));
  });
});

describe("an answer that the gateway compresses although the request does not accept it", () => {
  it.each(["gzip", "br", "zstd"])("passes unchanged in %s and is metered from a copy", async (encoding) => {
    const { proxy, newCharges } = sandboxed;
    const plain = await fetchAnswer(proxy, chatWith(encoding));
    expect(plain.headers["content-encoding"]).toBe(encoding);
    const { charge, billed } = await newCharges.settledAndBilled();
    expect(proxy.sandbox.requests.at(-1)?.headers["accept-encoding"]).toBe("identity");
    expect(charge).toMatchObject({ source: "reported", cost: billed?.cost });
    expect(plain.headers["x-farebox-cost-usd"]).toBeDefined();

    const stream = await fetchAnswer(
      proxy,
      chatWith(encoding, { stream: true, stream_options: { include_usage: true } }),
    );
    expect(stream.headers["content-encoding"]).toBe(encoding);
    expect(stream.broken).toBeNull();
    const streamed = await newCharges.settledAndBilled();
    expect(streamed.charge).toMatchObject({ source: "reported", cost: streamed.billed?.cost });

    const cut = await fetchAnswer(proxy, chatWith(`${encoding}+cut:5`, { stream: true, max_tokens: 200 }));
    expect(cut.broken).not.toBeNull();
    const broken = await newCharges.settledAndBilled();
    expect(["partial", "assumed"]).toContain(broken.charge.source);
    expect(broken.charge.reason).toBe("gateway_reset");
  });
});

/** Destroys the client's request and waits until it is closed. */
function leave(request: ClientRequest): Promise<void> {
  return new Promise((resolve) => {
    request.once("close", resolve);
    request.destroy();
  });
}

const refusals = async (proxy: RunningProxy) => (await proxy.metrics()).match(/^farebox_refusals_total.*$/gm);

describe("a client that leaves", () => {
  async function asked(stream: boolean): Promise<{ request: ClientRequest; gateway: OpenRequest }> {
    const request = send(scripted.proxy, { ...hello, stream });
    return { request, gateway: await scripted.gateway.nextChat() };
  }

  it("before a stream's headers ends the gateway's request at once, and the prompt is charged", async () => {
    const { request, gateway } = await asked(true);
    const { newCharges } = scripted;
    const refused = await refusals(scripted.proxy);
    request.destroy();
    await gateway.closed;
    expect(gateway.response.writableFinished).toBe(false);
    const charge = await newCharges.settled();
    expect(charge).toMatchObject({
      state: "posted",
      source: "partial",
      reason: "client_left",
      status: null,
      stream: true,
    });
    expect(charge.tokens.input).toBeGreaterThan(0);
    expect(charge.tokens.output).toBe(0);
    expect(await refusals(scripted.proxy)).toEqual(refused);
  });

  it.each<[when: string, words: readonly string[]]>([
    ["after a stream's headers", []],
    ["in the middle of a stream", ["Hello", " world", "!"]],
  ])("%s ends the gateway's request at once, and the delivered part is charged", async (_when, words) => {
    const { request, gateway } = await asked(true);
    const { newCharges } = scripted;
    gateway.response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
    const [response] = (await once(request, "response")) as [IncomingMessage];
    for (const word of words) {
      gateway.response.write(delta(word));
      await once(response, "data");
    }
    request.destroy();
    await gateway.closed;
    expect(await newCharges.settled()).toMatchObject({
      source: "partial",
      reason: "client_left",
      status: 200,
      tokens: { output: words.length },
    });
  });

  it("before a plain answer is charged as reported after the answer is read to its end", async () => {
    const { request, gateway } = await asked(false);
    const { newCharges } = scripted;
    await leave(request);
    const usage = { prompt_tokens: 8, completion_tokens: 40, total_tokens: 48 };
    const answer = {
      choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
      usage,
    };
    gateway.response.writeHead(200, { "content-type": "application/json" });
    gateway.response.end(JSON.stringify(answer));
    await gateway.closed;
    expect(gateway.response.writableFinished).toBe(true);
    expect(await newCharges.settled()).toMatchObject({
      source: "reported",
      reason: null,
      tokens: { input: 8, output: 40 },
    });
  });

  it("in the middle of a large plain answer is charged as reported after the answer is read to its end", async () => {
    const { request, gateway } = await asked(false);
    const { newCharges } = scripted;
    gateway.response.writeHead(200, { "content-type": "application/json" });
    gateway.response.write(
      `{"usage":{"prompt_tokens":8,"completion_tokens":40,"total_tokens":48},"choices":[{"message":{"content":"${"x".repeat(3_000_000)}`,
    );
    const [response] = (await once(request, "response")) as [IncomingMessage];
    await once(response, "data");
    response.on("error", () => undefined);
    request.destroy();
    gateway.response.end(`${"y".repeat(3_000_000)}"}}]}`);
    await gateway.closed;
    expect(gateway.response.writableFinished).toBe(true);
    expect(await newCharges.settled()).toMatchObject({
      source: "reported",
      status: 200,
      tokens: { input: 8, output: 40 },
    });
  });

  it("before an error of the gateway has its charge voided", async () => {
    const { request, gateway } = await asked(false);
    const { newCharges } = scripted;
    await leave(request);
    gateway.response.writeHead(503).end("{}");
    expect(await newCharges.settled()).toMatchObject(voided("gateway_503"));
  });
});

describe("a malformed or unusual HTTP answer", () => {
  it.each([
    ["a status below 100", "HTTP/1.1 099 Odd\r\ncontent-length: 2\r\n\r\n{}"],
    ["a switch of protocols", "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"],
    ["no HTTP at all", "SSH-2.0-OpenSSH_9.2\r\n"],
    ["two lengths", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}"],
    ["chunks without a length", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"],
  ])("with %s gives a 502, and the hold is charged", async (_what, bytes) => {
    raw.answer = (socket) => socket.write(bytes);
    const answer = await fetchAnswer(raw.proxy, hello);
    expect(answer.status).toBe(502);
    expect(errorCode(answer)).toBe("gateway_unreachable");
    expectHold(await raw.newCharges.settled(), "gateway_reset");
  });

  it.each([
    ["status 103 before it", "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"] as const,
    ["HTTP version 1.0", ""] as const,
    ["status 100 before it", "HTTP/1.1 100 Continue\r\n\r\n"] as const,
    [
      "status 100 twice and 103 before it",
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 \r\nx: y\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n",
    ] as const,
  ])("passes with %s", async (_what, before) => {
    const body =
      '{"usage":{"prompt_tokens":8,"completion_tokens":4,"total_tokens":12},"choices":[{"message":{"content":"x"}}]}';
    raw.answer = (socket) => socket.end(`${before}HTTP/1.0 200 Fine\r\ncontent-type: application/json\r\n\r\n${body}`);
    const answer = await fetchAnswer(raw.proxy, hello);
    expect(answer).toMatchObject({ status: 200, broken: null });
    expect(answer.body.toString()).toBe(body);
    expect(await raw.newCharges.settled()).toMatchObject({ source: "reported", tokens: { input: 8, output: 4 } });
  });

  it("with broken framing is delivered and charged up to the broken byte", async () => {
    const content = "hello ".repeat(200);
    const event = `data: ${JSON.stringify({ model: "gpt-4o", choices: [{ index: 0, delta: { content } }] })}\n\n`;
    const head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    const size = Buffer.byteLength(event).toString(16);
    raw.answer = (socket) => void socket.write(`${head}${size}\r\n${event}\r\nno size\r\n`);
    const answer = await fetchAnswer(raw.proxy, helloStream);
    expect(answer.body.toString()).toContain("hello hello");
    expect((await raw.newCharges.settled()).tokens?.output).toBeGreaterThanOrEqual(200);
  });

  it("that is long passes if it arrives together with status 100", async () => {
    const content = "x".repeat(60_000);
    const usage = '"usage":{"prompt_tokens":8,"completion_tokens":4,"total_tokens":12}';
    const body = `{${usage},"choices":[{"message":{"content":"${content}"}}]}`;
    const head = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 Fine\r\ncontent-type: application/json\r\n\r\n";
    raw.answer = (socket) => socket.end(`${head}${body}`);
    const answer = await fetchAnswer(raw.proxy, hello);
    expect(answer.body.toString()).toBe(body);
    expect(await raw.newCharges.settled()).toMatchObject({ source: "reported", tokens: { input: 8, output: 4 } });
  });

  it("passes if status 100 and its head arrive byte by byte", async () => {
    const body = '{"usage":{"prompt_tokens":8,"completion_tokens":4,"total_tokens":12},"choices":[{"message":{}}]}';
    raw.answer = async (socket) => {
      const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
      socket.setNoDelay(true);
      for (const byte of `HTTP/1.1 100 Continue\r\n\r\n${head}`) {
        socket.write(byte);
        await new Promise((resolve) => setImmediate(resolve));
      }
      socket.write(body);
    };
    const answer = await fetchAnswer(raw.proxy, hello);
    expect(answer).toMatchObject({ status: 200, broken: null });
    expect(answer.body.toString()).toBe(body);
    expect(await raw.newCharges.settled()).toMatchObject({ source: "reported", tokens: { input: 8, output: 4 } });
  });

  it("whose text looks like an interim response reaches the client unchanged", async () => {
    const body = "HTTP/1.1 100 Continue\r\n\r\n";
    raw.answer = (socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: ${body.length}\r\n\r\n`);
      setImmediate(() => socket.write(body));
    };
    expect((await fetchAnswer(raw.proxy, hello)).body.toString()).toBe(body);
    await raw.newCharges.settled();
  });

  it("with connection: close does not affect the next request", async () => {
    const { proxy, newCharges } = sandboxed;
    for (const stream of [false, true]) {
      const answer = await fetchAnswer(proxy, chatWith("close", { stream }), { headers: { connection: "keep-alive" } });
      expect(answer).toMatchObject({ status: 200, broken: null });
      expect(answer.headers["connection"]).not.toBe("close");
      expect((await newCharges.settledAndBilled()).charge.state).toBe("posted");
    }
  });
});
