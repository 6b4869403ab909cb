import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { formatUsd, parseUsd } from "../../src/core/money.ts";
import { answeringGateway, type AnsweringGateway, type Answering } from "../support/answering-gateway.ts";
import {
  event,
  messageAnswer,
  messageDelta,
  messageStart,
  messageStop,
  messageStream,
  startUsage,
  textBlock,
} from "../support/messages-stream.ts";
import { NewCharges } from "../support/new-charges.ts";
import { priceFolder } from "../support/price-files.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { fetchAnswer, type WireAnswer } from "../support/wire-client.ts";

/* Tests of Anthropic's Messages API through a running proxy. */

/** Prices of USD 1 and 5 per million tokens of input and output, so that a token of input costs 1 micro-USD. */
const prices = `provider: anthropic
gateway: { cached_input: official }
defaults: { tokenizer: null, error_factor: "2", tokens_per_byte: "1.5", context_tokens: 1000000, max_output_tokens: 128000, reasoning: true, streams: live, tokens_per_second: 200 }
models:
  opus:
    group: official
    prices:
      - from: 2026-01-01
        source: "made up for a test"
        official: { input: "1.00", cached_input: "0.10", cache_write: "1.25", cache_write_1h: "2.00", output: "5.00" }
        fees: { web_search_call: { usd: "0.01", input_tokens: 16000 } }
`;

let answer: Answering = {};
let gateway: AnsweringGateway;
let proxy: RunningProxy;
let charges: NewCharges;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  const folder = everything.use(priceFolder(prices)).path;
  gateway = everything.use(await answeringGateway(() => answer));
  proxy = everything.use(await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_PRICING: folder } }));
  charges = new NewCharges(proxy);
});
afterAll(() => everything.disposeAsync());

const json = { "content-type": "application/json" };
const hello = [{ role: "user", content: "hello" }];

function send(
  body: object | string,
  options: { readonly key?: string; readonly path?: string; readonly headers?: Record<string, string> } = {},
): Promise<WireAnswer> {
  const { key = proxy.key, path = "/v1/messages", headers = {} } = options;
  const whole = typeof body === "string" ? body : { model: "opus", max_tokens: 1000, messages: hello, ...body };
  return fetchAnswer({ url: proxy.url, key }, whole, { path, headers: { ...json, ...headers } });
}

const usd = (amount: bigint | null | undefined) => formatUsd((amount ?? -1n) as never);
const micro = (amount: number) => parseUsd((amount / 1_000_000).toFixed(8));

/** Cost of `startUsage` with `lastUsage`: 100 + 20 × 1.25 + 10 × 2 + 1000 × 0.1 + 60 × 5 micro-USD. */
const wholeCost = micro(100 + 25 + 20 + 100 + 300);

describe("a message", () => {
  it("passes unchanged in both directions, and is charged by all classes of its usage", async () => {
    const given = `{"model": "opus",  "max_tokens":1000,"messages":[{"role":"user","content":"h\\u00e9llo"}],"stream":false}`;
    const body = JSON.stringify(messageAnswer(), null, 1);
    answer = { body, headers: { "request-id": "req_1" } };
    const got = await send(given, { path: "/v1/messages?beta=true" });
    expect([got.status, got.body.toString(), got.headers["request-id"]]).toEqual([200, body, "req_1"]);
    expect(got.headers["x-farebox-cost-usd"]).toBe(usd(wholeCost));
    const sent = gateway.received.at(-1);
    expect([sent?.path, sent?.body.toString()]).toEqual(["/v1/messages?beta=true", given]);
    expect(await charges.settled()).toMatchObject({
      route: "/v1/messages",
      source: "reported",
      cost: wholeCost,
      doubts: [],
      tokens: { input: 100, cached_input: 1000, cache_write: 20, cache_write_1h: 10, output: 40, reasoning: 20 },
    });
  });

  it("passes unchanged as a stream, and is charged by its first and last usage", async () => {
    const body = messageStream();
    answer = { body, headers: { "content-type": "text/event-stream" } };
    const got = await send({ stream: true }, { path: "/messages" });
    expect([got.status, got.body.toString()]).toEqual([200, body]);
    expect(gateway.received.at(-1)?.path).toBe("/v1/messages");
    expect(await charges.settled()).toMatchObject({
      source: "reported",
      cost: wholeCost,
      doubts: [],
      tokens: { input: 100, cached_input: 1000, cache_write: 20, cache_write_1h: 10, output: 40, reasoning: 20 },
    });
  });
});

describe("a hold", () => {
  it("covers the prompt by its bytes and the stated maximum, and the rate of cache writes only if the request caches", async () => {
    answer = { body: JSON.stringify(messageAnswer()) };
    const held = async (body: object) => {
      await send(body);
      const bytes = gateway.received.at(-1)?.body.length ?? 0;
      const { hold } = await charges.settled();
      return { hold, promptTokens: Math.ceil(bytes * 1.5) + 3 + 8 };
    };
    const plain = await held({});
    expect(plain.hold).toBe(micro(plain.promptTokens + 1000 * 5));
    const block = (cache: object) => [{ role: "user", content: [{ type: "text", text: "x", cache_control: cache }] }];
    const cached = await held({ messages: block({ type: "ephemeral" }) });
    expect(cached.hold).toBe(micro(cached.promptTokens * 1.25 + 1000 * 5));
    const long = await held({ messages: block({ type: "ephemeral", ttl: "1h" }) });
    expect(long.hold).toBe(micro(long.promptTokens * 2 + 1000 * 5));
  });

  it("covers the model's maximum if the request states a maximum of 0 and an unknown field", async () => {
    answer = { body: JSON.stringify(messageAnswer()) };
    await send({ max_tokens: 0 });
    expect((await charges.settled()).basis).toMatchObject({ by: "max_tokens", outputTokens: 0 });
    await send({ max_tokens: 0, max_completion_tokens: 5000 });
    expect((await charges.settled()).basis).toMatchObject({ by: "unknown_field", outputTokens: 128_000 });
  });

  it("does not exceed a hard budget: the request is refused before it is sent", async () => {
    const key = await proxy.addKey("poor");
    await proxy.budget("key:poor", "0.001");
    const before = gateway.received.length;
    const got = await send({ thinking: { type: "enabled", budget_tokens: 999 } }, { key });
    expect([got.status, gateway.received.length]).toEqual([402, before]);
  });
});

const events = { "content-type": "text/event-stream" };
/** Cost of the prompt that `startUsage` states, with `output` tokens. */
const costWith = (output: number) => micro(100 + 25 + 20 + 100 + output * 5);

describe("a stream that does not end as usual", () => {
  it("costs its stated prompt and its text if it is cut, and ends with an error event", async () => {
    const body = messageStart() + textBlock(["Hello", " there"]);
    answer = { body, headers: events };
    const got = await send({ stream: true });
    expect(got.body.toString().startsWith(body)).toBe(true);
    expect(got.body.toString().slice(body.length)).toMatch(/^event: error\ndata: \{"type":"error",.*\}\n\n$/);
    const charge = await charges.settled();
    expect(charge).toMatchObject({
      source: "partial",
      reason: "gateway_cut",
      tokens: { input: 100, cached_input: 1000 },
    });
    // "Hello there" has 2 tokens; the first event states one.
    expect(charge.cost).toBeGreaterThanOrEqual(costWith(3) ?? 0n);
    expect(charge.cost).toBeLessThanOrEqual(charge.hold ?? 0n);
  });

  it("costs its stated prompt if it only began", async () => {
    answer = { body: messageStart(), headers: events };
    await send({ stream: true });
    const charge = await charges.settled();
    expect(charge.tokens).toMatchObject({ input: 100, cached_input: 1000, cache_write: 20, cache_write_1h: 10 });
    expect(charge.cost).toBeGreaterThanOrEqual(costWith(1) ?? 0n);
  });

  it("is in doubt if it is cut after a search, because the model then reads its prompt again", async () => {
    const search = event("content_block_start", {
      index: 0,
      content_block: { type: "server_tool_use", id: "call", name: "web_search", input: {} },
    });
    const tools = [{ type: "web_search_20250305", name: "web_search", max_uses: 8 }];
    answer = { body: messageStart() + search + textBlock(["Hello"], 1), headers: events };
    await send({ stream: true, tools });
    const cut = await charges.settled();
    expect(cut).toMatchObject({ source: "partial", billing: { calls: { web_search_call: 1 } } });
    expect(cut.doubts).toContain("hosted_tool");
    answer = { body: messageStart() + textBlock(["Hello"]), headers: events };
    await send({ stream: true, tools });
    expect((await charges.settled()).doubts).not.toContain("hosted_tool");
  });

  it("costs its stated prompt and its text if an error follows them", async () => {
    const error = event("error", { error: { type: "overloaded_error", message: "Overloaded" } });
    const body = messageStart() + textBlock(["Hello"]) + error;
    answer = { body, headers: events };
    const got = await send({ stream: true });
    // Nothing follows the gateway's own error.
    expect(got.body.toString()).toBe(body);
    const charge = await charges.settled();
    expect(charge).toMatchObject({ reason: "gateway_failed", tokens: { input: 100 } });
    expect(charge.cost).toBeGreaterThanOrEqual(costWith(2) ?? 0n);
  });

  it.each<[string, Answering]>([
    [
      "an error event alone",
      { body: event("error", { error: { type: "overloaded_error", message: "x" } }), headers: events },
    ],
    [
      "an error with status 200",
      { body: '{"type":"error","error":{"type":"api_error","message":"x"}}', headers: json },
    ],
    ["an error status", { status: 529, body: '{"type":"error","error":{"type":"overloaded_error","message":"x"}}' }],
    [
      "a refusal before output",
      { body: messageStart() + messageDelta(null, "refusal") + messageStop, headers: events },
    ],
    [
      "a whole refusal before output",
      {
        body: JSON.stringify(
          messageAnswer({ content: [], stop_reason: "refusal", usage: { ...startUsage, output_tokens: 0 } }),
        ),
      },
    ],
  ])("costs nothing if it is %s, and passes unchanged", async (_, given) => {
    answer = given;
    const got = await send({ stream: given !== "break" && given.headers === events });
    expect(got.body.toString()).toBe(given === "break" ? "" : given.body);
    expect(await charges.settled()).toMatchObject({ state: "voided", cost: null });
  });

  it("is charged by its usage if it refuses after output, or is compressed", async () => {
    const body = messageStart() + textBlock(["No"]) + messageDelta(undefined, "refusal") + messageStop;
    answer = { body, headers: events };
    await send({ stream: true });
    expect(await charges.settled()).toMatchObject({ source: "reported", cost: wholeCost });
    answer = { body: gzipSync(messageStream()), headers: { ...events, "content-encoding": "gzip" } };
    const got = await send({ stream: true });
    expect(got.body.equals(gzipSync(messageStream()))).toBe(true);
    expect(await charges.settled()).toMatchObject({ source: "reported", cost: wholeCost });
  });
});

describe("an output maximum", () => {
  const sentMaximum = () =>
    (JSON.parse(gateway.received.at(-1)?.body.toString() ?? "{}") as { max_tokens: number }).max_tokens;

  it("is lowered to an output cap, and 0 stays", async () => {
    answer = { body: JSON.stringify(messageAnswer()) };
    const key = await proxy.addKey("capped", { outputCap: 500 });
    const got = await send({ max_tokens: 32_000 }, { key });
    expect([got.status, sentMaximum(), got.headers["x-farebox-output-cap"]]).toEqual([200, 500, "500"]);
    await send({ max_tokens: 0 }, { key });
    expect(sentMaximum()).toBe(0);
    await charges.allSettled();
    const before = gateway.received.length;
    const thinking = { type: "enabled", budget_tokens: 500 };
    const refused = await send({ max_tokens: 32_000, thinking }, { key });
    expect([refused.status, gateway.received.length]).toEqual([400, before]);
    expect(refused.body.toString()).toContain("'thinking.budget_tokens' must be below 500; it is 500");
    await charges.allSettled();
  });

  it("is lowered to fit a hard budget, but not below the thinking or FAREBOX_FIT_MIN", async () => {
    answer = { body: JSON.stringify(messageAnswer()) };
    const key = await proxy.addKey("tight");
    await proxy.budget("key:tight", "0.2");
    const got = await send({ max_tokens: 128_000 }, { key });
    // A quarter of the budget pays for about 10,000 tokens.
    expect(got.headers["x-farebox-fitted"]).toBe(String(sentMaximum()));
    expect(sentMaximum()).toBeGreaterThan(9_500);
    expect(sentMaximum()).toBeLessThan(10_000);
    const charge = await charges.settled();
    expect(charge.hold).toBeLessThan(parseUsd("0.05") ?? 0n);
    await send({ max_tokens: 128_000, thinking: { type: "enabled", budget_tokens: 20_000 } }, { key });
    expect(sentMaximum()).toBe(20_001);
    await charges.settled();
    const small = await proxy.addKey("small");
    await proxy.budget("key:small", "0.05");
    await send({ max_tokens: 128_000 }, { key: small });
    expect(sentMaximum()).toBe(8192);
    await charges.settled();
    const before = gateway.received.length;
    const much = await send({ max_tokens: 128_000, thinking: { type: "enabled", budget_tokens: 60_000 } }, { key });
    expect([much.status, gateway.received.length]).toEqual([402, before]);
    await charges.allSettled();
  });
});

describe("tools of the gateway under a hard budget", () => {
  const search = { type: "web_search_20250305", name: "web_search" };

  it("hold a fee, the prompt and the results for each of max_uses, and are charged by the usage", async () => {
    const key = await proxy.addKey("searching");
    await proxy.budget("key:searching", "5");
    const usage = {
      ...startUsage,
      output_tokens: 10,
      server_tool_use: { web_search_requests: 2, web_fetch_requests: 0 },
    };
    answer = { body: JSON.stringify(messageAnswer({ usage })) };
    await send({ tools: [{ ...search, max_uses: 2 }] }, { key });
    const bytes = gateway.received.at(-1)?.body.length ?? 0;
    const promptTokens = Math.ceil(bytes * 1.5) + 3 + 8 + 16 + 4000;
    expect(await charges.settled()).toMatchObject({
      hold: micro(promptTokens * 3 + 3 * 16_000 + 1000 * 5 + 2 * 10_000),
      cost: micro(100 + 25 + 20 + 100 + 10 * 5 + 2 * 10_000),
      doubts: [],
    });
  });

  it("are refused by name if nothing limits them", async () => {
    const key = await proxy.addKey("open");
    await proxy.budget("key:open", "5");
    for (const [tool, name] of [
      [search, "tools[0] (web_search_20250305)"],
      [{ type: "code_execution_20250825", name: "x" }, "tools[0] (code_execution_20250825)"],
    ] as const) {
      const got = await send({ tools: [tool] }, { key });
      expect([got.status, got.body.toString()]).toEqual([400, expect.stringContaining(`${name} can cost more`)]);
    }
    expect(await charges.allSettled()).toEqual([]);
  });
});
