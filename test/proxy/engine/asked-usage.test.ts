import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Clock } from "../../../src/ports/clock.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import {
  answeringGateway,
  type Answering,
  type AnsweringGateway,
  type ReceivedRequest,
} from "../../support/answering-gateway.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { ask, type WireAnswer } from "../../support/wire-client.ts";

/* Tests that Farebox asks for the usage of streams, and retries without asking if the gateway refuses. */

const request = `{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"hello"}]}`;
const asking = request.replace("{", '{"stream_options":{"include_usage":true},');
const event = (data: string) => `data: ${data}\n\n`;
const text = event('{"model":"gpt-4o","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}');
const report = event('{"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":1,"total_tokens":9}}');
const done = event("[DONE]");

const isAsking = ({ body }: ReceivedRequest) => body.includes("include_usage");
const streamed = (body: string): Answering => ({ headers: { "content-type": "text/event-stream" }, body });
const refused = (status: number, message: string): Answering => ({
  status,
  body: JSON.stringify({ error: { message } }),
});

let answer: (asked: ReceivedRequest) => Answering;
let gateway: AnsweringGateway;
let proxy: RunningProxy;
let laterMs = 0;
const clock: Clock = { ...systemClock(), monotonic: () => systemClock().monotonic() + laterMs };
beforeEach(async () => {
  laterMs = 0;
  gateway = await answeringGateway((asked) => answer(asked));
  proxy = await startProxy({ gatewayUrl: gateway.url, clock });
});
afterEach(async () => {
  await proxy[Symbol.asyncDispose]();
  await gateway[Symbol.asyncDispose]();
});

const refusesUsage =
  (refusal = refused(400, "Unrecognized request argument supplied: stream_options")) =>
  (asked: ReceivedRequest) =>
    isAsking(asked) ? refusal : streamed(text + done);

const sent = () => gateway.asked.map(({ body }) => body.toString());
const headerOf = ({ headers }: WireAnswer) => headers["x-farebox-stream-usage"];

describe("Farebox's usage option in streams", () => {
  it("makes the gateway report usage; the client gets a header that says so, but not the usage", async () => {
    answer = () => streamed(text + report + done);
    const got = await ask(proxy, request);
    expect(sent()).toEqual([asking]);
    expect([got.body.toString(), headerOf(got)]).toEqual([text + done, "asked"]);
    expect(await proxy.charges()).toMatchObject([{ source: "reported", tokens: { input: 8, output: 1 } }]);
  });

  it("is not added to a stream that already has it, a plain request, or a path without such an option", async () => {
    answer = () => streamed(text + report + done);
    const own = request.replace("{", '{"stream_options":{"include_usage":true, "x":1},');
    const got = await ask(proxy, own);
    expect([sent(), got.body.toString(), headerOf(got)]).toEqual([[own], text + report + done, undefined]);
    const plain = request.replace('"stream":true,', "");
    answer = () => ({ body: "{}" });
    expect(headerOf(await ask(proxy, plain))).toBeUndefined();
    const response = '{"model":"gpt-4o","stream":true,"input":"hello"}';
    expect(headerOf(await ask(proxy, response, { path: "/v1/responses" }))).toBeUndefined();
    expect(sent().slice(1)).toEqual([plain, response]);
  });
});

describe("a gateway that refuses the usage option", () => {
  it.each([
    ["a 400 that names stream_options", refused(400, "unknown field stream_options")],
    ["a 422 that names include_usage", refused(422, "include_usage is not permitted")],
  ])("with %s gets one retry without the option, under the same hold", async (_, refusal) => {
    answer = refusesUsage(refusal);
    const got = await ask(proxy, request);
    expect(sent()).toEqual([asking, request]);
    expect([got.status, got.body.toString(), headerOf(got)]).toEqual([200, text + done, undefined]);
    expect(await proxy.charges()).toMatchObject([{ state: "posted", source: "counted", tokens: { output: 1 } }]);
  });

  it("is not asked for the model's usage again for an hour", async () => {
    answer = refusesUsage();
    await ask(proxy, request);
    await ask(proxy, request);
    laterMs = 3_590_000;
    await ask(proxy, request);
    await ask(proxy, request.replace("gpt-4o", "gpt-4.1"));
    laterMs = 3_700_000;
    await ask(proxy, request);
    const other = (body: string) => body.replace("gpt-4o", "gpt-4.1");
    expect(sent()).toEqual([asking, request, request, request, other(asking), other(request), asking, request]);
  });

  it("and the retry too is asked for usage again; the client gets its second refusal at no cost", async () => {
    answer = (asked) => refused(400, isAsking(asked) ? "stream_options" : "the messages are too long");
    for (const _ of [1, 2]) {
      const got = await ask(proxy, request);
      expect([got.status, got.body.toString()]).toEqual([400, '{"error":{"message":"the messages are too long"}}']);
    }
    expect(sent()).toEqual([asking, request, asking, request]);
    expect(await proxy.charges()).toMatchObject([{ state: "voided" }, { state: "voided" }]);
  });

  it.each<[string, Answering]>([
    ["a 400 that names neither", refused(400, "the messages are too long")],
    ["another status", refused(404, "stream_options")],
    ["a broken connection", "break"],
  ])("with %s gets no retry", async (_, refusal) => {
    answer = () => refusal;
    await ask(proxy, request);
    expect(sent()).toEqual([asking]);
  });

  it("gets no retry if FAREBOX_STREAM_USAGE is inject: the client gets the refusal", async () => {
    answer = refusesUsage();
    await using injecting = await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_STREAM_USAGE: "inject" } });
    expect((await ask(injecting, request)).status).toBe(400);
    expect(sent()).toEqual([asking]);
  });

  it("may compress its refusal", async () => {
    const { gzipSync } = await import("node:zlib");
    const body = gzipSync('{"error":{"message":"stream_options"}}');
    answer = refusesUsage({ status: 400, headers: { "content-encoding": "gzip" }, body });
    expect((await ask(proxy, request)).status).toBe(200);
  });
});

describe("a streamed request with an idempotency key", () => {
  const headers = { "idempotency-key": "one", "openai-idempotency-id": "two" };
  const keys = () =>
    gateway.asked.map((asked) => [asked.headers["idempotency-key"], asked.headers["openai-idempotency-id"]]);

  it("has a separate key for the try without usage, and reuses it in retries", async () => {
    answer = refusesUsage();
    await ask(proxy, request, { headers });
    const [first, second] = keys();
    expect(new Set([...(first ?? []), ...(second ?? [])]).size).toBe(4);
    // Asking for usage again might succeed now, and the gateway would generate a second answer.
    laterMs = 3_700_000;
    answer = () => streamed(text + report + done);
    await ask(proxy, request, { headers });
    expect([sent()[2], keys()[2]]).toEqual([request, second]);
  });

  it("asks for usage again in a retry, even if the model is known to refuse it by then", async () => {
    answer = (asked) => (asked.headers["idempotency-key"] === undefined ? refusesUsage()(asked) : "break");
    await ask(proxy, request, { headers });
    await ask(proxy, request);
    answer = () => streamed(text + report + done);
    const got = await ask(proxy, request, { headers });
    expect(sent()).toEqual([asking, asking, request, asking]);
    expect([got.body.toString(), keys()[3]]).toEqual([text + done, keys()[0]]);
  });

  it("does not ask for usage in a retry if the first try did not", async () => {
    answer = refusesUsage();
    await ask(proxy, request);
    await ask(proxy, request, { headers });
    laterMs = 3_700_000;
    await ask(proxy, request, { headers });
    expect(sent()).toEqual([asking, request, request, request]);
  });

  it("is refused as a different request if the retry itself asks for usage", async () => {
    answer = () => streamed(text + report + done);
    await ask(proxy, request, { headers });
    expect((await ask(proxy, asking, { headers })).status).toBe(409);
  });
});
