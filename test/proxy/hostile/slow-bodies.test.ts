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

/** Begins a request with a body of a megabyte, and waits until the proxy waits for the rest. */
async function begin(client: RawClient, [line, type]: readonly [string, string], start: string): Promise<void> {
  const before = clock.waiting;
  client.send(head(proxy.url, line, type, `Authorization: Bearer ${proxy.key}`, "Content-Length: 1000000"), start);
  while (clock.waiting === before) await new Promise(setImmediate);
}

describe("a stalled body", () => {
  it.each([
    ["that never starts", json, ""],
    ["that stops in the middle", json, '{"model":"gpt-4o","messages":['],
    ["that is a form and stops in a part's head", form, '--b\r\nContent-Disposition: form-data; name="mo'],
  ] as const)("%s gets a 408 that is counted, and its connection is closed", async (_, kind, start) => {
    const timeouts = async () =>
      Number(/farebox_refusals_total\{code="request_timeout"\} (\d+)/.exec(await proxy.metrics())?.[1]);
    const before = await timeouts();
    using client = new RawClient(proxy.url);
    await begin(client, kind, start);
    clock.advance(bodyPace.ms);
    expectRefusal(await client.answer(), 408, "request_timeout");
    await client.closed();
    expect(await timeouts()).toBe(before + 1);
    expect(await proxy.charges()).toEqual([]);
    expect(proxy.sandbox.requests.filter(({ method }) => method === "POST")).toEqual([]);
  });
});
