import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { answeringGateway, type Answering } from "../../support/answering-gateway.ts";
import { runFarebox, startServe, temporaryFolder } from "../../support/farebox-process.ts";
import { fetchAnswer } from "../../support/wire-client.ts";

const size = 31 * 1024 * 1024;
/** Just below the limit for unpacked answers, so that all of it is read. */
const text = Buffer.concat([Buffer.alloc(size / 2, '{"a":"b"},'), Buffer.alloc(size / 2, " ")]);
const prompt = { model: "gpt-4o", messages: [{ role: "user", content: "hello" }], max_tokens: 100 };
const asked: readonly (readonly [path: string, body: object])[] = [
  ["/v1/chat/completions", prompt],
  ["/v1/chat/completions", { ...prompt, stream: true }],
  ["/v1/responses", { model: "gpt-4o", input: "hello", max_output_tokens: 100 }],
  ["/v1/embeddings", { model: "text-embedding-3-small", input: "hello" }],
  ["/v1/images/generations", { model: "gpt-image-1", prompt: "a harbour" }],
  ["/v1/images/generations", { model: "gpt-image-1", prompt: "a harbour", stream: true }],
  ["/v1/moderations", { model: "gpt-4o" }],
  ["/api/v1/task", { model: "kling", input: { prompt: "a fox" } }],
];
/** Parallel requests to each path. Their unpacked answers exceed 1 GB. */
const atOnce = 5;
/** Limit of the proxy's heap, in MB. Node collects garbage before it reaches the limit, and ends if that does not suffice. */
const heapMb = 256;

it("the heap stays bounded while parallel answers of every endpoint unpack to 31 MB each", async () => {
  await using folder = await temporaryFolder();
  const body = gzipSync(text, { level: 1 });
  await using gateway = await answeringGateway(({ body: asked }): Answering => {
    const type = asked.includes('"stream":true') ? "text/event-stream" : "application/json";
    return { headers: { "content-type": type, "content-encoding": "gzip" }, body };
  });
  const database = join(folder.path, "farebox.db");
  await using farebox = await startServe({
    database,
    gateway: { url: gateway.url, apiKey: "gateway-key" },
    env: { FAREBOX_PASSTHROUGH: "all", NODE_OPTIONS: `--max-old-space-size=${heapMb}` },
  });
  const key = (await runFarebox(["keys", "create", "alice"], { env: { FAREBOX_DATABASE: database } })).stdout.trim();
  const send = (path: string, body: object) => fetchAnswer({ url: farebox.url, key }, body, { path });
  const answers = Array.from({ length: atOnce }, () => asked.map(([path, request]) => send(path, request))).flat();
  for (const { status } of await Promise.all(answers)) expect(status).toBe(200);
  expect(farebox.hasEnded).toBe(false);
});
