import { once } from "node:events";
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Charge } from "../../../src/core/charge.ts";
import { startSandbox, type Sandbox } from "../../../src/sandbox/server.ts";
import { Books, chatWith } from "../../support/books.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import {
  delta,
  done,
  finish,
  scriptedGateway,
  usage,
  usageChunk,
  type Asked,
  type ScriptedGateway,
} from "../../support/scripted-gateway.ts";
import {
  ask,
  bytesOf,
  eventsIn,
  lastErrorCode,
  open,
  readToEnd,
  send,
  type OpenAnswer,
} from "../../support/wire-client.ts";

const helloStream = { model: "gpt-4o", stream: true, messages: [{ role: "user", content: "hello" }] };
/** Settings under which Farebox adds no question for usage: bytes pass unchanged. */
const passing = { FAREBOX_STREAM_USAGE: "pass" };
const eventStream = { "content-type": "text/event-stream; charset=utf-8" };

/** Fixed, so that two sandboxes give the same bytes for the same request. */
const twin = { now: () => Date.parse("2026-11-20T12:00:00Z") };

/** A sandbox behind the proxy and its twin beside it: what the client gets from both must be the same. */
let proxy: RunningProxy;
let books: Books;
let beside: Sandbox;
/** A gateway that each test plays itself, behind a proxy of its own. */
let gateway: ScriptedGateway;
let scripted: RunningProxy;
let scriptedBooks: Books;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  proxy = everything.use(await startProxy({ sandbox: twin, env: passing }));
  beside = everything.use(await startSandbox(twin));
  gateway = everything.use(await scriptedGateway());
  scripted = everything.use(await startProxy({ gatewayUrl: gateway.url, env: passing }));
  await proxy.budget("key:alice", "1000", "total", "soft");
  books = new Books(proxy);
  scriptedBooks = new Books(scripted);
});
afterAll(() => everything.disposeAsync());

/** Asks the scripted gateway for a stream; it has the request when this resolves. */
async function asking(body: object = helloStream): Promise<{ asked: Asked; answer: Promise<OpenAnswer> }> {
  const answer = open(scripted, body);
  return { asked: await gateway.nextChat(), answer };
}

/** Plays a whole stream at once. */
async function played(pieces: readonly (string | Buffer)[], body?: object): Promise<{ body: Buffer; charge: Charge }> {
  const { asked, answer } = await asking(body);
  asked.response.writeHead(200, eventStream);
  for (const piece of pieces) await new Promise((resolve) => asked.response.write(piece, resolve));
  asked.response.end();
  return { body: await (await answer).rest(), charge: await scriptedBooks.ended() };
}

describe("Farebox forwards at once", () => {
  it("the headers without waiting for a first chunk, and each chunk before the next is sent", async () => {
    const { asked, answer } = await asking();
    asked.response.writeHead(200, eventStream).flushHeaders();
    const client = await answer;
    expect(client.response.statusCode).toBe(200);
    // Whole events, halves of one, a half of a letter, comments, and a single byte.
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
      asked.response.write(chunk);
      expect(await client.take(Buffer.byteLength(chunk))).toEqual(Buffer.from(chunk));
    }
    asked.response.end();
    expect(await client.rest()).toHaveLength(0);
    const charge = await scriptedBooks.ended();
    expect(charge).toMatchObject({ state: "posted", source: "counted", status: 200, reason: null });
    expect(charge.firstTokenMs).toBeLessThanOrEqual(charge.durationMs ?? 0);
  });

  it("but not faster than the client reads: an unread stream stalls the gateway, and memory stays bounded", async () => {
    const { asked, answer } = await asking();
    asked.response.writeHead(200, eventStream).flushHeaders();
    const client = await answer;
    // Comments, so that the bytes load the sockets and not on a tokenizer.
    const event = Buffer.from(`: ${"x".repeat(64 * 1024 - 4)}\n\n`);
    const writing = writeAsTaken(asked.response, event, floodEvents);
    await manyExchanges();
    expect(writing.written).toBeLessThan(stalledBelow);
    expect(asked.response.writableNeedDrain).toBe(true);
    void writing.done.then(() => asked.response.end(finish({ usage }) + done));
    const body = await client.rest();
    expect(body.length).toBe(floodEvents * event.length + finish({ usage }).length + done.length);
    expect(lastErrorCode(body)).toBeUndefined();
    expect(await scriptedBooks.ended()).toMatchObject({ source: "reported", tokens: { input: 9, output: 3 } });
  });

  it("a large body goes whole to a gateway that reads it slowly", async () => {
    await using slow = await scriptedGateway({ readBodies: false });
    await using own = await startProxy({ gatewayUrl: slow.url, env: passing });
    const body = bytesOf({ ...helloStream, messages: [{ role: "user", content: "é".repeat(6_000_000) }] });
    const answer = ask(own, body);
    const { request, response } = await slow.next();
    const pieces: Buffer[] = [];
    for await (const piece of request) {
      pieces.push(piece as Buffer);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(Buffer.concat(pieces).equals(body)).toBe(true);
    response.writeHead(200, eventStream).end(finish({ usage }) + done);
    expect((await answer).status).toBe(200);
    expect(await new Books(own).ended()).toMatchObject({ source: "reported" });
  });
});

/** Events of 64 kB. Linux may keep 36 MB of each of the two connections (tcp_rmem and tcp_wmem) before its sender stalls. */
const floodEvents = 1344;
const stalledBelow = 1280;

/** Writes an event many times over, each as soon as there is room for it. */
function writeAsTaken(
  response: ServerResponse,
  event: Buffer,
  times: number,
): { readonly written: number; readonly done: Promise<void> } {
  const progress = { written: 0, done: Promise.resolve() };
  const closed = new Promise<void>((resolve) => response.once("close", resolve));
  progress.done = (async () => {
    for (; progress.written < times && !response.destroyed; progress.written += 1) {
      if (!response.write(event)) await Promise.race([once(response, "drain"), closed]);
    }
  })();
  return progress;
}

/** Time enough for a stream to pass whole, were it let: each turn is a whole exchange with the same proxy. */
async function manyExchanges(): Promise<void> {
  for (let turn = 0; turn < 100; turn += 1) await (await fetch(`${scripted.url}/healthz`)).text();
}

function halves(text: string, at: number): string[] {
  return [text.slice(0, at), text.slice(at)];
}

const perConnection = new Set(["date", "connection", "keep-alive", "transfer-encoding", "set-cookie"]);

/** Headers that must be the same with and without the proxy. */
function lasting(headers: OutgoingHttpHeaders): OutgoingHttpHeaders {
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => !perConnection.has(name) && !name.startsWith("x-farebox-")),
  );
}

describe("every way of writing a stream passes to the byte, and is metered", () => {
  const asked = { stream_options: { include_usage: true } };
  it.each([
    ["plain", "tokens:30", {}, "counted"],
    ["plain, usage asked for", "tokens:30", asked, "reported"],
    ["CRLF", "crlf+tokens:30", {}, "counted"],
    ["CRLF, usage asked for", "crlf+tokens:30", asked, "reported"],
    ["comments and blank lines", "comments+tokens:30", {}, "counted"],
    ["comments and blank lines, usage asked for", "comments+tokens:30", asked, "reported"],
    ["several data lines an event", "multiline-data+tokens:30", {}, "counted"],
    ["several data lines an event, usage asked for", "multiline-data+tokens:30", asked, "reported"],
    ["cut into random pieces", "split+tokens:30", {}, "counted"],
    ["byte by byte", "split:1+tokens:10", {}, "counted"],
    ["byte by byte, everything at once", "split:1+crlf+comments+multiline-data+tokens:8", asked, "reported"],
    ["several tokens a delta", "group:7+tokens:30", {}, "counted"],
    ["no [DONE]", "no-done+tokens:30", {}, "counted"],
    ["no [DONE], usage asked for", "no-done+tokens:30", asked, "reported"],
    ["usage in the last chunk", "usage-last+tokens:30", asked, "reported"],
    ["usage unasked", "usage-always+tokens:30", {}, "reported"],
    ["usage in the last chunk, unasked", "usage-last+usage-always+tokens:30", {}, "reported"],
    ["no usage although asked for", "no-usage+tokens:30", asked, "counted"],
    ["an empty usage", "empty-usage+tokens:30", asked, "counted"],
    ["an empty usage, unasked", "empty-usage+tokens:30", {}, "counted"],
    ["cached tokens", "cached:6+tokens:30", asked, "reported"],
    ["hidden reasoning", "reasoning:64+tokens:30", asked, "reported"],
    ["reasoning that only the total tells", "reasoning-outside:64+tokens:30", asked, "reported"],
    ["more than asked for", "over-limit:20", { ...asked, max_tokens: 15 }, "reported"],
    ["two choices", "tokens:20", { n: 2 }, "counted"],
    ["logprobs", "tokens:20", { logprobs: true }, "counted"],
    ["a JSON answer", "tokens:20", { response_format: { type: "json_object" } }, "counted"],
    ["a cookie, which does not pass", "set-cookie+tokens:10", asked, "reported"],
    ["another model", "served:gpt-4o-2024-08-06+tokens:10", asked, "reported"],
    ["gzip", "gzip+tokens:30", asked, "reported"],
    ["br", "br+tokens:30", {}, "counted"],
    ["zstd", "zstd+tokens:30", {}, "counted"],
    ["a long one", "tokens:2000+group:5", {}, "counted"],
  ])("%s", async (_way, scenario, more, source) => {
    const body = bytesOf({
      model: "gpt-4o",
      stream: true,
      ...more,
      messages: [{ role: "user", content: `Say hello. #sandbox ${scenario}` }],
    });
    const direct = await ask({ url: beside.url, key: beside.apiKey }, body);
    const through = await ask(proxy, body);
    expect(proxy.sandbox.requests.at(-1)?.body).toEqual(body);
    expect(through).toMatchObject({ status: 200, broken: null });
    expect(through.body.equals(direct.body)).toBe(true);
    const harmless = { "x-content-type-options": "nosniff", "content-security-policy": "sandbox" };
    expect(lasting(through.headers)).toEqual({ ...lasting(direct.headers), ...harmless });
    expect(through.headers["set-cookie"]).toBeUndefined();
    const { charge, billed } = await books.endedBeside();
    expect(charge).toMatchObject({ state: "posted", source, stream: true, status: 200, reason: null });
    expect(charge.cost).toBe(billed?.cost);
  });

  it.each([
    ["negative", { prompt_tokens: -1, completion_tokens: 2 }],
    ["fractional", { prompt_tokens: 9, completion_tokens: 2.5 }],
    ["text", { prompt_tokens: "9", completion_tokens: "3" }],
    ["all zero", { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }],
    ["a list", []],
  ])("a usage that is %s is ignored: the answer is counted", async (_what, usage) => {
    const { charge } = await played([delta("Hi"), finish({ usage }), done]);
    expect(charge).toMatchObject({ source: "counted", tokens: { output: 1 } });
    expect(charge.tokens.input).toBeGreaterThan(0);
  });

  it("letters of several bytes, cut at each place", async () => {
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
    ["without [DONE] behind it", [finish(), usageChunk()]],
    ["in the last chunk", [finish({ usage }), done]],
    ["in the last chunk, the stream without [DONE]", [finish({ usage })]],
    [
      "in every chunk, growing",
      [delta("b", { usage: { ...usage, completion_tokens: 1, total_tokens: 10 } }), finish({ usage }), done],
    ],
    ["before comments", [finish(), usageChunk(), done, ": bye\n\n"]],
    ["with CR line ends", [finish(), usageChunk(), done].map((event) => event.replaceAll("\n", "\r"))],
    ["last, without its blank line", [finish(), usageChunk().trimEnd()]],
  ])("usage %s is the one charged", async (_where, last) => {
    const { body, charge } = await played([delta("a"), ...last]);
    expect(body.toString()).toBe(delta("a") + last.join(""));
    expect(charge).toMatchObject({
      source: "reported",
      tokens: { input: 9, output: 3 },
      servedModel: "gpt-4o-2024-11-20",
    });
  });

  it("a partial usage is not taken for the total when the stream breaks", async () => {
    const partial = { usage: { ...usage, completion_tokens: 1, total_tokens: 10 } };
    const { body, charge } = await played([delta("one", partial), delta(" two", partial), delta(" three", partial)]);
    expect(lastErrorCode(body)).toBe("gateway_stream_broken");
    expect(charge).toMatchObject({ source: "partial", reason: "gateway_cut", tokens: { output: 3 } });
  });

  it("a final usage is used although the end is missing", async () => {
    const {
      asked: { request, response },
      answer,
    } = await asking();
    response.writeHead(200, eventStream);
    const text = delta("one") + finish() + usageChunk();
    response.write(text);
    const client = await answer;
    await client.take(text.length);
    request.socket.destroy();
    expect(lastErrorCode(await client.rest())).toBe("gateway_stream_broken");
    expect(await scriptedBooks.ended()).toMatchObject({ source: "reported", tokens: { input: 9, output: 3 } });
  });

  it("a stream in spite of stream: false passes as it comes", async () => {
    const { body, charge } = await played([delta("a"), finish({ usage }), done], { ...helloStream, stream: false });
    expect(body.toString()).toBe(delta("a") + finish({ usage }) + done);
    expect(charge).toMatchObject({ source: "reported", stream: false });
  });

  it("an answer that is no stream in spite of stream: true is held and charged as reported", async () => {
    const {
      asked: { response },
      answer,
    } = await asking();
    const text = JSON.stringify({ choices: [{ message: { content: "x" } }], usage });
    response.writeHead(200, { "content-type": "application/json" }).end(text);
    const client = await answer;
    expect(client.response.headers["x-farebox-cost-usd"]).toBeDefined();
    expect((await client.rest()).toString()).toBe(text);
    expect(await scriptedBooks.ended()).toMatchObject({ source: "reported", stream: true });
  });

  it("the type of the content is read without regard to case", async () => {
    const {
      asked: { response },
      answer,
    } = await asking();
    response.writeHead(200, { "content-type": "Text/Event-Stream" }).flushHeaders();
    const client = await answer;
    response.end(delta("a") + finish({ usage }) + done);
    expect(eventsIn(await client.rest())).toHaveLength(3);
    expect(await scriptedBooks.ended()).toMatchObject({ source: "reported" });
  });
});

describe("a stream that breaks ends with an error event of its own", () => {
  it.each([
    ["between events", delta("a")],
    ["within an event's blank line", delta("a").slice(0, -1)],
    ["with CRLF", delta("a").replaceAll("\n", "\r\n")],
    ["after a comment", `${delta("a")}: wait\n\n`],
    ["before any event", ""],
  ])("broken %s", async (_where, text) => {
    const {
      asked: { request, response },
      answer,
    } = await asking();
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
    expect(await scriptedBooks.ended()).toMatchObject({ source: "partial", reason: "gateway_reset" });
  });

  it("broken while the client is slow: the error follows what the client still had to read", async () => {
    const {
      asked: { request, response },
      answer,
    } = await asking();
    response.writeHead(200, eventStream).flushHeaders();
    const client = await answer;
    const event = Buffer.from(`: ${"x".repeat(64 * 1024 - 4)}\n\n`);
    const writing = writeAsTaken(response, event, floodEvents);
    await manyExchanges();
    expect(writing.written).toBeLessThan(stalledBelow);
    request.socket.destroy();
    const rest = await client.rest();
    expect(lastErrorCode(rest)).toBe("gateway_stream_broken");
    expect(await scriptedBooks.ended()).toMatchObject({ source: "partial", reason: "gateway_reset" });
  });
});

describe("a client that leaves an endless stream", () => {
  it("ends it at the gateway, and is charged for what was delivered", async () => {
    const request = send(proxy, chatWith("endless:1", { stream: true }));
    const [response] = (await once(request, "response")) as [IncomingMessage];
    await proxy.sandbox.waitFor(({ requests }) => (requests.at(-1)?.deltas ?? 0) >= 20);
    response.on("error", () => undefined);
    request.destroy();
    await proxy.sandbox.waitFor(({ activeStreams }) => activeStreams === 0);
    const charge = await books.ended();
    const [billed] = books.billed();
    expect(billed?.abortedByClient).toBe(true);
    expect(charge).toMatchObject({ state: "posted", source: "partial", reason: "client_left", status: 200 });
    // What the gateway had written and we had not read yet when the client left is its loss or ours: at most a few deltas.
    const missed = (billed?.completionTokens ?? 0) - charge.tokens.output;
    expect(missed).toBeLessThan(billed?.completionTokens ?? 0);
    expect(charge.tokens.input).toBe(billed?.promptTokens);
  });
});

describe.each(["auto", "inject"])("FAREBOX_STREAM_USAGE=%s", (usageSetting) => {
  let injecting: RunningProxy;
  let injectingBooks: Books;
  beforeAll(async () => {
    injecting = await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_STREAM_USAGE: usageSetting } });
    injectingBooks = new Books(injecting);
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
    return { sent: body.toString(), body: await client.rest(), charge: await injectingBooks.ended() };
  }

  it("asks the gateway, and the client sees the stream without the extra chunk", async () => {
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

  it.each([1, 3, 17])("in pieces of %i bytes, with CRLF and comments", async (size) => {
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

  it("each event leaves before the next is sent", async () => {
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
    expect(await injectingBooks.ended()).toMatchObject({ source: "reported" });
  });

  it("a client that asked itself gets its request and the chunk untouched", async () => {
    const text = JSON.stringify({ ...helloStream, stream_options: { include_usage: true } }, null, 1);
    const { sent, body, charge } = await injected(Buffer.from(text), [delta("a"), finish(), usageChunk(), done]);
    expect(sent).toBe(text);
    expect(body.toString()).toBe(delta("a") + finish() + usageChunk() + done);
    expect(charge).toMatchObject({ source: "reported" });
  });

  it("a plain request is not touched", async () => {
    const text = JSON.stringify({ ...helloStream, stream: false }, null, 1);
    const answering = ask(injecting, text);
    const { body, response } = await gateway.nextChat();
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ choices: [{ message: { content: "x" } }], usage }));
    expect(body.toString()).toBe(text);
    expect((await answering).status).toBe(200);
    expect(await injectingBooks.ended()).toMatchObject({ source: "reported" });
  });

  it("a stream that breaks is counted, and its half event does not leave", async () => {
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
    expect(await injectingBooks.ended()).toMatchObject({ source: "partial", tokens: { output: 1 } });
  });

  it("costs the same as the gateway bills", async () => {
    await using real = await startProxy({ env: { FAREBOX_STREAM_USAGE: usageSetting } });
    const realBooks = new Books(real);
    const answer = await readToEnd(
      await new Promise<IncomingMessage>((resolve) =>
        send(real, chatWith("reasoning:80+tokens:25", { stream: true })).once("response", resolve),
      ),
    );
    expect(answer.body.toString()).not.toContain("completion_tokens");
    const { charge, billed } = await realBooks.endedBeside();
    expect(charge).toMatchObject({ source: "reported", cost: billed?.cost });
  });
});
