import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Charge } from "../../../src/core/charge.ts";
import { decodedBytesMax } from "../../../src/wire/content-encoding.ts";
import { answeringGateway, type Answering } from "../../support/answering-gateway.ts";
import { priceFolder, videoTaskPrices } from "../../support/price-files.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { record } from "../../support/task-records.ts";
import { fetchAnswer, errorCode, type WireAnswer } from "../../support/wire-client.ts";

/** More than Farebox decompresses of any answer. */
const spaces = Buffer.alloc(decodedBytesMax + 1024, " ");
const fastBrotli = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } };
const gzipped = gzipSync(spaces, { level: 1 });

/** Bodies of kilobytes that decompress beyond the limit, by content encoding. */
const bombs: Readonly<Record<string, Buffer>> = {
  gzip: gzipped,
  deflate: deflateSync(spaces, { level: 1 }),
  br: brotliCompressSync(spaces, fastBrotli),
  zstd: zstdCompressSync(spaces),
  // Gigabytes after both layers are decompressed.
  "gzip, gzip": gzipSync(Buffer.concat(Array.from({ length: 32 }, () => gzipped))),
};

const owned = new AsyncDisposableStack();
let proxy: RunningProxy;
/** Next answer of the gateway. */
let given: Answering;
let account: Answering = { status: 404 };

beforeAll(async () => {
  const folder = owned.use(priceFolder(videoTaskPrices)).path;
  const gateway = owned.use(
    await answeringGateway(
      () => given,
      () => account,
    ),
  );
  proxy = owned.use(
    await startProxy({
      gatewayUrl: gateway.url,
      env: {
        FAREBOX_PRICING: folder,
        FAREBOX_PASSTHROUGH: "all",
        FAREBOX_ACCOUNT_INFO: "full",
        FAREBOX_PUBLIC_URL: "https://farebox.example",
      },
    }),
  );
});
afterAll(() => owned.disposeAsync());

const prompt = { model: "gpt-4o", messages: [{ role: "user", content: "hello" }], max_tokens: 100 };
const image = { model: "gpt-image-1", prompt: "a harbour" };
const task = { model: "kling", task_type: "video_generation", input: { prompt: "a fox" } };
const json = "application/json";
const events = "text/event-stream";

function form(fields: Readonly<Record<string, string>>): { readonly body: Buffer; readonly type: string } {
  const parts = Object.entries(fields).map(([name, value]) => {
    const file = name === "file" || name === "image" ? '; filename="a.bin"' : "";
    return `--b\r\ncontent-disposition: form-data; name="${name}"${file}\r\n\r\n${value}\r\n`;
  });
  return { body: Buffer.from(`${parts.join("")}--b--\r\n`), type: "multipart/form-data; boundary=b" };
}

interface EndpointRequest {
  readonly path: string;
  readonly body?: object | Buffer;
  readonly type?: string;
  readonly method?: string;
  /** Content type of the gateway's answer. */
  readonly answers?: string;
  /** True if the price does not depend on the answer. */
  readonly isCounted?: true;
}

const endpoints: Readonly<Record<string, EndpointRequest>> = {
  "a chat": { path: "/v1/chat/completions", body: prompt },
  "a streamed chat": { path: "/v1/chat/completions", body: { ...prompt, stream: true }, answers: events },
  "a completion": { path: "/v1/completions", body: { model: "gpt-4o-mini", prompt: "hello", max_tokens: 10 } },
  "a streamed completion": {
    path: "/v1/completions",
    body: { model: "gpt-4o-mini", prompt: "hello", max_tokens: 10, stream: true },
    answers: events,
  },
  "a response": { path: "/v1/responses", body: { model: "gpt-4o", input: "hello", max_output_tokens: 100 } },
  "a streamed response": {
    path: "/v1/responses",
    body: { model: "gpt-4o", input: "hello", max_output_tokens: 100, stream: true },
    answers: events,
  },
  embeddings: { path: "/v1/embeddings", body: { model: "text-embedding-3-small", input: "hello" } },
  images: { path: "/v1/images/generations", body: image },
  "streamed images": { path: "/v1/images/generations", body: { ...image, stream: true }, answers: events },
  "an edited image": { path: "/v1/images/edits", ...form({ model: "gpt-image-1", prompt: "green", image: "x" }) },
  "a transcript": { path: "/v1/audio/transcriptions", ...form({ model: "whisper-1", file: "x" }) },
  "a streamed transcript": {
    path: "/v1/audio/transcriptions",
    ...form({ model: "gpt-4o-transcribe", file: "x", stream: "true" }),
    answers: events,
  },
  speech: {
    path: "/v1/audio/speech",
    body: { model: "tts-1", input: "hello", voice: "alloy" },
    answers: "audio/mpeg",
    isCounted: true,
  },
  "a task": { path: "/api/v1/task", body: task },
};

/** Paths without a price. */
const unpriced: Readonly<Record<string, EndpointRequest>> = {
  "an uploaded file": { path: "/v1/files", ...form({ purpose: "batch", file: "x" }) },
  "a file": { path: "/v1/files/f-1/content", method: "GET", answers: "application/octet-stream" },
  "a list of files": { path: "/v1/files", method: "GET" },
  "an unknown stream": { path: "/v1/anything", body: { model: "gpt-4o", stream: true }, answers: events },
};

function request({ path, body, type = json, method = "POST" }: EndpointRequest): Promise<WireAnswer> {
  return fetchAnswer(proxy, body, { path, method, headers: { "content-type": type } });
}

function bomb(encoding: string, type = json, status = 200): Answering {
  return { status, headers: { "content-type": type, "content-encoding": encoding }, body: bombs[encoding] ?? "" };
}

let seen = 0;
async function newCharges(): Promise<readonly Charge[]> {
  const all = await proxy.charges();
  return all.slice(seen, (seen = all.length));
}

const encodings = Object.keys(bombs);
/** Pairs each endpoint with one encoding. */
const withEncodings = (all: Readonly<Record<string, EndpointRequest>>) =>
  Object.entries(all).map(
    ([name, example], index) => [name, encodings[index % encodings.length] ?? "gzip", example] as const,
  );
const aChat = endpoints["a chat"] ?? { path: "" };

describe("an answer that decompresses beyond the limit", () => {
  it.each([...encodings.slice(1).map((encoding) => ["a chat", encoding, aChat] as const), ...withEncodings(endpoints)])(
    "passes unchanged and is charged at its hold: %s in %s",
    async (_, encoding, example) => {
      given = bomb(encoding, example.answers);
      const answer = await request(example);
      expect([answer.status, answer.headers["content-encoding"], answer.broken]).toEqual([200, encoding, null]);
      expect(answer.body.equals(bombs[encoding] ?? Buffer.alloc(0)), "the same bytes").toBe(true);
      const [charge, ...more] = await newCharges();
      expect(more).toEqual([]);
      expect(charge).toMatchObject(
        example.isCounted
          ? { source: "counted" }
          : { state: "posted", source: "assumed", cost: charge?.hold, overage: 0n },
      );
      expect(charge?.hold).toBeGreaterThan(0n);
    },
  );

  it.each(withEncodings(unpriced))("passes unchanged without a price: %s in %s", async (_, encoding, example) => {
    given = bomb(encoding, example.answers);
    const answer = await request(example);
    expect([answer.status, answer.headers["content-encoding"]]).toEqual([200, encoding]);
    expect(answer.body.equals(bombs[encoding] ?? Buffer.alloc(0))).toBe(true);
    expect(await newCharges()).toMatchObject([{ state: "posted", cost: null, formula: "unpriced" }]);
  });

  it("is handled like any other gateway error if its status is an error", async () => {
    given = bomb("gzip", json, 400);
    for (const example of [aChat, endpoints["a task"] ?? aChat]) {
      const answer = await request(example);
      expect([answer.status, answer.body.equals(gzipped)]).toEqual([400, true]);
      expect(await newCharges()).toMatchObject([{ state: "voided", reason: "gateway_400" }]);
    }
  });

  it("is not read as a task record when a client asks for the task or deletes it", async () => {
    given = { body: record("t-1", "pending") };
    expect((await request(endpoints["a task"] ?? aChat)).status).toBe(200);
    for (const method of ["GET", "DELETE"]) {
      given = bomb("br");
      const answer = await request({ path: "/api/v1/task/t-1", method });
      expect([answer.status, answer.body.equals(bombs["br"] ?? Buffer.alloc(0))]).toEqual([200, true]);
    }
    const charges = await newCharges();
    expect(charges).toMatchObject([{ state: "pending", kind: "task" }]);
    given = { body: record("t-1", "failed") };
    await request({ path: "/api/v1/task/t-1", method: "GET" });
  });

  it.each(encodings)("is not read as an account record in %s, and gives one clear error", async (encoding) => {
    account = bomb(encoding);
    const answer = await request({ path: "/account/info", method: "GET" });
    expect([answer.status, errorCode(answer), answer.headers["content-encoding"]]).toEqual([
      502,
      "gateway_unreachable",
      undefined,
    ]);
    expect(await proxy.serving.sampler.sample()).toBeUndefined();
    account = { status: 404 };
  });
});

describe("an answer that decompresses within the limit", () => {
  const padding = "A".repeat(20 * 1024 * 1024);
  const usage = '"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}';

  it("is metered if the outline of its JSON suffices, and charged at its hold if its text must be counted", async () => {
    const whole = `{"object":"list","model":"text-embedding-3-small","data":["${padding}"],${usage}}`;
    given = { headers: { "content-type": json, "content-encoding": "gzip" }, body: gzipSync(whole, { level: 1 }) };
    await request(endpoints["embeddings"] ?? aChat);
    await request(aChat);
    expect(await newCharges()).toMatchObject([
      { source: "reported", tokens: { input: 7 } },
      { source: "assumed", reason: "unreadable_answer" },
    ]);
  });

  it("is metered as a stream, whatever its comments contain", async () => {
    const piece = (more: string) => `data: {"model":"gpt-4o",${more}}\n\n`;
    const stream = `:${padding}\n\n${piece('"choices":[{"index":0,"delta":{"content":"Hi."},"finish_reason":"stop"}]')}${piece(`"choices":[],${usage}`)}data: [DONE]\n\n`;
    given = { headers: { "content-type": events, "content-encoding": "zstd" }, body: zstdCompressSync(stream) };
    await request(endpoints["a streamed chat"] ?? aChat);
    expect(await newCharges()).toMatchObject([{ source: "reported", tokens: { input: 7, output: 2 } }]);
  });
});

describe("a compressed request body", () => {
  it.each([
    ...Object.values(endpoints),
    ...Object.values(unpriced).filter(({ method }) => method !== "GET"),
    { path: `/v1/farebox/callbacks/${"0".repeat(64)}` },
  ])("that expands too far is refused at $path", async ({ path, type = json }) => {
    for (const encoding of ["gzip", "br", "zstd", "deflate", "gzip, gzip"]) {
      const answer = await fetchAnswer(proxy, bombs[encoding], {
        path,
        headers: { "content-type": type, "content-encoding": encoding },
      });
      // An unknown callback is not found, compressed or not.
      expect(["request_too_large", "unsupported_encoding", "not_found"]).toContain(errorCode(answer));
    }
    expect(await newCharges()).toEqual([]);
  });
});
