import { once } from "node:events";
import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Charge } from "../../../src/core/charge.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import type { Sandbox } from "../../../src/sandbox/options.ts";
import { NewCharges, chatWith } from "../../support/new-charges.ts";
import { PassingBytes } from "../../support/passing-bytes.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import {
  delta,
  done,
  finish,
  scriptedGateway,
  usage,
  usageChunk,
  type OpenRequest,
  type ScriptedGateway,
} from "../../support/scripted-gateway.ts";
import {
  fetchAnswer,
  bytesOf,
  eventsIn,
  lastErrorCode,
  open,
  readToEnd,
  send,
  type OpenAnswer,
} from "../../support/wire-client.ts";

const helloStream = { model: "gpt-4o", stream: true, messages: [{ role: "user", content: "hello" }] };
/** Settings under which Farebox does not ask for usage, so that bytes pass unchanged. */
const passing = { FAREBOX_STREAM_USAGE: "pass" };
const eventStream = { "content-type": "text/event-stream; charset=utf-8" };

/** Fixed clock, so that two sandboxes give the same bytes for the same request. */
const twin = { now: () => Date.parse("2026-11-20T12:00:00Z") };

/** Proxy with a sandbox, and a second sandbox that must give the client the same bytes directly. */
let proxy: RunningProxy;
let newCharges: NewCharges;
let directSandbox: Sandbox;
/** Gateway that each test scripts, with its own proxy. */
let gateway: ScriptedGateway;
let scripted: RunningProxy;
let scriptedCharges: NewCharges;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  proxy = everything.use(await startProxy({ sandbox: twin, env: passing }));
  directSandbox = everything.use(await startSandbox(twin));
  gateway = everything.use(await scriptedGateway());
  scripted = everything.use(await startProxy({ gatewayUrl: gateway.url, env: passing }));
  await proxy.budget("key:alice", "1000", "total", "soft");
  newCharges = new NewCharges(proxy);
  scriptedCharges = new NewCharges(scripted);
});
afterAll(() => everything.disposeAsync());

/** Requests a stream and waits until the scripted gateway has received the request. */
async function openAtGateway(
  body: object = helloStream,
): Promise<{ received: OpenRequest; answer: Promise<OpenAnswer> }> {
  const answer = open(scripted, body);
  return { received: await gateway.nextChat(), answer };
}

/** Sends a whole stream at once. */
async function played(pieces: readonly (string | Buffer)[], body?: object): Promise<{ body: Buffer; charge: Charge }> {
  const { received, answer } = await openAtGateway(body);
  received.response.writeHead(200, eventStream);
  for (const piece of pieces) await new Promise((resolve) => received.response.write(piece, resolve));
  received.response.end();
  return { body: await (await answer).rest(), charge: await scriptedCharges.settled() };
}

describe("forwarding", () => {
  it("sends headers without waiting for a first chunk, and each chunk before the next arrives", async () => {
    const { received, answer } = await openAtGateway();
    received.response.writeHead(200, eventStream).flushHeaders();
    const client = await answer;
    expect(client.response.statusCode).toBe(200);
    // Whole events, halves of one, part of a character, comments, and a single byte.
    const smile = Buffer.from("😀é");
    const chunks = [
      delta("One"),
      ...halves(delta(" two"), 31),
      Buffer.concat([Buffer.from('data: {"choices":[{"index":0,"delta":{"content":"'), smile.subarray(0, 2)]),
      Buffer.concat([smile.subarray(2, 5)]),
      Buffer.concat([smile.subarray(5), Buffer.from('"},"finish_reason":null}]}\n')]),
      "\n",
      ": keep-alive\n\n",
      "\n",
      delta(" four"),
      finish(),
      done,
    ];
    for (const chunk of chunks) {
      received.response.write(chunk);
      expect(await client.take(Buffer.byteLength(chunk))).toEqual(Buffer.from(chunk));
    }
    received.response.end();
    expect(await client.rest()).toHaveLength(0);
    const charge = await scriptedCharges.settled();
    expect(charge).toMatchObject({ state: "posted", source: "counted", status: 200, reason: null });
    expect(charge.firstTokenMs).toBeLessThanOrEqual(charge.durationMs ?? 0);
  });

  it("is not faster than the client reads: an unread stream stalls the gateway", async () => {
    await using flooded = await floodedStream();
    const { received, client, proxy: own } = flooded;
    received.response.end(finish({ usage }) + done);
    const body = await client.rest();
    expect(body.length).toBe(floodEvents * flood.length + finish({ usage }).length + done.length);
    expect(lastErrorCode(body)).toBeUndefined();
    expect(await own.onlyCharge()).toMatchObject({ source: "reported", tokens: { input: 9, output: 3 } });
  });

  it("delivers a large body completely to a gateway that reads slowly", async () => {
    await using slow = await scriptedGateway({ readBodies: false });
    await using own = await startProxy({ gatewayUrl: slow.url, env: passing });
    const body = bytesOf({ ...helloStream, messages: [{ role: "user", content: "é".repeat(6_000_000) }] });
    const answer = fetchAnswer(own, body);
    const { request, response } = await slow.next();
    const pieces: Buffer[] = [];
    for await (const piece of request) {
      pieces.push(piece as Buffer);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(Buffer.concat(pieces).equals(body)).toBe(true);
    response.writeHead(200, eventStream).end(finish({ usage }) + done);
    expect((await answer).status).toBe(200);
    expect(await new NewCharges(own).settled()).toMatchObject({ source: "reported" });
  });
});

/** Comments, which load the sockets but not a tokenizer. */
const flood = Buffer.from(`: ${"x".repeat(64 * 1024 - 4)}\n\n`);
/** Number of events. They are more than the system buffers, which on Linux is up to 36 MB for each connection. */
const floodEvents = 1344;

/**
 * Begins a stream whose client reads nothing, and writes the flood. Checks that the proxy keeps little of it, although
 * a proxy that does not wait for its client could read all of it.
 */
async function floodedStream() {
  await using owned = new AsyncDisposableStack();
  const source = owned.use(await scriptedGateway());
  const own = owned.use(await startProxy({ gatewayUrl: source.url, env: passing }));
  using bytes = new PassingBytes(own.url, source.url);
  const opening = open(own, helloStream);
  const received = await source.nextChat();
  received.response.writeHead(200, eventStream).flushHeaders();
  const client = await opening;
  for (let count = 0; count < floodEvents; count += 1) received.response.write(flood);
  for (let turn = 0; turn < 100; turn += 1) {
    await (await fetch(`${own.url}/healthz`)).text();
    expect(bytes.downward).toBeLessThan(1024 * 1024);
  }
  const kept = owned.move();
  return { received, client, proxy: own, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

function halves(text: string, at: number): string[] {
  return [text.slice(0, at), text.slice(at)];
}

const perConnection = new Set(["date", "connection", "keep-alive", "transfer-encoding", "set-cookie"]);

/** Returns the headers that must be the same with and without the proxy. */
function lasting(headers: OutgoingHttpHeaders): OutgoingHttpHeaders {
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => !perConnection.has(name) && !name.startsWith("x-farebox-")),
  );
}

describe("a stream", () => {
  const withUsage = { stream_options: { include_usage: true } };
  it.each([
    ["plain", "tokens:30", {}, "counted"],
    ["plain with usage", "tokens:30", withUsage, "reported"],
    ["CRLF", "crlf+tokens:30", {}, "counted"],
    ["CRLF with usage", "crlf+tokens:30", withUsage, "reported"],
    ["comments and blank lines", "comments+tokens:30", {}, "counted"],
    ["comments and blank lines with usage", "comments+tokens:30", withUsage, "reported"],
    ["several data lines per event", "multiline-data+tokens:30", {}, "counted"],
    ["several data lines per event with usage", "multiline-data+tokens:30", withUsage, "reported"],
    ["split into random pieces", "split+tokens:30", {}, "counted"],
    ["byte by byte", "split:1+tokens:10", {}, "counted"],
    [
      "byte by byte with CRLF, comments and several data lines",
      "split:1+crlf+comments+multiline-data+tokens:8",
      withUsage,
      "reported",
    ],
    ["several tokens per delta", "group:7+tokens:30", {}, "counted"],
    ["no [DONE]", "no-done+tokens:30", {}, "counted"],
    ["no [DONE] with usage", "no-done+tokens:30", withUsage, "reported"],
    ["usage in the last chunk", "usage-last+tokens:30", withUsage, "reported"],
    ["unrequested usage", "usage-always+tokens:30", {}, "reported"],
    ["unrequested usage in the last chunk", "usage-last+usage-always+tokens:30", {}, "reported"],
    ["no usage despite a request for it", "no-usage+tokens:30", withUsage, "counted"],
    ["an empty usage", "empty-usage+tokens:30", withUsage, "counted"],
    ["an unrequested empty usage", "empty-usage+tokens:30", {}, "counted"],
    ["cached tokens", "cached:6+tokens:30", withUsage, "reported"],
    ["hidden reasoning", "reasoning:64+tokens:30", withUsage, "reported"],
    ["reasoning that only the total includes", "reasoning-outside:64+tokens:30", withUsage, "reported"],
    ["more output than the maximum", "over-limit:20", { ...withUsage, max_tokens: 15 }, "reported"],
    ["two choices", "tokens:20", { n: 2 }, "counted"],
    ["logprobs", "tokens:20", { logprobs: true }, "counted"],
    ["a JSON answer", "tokens:20", { response_format: { type: "json_object" } }, "counted"],
    ["a cookie, which is removed", "set-cookie+tokens:10", withUsage, "reported"],
    ["another model", "served:gpt-4o-2024-08-06+tokens:10", withUsage, "reported"],
    ["gzip", "gzip+tokens:30", withUsage, "reported"],
    ["br", "br+tokens:30", {}, "counted"],
    ["zstd", "zstd+tokens:30", {}, "counted"],
    ["a long stream", "tokens:2000+group:5", {}, "counted"],
  ])("passes unchanged and is metered: %s", async (_way, scenario, more, source) => {
    const body = bytesOf({
      model: "gpt-4o",
      stream: true,
      ...more,
      messages: [{ role: "user", content: `Say hello. #sandbox ${scenario}` }],
    });
    const direct = await fetchAnswer({ url: directSandbox.url, key: directSandbox.apiKey }, body);
    const through = await fetchAnswer(proxy, body);
    expect(proxy.sandbox.requests.at(-1)?.body).toEqual(body);
    expect(through).toMatchObject({ status: 200, broken: null });
    expect(through.body.equals(direct.body)).toBe(true);
    const harmless = { "x-content-type-options": "nosniff", "content-security-policy": "sandbox" };
    expect(lasting(through.headers)).toEqual({ ...lasting(direct.headers), ...harmless });
    expect(through.headers["set-cookie"]).toBeUndefined();
    const { charge, billed } = await newCharges.settledAndBilled();
    expect(charge).toMatchObject({ state: "posted", source, stream: true, status: 200, reason: null });
    expect(charge.cost).toBe(billed?.cost);
  });

  it.each([
    ["negative", { prompt_tokens: -1, completion_tokens: 2 }],
    ["fractional", { prompt_tokens: 9, completion_tokens: 2.5 }],
    ["wordy", { prompt_tokens: "nine", completion_tokens: "3" }],
    ["all zero", { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }],
    ["array-valued", []],
  ])("with %s usage is counted instead", async (_what, usage) => {
    const { charge } = await played([delta("Hi"), finish({ usage }), done]);
    expect(charge).toMatchObject({ source: "counted", tokens: { output: 1 } });
    expect(charge.tokens.input).toBeGreaterThan(0);
  });

  it("passes with characters of several bytes split anywhere", async () => {
    const stream = Buffer.from(delta("日本語 😀 naïve 👩‍👩‍👧 ") + finish() + done);
    const whole = (await played([stream])).charge;
    const bytes = Array.from({ length: stream.length }, (_, at) => stream.subarray(at, at + 1));
    const { body, charge } = await played(bytes);
    expect(body.equals(stream)).toBe(true);
    expect(charge.tokens).toEqual(whole.tokens);
    expect(charge.tokens.output).toBeGreaterThan(8);
  });

  it.each([
    ["in a chunk without choices", [finish(), usageChunk(), done]],
    ["without a following [DONE]", [finish(), usageChunk()]],
    ["in the last chunk", [finish({ usage }), done]],
    ["in the last chunk of a stream without [DONE]", [finish({ usage })]],
    [
      "in every chunk, growing",
      [delta("b", { usage: { ...usage, completion_tokens: 1, total_tokens: 10 } }), finish({ usage }), done],
    ],
    ["before comments", [finish(), usageChunk(), done, ": bye\n\n"]],
    ["with CR line ends", [finish(), usageChunk(), done].map((event) => event.replaceAll("\n", "\r"))],
    ["last, without its blank line", [finish(), usageChunk().trimEnd()]],
  ])("with usage %s is charged as reported", async (_where, last) => {
    const { body, charge } = await played([delta("a"), ...last]);
    expect(body.toString()).toBe(delta("a") + last.join(""));
    expect(charge).toMatchObject({
      source: "reported",
      tokens: { input: 9, output: 3 },
      servedModel: "gpt-4o-2024-11-20",
    });
  });

  it("that breaks after a partial usage is not charged by it", async () => {
    const partial = { usage: { ...usage, completion_tokens: 1, total_tokens: 10 } };
    const { body, charge } = await played([delta("one", partial), delta(" two", partial), delta(" three", partial)]);
    expect(lastErrorCode(body)).toBe("gateway_stream_broken");
    expect(charge).toMatchObject({ source: "partial", reason: "gateway_cut", tokens: { output: 3 } });
  });

  it("that breaks after its final usage is charged by it", async () => {
    const {
      received: { request, response },
      answer,
    } = await openAtGateway();
    response.writeHead(200, eventStream);
    const text = delta("one") + finish() + usageChunk();
    response.write(text);
    const client = await answer;
    await client.take(text.length);
    request.socket.destroy();
    expect(lastErrorCode(await client.rest())).toBe("gateway_stream_broken");
    expect(await scriptedCharges.settled()).toMatchObject({ source: "reported", tokens: { input: 9, output: 3 } });
  });

  it("passes unchanged despite stream: false", async () => {
    const { body, charge } = await played([delta("a"), finish({ usage }), done], { ...helloStream, stream: false });
    expect(body.toString()).toBe(delta("a") + finish({ usage }) + done);
    expect(charge).toMatchObject({ source: "reported", stream: false });
  });

  it("with a plain answer is charged as reported, with the cost in its headers", async () => {
    const {
      received: { response },
      answer,
    } = await openAtGateway();
    const text = JSON.stringify({ choices: [{ message: { content: "x" } }], usage });
    response.writeHead(200, { "content-type": "application/json" }).end(text);
    const client = await answer;
    expect(client.response.headers["x-farebox-cost-usd"]).toBeDefined();
    expect((await client.rest()).toString()).toBe(text);
    expect(await scriptedCharges.settled()).toMatchObject({ source: "reported", stream: true });
  });

  it.each<[string, OutgoingHttpHeaders]>([
    ["text", { "content-type": "text/plain; charset=utf-8" }],
    ["JSON", { "content-type": "application/json" }],
    ["nothing", {}],
  ])("declared as %s passes as it arrives and is charged as reported", async (_type, headers) => {
    const {
      received: { response },
      answer,
    } = await openAtGateway();
    response.writeHead(200, headers).write(delta("a"));
    const client = await answer;
    expect((await client.take(delta("a").length)).toString()).toBe(delta("a"));
    response.end(finish() + usageChunk() + done);
    expect((await client.rest()).toString()).toBe(finish() + usageChunk() + done);
    expect(client.response.headers["content-type"]).toBe(headers["content-type"]);
    expect(await scriptedCharges.settled()).toMatchObject({ source: "reported", stream: true });
  });

  it.each(["before its first byte", "after a byte"])(
    "of no declared type that breaks %s is charged at its hold",
    async (when) => {
      const {
        received: { request, response },
        answer,
      } = await openAtGateway();
      response.writeHead(200).flushHeaders();
      if (when === "after a byte") response.write("{");
      request.socket.end();
      const client = await answer;
      expect(client.response.statusCode).toBe(502);
      await client.rest();
      const charge = await scriptedCharges.settled();
      expect(charge).toMatchObject({ source: "assumed", cost: charge.hold, reason: "gateway_reset" });
    },
  );

  it("is recognized by its content type in any letter case", async () => {
    const {
      received: { response },
      answer,
    } = await openAtGateway();
    response.writeHead(200, { "content-type": "Text/Event-Stream" }).flushHeaders();
    const client = await answer;
    response.end(delta("a") + finish({ usage }) + done);
    expect(eventsIn(await client.rest())).toHaveLength(3);
    expect(await scriptedCharges.settled()).toMatchObject({ source: "reported" });
  });
});

describe("a broken stream", () => {
  it.each([
    ["between events", delta("a")],
    ["within the blank line of an event", delta("a").slice(0, -1)],
    ["with CRLF", delta("a").replaceAll("\n", "\r\n")],
    ["after a comment", `${delta("a")}: wait\n\n`],
    ["before any event", ""],
  ])("ends with an error event if it breaks %s", async (_where, text) => {
    const {
      received: { request, response },
      answer,
    } = await openAtGateway();
    response.writeHead(200, eventStream).flushHeaders();
    const client = await answer;
    response.write(text);
    await client.take(text.length);
    request.socket.destroy();
    const rest = await client.rest();
    const events = eventsIn(Buffer.concat([Buffer.from(text), rest]));
    expect(JSON.parse(events.at(-1) ?? "")).toMatchObject({
      error: { type: "api_error", param: null, code: "gateway_stream_broken", message: expect.any(String) },
    });
    expect(events).toHaveLength(text === "" ? 1 : 2);
    expect(await scriptedCharges.settled()).toMatchObject({ source: "partial", reason: "gateway_reset" });
  });

  it("sends the error event after what a slow client still has to read", async () => {
    await using flooded = await floodedStream();
    const { received, client, proxy: own } = flooded;
    received.request.socket.destroy();
    const rest = await client.rest();
    expect(lastErrorCode(rest)).toBe("gateway_stream_broken");
    expect(await own.onlyCharge()).toMatchObject({ source: "partial", reason: "gateway_reset" });
  });
});

describe("a client that leaves an endless stream", () => {
  it("ends the stream at the gateway, and is charged for what was delivered", async () => {
    const request = send(proxy, chatWith("endless:1", { stream: true }));
    const [response] = (await once(request, "response")) as [IncomingMessage];
    await proxy.sandbox.waitFor(({ requests }) => (requests.at(-1)?.deltas ?? 0) >= 20);
    response.on("error", () => undefined);
    request.destroy();
    await proxy.sandbox.waitFor(({ activeStreams }) => activeStreams === 0);
    const charge = await newCharges.settled();
    const [billed] = newCharges.billed();
    expect(billed?.abortedByClient).toBe(true);
    expect(charge).toMatchObject({ state: "posted", source: "partial", reason: "client_left", status: 200 });
    // The gateway may have written a few deltas that Farebox had not read when the client left.
    const missed = (billed?.completionTokens ?? 0) - charge.tokens.output;
    expect(missed).toBeLessThan(billed?.completionTokens ?? 0);
    expect(charge.tokens.input).toBe(billed?.promptTokens);
  });
});

describe.each(["auto", "inject"])("FAREBOX_STREAM_USAGE=%s", (usageSetting) => {
  let injecting: RunningProxy;
  let injectingCharges: NewCharges;
  beforeAll(async () => {
    injecting = await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_STREAM_USAGE: usageSetting } });
    injectingCharges = new NewCharges(injecting);
  });
  afterAll(() => injecting[Symbol.asyncDispose]());

  async function injected(
    text: Buffer,
    events: readonly (string | Buffer)[],
  ): Promise<{ sent: string; body: Buffer; charge: Charge }> {
    const opening = open(injecting, text);
    const { body, response } = await gateway.nextChat();
    response.writeHead(200, eventStream).flushHeaders();
    const client = await opening;
    for (const event of events) await new Promise((resolve) => response.write(event, resolve));
    response.end();
    return { sent: body.toString(), body: await client.rest(), charge: await injectingCharges.settled() };
  }

  it("asks the gateway for usage, and hides the usage chunk from the client", async () => {
    const text = '{ "model":"gpt-4o",\n "stream" : true, "messages":[{"role":"user","content":"hé"}], "x": 1e400 }';
    const { sent, body, charge } = await injected(Buffer.from(text), [
      delta("a"),
      delta("b"),
      finish(),
      usageChunk(),
      done,
    ]);
    expect(JSON.parse(sent).stream_options).toEqual({ include_usage: true });
    expect(sent).toContain('"x": 1e400');
    expect(body.toString()).toBe(delta("a") + delta("b") + finish() + done);
    expect(charge).toMatchObject({ source: "reported", tokens: { input: 9, output: 3 } });
  });

  it.each([1, 3, 17])("hides the usage chunk in pieces of %i bytes, with CRLF and comments", async (size) => {
    const crlf = (event: string) => event.replaceAll("\n", "\r\n");
    const before = `: hello\r\n\r\n${crlf(delta("naïve 😀"))}${crlf(finish())}`;
    const stream = Buffer.from(before + crlf(usageChunk()) + crlf(done));
    const pieces = Array.from({ length: Math.ceil(stream.length / size) }, (_, at) =>
      stream.subarray(at * size, (at + 1) * size),
    );
    const { body, charge } = await injected(bytesOf(helloStream), pieces);
    expect(body.toString()).toBe(before + crlf(done));
    expect(charge).toMatchObject({ source: "reported", tokens: { output: 3 } });
  });

  it("forwards each event before the next arrives", async () => {
    const opening = open(injecting, helloStream);
    const { response } = await gateway.nextChat();
    response.writeHead(200, eventStream).flushHeaders();
    const client = await opening;
    for (const event of [delta("a"), delta("b"), finish()]) {
      response.write(event);
      expect((await client.take(event.length)).toString()).toBe(event);
    }
    response.end(usageChunk() + done);
    expect((await client.rest()).toString()).toBe(done);
    expect(await injectingCharges.settled()).toMatchObject({ source: "reported" });
  });

  it("does not change a request that asks for usage, nor its answer", async () => {
    const text = JSON.stringify({ ...helloStream, stream_options: { include_usage: true } }, null, 1);
    const { sent, body, charge } = await injected(Buffer.from(text), [delta("a"), finish(), usageChunk(), done]);
    expect(sent).toBe(text);
    expect(body.toString()).toBe(delta("a") + finish() + usageChunk() + done);
    expect(charge).toMatchObject({ source: "reported" });
  });

  it("does not change a plain request", async () => {
    const text = JSON.stringify({ ...helloStream, stream: false }, null, 1);
    const answering = fetchAnswer(injecting, text);
    const { body, response } = await gateway.nextChat();
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ choices: [{ message: { content: "x" } }], usage }));
    expect(body.toString()).toBe(text);
    expect((await answering).status).toBe(200);
    expect(await injectingCharges.settled()).toMatchObject({ source: "reported" });
  });

  it("counts a broken stream, and drops its incomplete event", async () => {
    const opening = open(injecting, helloStream);
    const { request, response } = await gateway.nextChat();
    response.writeHead(200, eventStream).flushHeaders();
    const client = await opening;
    response.write(delta("a") + delta("b").slice(0, 30));
    await client.take(delta("a").length);
    request.socket.destroy();
    const rest = await client.rest();
    expect(lastErrorCode(rest)).toBe("gateway_stream_broken");
    expect(rest.toString()).not.toContain("chatcmpl");
    expect(await injectingCharges.settled()).toMatchObject({ source: "partial", tokens: { output: 1 } });
  });

  it("charges what the gateway bills", async () => {
    await using real = await startProxy({ env: { FAREBOX_STREAM_USAGE: usageSetting } });
    const realCharges = new NewCharges(real);
    const answer = await readToEnd(
      await new Promise<IncomingMessage>((resolve) =>
        send(real, chatWith("reasoning:80+tokens:25", { stream: true })).once("response", resolve),
      ),
    );
    expect(answer.body.toString()).not.toContain("completion_tokens");
    const { charge, billed } = await realCharges.settledAndBilled();
    expect(charge).toMatchObject({ source: "reported", cost: billed?.cost });
  });
});
