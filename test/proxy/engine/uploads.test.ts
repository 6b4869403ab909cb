import { createHash } from "node:crypto";
import { once } from "node:events";
import { request as httpRequest, type ClientRequest, type IncomingMessage } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { scriptedGateway, type ScriptedGateway } from "../../support/scripted-gateway.ts";
import { fetchAnswer, readToEnd } from "../../support/wire-client.ts";

const mb = 1024 * 1024;
const fileHead = Buffer.from(
  '--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n',
);
/** The model, after the file. */
const tail = Buffer.from('\r\n--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n--b--\r\n');
const answer = JSON.stringify({ text: "hello", usage: { type: "duration", seconds: 60 } });

let gateway: ScriptedGateway;
let proxy: RunningProxy;
let charges = 0;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  gateway = everything.use(await scriptedGateway({ readBodies: false }));
  proxy = everything.use(await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_BODY_LIMIT: "24mb" } }));
});
afterAll(() => everything.disposeAsync());

/** Begins an upload of a recording; the test sends what follows the head of the file. */
function begin(length: number | null, path = "/v1/audio/transcriptions"): ClientRequest {
  const request = httpRequest(proxy.url + path, {
    method: "POST",
    agent: false,
    headers: {
      authorization: `Bearer ${proxy.key}`,
      "content-type": "multipart/form-data; boundary=b",
      ...(length !== null && { "content-length": length }),
    },
  });
  request.on("error", () => undefined);
  request.write(fileHead);
  return request;
}

async function answerOf(request: ClientRequest) {
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return readToEnd(response);
}

async function newCharges() {
  const all = await proxy.charges();
  return all.slice(charges, (charges = all.length));
}

async function newCharge() {
  const [charge, ...more] = await newCharges();
  expect(more).toEqual([]);
  return charge;
}

/** Sends a whole upload with a file of this many bytes. */
function sendWhole(fileBytes: number) {
  const file = Buffer.alloc(fileBytes, "sound ");
  const request = begin(fileHead.length + file.length + tail.length);
  request.write(file);
  request.end(tail);
  return { answered: answerOf(request), request, sha256: sha256([fileHead, file, tail]) };
}

function sha256(pieces: readonly Buffer[]): string {
  const digest = createHash("sha256");
  for (const piece of pieces) digest.update(piece);
  return digest.digest("hex");
}

describe("an upload", () => {
  it("of 20 MB with its model after the file passes unchanged, and is priced before it is sent", async () => {
    const { answered, sha256: sent } = sendWhole(20 * mb);
    const { request, response } = await gateway.nextChat();
    const got: Buffer[] = [];
    for await (const chunk of request) got.push(chunk as Buffer);
    expect(sha256(got)).toBe(sent);
    expect(request.headers["content-type"]).toBe("multipart/form-data; boundary=b");
    response.writeHead(200, { "content-type": "application/json" }).end(answer);
    expect((await answered).body.toString()).toBe(answer);
    expect(await newCharge()).toMatchObject({ model: "whisper-1", source: "reported", cost: 60n * 100_000_000n });
  });

  it("is not sent before it is complete", async () => {
    const request = begin(null);
    const answered = answerOf(request);
    request.write(Buffer.alloc(mb));
    const other = fetchAnswer(proxy, { model: "gpt-4o", input: "x" }, { path: "/v1/embeddings" });
    const first = await gateway.nextChat();
    expect(first.request.url).toBe("/v1/embeddings");
    first.request.resume();
    first.response.writeHead(400, { "content-type": "application/json" }).end("{}");
    expect((await other).status).toBe(400);
    request.end(tail);
    const { request: received, response } = await gateway.nextChat();
    expect(received.headers["content-length"]).toBe(String(fileHead.length + mb + tail.length));
    received.resume();
    response.writeHead(200, { "content-type": "application/json" }).end(answer);
    expect((await answered).status).toBe(200);
    const [refused, charge] = await newCharges();
    expect(refused).toMatchObject({ state: "voided", reason: "gateway_400" });
    expect(charge).toMatchObject({ state: "posted", source: "reported" });
  });

  it("has no charge if its client leaves before its end", async () => {
    const request = begin(10 * mb);
    request.write(Buffer.alloc(mb));
    await (await fetch(`${proxy.url}/healthz`)).text();
    request.destroy();
    await proxy.serving.settled();
    expect(await newCharge()).toBeUndefined();
  });

  it("is charged as reported if its client leaves while it is forwarded", async () => {
    const { request, answered } = sendWhole(8 * mb);
    answered.catch(() => undefined);
    const { request: received, response } = await gateway.nextChat();
    request.destroy();
    received.resume();
    await once(received, "end");
    response.writeHead(200, { "content-type": "application/json" }).end(answer);
    expect(await newCharge()).toMatchObject({ source: "reported", cost: 60n * 100_000_000n });
  });

  it("that the gateway refuses early gives the client the gateway's answer", async () => {
    const { answered } = sendWhole(20 * mb);
    const { response } = await gateway.nextChat();
    response.writeHead(400, { "content-type": "application/json" }).end('{"error":{"message":"no"}}');
    const { status, body } = await answered;
    expect([status, body.toString()]).toEqual([400, '{"error":{"message":"no"}}']);
    expect(await newCharge()).toMatchObject({ state: "voided", reason: "gateway_400" });
  });

  it("that the gateway resets is charged at its hold, because the gateway may have read it", async () => {
    const { answered } = sendWhole(20 * mb);
    const { request: received } = await gateway.nextChat();
    await once(received, "data");
    received.socket.resetAndDestroy();
    expect((await answered).status).toBe(502);
    // The connection may have carried another request before.
    const reason = expect.stringMatching(/^gateway_reset(_reused)?$/) as string;
    const charge = await newCharge();
    expect(charge).toMatchObject({ state: "posted", source: "assumed", cost: charge?.hold, reason });
  });

  it.each(["/v1/audio/transcriptions", "/v1/images/edits"])(
    "to %s that states a length above the limit is refused before anything is sent",
    async (path) => {
      const request = begin(25 * mb, path);
      const { status, body } = await answerOf(request);
      expect([status, JSON.parse(body.toString()).error.code]).toEqual([413, "request_too_large"]);
      expect(body.toString()).toContain("FAREBOX_BODY_LIMIT");
      request.destroy();
      expect(await newCharge()).toBeUndefined();
    },
  );

  it("without a length that exceeds the limit is refused before anything is sent", async () => {
    const request = begin(null);
    const answered = answerOf(request);
    const piece = Buffer.alloc(8 * mb);
    for (let sent = 0; sent < 32 * mb && !request.destroyed; sent += piece.length) {
      if (!request.write(piece)) await Promise.race([once(request, "drain"), answered]);
    }
    expect((await answered).status).toBe(413);
    request.destroy();
    expect(await newCharge()).toBeUndefined();
  });
});

it("uploads return their memory", async () => {
  await using own = await startProxy({ env: { FAREBOX_BODY_MEMORY: "200kb", FAREBOX_BODY_LIMIT: "200kb" } });
  const statuses: number[] = [];
  for (let round = 0; round < 3; round++) {
    const form = new FormData();
    form.append("file", new Blob([Buffer.alloc(150_000)]), "a.wav");
    form.append("model", "whisper-1");
    const sent = await fetch(`${own.url}/v1/audio/transcriptions`, {
      method: "POST",
      headers: { authorization: `Bearer ${own.key}` },
      body: form,
    });
    await sent.text();
    await own.serving.settled();
    statuses.push(sent.status);
  }
  expect(statuses).toEqual([200, 200, 200]);
});
