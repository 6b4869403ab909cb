import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { createGzip, gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Charge } from "../../../src/core/charge.ts";
import { startProxy, type ProxyOptions, type RunningProxy } from "../../support/running-proxy.ts";
import { rawGateway, scriptedGateway, type OpenRequest, type ScriptedGateway } from "../../support/scripted-gateway.ts";
import { fetchAnswer, errorCode, lastErrorCode, send } from "../../support/wire-client.ts";
import { isThorough } from "../../support/effort.ts";
import { stillClock } from "../../support/still-clock.ts";

const owned = new AsyncDisposableStack();
/** Proxies with a gateway that each test scripts, and with a gateway that writes raw bytes. */
let scripted: { readonly proxy: RunningProxy; readonly gateway: ScriptedGateway };
let raw: { readonly proxy: RunningProxy; answer: (socket: Socket) => void };
let bytes: Awaited<ReturnType<typeof rawGateway>>;

beforeAll(async () => {
  const gateway = owned.use(await scriptedGateway());
  const adjust: NonNullable<ProxyOptions["adjust"]> = (settings) => ({
    ...settings,
    gateway: { ...settings.gateway, silenceMs: 1_000 },
  });
  scripted = { proxy: owned.use(await startProxy({ gatewayUrl: gateway.url })), gateway };
  bytes = owned.use(
    await rawGateway((socket, head) =>
      head.includes("/account/info") ? socket.end("HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n") : raw.answer(socket),
    ),
  );
  raw = { proxy: owned.use(await startProxy({ gatewayUrl: bytes.url, adjust })), answer: () => undefined };
});
afterAll(() => owned.disposeAsync());

const hello = { model: "gpt-4o", messages: [{ role: "user", content: "hello" }], max_tokens: 100 };
const eventStream = { "content-type": "text/event-stream" };
const json = { "content-type": "application/json" };
const good = JSON.stringify({
  model: "gpt-4o",
  choices: [{ index: 0, message: { role: "assistant", content: "Hi." }, finish_reason: "stop" }],
  usage: { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 },
});

/** Returns the newest charge after everything has settled. */
async function lastCharge({ proxy }: { readonly proxy: RunningProxy }): Promise<Charge> {
  const charge = (await proxy.charges()).at(-1);
  if (charge === undefined) throw new Error("there is no charge");
  return charge;
}

/** Reads an answer to its end and keeps only its status, its length and its last bytes. */
async function drained(
  response: IncomingMessage,
): Promise<{ status: number; bytes: number; end: Buffer; broken: boolean }> {
  let bytes = 0;
  let end = Buffer.alloc(0);
  let broken = false;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      end = Buffer.from(Buffer.concat([end, chunk]).subarray(-4096));
    }
  } catch {
    broken = true;
  }
  return { status: response.statusCode ?? 0, bytes, end, broken };
}

/** Writes at the reader's pace until the pieces end or the reader leaves. */
async function pour(response: ServerResponse, pieces: Iterable<Buffer | string>): Promise<void> {
  response.setMaxListeners(0);
  for (const piece of pieces) {
    if (response.destroyed) return;
    if (!response.write(piece)) await Promise.race([once(response, "drain"), once(response, "close")]);
  }
}

function* times(count: number, piece: Buffer | string): Generator<Buffer | string> {
  for (let index = 0; index < count; index++) yield piece;
}

/** Sends a request that the test's gateway answers, and checks that another request is answered meanwhile. */
async function exchange(body: object, answer: (received: OpenRequest) => Promise<void>) {
  const request = send({ url: scripted.proxy.url, key: scripted.proxy.key }, body);
  const responded = once(request, "response") as Promise<[IncomingMessage]>;
  const received = await scripted.gateway.nextChat();
  const answering = answer(received);
  await anotherIsServed();
  const [response] = await responded;
  const result = await drained(response);
  await answering;
  return { ...result, charge: await lastChargeOf(response) };
}

async function lastChargeOf(response: IncomingMessage): Promise<Charge> {
  await scripted.proxy.serving.settled();
  const charge = await scripted.proxy.serving.ledger.charge(String(response.headers["x-farebox-request-id"]));
  if (charge === undefined) throw new Error("there is no charge");
  return charge;
}

async function anotherIsServed(): Promise<void> {
  const request = send({ url: scripted.proxy.url, key: scripted.proxy.key }, hello);
  const responded = once(request, "response") as Promise<[IncomingMessage]>;
  (await scripted.gateway.nextChat()).response.writeHead(200, json).end(good);
  expect((await drained((await responded)[0])).status).toBe(200);
}

const megabyte = Buffer.alloc(1024 * 1024, "x");
const unreadable = { state: "posted", source: "assumed", reason: "unreadable_answer" };
const byItsBytes = { state: "posted", source: "partial", doubts: ["unknown_output"] };

describe("a stream", () => {
  const stream = { ...hello, stream: true };
  // Above the 16 MB that are kept of one event.
  const eventMegabytes = isThorough ? 100 : 20;
  // The tokenizer counts this ten times as fast as a single repeated letter.
  const rules = `${"-".repeat(80)}a`.repeat(809);

  it.each<[string, () => Iterable<Buffer | string>, number]>([
    [
      `a line of ${eventMegabytes} MB`,
      function* () {
        yield "data: ";
        yield* times(eventMegabytes, megabyte);
        yield "\n\n";
      },
      eventMegabytes * megabyte.length + 8,
    ],
    [
      `an event of ${eventMegabytes} MB in many lines`,
      function* () {
        yield* times(16 * eventMegabytes, `data: ${"x".repeat(65_530)}\n`);
        yield "\n";
      },
      16 * eventMegabytes * 65_537 + 1,
    ],
    [
      // Above the amount that is counted; the rest is charged by its bytes.
      `texts of ${isThorough ? 40 : 17} MB`,
      function* () {
        yield* times(
          isThorough ? 640 : 272,
          `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: rules } }] })}\n\n`,
        );
      },
      0,
    ],
    [
      "an event of nothing but brackets",
      function* () {
        yield `data: ${"[".repeat(8_000_000)}\n\n`;
      },
      8_000_008,
    ],
  ])("with %s passes, and is charged by its bytes up to the model's maximum", async (_, pieces, bytes) => {
    const result = await exchange(stream, async ({ response }) => {
      response.writeHead(200, eventStream);
      await pour(response, pieces());
      response.end("data: [DONE]\n\n");
    });
    expect(result.status).toBe(200);
    expect(result.bytes).toBeGreaterThanOrEqual(bytes);
    expect(result.charge).toMatchObject(byItsBytes);
    expect(result.charge.cost).toBeGreaterThan(result.charge.hold ?? 0n);
  });

  it.runIf(isThorough)("of 200 MB of comments passes and is charged as reported", async () => {
    const result = await exchange(stream, async ({ response }) => {
      response.writeHead(200, eventStream);
      await pour(response, times(200, `: ${"x".repeat(1024 * 1024)}\n\n`));
      response.end(
        `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}\n\ndata: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 } })}\n\ndata: [DONE]\n\n`,
      );
    });
    expect(result.charge).toMatchObject({ state: "posted", source: "reported" });
  });

  it("that never ends is ended at the time limit, with an error for the client", async () => {
    const streamMs = 500;
    const clock = stillClock();
    await using proxy = await startProxy({
      gatewayUrl: bytes.url,
      clock,
      adjust: (settings) => ({ ...settings, gateway: { ...settings.gateway, streamMs } }),
    });
    const gone = Promise.withResolvers<void>();
    raw.answer = (socket) => {
      socket.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n");
      const comment = `: ${"x".repeat(1000)}\n\n`;
      const more = () => {
        while (!socket.destroyed && socket.write(comment));
        if (!socket.destroyed) socket.once("drain", more);
      };
      socket.once("close", gone.resolve);
      more();
    };
    const [response] = (await once(send({ url: proxy.url, key: proxy.key }, stream), "response")) as [IncomingMessage];
    const { end, broken } = await clock.forwardUntil(streamMs, drained(response));
    expect(broken).toBe(false);
    expect(lastErrorCode(Buffer.from(`\n\n${end.toString()}`))).toBe("gateway_stream_broken");
    expect(await lastCharge({ proxy })).toMatchObject({ state: "posted", source: "partial", reason: "time_limit" });
    await gone.promise;
  });

  it.runIf(isThorough)("that decompresses to hundreds of megabytes is charged at its hold", async () => {
    const result = await exchange(stream, async ({ response }) => {
      response.writeHead(200, { ...eventStream, "content-encoding": "gzip" });
      const gzip = createGzip();
      gzip.pipe(response);
      for (let index = 0; index < 300; index++) if (!gzip.write(megabyte)) await once(gzip, "drain");
      gzip.end();
      await once(gzip, "end");
    });
    expect(result.charge).toMatchObject({ state: "posted", source: "assumed" });
  });
});

describe("a plain answer", () => {
  it.each<[string, () => Iterable<Buffer | string>]>([
    [`of ${isThorough ? 200 : 40} MB`, () => times(isThorough ? 200 : 40, megabyte)],
    ["of 15 MB of brackets", () => times(15, "[".repeat(1024 * 1024))],
    [
      "of 15 MB of names",
      function* () {
        yield "{";
        for (let part = 0; part < 1000; part++)
          yield Array.from({ length: 1000 }, (_, index) => `"k${part * 1000 + index}":1,`).join("");
        yield '"k":1}';
      },
    ],
  ])("%s passes completely, and is charged at its hold", async (_, pieces) => {
    let sent = 0;
    const result = await exchange(hello, async ({ response }) => {
      response.writeHead(200, json);
      const counted = function* () {
        for (const piece of pieces()) {
          sent += piece.length;
          yield piece;
        }
      };
      await pour(response, counted());
      response.end();
    });
    expect([result.status, result.bytes]).toEqual([200, sent]);
    expect(result.charge).toMatchObject(unreadable);
  });

  it.runIf(isThorough)("that decompresses to 200 MB passes unchanged 20 times at once", async () => {
    const bomb = gzipSync(Buffer.alloc(200 * 1024 * 1024, " "));
    const requests = Array.from({ length: 20 }, () =>
      send({ url: scripted.proxy.url, key: scripted.proxy.key }, hello),
    );
    const responses = requests.map((request) => once(request, "response") as Promise<[IncomingMessage]>);
    for (let index = 0; index < requests.length; index++) {
      (await scripted.gateway.nextChat()).response.writeHead(200, { ...json, "content-encoding": "gzip" }).end(bomb);
    }
    for (const responded of responses) expect((await drained((await responded)[0])).bytes).toBe(bomb.length);
    await anotherIsServed();
  });
});

describe("an invalid answer", () => {
  it.each<[string, string]>([
    ["with a header of 64 kB", `HTTP/1.1 200 OK\r\nx: ${"x".repeat(65_536)}\r\ncontent-length: 2\r\n\r\n{}`],
    [
      "with 10,000 headers",
      `HTTP/1.1 200 OK\r\n${Array.from({ length: 10_000 }, (_, index) => `x-${index}: 1\r\n`).join("")}content-length: 2\r\n\r\n{}`,
    ],
    // undici accepts a reason phrase of any length and does not pass it on.
    ...(process.env["TEST_ENGINE"] === "undici"
      ? []
      : [
          [
            "after a status line of 64 kB",
            `HTTP/1.1 200 ${"x".repeat(65_536)}\r\ncontent-length: 2\r\n\r\n{}`,
          ] satisfies [string, string],
        ]),
    ["with a line feed in a value", "HTTP/1.1 200 OK\r\nx: a\nset-cookie: b=c\r\ncontent-length: 2, 3\r\n\r\n{}"],
    [
      "with a length and chunks",
      "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    ],
    ["with nothing but 20,000 early hints", "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(20_000)],
  ])("%s gives one error, and the hold is charged", async (_, bytes) => {
    raw.answer = (socket) => socket.write(bytes);
    const answer = await fetchAnswer({ url: raw.proxy.url, key: raw.proxy.key }, hello);
    expect([502, 504]).toContain(answer.status);
    expect(["gateway_unreachable", "gateway_timeout"]).toContain(errorCode(answer));
    expect(await lastCharge(raw)).toMatchObject({ state: "posted", source: "assumed" });
  });

  it.each<[string, string]>([
    [
      "endless trailers",
      `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n${"x: y\r\n".repeat(20_000)}`,
    ],
    [
      "an endless chunk extension",
      `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2;${"x".repeat(200_000)}`,
    ],
    [
      "a length of 30 digits",
      `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${"9".repeat(30)}\r\n\r\n{}`,
    ],
  ])("with %s is charged at its hold in bounded time", async (_, bytes) => {
    raw.answer = (socket) => socket.write(bytes);
    const answer = await fetchAnswer({ url: raw.proxy.url, key: raw.proxy.key }, hello);
    expect([502, 504]).toContain(answer.status);
    expect(await lastCharge(raw)).toMatchObject({ state: "posted", source: "assumed" });
  });
});
