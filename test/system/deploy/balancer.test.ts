// @module-tag races
import { afterAll, beforeAll, expect, it } from "vitest";
import { runFarebox, startServe, type ServeProcess } from "../../support/farebox-process.ts";
import { freePort } from "../../support/free-port.ts";
import { startBalancer } from "../../support/haproxy.ts";
import { skipWithout } from "../../support/programs.ts";
import {
  delta,
  done,
  finish,
  scriptedGateway,
  usage,
  usageChunk,
  type OpenRequest,
} from "../../support/scripted-gateway.ts";
import { newDatabase } from "../../support/shared-postgres.ts";
import { until } from "../../support/until.ts";

const skipped = skipWithout("haproxy");
const owned = new AsyncDisposableStack();
/** One ledger for all proxies. */
let database: string;
let key: string;

beforeAll(async () => {
  if (skipped) return;
  database = owned.use(await newDatabase()).url;
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

/** Resolves once the balancer sends the proxy chat requests, not only checks. */
async function servesAgain({ url }: ServeProcess): Promise<void> {
  const page = () => fetch(`${url}/metrics`).then((answer) => answer.text());
  await until(
    async () => /^farebox_requests_total\{route="\/v1\/chat\/completions",.*status="200".*\} [1-9]/m.test(await page()),
    "the balancer sends it requests",
  );
}

it.skipIf(skipped)("a stream passes the balancer chunk by chunk, without buffering", async () => {
  await using gateway = await scriptedGateway();
  await using one = await startServe({ database, gateway: { url: gateway.url, apiKey: "sk-gateway" } });
  await using balancer = await startBalancer([one.url]);
  const coming = chat(balancer.url, "hello", { stream: true, stream_options: { include_usage: true } });
  const { response } = await gateway.nextChat();
  response.writeHead(200, { "content-type": "text/event-stream" });
  const chunks = [
    delta("Hello"),
    delta(", "),
    delta("wörld"),
    delta("x".repeat(20_000)),
    delta("!"),
    finish(),
    usageChunk(),
    done,
  ];
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

/** Starts a gateway that answers plain requests at once, and keeps streams open until they are ended. */
async function gatewayWithStreams() {
  const gateway = await scriptedGateway();
  const streams: OpenRequest[] = [];
  const choices = [{ index: 0, message: { role: "assistant", content: "Hello" }, finish_reason: "stop" }];
  const answer = async () => {
    for (;;) {
      const received = await gateway.nextChat();
      if (received.body.includes('"stream":true')) {
        received.response.writeHead(200, { "content-type": "text/event-stream" }).write(delta("Hello"));
        streams.push(received);
      } else {
        const body = JSON.stringify({ model: "gpt-4o", choices, usage });
        received.response.writeHead(200, { "content-type": "application/json" }).end(body);
      }
    }
  };
  void answer();
  return {
    url: gateway.url,
    endStreams() {
      for (const { response } of streams.splice(0)) response.end(finish() + usageChunk() + done);
    },
    [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
  };
}

/** Returns true once no process listens at this address. */
const isClosed = (url: string) =>
  fetch(`${url}/readyz`).then(
    (answer) => answer.text().then(() => false),
    () => true,
  );

it.skipIf(skipped)("replacing one proxy after the other under load fails no request", async () => {
  await using gateway = await gatewayWithStreams();
  const ports = [await freePort(), await freePort()];
  const start = (port: number | undefined) =>
    startServe({
      database,
      gateway: { url: gateway.url, apiKey: "sk-gateway" },
      env: { FAREBOX_PORT: String(port), FAREBOX_DRAIN: "10m" },
    });
  const proxies: ServeProcess[] = await Promise.all(ports.map(start));
  await using _proxies = {
    [Symbol.asyncDispose]: async () => void (await Promise.all(proxies.map((each) => each[Symbol.asyncDispose]()))),
  };
  await using balancer = await startBalancer(proxies.map(({ url }) => url));

  const failed: unknown[] = [];
  let answered = 0;
  const over = new AbortController();
  const client = async () => {
    while (!over.signal.aborted) {
      const answer = await chat(balancer.url, "Hello").catch((error: unknown) => error);
      if (answer instanceof Response && answer.status === 200)
        await answer.text().then(
          () => answered++,
          (error: unknown) => failed.push(error),
        );
      else failed.push(answer instanceof Response ? [answer.status, await answer.text()] : answer);
    }
  };
  const clients = Array.from({ length: 4 }, client);
  for (const [index, proxy] of proxies.entries()) {
    await balancer.allReady();
    // The balancer spreads them by load, one on each proxy.
    const streams = await Promise.all([0, 1].map(() => chat(balancer.url, "Hello", { stream: true })));
    proxy.signal("SIGTERM");
    // A stopping proxy still listens for a while. The streams outlast that.
    await until(() => isClosed(proxy.url), "the proxy no longer listens");
    gateway.endStreams();
    const texts = await Promise.all(streams.map((stream) => stream.text()));
    expect(texts.filter((text) => !text.endsWith("data: [DONE]\n\n"))).toEqual([]);
    expect((await proxy.ended).code).toBe(0);
    const next = await start(ports[index]);
    proxies[index] = next;
    await servesAgain(next);
    const before = answered;
    await until(() => answered > before, "more requests are answered");
  }
  over.abort();
  await Promise.all(clients);
  expect(failed, balancer.log).toEqual([]);
});
