import { afterAll, beforeAll, expect, it } from "vitest";
import { runFarebox, startServe, temporaryFolder } from "../support/farebox-process.ts";
import { startBalancer } from "../support/haproxy.ts";
import { skipWithout } from "../support/programs.ts";
import { delta, done, finish, scriptedGateway, usageChunk } from "../support/scripted-gateway.ts";

const skipped = skipWithout("haproxy", "haproxy");
const owned = new AsyncDisposableStack();
let database: string;
let key: string;

beforeAll(async () => {
  if (skipped) return;
  const folder = owned.use(await temporaryFolder());
  database = `${folder.path}/farebox.db`;
  key = (await runFarebox(["keys", "create", "alice"], { env: { FAREBOX_DATABASE: database } })).stdout.trim();
});
afterAll(() => owned.disposeAsync());

function chat(url: string, message: string, more: object = {}): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: "gpt-4o", messages: [{ role: "user", content: message }], max_tokens: 500, ...more }),
  });
}

it.skipIf(skipped)("a stream passes the balancer chunk by chunk: the next one is only sent when the last one has come", { timeout: 60_000 }, async () => {
  await using gateway = await scriptedGateway();
  await using one = await startServe({ database, gateway: { url: gateway.url, apiKey: "sk-gateway" } });
  await using balancer = await startBalancer([one.url]);
  const coming = chat(balancer.url, "hello", { stream: true });
  const { response } = await gateway.nextChat();
  response.writeHead(200, { "content-type": "text/event-stream" });
  const chunks = [delta("Hello"), delta(", "), delta("wörld"), delta("x".repeat(20_000)), delta("!"), finish(), usageChunk(), done];
  response.write(chunks[0]);
  const body = (await coming).body?.getReader();
  for (const [index, chunk] of chunks.entries()) {
    const whole = Buffer.from(chunk);
    let seen = Buffer.alloc(0);
    while (seen.length < whole.length) {
      const { value } = (await body?.read()) ?? {};
      if (value === undefined) break;
      seen = Buffer.concat([seen, value]);
    }
    expect(seen).toEqual(whole);
    if (index + 1 < chunks.length) response.write(chunks[index + 1]);
  }
  response.end();
  expect(await body?.read()).toMatchObject({ done: true });
});
