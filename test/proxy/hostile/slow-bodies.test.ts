import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bodyPace } from "../../../src/server/http/body-pace.ts";
import { expectRefusal, head, RawClient } from "../../support/raw-client.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";

const clock = manualClock("2026-11-20T12:00:00Z");
let proxy: RunningProxy;
beforeAll(async () => void (proxy = await startProxy({ clock })));
afterAll(() => proxy[Symbol.asyncDispose]());

const json = ["POST /v1/chat/completions", "Content-Type: application/json"] as const;
const form = ["POST /v1/audio/transcriptions", "Content-Type: multipart/form-data; boundary=b"] as const;

/** Begins a request whose body is to be a megabyte, and waits until the proxy waits for the rest of it. */
async function begun(client: RawClient, [line, type]: readonly [string, string], start: string): Promise<void> {
  const before = clock.waiting;
  client.send(head(proxy.url, line, type, `Authorization: Bearer ${proxy.key}`, "Content-Length: 1000000"), start);
  while (clock.waiting === before) await new Promise(setImmediate);
}

describe("a body that does not move", () => {
  it.each([
    ["of which nothing comes", json, ""],
    ["that stops in its middle", json, '{"model":"gpt-4o","messages":['],
    ["of a form that stops in its head", form, '--b\r\nContent-Disposition: form-data; name="mo'],
  ] as const)("%s gets 408, counted, and its connection is closed", async (_, kind, start) => {
    const refused = async () =>
      Number(/farebox_refusals_total\{code="request_timeout"\} (\d+)/.exec(await proxy.metrics())?.[1]);
    const before = await refused();
    using client = new RawClient(proxy.url);
    await begun(client, kind, start);
    clock.advance(bodyPace.ms);
    expectRefusal(await client.answer(), 408, "request_timeout");
    await client.closed();
    expect(await refused()).toBe(before + 1);
    expect(await proxy.charges()).toEqual([]);
    expect(proxy.sandbox.requests.filter(({ method }) => method === "POST")).toEqual([]);
  });
});
