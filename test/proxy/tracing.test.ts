import { describe, expect, it } from "vitest";
import { Secret } from "../../src/config/secret.ts";
import type { Settings } from "../../src/config/settings.ts";
import { captureLog } from "../support/captured-log.ts";
import { startProxy, type ProxyOptions, type RunningProxy } from "../support/running-proxy.ts";
import { startTraceReceiver, type ReceivedSpan, type TraceReceiver } from "../support/trace-receiver.ts";
import { until } from "../support/until.ts";

// cspell:ignore tracestate

type Sampler = NonNullable<Settings["tracing"]>["sampler"];
const keepAll: Sampler = { isParentBased: true, root: "always_on", ratio: 1 };

/** Starts a proxy that sends its spans to this address. */
function startTraced(
  address: string,
  options: ProxyOptions = {},
  { sampler = keepAll, timeoutMs = 60_000 } = {},
): Promise<RunningProxy> {
  return startProxy({
    ...options,
    sandbox: { keepRequests: 10, ...options.sandbox },
    adjust: (settings) => ({ ...settings, tracing: { address: new Secret(address), sampler, timeoutMs } }),
  });
}

interface Scene extends AsyncDisposable {
  readonly proxy: RunningProxy;
  readonly receiver: TraceReceiver;
  /** Ends the proxy and returns all spans that it sent. */
  spans(): Promise<readonly ReceivedSpan[]>;
  onlySpan(): Promise<ReceivedSpan>;
}

async function startScene(options?: ProxyOptions, sampler = keepAll): Promise<Scene> {
  await using owned = new AsyncDisposableStack();
  const receiver = owned.use(await startTraceReceiver());
  const proxy = owned.use(await startTraced(`${receiver.url}/v1/traces`, options, { sampler }));
  const kept = owned.move();
  const spans = async () => {
    await proxy[Symbol.asyncDispose]();
    return receiver.spans;
  };
  return {
    proxy,
    receiver,
    spans,
    async onlySpan() {
      const all = await spans();
      const [first] = all;
      if (first === undefined || all.length !== 1) throw new Error(`expected one span, received ${all.length}`);
      return first;
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const notSampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

const sentHeaders = ({ sandbox }: RunningProxy) => sandbox.requests.map(({ headers }) => headers);

describe("a traced request", () => {
  it("has one span with the attributes of the conventions, the cost, the key and the source", async () => {
    await using scene = await startScene();
    const { proxy } = scene;
    const before = BigInt(Date.now()) * 1_000_000n;
    const answer = await proxy.chat({ max_tokens: 20 });
    const { usage } = (await answer.json()) as { usage: { prompt_tokens: number; completion_tokens: number } };
    const charge = await proxy.onlyCharge();
    const span = await scene.onlySpan();
    expect(span).toMatchObject({ name: "chat gpt-4o", kind: 3, status: 0, parentSpanId: "" });
    expect(span.startedAt).toBeGreaterThanOrEqual(before - 1_000_000n);
    expect(span.endedAt).toBeGreaterThan(span.startedAt);
    expect(span.resource).toMatchObject({ "service.name": "farebox", "service.version": "0.0.0-test" });
    expect(span.attributes).toEqual({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "openai",
      "gen_ai.request.model": "gpt-4o",
      "gen_ai.response.model": expect.stringMatching(/^gpt-4o/),
      "gen_ai.usage.input_tokens": usage.prompt_tokens,
      "gen_ai.usage.output_tokens": usage.completion_tokens,
      "http.request.method": "POST",
      "http.route": "/v1/chat/completions",
      "http.response.status_code": 200,
      "server.address": "127.0.0.1",
      "server.port": Number(new URL(proxy.sandbox.url).port),
      "farebox.request_id": charge.id,
      "farebox.key": "alice",
      "farebox.cost_usd": Number(charge.cost) / 1e12,
      "farebox.source": "reported",
    });
  });

  it("has a span that states, for a stream, the time to the first chunk", async () => {
    await using scene = await startScene();
    await (await scene.proxy.chat({ stream: true })).text();
    const { firstTokenMs } = await scene.proxy.onlyCharge();
    const { attributes } = await scene.onlySpan();
    expect(attributes).toMatchObject({ "gen_ai.request.stream": true, "farebox.source": "reported" });
    expect(Math.round(Number(attributes["gen_ai.response.time_to_first_chunk"]) * 1000)).toBe(firstTokenMs);
  });

  it("has the code of its refusal in its span, and no cost", async () => {
    await using scene = await startScene();
    const { proxy } = scene;
    await proxy.budget("key:alice", "0.000001");
    expect((await proxy.chat({})).status).toBe(402);
    expect((await proxy.chat({}, { key: "sk-fb-unknown" })).status).toBe(401);
    const [broke, unknown] = await scene.spans();
    expect(broke).toMatchObject({ name: "chat gpt-4o", status: 2 });
    expect(broke?.attributes).toMatchObject({
      "farebox.key": "alice",
      "farebox.refusal": "budget_exceeded",
      "error.type": "budget_exceeded",
      "http.response.status_code": 402,
    });
    expect(broke?.attributes).not.toHaveProperty("farebox.cost_usd");
    expect(unknown).toMatchObject({ name: "chat", status: 2 });
    expect(unknown?.attributes).toMatchObject({ "error.type": "invalid_api_key", "http.response.status_code": 401 });
    expect(unknown?.attributes).not.toHaveProperty("farebox.key");
  });

  it("has the gateway's status as the error of its span, and no cost", async () => {
    await using scene = await startScene({ sandbox: { scenario: () => "status:503" } });
    await scene.proxy.chat({});
    const { attributes, status } = await scene.onlySpan();
    expect(status).toBe(2);
    expect(attributes).toMatchObject({ "error.type": "503", "http.response.status_code": 503 });
    expect(attributes).not.toHaveProperty("farebox.cost_usd");
  });

  it("has in its span the error that ended its stream, and the cost up to that point", async () => {
    await using scene = await startScene({ sandbox: { scenario: () => "cut:5" } });
    await (await scene.proxy.chat({ stream: true })).text();
    const { attributes, status } = await scene.onlySpan();
    expect(status).toBe(2);
    expect(attributes).toMatchObject({
      "error.type": "gateway_stream_broken",
      "http.response.status_code": 200,
      "farebox.source": "partial",
    });
    expect(attributes["farebox.cost_usd"]).toBeGreaterThan(0);
  });

  it("is never a query of health, models, metrics or the key's own data", async () => {
    await using scene = await startScene();
    const { proxy } = scene;
    for (const path of ["/healthz", "/v1/models", "/metrics", "/v1/farebox/me"])
      await fetch(proxy.url + path, { headers: { authorization: `Bearer ${proxy.key}` } });
    expect(await scene.spans()).toEqual([]);
  });

  it("has no prompt, answer or secret in its span", async () => {
    await using scene = await startScene();
    const { proxy, receiver } = scene;
    const secret = "the-prompt-of-this-test";
    const answer = await proxy.chat({
      messages: [{ role: "user", content: secret }],
      user: secret,
      metadata: { a: secret },
    });
    const text = ((await answer.json()) as { choices: [{ message: { content: string } }] }).choices[0].message.content;
    await proxy.chat({ messages: secret });
    await scene.spans();
    const sent = Buffer.concat(receiver.requests.map(({ body }) => body)).toString("latin1");
    expect(text.length).toBeGreaterThan(5);
    for (const hidden of [secret, text, proxy.key, proxy.sandbox.apiKey]) expect(sent).not.toContain(hidden);
  });
});

describe("the traceparent header", () => {
  it("makes the client's span the parent of Farebox's, which becomes the parent at the gateway", async () => {
    await using scene = await startScene();
    const { proxy } = scene;
    await proxy.chat({}, { headers: { traceparent, tracestate: "vendor=1", baggage: "user=alice" } });
    const [sent] = sentHeaders(proxy);
    const span = await scene.onlySpan();
    expect(span).toMatchObject({
      traceId: "0af7651916cd43dd8448eb211c80319c",
      parentSpanId: "b7ad6b7169203331",
      traceState: "vendor=1",
    });
    expect(sent).toMatchObject({ traceparent: `00-${span.traceId}-${span.spanId}-01`, tracestate: "vendor=1" });
    expect(sent).not.toHaveProperty("baggage");
  });

  it("starts a new trace if it is missing or invalid", async () => {
    await using scene = await startScene();
    const { proxy } = scene;
    await proxy.chat({});
    await proxy.chat({}, { headers: { traceparent: "00-nonsense", tracestate: "vendor=1" } });
    const [first, second] = sentHeaders(proxy);
    const spans = await scene.spans();
    expect(spans.map(({ parentSpanId }) => parentSpanId)).toEqual(["", ""]);
    expect([first?.["traceparent"], second?.["traceparent"]]).toEqual(
      spans.map(({ traceId, spanId }) => `00-${traceId}-${spanId}-01`),
    );
    expect(second).not.toHaveProperty("tracestate");
  });

  it("is passed on with a new span id if the client does not sample the trace, and no span is sent", async () => {
    await using scene = await startScene();
    const { proxy } = scene;
    await proxy.chat({}, { headers: { traceparent: notSampled } });
    const [sent] = sentHeaders(proxy);
    expect(await scene.spans()).toEqual([]);
    expect(sent?.["traceparent"]).toMatch(/^00-0af7651916cd43dd8448eb211c80319c-(?!b7ad6b7169203331)[0-9a-f]{16}-00$/);
  });

  it("is passed on unchanged if tracing is off", async () => {
    await using proxy = await startProxy({ sandbox: { keepRequests: 10 } });
    await proxy.chat({}, { headers: { traceparent, tracestate: "vendor=1" } });
    expect(sentHeaders(proxy)).toMatchObject([{ traceparent, tracestate: "vendor=1" }]);
  });
});

describe("the trace sampler", () => {
  it.each([
    [{ isParentBased: false, root: "always_off", ratio: 1 }, traceparent, 0],
    [{ isParentBased: true, root: "always_off", ratio: 1 }, traceparent, 1],
    [{ isParentBased: false, root: "always_on", ratio: 1 }, notSampled, 1],
    [{ isParentBased: true, root: "traceidratio", ratio: 0 }, undefined, 0],
    [{ isParentBased: true, root: "traceidratio", ratio: 1 }, undefined, 1],
  ] as const)("%o with the parent %s sends %d spans", async (sampler, parent, count) => {
    await using scene = await startScene({}, sampler);
    await scene.proxy.chat({}, parent === undefined ? {} : { headers: { traceparent: parent } });
    expect(await scene.spans()).toHaveLength(count);
  });
});

describe("a trace receiver that refuses spans", () => {
  const lost = async (proxy: RunningProxy) =>
    Number(/^farebox_spans_total\{result="lost"\} (\d+)$/m.exec(await proxy.metrics())?.[1]);
  const message = "spans cannot be sent to OTEL_EXPORTER_OTLP_ENDPOINT; farebox_spans_total counts the lost ones";

  it("affects no request, and is logged once while lost spans are counted", async () => {
    await using receiver = await startTraceReceiver();
    receiver.answer((response) => response.writeHead(401).end("the credential was sk-secret"));
    const log = captureLog();
    await using proxy = await startTraced(`${receiver.url}/v1/traces`, { log });
    for (const expected of [1, 2]) {
      expect((await proxy.chat({})).status).toBe(200);
      await until(async () => (await lost(proxy)) === expected, `${expected} spans are lost`);
    }
    expect(log.lines.filter((line) => line.message === message)).toEqual([
      { level: "warn", fields: { reason: "401 Unauthorized" }, message },
    ]);
    expect((await proxy.charges()).map(({ source }) => source)).toEqual(["reported", "reported"]);
  });

  it("is logged again once it accepts spans", async () => {
    await using receiver = await startTraceReceiver();
    receiver.answer((response) => response.writeHead(400).end());
    const log = captureLog();
    await using proxy = await startTraced(`${receiver.url}/v1/traces`, { log });
    await proxy.chat({});
    await log.logged(message);
    receiver.answer((response) => response.writeHead(200).end());
    await proxy.chat({});
    await log.logged("spans are sent again");
    expect(await proxy.metrics()).toMatch(/^farebox_spans_total\{result="sent"\} 1$/m);
  });

  it("does not prevent the end of the proxy if it never answers", async () => {
    await using receiver = await startTraceReceiver();
    receiver.answer(() => undefined);
    const log = captureLog();
    const proxy = await startTraced(`${receiver.url}/v1/traces`, { log }, { timeoutMs: 100 });
    await proxy.chat({});
    await proxy[Symbol.asyncDispose]();
    expect(log.lines.filter((line) => line.message === message)).toHaveLength(1);
  });
});
