import {
  brotliCompressSync,
  constants,
  createZstdCompress,
  deflateRawSync,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from "node:zlib";
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buffer } from "node:stream/consumers";
import { answeringGateway, type AnsweringGateway } from "../../support/answering-gateway.ts";
import { priceFolder, videoTaskPrices } from "../../support/price-files.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { record } from "../../support/task-records.ts";

const encoders: Readonly<Record<string, (plain: Buffer) => Buffer>> = {
  zstd: (plain) => zstdCompressSync(plain),
  // As several threads write it: one frame for each part.
  ZSTD: (plain) => Buffer.concat([plain.subarray(0, 40), plain.subarray(40)].map((part) => zstdCompressSync(part))),
  gzip: (plain) => gzipSync(plain),
  "x-gzip": (plain) => Buffer.concat([gzipSync(plain.subarray(0, 40)), gzipSync(plain.subarray(40))]),
  deflate: (plain) => deflateSync(plain),
  Deflate: (plain) => deflateRawSync(plain),
  br: (plain) => brotliCompressSync(plain),
};

const limit = 2 * 1024 ** 2;
const owned = new AsyncDisposableStack();
let gateway: AnsweringGateway;
let proxy: RunningProxy;
beforeAll(async () => {
  const folder = owned.use(priceFolder(videoTaskPrices)).path;
  gateway = owned.use(
    await answeringGateway(({ path }) => ({
      body: JSON.stringify(
        path === "/api/v1/task"
          ? record(randomUUID(), "pending")
          : { model: "gpt-4o", usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 } },
      ),
    })),
  );
  proxy = owned.use(
    await startProxy({
      gatewayUrl: gateway.url,
      env: { FAREBOX_PRICING: folder, FAREBOX_BODY_LIMIT: "2mb", FAREBOX_BODY_MEMORY: "2mb" },
    }),
  );
});
afterAll(() => owned.disposeAsync());

function post(path: string, body: Buffer, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${proxy.url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${proxy.key}`, ...headers },
    body: new Uint8Array(body),
  });
}

const chat = (content: string) => ({ model: "gpt-4o", messages: [{ role: "user", content }], max_tokens: 9 });
const requests: Readonly<Record<string, object>> = {
  "/v1/chat/completions": chat("hello"),
  "/v1/responses": { model: "gpt-4o", input: "hello", max_output_tokens: 20 },
  "/v1/embeddings": { model: "text-embedding-3-small", input: "hello" },
  "/v1/completions": { model: "gpt-4o-mini", prompt: "hello", max_tokens: 10 },
  "/api/v1/task": { model: "kling", task_type: "video_generation", input: { prompt: "a fox" } },
};

/** Returns the last charge without what differs between two equal requests. */
async function lastCharge(): Promise<object> {
  const { hold, cost, model, route, tokens } = (await proxy.charges()).at(-1) ?? expect.fail("no charge");
  return { hold, cost, model, route, tokens };
}

describe("an encoded body", () => {
  it.each(Object.keys(requests))("of %s costs and is forwarded as if it were not encoded", async (path) => {
    const plain = Buffer.from(JSON.stringify(requests[path]));
    expect((await post(path, plain)).status).toBe(200);
    const expected = await lastCharge();
    const sent = gateway.received.at(-1)?.body.toString();
    for (const [encoding, encode] of Object.entries(encoders)) {
      expect((await post(path, encode(plain), { "content-encoding": encoding })).status, encoding).toBe(200);
      const received = gateway.received.at(-1);
      if (path !== "/api/v1/task") expect(received?.body.toString(), encoding).toBe(sent);
      expect(received?.headers["content-encoding"]).toBeUndefined();
      expect(received?.headers["content-length"]).toBe(String(received?.body.length));
      expect(await lastCharge(), encoding).toEqual(expected);
    }
  });

  it("of a form costs and is forwarded as if it were not encoded", async () => {
    const form = new FormData();
    form.set("file", new Blob(["RIFF"]), "a.wav");
    form.set("model", "whisper-1");
    const encoded = new Response(form);
    const type = encoded.headers.get("content-type") ?? expect.fail();
    const plain = Buffer.from(await encoded.arrayBuffer());
    const path = "/v1/audio/transcriptions";
    expect((await post(path, plain, { "content-type": type })).status).toBe(200);
    const expected = await lastCharge();
    for (const [encoding, encode] of Object.entries(encoders)) {
      const headers = { "content-type": type, "content-encoding": encoding };
      expect((await post(path, encode(plain), headers)).status, encoding).toBe(200);
      expect(gateway.received.at(-1)?.body.equals(plain), encoding).toBe(true);
      expect(await lastCharge(), encoding).toEqual(expected);
    }
  });

  it.each([["zstd"], ["gzip"], ["br"], ["deflate"]])(
    "with %s is read whole up to the limit of a body",
    async (name) => {
      const encode = encoders[name] ?? expect.fail();
      for (const bytes of [70_000, 300_000, limit]) {
        const plain = Buffer.from(JSON.stringify(chat("x")).padEnd(bytes, " "));
        expect((await post("/v1/chat/completions", encode(plain), { "content-encoding": name })).status).toBe(200);
        expect(gateway.received.at(-1)?.body.equals(plain)).toBe(true);
      }
    },
  );

  it.each([["zstd"], ["gzip"], ["br"], ["deflate"]])(
    "with %s that expands beyond the limit is refused",
    async (name) => {
      const before = gateway.received.length;
      const encode = encoders[name] ?? expect.fail();
      const spaces = encode(Buffer.alloc(64 * 1024 ** 2, " "));
      expect(spaces.length).toBeLessThan(limit);
      for (const bytes of [encode(Buffer.alloc(limit + 1, " ")), spaces]) {
        const answer = await post("/v1/chat/completions", bytes, { "content-encoding": name });
        expect(answer.status).toBe(413);
        expect(await answer.json()).toMatchObject({
          error: {
            code: "request_too_large",
            message: `The request body is larger when it is decoded than the ${limit} bytes that FAREBOX_BODY_LIMIT allows.`,
          },
        });
      }
      expect(gateway.received).toHaveLength(before);
      expect(
        (
          await post("/v1/chat/completions", encode(Buffer.from(JSON.stringify(chat("x")))), {
            "content-encoding": name,
          })
        ).status,
      ).toBe(200);
    },
  );

  it.each(Object.keys(encoders))("with %s that is broken is refused", async (encoding) => {
    const before = gateway.received.length;
    const whole = encoders[encoding]?.(Buffer.from(JSON.stringify(chat("hello".repeat(100))))) ?? expect.fail();
    for (const bytes of [
      whole.subarray(0, -3),
      Buffer.concat([whole, Buffer.from("more")]),
      Buffer.from(JSON.stringify(chat("plain"))),
    ]) {
      const answer = await post("/v1/chat/completions", bytes, { "content-encoding": encoding });
      expect(answer.status).toBe(400);
      expect(await answer.json()).toMatchObject({
        error: {
          code: "invalid_request",
          param: null,
          message: expect.stringContaining(`could not be decoded; content-encoding was '${encoding}'`),
        },
      });
    }
    expect(gateway.received).toHaveLength(before);
  });

  it("with a window that needs more than 8 MB is refused", async () => {
    const statuses: number[] = [];
    for (const windowLog of [23, 24]) {
      const encoder = createZstdCompress({ params: { [constants.ZSTD_c_windowLog]: windowLog } });
      // Without the size of the whole, the encoder states the window.
      encoder.write(JSON.stringify(chat("x")));
      encoder.end(" ");
      const body = await buffer(encoder);
      statuses.push((await post("/v1/chat/completions", body, { "content-encoding": "zstd" })).status);
    }
    expect(statuses).toEqual([200, 400]);
  });

  it("of nothing is an empty body", async () => {
    const answer = await post("/v1/chat/completions", Buffer.alloc(0), { "content-encoding": "zstd" });
    expect(await answer.json()).toMatchObject({ error: { code: "invalid_json" } });
  });

  it.each(["gzip, zstd", "gzip, identity", "compress", "constructor", "zst"])(
    "with %s is refused",
    async (encoding) => {
      const answer = await post("/v1/chat/completions", Buffer.from("{}"), { "content-encoding": encoding });
      expect(answer.status).toBe(415);
      expect(await answer.json()).toMatchObject({ error: { code: "unsupported_encoding" } });
    },
  );

  it("repeats the values of the plain request under its idempotency key", async () => {
    await using own = await startProxy({ gatewayUrl: gateway.url });
    await own.budget("key:alice", "0.05");
    const { max_tokens: _, ...open } = chat("hello");
    const plain = Buffer.from(JSON.stringify(open));
    const send = (bytes: Buffer, headers: Record<string, string>) =>
      fetch(`${own.url}/v1/chat/completions`, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          authorization: `Bearer ${own.key}`,
          "idempotency-key": "one",
          ...headers,
        },
        body: new Uint8Array(bytes),
      });
    const first = await send(plain, {});
    const second = await send(zstdCompressSync(plain), { "content-encoding": "zstd" });
    expect([first.status, second.status]).toEqual([200, 200]);
    expect(Number(first.headers.get("x-farebox-fitted"))).toBeGreaterThan(0);
    expect(second.headers.get("x-farebox-fitted")).toBe(first.headers.get("x-farebox-fitted"));
    const [a, b] = gateway.received.slice(-2);
    expect(b?.body.toString()).toBe(a?.body.toString());
    expect(b?.headers["idempotency-key"]).toBe(a?.headers["idempotency-key"]);
  });

  it("of the admin API is decoded too", async () => {
    const token = "an-admin-token-of-enough-characters";
    await using own = await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_ADMIN_TOKEN: token } });
    const create = (body: Buffer) =>
      fetch(`${own.url}/admin/v1/keys`, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          authorization: `Bearer ${token}`,
          "content-encoding": "gzip",
        },
        body: new Uint8Array(body),
      });
    expect((await create(gzipSync('{"name":"bob"}'))).status).toBe(201);
    const bomb = await create(gzipSync(Buffer.alloc(limit, " ")));
    expect(bomb.status).toBe(413);
    expect(await bomb.json()).toMatchObject({ error: { message: expect.stringContaining("are allowed here") } });
  });
});
