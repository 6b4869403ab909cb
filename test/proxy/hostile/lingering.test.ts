import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingMessage } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { lingering } from "../../../src/server/http/body.ts";
import { expectRefusal, head, RawClient } from "../../support/raw-client.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

const clock = manualClock("2026-11-20T12:00:00Z");
let proxy: RunningProxy;
beforeAll(async () => void (proxy = await startProxy({ clock })));
afterAll(() => proxy[Symbol.asyncDispose]());

/** Returns a client that was refused, still has most of its body to send, and does not close its side. */
async function refusedClient(): Promise<RawClient> {
  const client = new RawClient(proxy.url);
  client.socket.allowHalfOpen = true;
  // Each byte is sent at once.
  client.socket.setNoDelay(true);
  client.send(
    head(proxy.url, "POST /v1/chat/completions", `Authorization: Bearer ${proxy.key}`, "Content-Length: 1000000000"),
    "{",
  );
  expectRefusal(await client.answer(), 413, "request_too_large");
  return client;
}

/** Writes bytes and waits until the proxy has had a turn. */
async function write(client: RawClient, bytes: Buffer): Promise<void> {
  await new Promise<void>((resolve) => client.socket.write(bytes, () => resolve()));
  await proxy.metrics();
}

/** Waits until the proxy has closed the connection, by writing until a reset arrives. */
async function waitUntilClosed(client: RawClient): Promise<void> {
  while (!client.socket.closed) await write(client, Buffer.from("x"));
}

describe("a refused client that keeps its connection open", () => {
  it("loses it after a short time if it sends nothing", async () => {
    using client = await refusedClient();
    clock.advance(lingering.quietMs);
    await waitUntilClosed(client);
  });

  it("loses it after a longer time if it sends single bytes", async () => {
    using client = await refusedClient();
    for (let ms = 0; ms < lingering.ms; ms += lingering.checkMs) {
      await write(client, Buffer.from("x"));
      expect(client.socket.closed).toBe(false);
      clock.advance(lingering.checkMs);
    }
    await waitUntilClosed(client);
  });

  it("loses it after a fixed amount of data, which is not kept in memory", async () => {
    let refused: IncomingMessage | undefined;
    const onRequest = (message: unknown) => (refused ??= (message as { request: IncomingMessage }).request);
    subscribe("http.server.request.start", onRequest);
    using client = await refusedClient();
    unsubscribe("http.server.request.start", onRequest);
    const chunk = Buffer.alloc(4 * 1024 ** 2);
    for (let sent = 0; sent <= lingering.bytes; sent += chunk.length) {
      await write(client, chunk);
      // The bytes are read, but neither buffered nor given to a listener.
      expect([refused?.readableFlowing, refused?.readableLength, refused?.listenerCount("data")]).toEqual([true, 0, 0]);
    }
    clock.advance(lingering.checkMs);
    await waitUntilClosed(client);
  });

  it("gets no answer to a request that follows its refused body", async () => {
    using client = new RawClient(proxy.url);
    client.socket.allowHalfOpen = true;
    const size = 40 * 1024 ** 2;
    client.send(
      head(proxy.url, "POST /v1/chat/completions", `Authorization: Bearer ${proxy.key}`, `Content-Length: ${size}`),
    );
    expectRefusal(await client.answer(), 413, "request_too_large");
    client.send(Buffer.alloc(size), head(proxy.url, "GET /healthz"));
    await waitUntilClosed(client);
    await expect(client.answer()).rejects.toThrow('the connection closed after ""');
  });
});
