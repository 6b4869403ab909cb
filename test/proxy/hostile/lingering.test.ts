import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { lingering } from "../../../src/server/http/linger.ts";
import { expectRefusal, head, RawClient } from "../../support/raw-client.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { liveBufferBytes } from "../../support/memory.ts";

const clock = manualClock("2026-11-20T12:00:00Z");
let proxy: RunningProxy;
beforeAll(async () => void (proxy = await startProxy({ clock })));
afterAll(() => proxy[Symbol.asyncDispose]());

/** A client that was refused, still has most of its body to write, and does not close its side. */
async function refused(): Promise<RawClient> {
  const client = new RawClient(proxy.url);
  client.socket.allowHalfOpen = true;
  // Each byte leaves at once.
  client.socket.setNoDelay(true);
  client.send(
    head(proxy.url, "POST /v1/chat/completions", `Authorization: Bearer ${proxy.key}`, "Content-Length: 1000000000"),
    "{",
  );
  expectRefusal(await client.answer(), 413, "request_too_large");
  return client;
}

/** Resolves when the proxy has had a turn after the bytes were written. */
async function written(client: RawClient, bytes: Buffer): Promise<void> {
  await new Promise<void>((resolve) => client.socket.write(bytes, () => resolve()));
  await proxy.metrics();
}

/** Resolves when the proxy has given the connection up: what is written then is answered by a reset. */
async function lost(client: RawClient): Promise<void> {
  while (!client.socket.closed) await written(client, Buffer.from("x"));
}

describe("a refused client that does not end", () => {
  it("and sends nothing more loses its connection after a short time", async () => {
    using client = await refused();
    clock.advance(lingering.quietMs);
    await lost(client);
  });

  it("and sends a byte at a time loses it after a longer one", async () => {
    using client = await refused();
    for (let ms = 0; ms < lingering.ms; ms += lingering.checkMs) {
      await written(client, Buffer.from("x"));
      expect(client.socket.closed).toBe(false);
      clock.advance(lingering.checkMs);
    }
    await lost(client);
  });

  it("and floods it loses it at a stated amount, and uses no memory meanwhile", async () => {
    using client = await refused();
    const chunk = Buffer.alloc(4 * 1024 ** 2);
    const before = liveBufferBytes();
    for (let sent = 0; sent <= lingering.bytes; sent += chunk.length) await written(client, chunk);
    expect(liveBufferBytes() - before).toBeLessThan(lingering.bytes / 2);
    clock.advance(lingering.checkMs);
    await lost(client);
  });

  it("and sends another request behind its body gets no answer to it", async () => {
    using client = new RawClient(proxy.url);
    client.socket.allowHalfOpen = true;
    const size = 40 * 1024 ** 2;
    client.send(
      head(proxy.url, "POST /v1/chat/completions", `Authorization: Bearer ${proxy.key}`, `Content-Length: ${size}`),
    );
    expectRefusal(await client.answer(), 413, "request_too_large");
    client.send(Buffer.alloc(size), head(proxy.url, "GET /healthz"));
    await lost(client);
    await expect(client.answer()).rejects.toThrow('the connection closed after ""');
  });
});
