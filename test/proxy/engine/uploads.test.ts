import { createHash } from "node:crypto";
import { once } from "node:events";
import { request as httpRequest, type ClientRequest, type IncomingMessage } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { size } from "../../support/effort.ts";
import { PassingBytes } from "../../support/passing-bytes.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { scriptedGateway, type Asked, type ScriptedGateway } from "../../support/scripted-gateway.ts";
import { readToEnd } from "../../support/wire-client.ts";

const mb = 1024 * 1024;
const head = Buffer.from(
  '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n' +
    '--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n',
);
const tail = Buffer.from("\r\n--b--\r\n");
const answer = JSON.stringify({ text: "hello", usage: { type: "duration", seconds: 60 } });

let gateway: ScriptedGateway;
let proxy: RunningProxy;
let charges = 0;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  gateway = everything.use(await scriptedGateway({ readBodies: false }));
  proxy = everything.use(await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_BODY_LIMIT: "256mb" } }));
});
afterAll(() => everything.disposeAsync());

/** Begins an upload of a recording; the test sends what follows the head. */
function begin(length: number | null, { url, key } = proxy): ClientRequest {
  const request = httpRequest(`${url}/v1/audio/transcriptions`, {
    method: "POST",
    agent: false,
    headers: {
      authorization: `Bearer ${key}`,
      "content-type": "multipart/form-data; boundary=b",
      ...(length !== null && { "content-length": length }),
    },
  });
  request.on("error", () => undefined);
  request.write(head);
  return request;
}

async function answerOf(request: ClientRequest) {
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return readToEnd(response);
}

async function newCharge() {
  const all = await proxy.charges();
  const [charge, ...more] = all.slice(charges);
  charges = all.length;
  expect(more).toEqual([]);
  return charge;
}

/** Returns the next upload at the gateway. */
async function arrived(): Promise<Asked> {
  const asked = await gateway.nextChat();
  expect(asked.request.headers).toMatchObject({ "content-type": "multipart/form-data; boundary=b" });
  return asked;
}

/** Far more than the sockets buffer, which is up to 36 MB each on Linux. */
const largeMegabytes = size(200, 90);

describe(`an upload of ${largeMegabytes} MB`, () => {
  it("passes unchanged at the gateway's pace, without being buffered", async () => {
    const pieces = largeMegabytes;
    await using slow = await scriptedGateway({ readBodies: false });
    await using own = await startProxy({ gatewayUrl: slow.url, env: { FAREBOX_BODY_LIMIT: "256mb" } });
    using passing = new PassingBytes(own.url, slow.url);
    const request = begin(head.length + pieces * mb + tail.length, own);
    const answered = answerOf(request);
    const { request: received, response } = await slow.nextChat();
    const sent = createHash("sha256").update(head);
    const kinds = [1, 2, 3, 4].map((fill) => Buffer.alloc(mb, fill));
    for (let number = 0; number < pieces; number++) {
      const piece = kinds[number % kinds.length] ?? head;
      sent.update(piece);
      request.write(piece);
    }
    // The gateway reads nothing yet. Without backpressure, the proxy would now read the whole upload.
    let most = 0;
    for (let turn = 0; turn < 100; turn++) {
      await (await fetch(`${own.url}/healthz`)).text();
      most = Math.max(most, passing.upward);
    }
    const got = createHash("sha256");
    let bytes = 0;
    received.on("data", (chunk: Buffer) => {
      got.update(chunk);
      bytes += chunk.length;
      most = Math.max(most, passing.upward);
    });
    request.end(tail);
    sent.update(tail);
    await once(received, "end");
    response.writeHead(200, { "content-type": "application/json" }).end(answer);
    expect((await answered).body.toString()).toBe(answer);
    expect(bytes).toBe(head.length + pieces * mb + tail.length);
    expect(got.digest("hex")).toBe(sent.digest("hex"));
    expect(most).toBeLessThan(mb);
    expect(await own.onlyCharge()).toMatchObject({ state: "posted", source: "reported", cost: 60n * 100_000_000n });
  });
});

it("parallel uploads each take a share of the memory for bodies, and return it", async () => {
  await using own = await startProxy({ env: { FAREBOX_BODY_MEMORY: "200kb", FAREBOX_BODY_LIMIT: "200kb" } });
  const begun = httpRequest(`${own.url}/v1/audio/transcriptions`, {
    method: "POST",
    agent: false,
    headers: {
      authorization: `Bearer ${own.key}`,
      "content-type": "multipart/form-data; boundary=b",
      expect: "100-continue",
    },
  });
  begun.flushHeaders();
  await once(begun, "continue");
  const send = () => {
    const form = new FormData();
    form.append("model", "whisper-1");
    form.append("file", new Blob([Buffer.alloc(150_000)]), "a.wav");
    return fetch(`${own.url}/v1/audio/transcriptions`, {
      method: "POST",
      headers: { authorization: `Bearer ${own.key}` },
      body: form,
    });
  };
  // The first upload takes its share once its key is known, which a second request cannot observe.
  let second = await send();
  while (second.status === 200) second = await send();
  expect(second.status).toBe(503);
  begun.end(Buffer.concat([head, Buffer.alloc(1000), tail]));
  expect((await answerOf(begun)).status).toBe(200);
  await own.serving.settled();
  expect((await send()).status).toBe(200);
});

describe("an incomplete upload", () => {
  it("ends at the gateway when its client leaves, and costs nothing", async () => {
    const request = begin(10 * mb);
    const { request: received, closed } = await arrived();
    await once(received, "data");
    request.destroy();
    await closed;
    expect(await newCharge()).toMatchObject({ state: "voided", reason: "client_left", cost: null });
  });

  it("that the gateway refuses early gives the client the gateway's answer", async () => {
    const request = begin(10 * mb);
    const answered = answerOf(request);
    const { request: received, response } = await arrived();
    received.resume();
    response.writeHead(400, { "content-type": "application/json" }).end('{"error":{"message":"no"}}');
    request.end(Buffer.alloc(10 * mb - head.length));
    const { status, body } = await answered;
    expect([status, body.toString()]).toEqual([400, '{"error":{"message":"no"}}']);
    expect(await newCharge()).toMatchObject({ state: "voided", reason: "gateway_400" });
  });

  it("that the gateway resets gives a 502 at no cost", async () => {
    const request = begin(10 * mb);
    const answered = answerOf(request);
    const { request: received } = await arrived();
    await once(received, "data");
    received.socket.resetAndDestroy();
    expect((await answered).status).toBe(502);
    // The connection may have carried another request before.
    const reason = expect.stringMatching(/^gateway_reset(_reused)?$/) as string;
    expect(await newCharge()).toMatchObject({ state: "voided", reason });
    request.destroy();
  });

  it("is refused by its stated length before anything is sent to the gateway", async () => {
    const request = begin(300 * mb);
    const { status, body } = await answerOf(request);
    expect([status, JSON.parse(body.toString()).error.code]).toEqual([413, "request_too_large"]);
    request.destroy();
    expect(await newCharge()).toBeUndefined();
  });

  it("is stopped when it exceeds the limit", async () => {
    await using own = await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_BODY_LIMIT: "24mb" } });
    const request = begin(null, own);
    const answered = answerOf(request);
    const { request: received, closed } = await arrived();
    received.resume();
    const piece = Buffer.alloc(8 * mb);
    for (let sent = 0; sent < 32 * mb && !request.destroyed; sent += piece.length) {
      if (!request.write(piece)) await Promise.race([once(request, "drain"), answered]);
    }
    expect((await answered).status).toBe(413);
    await closed;
    request.destroy();
    expect(await own.onlyCharge()).toMatchObject({ state: "voided", reason: "request_too_large" });
  });
});
