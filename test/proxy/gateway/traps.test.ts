import { once } from "node:events";
import { Agent, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BodyBytes } from "../../../src/ports/exchange.ts";
import type { GatewayOptions } from "../../../src/gateway/call.ts";
import { createGateway, type Engine } from "../../../src/gateway/gateway.ts";
import { idleSocketMs } from "../../../src/gateway/idle-sockets.ts";
import type { Gateway, GatewayFailure, GatewayRequest } from "../../../src/ports/gateway.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import { NewCharges, chatWith } from "../../support/new-charges.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
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
import { manualClock } from "../../support/manual-clock.ts";
import { fetchAnswer, bytesOf, open, send } from "../../support/wire-client.ts";

/** Traps of http-proxy-middleware 4 that every engine must avoid. */
describe.each<Engine>(["http-proxy-middleware", "undici"])("the engine %s", (engine) => {
  const createOf = (options: GatewayOptions) => createGateway(engine, options);
  const clock = systemClock();
  const everything = new AsyncDisposableStack();
  let scripted: ScriptedGateway;
  let gateway: Gateway;

  beforeAll(async () => {
    scripted = everything.use(await scriptedGateway());
    gateway = everything.use(await createOf({ baseUrl: scripted.url, apiKey: "sk-gateway", clock }));
  });
  afterAll(() => everything.disposeAsync());

  const request = (more: Partial<GatewayRequest> = {}): GatewayRequest => ({
    method: "POST",
    path: "/v1/chat/completions",
    headers: { "content-type": "application/json" },
    body: new BodyBytes([Buffer.from("{}")]),
    silenceMs: 60_000,
    ...more,
  });

  /** Sends a request and collects the receiver's events in order. */
  function sent(of: Gateway, more: Partial<GatewayRequest> = {}) {
    const events: string[] = [];
    const chunks: Buffer[] = [];
    const head = Promise.withResolvers<number>();
    const first = Promise.withResolvers<Buffer>();
    const over = Promise.withResolvers<GatewayFailure | "end">();
    const call = of.send(request(more), {
      head({ status }) {
        events.push(`head ${status}`);
        head.resolve(status);
      },
      chunk(bytes) {
        if (events.at(-1) !== "chunk") events.push("chunk");
        chunks.push(bytes as Buffer);
        first.resolve(bytes as Buffer);
      },
      end() {
        events.push("end");
        over.resolve("end");
      },
      fail(failure) {
        events.push(`fail ${failure.kind}`);
        over.resolve(failure);
      },
    });
    return {
      call,
      events,
      head: head.promise,
      first: first.promise,
      over: over.promise,
      body: () => Buffer.concat(chunks),
    };
  }

  it("runs 300 requests at once, more than the 256 sockets of a default agent", async () => {
    const calls = Array.from({ length: 300 }, () => sent(gateway));
    const received: OpenRequest[] = [];
    // No request is answered before all have arrived.
    for (const _ of calls) received.push(await scripted.next());
    expect(scripted.connections).toBeGreaterThanOrEqual(300);
    for (const { response } of received) response.end("{}");
    expect(await Promise.all(calls.map(({ over }) => over))).toEqual(calls.map(() => "end"));
  });

  it.each([70_000, 40_000, 1])("sends the body unchanged in pieces of %i, with its length", async (length) => {
    const body = Buffer.from(Array.from({ length: 70_000 }, (_, at) => at % 256));
    const pieces = Array.from({ length: Math.min(70_000 / length, 100) }, (_, at) =>
      body.subarray(at * length, (at + 1) * length),
    );
    pieces.push(body.subarray(pieces.length * length));
    const { over } = sent(gateway, { body: new BodyBytes(pieces) });
    const received = await scripted.next();
    expect(received.body.equals(body)).toBe(true);
    expect(received.request.headers["content-length"]).toBe("70000");
    received.response.end("{}");
    expect(await over).toBe("end");
  });

  it("completes a request without a body", async () => {
    const { over } = sent(gateway, { method: "GET", path: "/account/info", body: undefined });
    const received = await scripted.next();
    expect(received.request.headers).toMatchObject({ "x-api-key": "sk-gateway" });
    expect(received.request.headers["authorization"]).toBeUndefined();
    expect(received.body).toHaveLength(0);
    received.response.end("{}");
    expect(await over).toBe("end");
  });

  it("reports a reset in the middle of a stream, without added text", async () => {
    const call = sent(gateway);
    const { request, response } = await scripted.next();
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(delta("a"));
    await call.first;
    request.socket.resetAndDestroy();
    expect(await call.over).toMatchObject({ kind: "reset" });
    expect(call.body().toString()).toBe(delta("a"));
    expect(call.events).toEqual(["head 200", "chunk", "fail reset"]);
  });

  it("reports a timeout as silence, not as a reset, before and after the headers", async () => {
    const manual = manualClock();
    await using own = await createOf({ baseUrl: scripted.url, apiKey: "sk-gateway", clock: manual });
    const before = sent(own, { silenceMs: 50 });
    const first = await scripted.next();
    manual.advance(50);
    expect(await before.over).toEqual({ kind: "silent" });
    await first.closed;
    const after = sent(own, { silenceMs: 50 });
    const second = await scripted.next();
    second.response.writeHead(200).flushHeaders();
    await after.head;
    manual.advance(50);
    expect(await after.over).toEqual({ kind: "silent" });
    await second.closed;
    expect(after.events).toEqual(["head 200", "fail silent"]);
  });

  it("ends the gateway's request on an abort before the headers, without further events", async () => {
    const call = sent(gateway);
    const { closed, response } = await scripted.next();
    expect(call.call.sent).toBe(true);
    call.call.abort();
    await closed;
    expect(response.writableFinished).toBe(false);
    expect(call.events).toEqual([]);
  });

  it("sends nothing after an abort before the connection is established", async () => {
    const arrived = scripted.connections;
    const call = sent(gateway);
    expect(call.call.sent).toBe(false);
    call.call.abort();
    const next = sent(gateway, { path: "/v1/next" });
    const received = await scripted.next();
    expect(received.request.url).toBe("/v1/next");
    received.response.end("{}");
    expect(await next.over).toBe("end");
    expect(call.events).toEqual([]);
    expect(scripted.connections - arrived).toBeLessThanOrEqual(2);
  });

  it("reports headers before the first chunk", async () => {
    const call = sent(gateway);
    const { response } = await scripted.next();
    response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
    expect(await call.head).toBe(200);
    response.end("x");
    expect(await call.over).toBe("end");
  });

  it("stops reading while paused, without a timeout, and continues when resumed", async () => {
    const manual = manualClock();
    await using own = await createOf({ baseUrl: scripted.url, apiKey: "sk-gateway", clock: manual });
    const call = sent(own, { silenceMs: 100 });
    const { response } = await scripted.next();
    response.writeHead(200, { connection: "close" }).write("one");
    await call.first;
    call.call.pause();
    const rest = Buffer.alloc(48 * 1024 * 1024, "x");
    response.end(rest);
    for (let turn = 0; turn < 10; turn += 1) manual.advance(100);
    // Other requests to the same gateway complete meanwhile on other connections.
    for (let turn = 0; turn < 50; turn += 1) {
      const other = sent(gateway);
      (await scripted.next()).response.end("{}");
      await other.over;
    }
    expect(call.body().length).toBeLessThan(1024 * 1024);
    expect(call.events).toEqual(["head 200", "chunk"]);
    call.call.resume();
    expect(await call.over).toBe("end");
    expect(call.body().length).toBe(3 + rest.length);
    // One timer serves all calls and stops when none is left.
    expect(manual.waiting).toBe(1);
    manual.advance(100);
    expect(manual.waiting).toBe(0);
  });

  it("measures silence from the last byte", async () => {
    const manual = manualClock();
    await using own = await createOf({ baseUrl: scripted.url, apiKey: "sk-gateway", clock: manual });
    const call = sent(own, { silenceMs: 100 });
    const { response } = await scripted.next();
    manual.advance(99);
    response.writeHead(200).flushHeaders();
    await call.head;
    manual.advance(99);
    response.write("x");
    await call.first;
    manual.advance(99);
    expect(call.events).toEqual(["head 200", "chunk"]);
    manual.advance(1);
    expect(await call.over).toEqual({ kind: "silent" });
  });

  it("resends a redirected body once within the same origin, and to no other origin", async () => {
    const call = sent(gateway, { body: new BodyBytes([Buffer.from("body")]) });
    const first = await scripted.next();
    first.response.writeHead(307, { location: "/other?x=1" }).end("moved");
    const second = await scripted.next();
    expect(second.request.url).toBe("/other?x=1");
    expect(second.body.toString()).toBe("body");
    expect(second.request.headers["authorization"]).toBe("Bearer sk-gateway");
    second.response.end("here");
    expect(await call.over).toBe("end");
    expect(call.body().toString()).toBe("here");
    expect(call.events).toEqual(["head 200", "chunk", "end"]);

    await using foreign = await scriptedGateway();
    for (const location of [
      `${foreign.url}/v1`,
      `//127.0.0.1:${foreign.port}/v1`,
      "https://127.0.0.1/v1",
      "http://",
      "ftp://x/y",
    ]) {
      const away = sent(gateway);
      const { response } = await scripted.next();
      response.writeHead(308, { location }).end();
      expect(await away.over).toMatchObject({ kind: "redirect" });
    }
    expect(foreign.connections).toBe(0);
  });

  it("reports a reset if an answer breaks off while paused", async () => {
    const call = sent(gateway);
    const { request, response } = await scripted.next();
    response.writeHead(200, { "content-length": "10" }).write("one");
    await call.first;
    call.call.pause();
    request.socket.destroy();
    expect(await call.over).toMatchObject({ kind: "reset" });
  });

  it("completes a whole answer whose connection closes while paused", async () => {
    const call = sent(gateway);
    const { closed, response } = await scripted.next();
    response.writeHead(200, { "content-length": "6", connection: "close" });
    response.write("one");
    await call.first;
    call.call.pause();
    response.end("two");
    await closed;
    call.call.resume();
    expect(await call.over).toBe("end");
    expect(call.body().toString()).toBe("onetwo");
  });

  it("closes idle sockets before a server would", async () => {
    const sockets: Socket[] = [];
    const closed: Promise<unknown>[] = [];
    await using silent = await rawGateway((socket, head) => {
      if (!sockets.includes(socket)) closed[sockets.push(socket) - 1] = once(socket, "close");
      const stated = head.startsWith("GET /stated") ? "keep-alive: timeout=60\r\n" : "";
      socket.write(`HTTP/1.1 200 OK\r\n${stated}content-length: 2\r\n\r\n{}`);
    });
    // Node's servers close a connection after five idle seconds.
    expect(idleSocketMs).toBeLessThan(5_000);
    const options = { baseUrl: silent.url, apiKey: "sk-gateway", clock };
    await using brief = await createOf({ ...options, idleMs: idleSocketMs / 10 });
    await using patient = await createOf({ ...options, idleMs: 3_600_000 });
    await using withHeader = await createOf({ ...options, idleMs: idleSocketMs / 10 });
    const sendEach = async (...engines: readonly (readonly [Gateway, string])[]) => {
      for (const [own, path] of engines) await sent(own, { method: "GET", path, body: undefined }).over;
    };
    await sendEach([withHeader, "/stated"], [patient, "/"], [brief, "/"]);
    await closed[2];
    await sendEach([withHeader, "/stated"], [patient, "/"]);
    expect(sockets, "the other engines still use their connections").toHaveLength(3);
  });

  it("supports base paths and IPv6 addresses", async () => {
    await using sandbox = await startSandbox({ host: "::1" });
    await using own = await createOf({ baseUrl: `${sandbox.url}/moved/1`, apiKey: sandbox.apiKey, clock });
    const call = sent(own, { method: "GET", path: "/v1/models", body: undefined });
    expect(await call.over).toBe("end");
    expect(sandbox.requests.at(-1)).toMatchObject({
      path: "/moved/1/v1/models",
      headers: { host: new URL(sandbox.url).host },
    });
  });
});

describe("the proxy", () => {
  let proxy: RunningProxy;
  let newCharges: NewCharges;
  beforeAll(async () => {
    proxy = await startProxy();
    newCharges = new NewCharges(proxy);
  });
  afterAll(() => proxy[Symbol.asyncDispose]());

  it("keeps its gateway connection when a client sends connection: close or a chunked body", async () => {
    await fetchAnswer(proxy, chatWith("tokens:5"));
    const { openConnections } = proxy.sandbox;
    expect(openConnections).toBeLessThanOrEqual(1);
    const body = bytesOf(chatWith("tokens:5"));
    for (let turn = 0; turn < 5; turn += 1) {
      const closing = await fetchAnswer(proxy, body, { headers: { connection: "close" } });
      expect(closing.headers["connection"]).toBe("close");
      const chunked = await fetchAnswer(proxy, body, { headers: { "transfer-encoding": "chunked" } });
      expect(chunked.status).toBe(200);
      expect(proxy.sandbox.requests.at(-1)?.headers).toMatchObject({
        connection: "keep-alive",
        "content-length": String(body.length),
      });
    }
    expect(proxy.sandbox.openConnections).toBeLessThanOrEqual(1);
    for (const charge of await newCharges.allSettled())
      expect(charge).toMatchObject({ state: "posted", source: "reported" });
  });

  it("runs 300 streams at once and charges each", async () => {
    await using gateway = await scriptedGateway();
    await using own = await startProxy({ gatewayUrl: gateway.url });
    await own.budget("key:alice", "1000");
    const agent = new Agent({ maxSockets: Infinity });
    const body = { model: "gpt-4o", max_tokens: 5, stream: true, messages: [{ role: "user", content: "hello" }] };
    const requests = Array.from({ length: 300 }, () => send(own, body, { agent }));
    const answers = requests.map(async (request) => (await once(request, "response"))[0] as IncomingMessage);
    const received: OpenRequest[] = [];
    for (const _ of requests) received.push(await gateway.next());
    for (const { response } of received)
      response.writeHead(200, { "content-type": "text/event-stream" }).end(delta("a") + finish({ usage }) + done);
    for (const answer of await Promise.all(answers))
      expect((await answer.toArray()).join("")).toBe(delta("a") + finish({ usage }) + done);
    agent.destroy();
    const charges = await new NewCharges(own).allSettled();
    expect(charges).toHaveLength(300);
    for (const charge of charges)
      expect(charge).toMatchObject({ state: "posted", source: "reported", tokens: { input: 9, output: 3 } });
  });

  it("sends the first bytes of an answer above 1 MB before its end", async () => {
    await using gateway = await scriptedGateway();
    await using own = await startProxy({ gatewayUrl: gateway.url });
    const opening = open(own, { model: "gpt-4o", messages: [{ role: "user", content: "hello" }] });
    const { response } = await gateway.next();
    const begin = `{"usage":${JSON.stringify(usage)},"choices":[{"message":{"content":"${"x".repeat(1_100_000)}`;
    response.writeHead(200, { "content-type": "application/json" });
    response.write(begin);
    const client = await opening;
    expect((await client.take(begin.length)).toString()).toBe(begin);
    response.end(`"}}]}`);
    expect((await client.rest()).toString()).toBe(`"}}]}`);
    expect(await new NewCharges(own).settled()).toMatchObject({ source: "reported", tokens: { output: 3 } });
  });
});
