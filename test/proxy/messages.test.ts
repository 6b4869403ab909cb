import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { formatUsd, parseUsd } from "../../src/core/money.ts";
import { answeringGateway, type AnsweringGateway, type Answering } from "../support/answering-gateway.ts";
import { messageAnswer, messageStream } from "../support/messages-stream.ts";
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

  it("does not exceed a hard budget: the request is refused before it is sent", async () => {
    const key = await proxy.addKey("poor");
    await proxy.budget("key:poor", "0.001");
    const before = gateway.received.length;
    const got = await send({ thinking: { type: "enabled", budget_tokens: 999 } }, { key });
    expect([got.status, gateway.received.length]).toEqual([402, before]);
  });
});
