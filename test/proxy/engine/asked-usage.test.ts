import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Clock } from "../../../src/ports/clock.ts";
import { systemClock } from "../../../src/platform/clock.ts";
import {
  answeringGateway,
  type Answering,
  type AnsweringGateway,
  type ReceivedRequest,
} from "../../support/answering-gateway.ts";
import { priceFolder } from "../../support/price-files.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { delta, scriptedGateway } from "../../support/scripted-gateway.ts";
import { fetchAnswer, open, type WireAnswer } from "../../support/wire-client.ts";

/* Tests that Farebox asks for the usage of streams, and retries without asking if the gateway refuses. */

const request = `{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"hello"}]}`;
const requestWithUsage = request.replace("{", '{"stream_options":{"include_usage":true},');
const event = (data: string) => `data: ${data}\n\n`;
const text = event('{"model":"gpt-4o","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}');
const report = event('{"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":1,"total_tokens":9}}');
const done = event("[DONE]");

const requestsUsage = ({ body }: ReceivedRequest) => body.includes("include_usage");
const streamed = (body: string): Answering => ({ headers: { "content-type": "text/event-stream" }, body });
const refused = (status: number, message: string): Answering => ({
  status,
  body: JSON.stringify({ error: { message } }),
});

let answer: (received: ReceivedRequest) => Answering | Promise<Answering>;
let gateway: AnsweringGateway;
let proxy: RunningProxy;
let laterMs = 0;
const clock: Clock = { ...systemClock(), monotonic: () => systemClock().monotonic() + laterMs };
beforeEach(async () => {
  laterMs = 0;
  gateway = await answeringGateway((received) => answer(received));
  proxy = await startProxy({ gatewayUrl: gateway.url, clock });
});
afterEach(async () => {
  await proxy[Symbol.asyncDispose]();
  await gateway[Symbol.asyncDispose]();
});

const refusesUsage =
  (refusal = refused(400, "Unrecognized request argument supplied: stream_options")) =>
  (received: ReceivedRequest) =>
    requestsUsage(received) ? refusal : streamed(text + done);

const sent = () => gateway.received.map(({ body }) => body.toString());
const headerOf = ({ headers }: WireAnswer) => headers["x-farebox-stream-usage"];

describe("Farebox's usage option in streams", () => {
  it("makes the gateway report usage; the client gets a header that says so, but not the usage", async () => {
    answer = () => streamed(text + report + done);
    const got = await fetchAnswer(proxy, request);
    expect(sent()).toEqual([requestWithUsage]);
    expect([got.body.toString(), headerOf(got)]).toEqual([text + done, "asked"]);
    expect(await proxy.charges()).toMatchObject([{ source: "reported", tokens: { input: 8, output: 1 } }]);
  });

  it("is not added to a stream that already has it, a plain request, or a path without such an option", async () => {
    answer = () => streamed(text + report + done);
    const own = request.replace("{", '{"stream_options":{"include_usage":true, "x":1},');
    const got = await fetchAnswer(proxy, own);
    expect([sent(), got.body.toString(), headerOf(got)]).toEqual([[own], text + report + done, undefined]);
    const plain = request.replace('"stream":true,', "");
    answer = () => ({ body: "{}" });
    expect(headerOf(await fetchAnswer(proxy, plain))).toBeUndefined();
    const response = '{"model":"gpt-4o","stream":true,"input":"hello"}';
    expect(headerOf(await fetchAnswer(proxy, response, { path: "/v1/responses" }))).toBeUndefined();
    expect(sent().slice(1)).toEqual([plain, response]);
  });
});

describe("a gateway that refuses the usage option", () => {
  it.each([
    ["a 400 that names stream_options", refused(400, "unknown field stream_options")],
    ["a 422 that names include_usage", refused(422, "include_usage is not permitted")],
  ])("with %s gets one retry without the option, under the same hold", async (_, refusal) => {
    answer = refusesUsage(refusal);
    const got = await fetchAnswer(proxy, request);
    expect(sent()).toEqual([requestWithUsage, request]);
    expect([got.status, got.body.toString(), headerOf(got)]).toEqual([200, text + done, undefined]);
    expect(await proxy.charges()).toMatchObject([{ state: "posted", source: "counted", tokens: { output: 1 } }]);
  });

  it("is not asked for the model's usage again for an hour", async () => {
    answer = refusesUsage();
    await fetchAnswer(proxy, request);
    await fetchAnswer(proxy, request);
    laterMs = 3_590_000;
    await fetchAnswer(proxy, request);
    await fetchAnswer(proxy, request.replace("gpt-4o", "gpt-4.1"));
    laterMs = 3_700_000;
    await fetchAnswer(proxy, request);
    const other = (body: string) => body.replace("gpt-4o", "gpt-4.1");
    expect(sent()).toEqual([
      requestWithUsage,
      request,
      request,
      request,
      other(requestWithUsage),
      other(request),
      requestWithUsage,
      request,
    ]);
  });

  it("and the retry too is asked for usage again; the client gets its second refusal at no cost", async () => {
    answer = (received) => refused(400, requestsUsage(received) ? "stream_options" : "the messages are too long");
    for (const _ of [1, 2]) {
      const got = await fetchAnswer(proxy, request);
      expect([got.status, got.body.toString()]).toEqual([400, '{"error":{"message":"the messages are too long"}}']);
    }
    expect(sent()).toEqual([requestWithUsage, request, requestWithUsage, request]);
    expect(await proxy.charges()).toMatchObject([{ state: "voided" }, { state: "voided" }]);
  });

  it("with a broken connection gets no retry", async () => {
    answer = () => "break";
    await fetchAnswer(proxy, request);
    expect(sent()).toEqual([requestWithUsage]);
  });

  it("gets no retry if FAREBOX_STREAM_USAGE is inject: the client gets the refusal", async () => {
    answer = refusesUsage();
    await using injecting = await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_STREAM_USAGE: "inject" } });
    expect((await fetchAnswer(injecting, request)).status).toBe(400);
    expect(sent()).toEqual([requestWithUsage]);
  });

  it("may compress its refusal", async () => {
    const { gzipSync } = await import("node:zlib");
    const body = gzipSync('{"error":{"message":"stream_options"}}');
    answer = refusesUsage({ status: 400, headers: { "content-encoding": "gzip" }, body });
    expect((await fetchAnswer(proxy, request)).status).toBe(200);
  });
});

/** Answer with a success status and these bytes. */
const labelled = (type: string, body: string): Answering => ({ headers: { "content-type": type }, body });
const json = (value: object) => labelled("application/json", JSON.stringify(value));
const failure = { error: { message: "Something went wrong." } };

/** Errors that a gateway may send only because the request asks for usage. */
const possibleRefusals: readonly (readonly [string, Answering])[] = [
  ...[400, 404, 422, 500, 501].map((status) => [`status ${status}`, refused(status, "Something went wrong.")] as const),
  ["a page with status 500", { status: 500, headers: { "content-type": "text/html" }, body: "<h1>Error</h1>" }],
  ["a 404 that names the field", refused(404, "stream_options")],
  ["an error event", streamed(event(JSON.stringify(failure)) + done)],
  ["an error event without its blank line", streamed(event(JSON.stringify(failure)).trimEnd())],
  ["an error event after comments and a ping", streamed(`: wait\n\n${event("ping")}${event(JSON.stringify(failure))}`)],
  ["an error event that states status 400", streamed(event('{"error":{"code":400,"message":"bad"}}'))],
  ["an error event that names the field", streamed(event('{"error":{"message":"Unsupported media: stream_options"}}'))],
  ["an error in a choice", streamed(event('{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}'))],
  [
    "an error event with a usage of 0",
    streamed(event('{"error":"no","usage":{"prompt_tokens":0,"completion_tokens":0}}')),
  ],
  ["an error event with the label of JSON", labelled("application/json", event(JSON.stringify(failure)))],
  ["an error in JSON", json(failure)],
  ["an error in JSON that states a code", json({ code: 500, message: "Something went wrong.", data: null })],
  ["an error in a list", json([failure])],
  ["an error in JSON with the label of events", labelled("text/event-stream", JSON.stringify(failure, null, 1))],
  ["success: false", json({ success: false })],
  ["an event with an unknown code alone", streamed(event('{"code":10001,"message":"Something went wrong."}') + done)],
];

/** Answers that have another cause, may be billed, or already contain output. */
const otherAnswers: readonly (readonly [string, Answering])[] = [
  ...[402, 403, 408, 413, 429, 503, 504].map((status) => [`status ${status}`, refused(status, "no")] as const),
  ...[401, 402, 403, 408, 413, 429, 503, 504].map(
    (code) =>
      [
        `an error event that states ${code}`,
        streamed(event(JSON.stringify({ error: { code, message: "no" } }))),
      ] as const,
  ),
  ["an error event about a rate limit", streamed(event('{"error":{"message":"rate limit reached"}}'))],
  ["an error event about the balance", streamed(event('{"error":{"message":"insufficient balance"}}'))],
  ["an error event about a timeout", streamed(event('{"error":{"message":"the request timed out"}}'))],
  ["an error next to output", streamed(event('{"error":"no","choices":[{"index":0,"delta":{"content":"Hi"}}]}'))],
  ["an error next to a usage", streamed(event('{"error":"no","usage":{"prompt_tokens":8,"completion_tokens":0}}'))],
  ["an error after output", streamed(text + event(JSON.stringify(failure)))],
  ...[
    '{"choices":[],"usage":{"prompt_tokens":9000,"completion_tokens":0}}',
    '{"response":"500 words"}',
    '{"type":"content_block_delta","delta":{"text":"Hi"}}',
    '{"token":{"text":"Hi"}}',
  ].map((first) => [`an error after ${first}`, streamed(event(first) + event(JSON.stringify(failure)))] as const),
  ...[
    '{"type":"status","status":"processing","message":"Searching the web","data":null}',
    '{"choices":null,"status":"queued","message":"waiting"}',
    '{"choices":null,"message":"waiting"}',
    '{"choices":[],"message":"processing"}',
  ].map((first) => [`a report before its output: ${first}`, streamed(event(first) + text + done)] as const),
  ["a stream without output", streamed(done)],
  ["an empty answer", streamed("")],
  ["a page", labelled("text/html", "<h1>Hello</h1>")],
];

describe("a gateway that may have failed because of the usage option", () => {
  const refusing = (refusal: Answering) => (received: ReceivedRequest) =>
    requestsUsage(received) ? refusal : streamed(text + done);
  /** Returns the body that the client sees, without the usage that it did not ask for. */
  const shownOf = (given: Answering) =>
    String((given as Exclude<Answering, "break">).body)
      .trimEnd()
      .replace(/data: \{"choices":\[\],"usage":\{[^}]*\}\}\n\n|,"usage":\{[^}]*\}/, "");
  const failing = () => refused(500, "Something went wrong.");

  it.each(possibleRefusals)("with %s gets one retry without the option, under the same hold", async (_, refusal) => {
    answer = refusing(refusal);
    const got = await fetchAnswer(proxy, request);
    expect(sent()).toEqual([requestWithUsage, request]);
    expect([got.status, got.body.toString(), headerOf(got)]).toEqual([200, text + done, undefined]);
    expect(await proxy.charges()).toMatchObject([{ state: "posted", source: "counted", tokens: { output: 1 } }]);
    expect(await proxy.charges(), "one charge").toHaveLength(1);
    await fetchAnswer(proxy, request);
    expect(sent(), "the model is known to refuse").toEqual([requestWithUsage, request, request]);
  });

  it.each(possibleRefusals)("with %s is not asked again if it has answered a stream with usage", async (_, refusal) => {
    answer = () => streamed(text + report + done);
    await fetchAnswer(proxy, request);
    answer = refusing(refusal);
    const got = await fetchAnswer(proxy, request);
    expect(sent()).toEqual([requestWithUsage, requestWithUsage]);
    expect(got.status).toBe((refusal as Exclude<Answering, "break">).status ?? 200);
    expect(got.body.toString()).toContain(shownOf(refusal));
  });

  it.each(otherAnswers)("with %s gets no retry", async (_, given) => {
    answer = refusing(given);
    const got = await fetchAnswer(proxy, request);
    expect(sent()).toEqual([requestWithUsage]);
    expect(got.body.toString()).toContain(shownOf(given));
  });

  it("is sent without the option on completions too", async () => {
    const completion = '{"model":"gpt-3.5-turbo-instruct","stream":true,"prompt":"hello"}';
    answer = (received) =>
      requestsUsage(received)
        ? failing()
        : streamed(event('{"choices":[{"text":"Hi","finish_reason":"stop"}]}') + done);
    expect((await fetchAnswer(proxy, completion, { path: "/v1/completions" })).status).toBe(200);
    expect(sent()).toEqual([completion.replace("{", '{"stream_options":{"include_usage":true},'), completion]);
  });

  it.each<[string, (own: string) => Promise<unknown>]>([
    ["that a client asked for", (own) => fetchAnswer(proxy, own)],
    ["of the same model", () => fetchAnswer(proxy, request)],
  ])("is not asked again after a whole stream with usage %s", async (_, accepted) => {
    answer = () => streamed(text + report + done);
    await accepted(requestWithUsage);
    answer = failing;
    expect((await fetchAnswer(proxy, request)).status).toBe(500);
    expect(sent()).toHaveLength(2);
  });

  it("is asked again for another model than one with a stream with usage", async () => {
    answer = () => streamed(text + report + done);
    await fetchAnswer(proxy, request.replace("gpt-4o", "gpt-4.1"));
    answer = failing;
    await fetchAnswer(proxy, request);
    expect(sent().slice(1)).toEqual([requestWithUsage, request]);
  });

  it("and fails again too answers the client's own request, at no cost; it is not asked twice for ten minutes", async () => {
    answer = (received) => refused(requestsUsage(received) ? 500 : 501, requestsUsage(received) ? "first" : "second");
    const got = await fetchAnswer(proxy, request);
    expect([got.status, got.body.toString(), headerOf(got)]).toEqual([
      501,
      '{"error":{"message":"second"}}',
      undefined,
    ]);
    expect(await proxy.charges()).toMatchObject([{ state: "voided" }]);
    laterMs = 590_000;
    const next = await fetchAnswer(proxy, request);
    expect([next.status, headerOf(next)]).toEqual([500, "asked"]);
    laterMs = 610_000;
    await fetchAnswer(proxy, request);
    expect(sent()).toEqual([requestWithUsage, request, requestWithUsage, requestWithUsage, request]);
  });

  it("is asked twice by one request at a time", async () => {
    const second = Promise.withResolvers<void>();
    const arrived = Promise.withResolvers<void>();
    answer = async (received) => {
      if (requestsUsage(received)) return failing();
      arrived.resolve();
      await second.promise;
      return streamed(text + done);
    };
    const probing = fetchAnswer(proxy, request);
    await arrived.promise;
    expect((await fetchAnswer(proxy, request)).status).toBe(500);
    second.resolve();
    expect((await probing).status).toBe(200);
    expect(sent()).toEqual([requestWithUsage, request, requestWithUsage]);
  });

  it("is known to refuse usage as soon as the second stream begins", async () => {
    await using scripted = await scriptedGateway();
    await using other = await startProxy({ gatewayUrl: scripted.url });
    const opening = open(other, Buffer.from(request));
    (await scripted.nextChat()).response.writeHead(500).end("{}");
    const second = await scripted.nextChat();
    second.response.writeHead(200, { "content-type": "text/event-stream" }).write(delta("Hi"));
    const client = await opening;
    expect((await client.take(delta("Hi").length)).toString()).toBe(delta("Hi"));
    const next = fetchAnswer(other, request);
    const third = await scripted.nextChat();
    expect([second.body.toString(), third.body.toString()]).toEqual([request, request]);
    for (const { response } of [second, third]) response.end(done);
    expect((await client.rest()).toString()).toBe(done);
    expect((await next).status).toBe(200);
  });

  it("is not asked again after two seconds", async () => {
    answer = (received) => {
      laterMs += 2_500;
      return refusing(failing())(received);
    };
    expect((await fetchAnswer(proxy, request)).status).toBe(500);
    expect(sent()).toEqual([requestWithUsage]);
  });

  it.each([
    ["inject", "FAREBOX_STREAM_USAGE"],
    ["pass", "FAREBOX_STREAM_USAGE"],
  ])("is not asked twice with the policy %s", async (value, name) => {
    answer = failing;
    await using other = await startProxy({ gatewayUrl: gateway.url, env: { [name]: value } });
    expect((await fetchAnswer(other, request)).status).toBe(500);
    expect(sent()).toHaveLength(1);
  });

  it.each<[string, Answering, number]>([
    ["status 500", failing(), 1],
    ["an error event", streamed(event(JSON.stringify(failure))), 1],
    ["status 400", refused(400, "no"), 2],
    ["an error event that states 422", streamed(event('{"error":{"code":422}}')), 2],
  ])("if it bills server errors, %s leads to %i requests", async (_, refusal, count) => {
    using prices = priceFolder(`provider: example
defaults: { tokenizer: o200k_base, context_tokens: 100000, max_output_tokens: 1000, reasoning: false, bills_server_errors: true }
models:
  gpt-4o:
    group: official
    prices: [{ from: 2026-01-01, source: "made up", official: { input: "1.00", output: "2.00" } }]
`);
    await using billing = await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_PRICING: prices.path } });
    answer = refusing(refusal);
    await fetchAnswer(billing, request);
    expect(sent()).toHaveLength(count);
  });

  it("has a separate idempotency key for the second request, which retries use again", async () => {
    answer = refusing(failing());
    const headers = { "idempotency-key": "one" };
    await fetchAnswer(proxy, request, { headers });
    await fetchAnswer(proxy, request, { headers });
    const keys = gateway.received.map((received) => received.headers["idempotency-key"]);
    expect(sent()).toEqual([requestWithUsage, request, request]);
    expect([keys[0] === keys[1], keys[1] === keys[2]]).toEqual([false, true]);
  });
});

describe("a chunk without choices, for a client that did not ask for usage", () => {
  const spent = '"usage":{"prompt_tokens":8,"completion_tokens":1,"total_tokens":9}';
  it.each([
    ["is removed without choices", `{"id":"x",${spent}}`, null],
    ["is removed with choices: null", `{"choices":null,${spent}}`, null],
    [
      "keeps its error",
      `{"choices":[],"error":{"message":"late"},${spent}}`,
      '{"choices":[],"error":{"message":"late"}}',
    ],
    [
      "keeps its citations",
      `{"choices":[],"citations":["https://a"],${spent}}`,
      '{"choices":[],"citations":["https://a"]}',
    ],
    ["keeps its search results", `{${spent},"search_results":[{"url":"u"}]}`, '{"search_results":[{"url":"u"}]}'],
    ["keeps its failure", `{"choices":[],${spent},"success":false}`, '{"choices":[],"success":false}'],
  ])("%s", async (_, chunk, left) => {
    answer = () => streamed(text + event(chunk) + done);
    const got = await fetchAnswer(proxy, request);
    expect(got.body.toString()).toContain(text + (left === null ? "" : event(left)));
    expect(got.body.toString()).not.toContain('"usage"');
  });
});

describe("a streamed request with an idempotency key", () => {
  const headers = { "idempotency-key": "one", "openai-idempotency-id": "two" };
  const keys = () =>
    gateway.received.map((received) => [
      received.headers["idempotency-key"],
      received.headers["openai-idempotency-id"],
    ]);

  it("has a separate key for the try without usage, and reuses it in retries", async () => {
    answer = refusesUsage();
    await fetchAnswer(proxy, request, { headers });
    const [first, second] = keys();
    expect(new Set([...(first ?? []), ...(second ?? [])]).size).toBe(4);
    // Asking for usage again might succeed now, and the gateway would generate a second answer.
    laterMs = 3_700_000;
    answer = () => streamed(text + report + done);
    await fetchAnswer(proxy, request, { headers });
    expect([sent()[2], keys()[2]]).toEqual([request, second]);
  });

  it("asks for usage again in a retry, even if the model is known to refuse it by then", async () => {
    answer = (received) => (received.headers["idempotency-key"] === undefined ? refusesUsage()(received) : "break");
    await fetchAnswer(proxy, request, { headers });
    await fetchAnswer(proxy, request);
    answer = () => streamed(text + report + done);
    const got = await fetchAnswer(proxy, request, { headers });
    expect(sent()).toEqual([requestWithUsage, requestWithUsage, request, requestWithUsage]);
    expect([got.body.toString(), keys()[3]]).toEqual([text + done, keys()[0]]);
  });

  it("does not ask for usage in a retry if the first try did not", async () => {
    answer = refusesUsage();
    await fetchAnswer(proxy, request);
    await fetchAnswer(proxy, request, { headers });
    laterMs = 3_700_000;
    await fetchAnswer(proxy, request, { headers });
    expect(sent()).toEqual([requestWithUsage, request, request, request]);
  });

  it("is refused as a different request if the retry itself asks for usage", async () => {
    answer = () => streamed(text + report + done);
    await fetchAnswer(proxy, request, { headers });
    expect((await fetchAnswer(proxy, requestWithUsage, { headers })).status).toBe(409);
  });
});
