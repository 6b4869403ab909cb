import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { updateKey, type NewKey } from "../../src/admin/key-changes.ts";
import { formatUsd, parseUsd } from "../../src/core/money.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { answeringGateway, type Answering, type AnsweringGateway } from "../support/answering-gateway.ts";
import { messageAnswer, messageDelta, messageStart, messageStop, textBlock } from "../support/messages-stream.ts";
import { NewCharges } from "../support/new-charges.ts";
import { priceFolder } from "../support/price-files.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { fetchAnswer, type WireAnswer } from "../support/wire-client.ts";

/* Tests of what decides the price of a message besides its size: runs, speed, region and tools of the gateway. */

/** Prices of USD 1 and 5 per million tokens of input and output; above 100,000 prompt tokens five times as much. */
const prices = `provider: anthropic
gateway: { cached_input: official }
defaults: { tokenizer: null, error_factor: "2", tokens_per_byte: "1.5", context_tokens: 1000000, max_output_tokens: 128000, reasoning: true, streams: live, tokens_per_second: 200 }
models:
  tiered:
    group: official
    prices:
      - from: 2026-01-01
        source: "made up"
        official: { input: "1.00", cached_input: "0.10", cache_write: "1.25", cache_write_1h: "2.00", output: "5.00" }
        tiers:
          - from_prompt_tokens: 100000
            official: { input: "5.00", cached_input: "0.50", cache_write: "6.25", cache_write_1h: "10.00", output: "25.00" }
  adviser-model:
    group: official
    prices: [{ from: 2026-01-01, source: "made up", official: { input: "10.00", output: "20.00" } }]
  quick:
    group: official
    prices:
      - from: 2026-01-01
        source: "made up"
        official: { input: "1.00", output: "5.00" }
        factors: { speed: { fast: "2" }, inference_geo: { us: "1.1" } }
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

const events = { "content-type": "text/event-stream" };
const hello = [{ role: "user", content: "hello" }];
const micro = (amount: number) => parseUsd((amount / 1_000_000).toFixed(8));
const usd = (amount: bigint | null | undefined) => formatUsd((amount ?? -1n) as never);
const tools = { clock: systemClock(), by: "test" };
let names = 0;

/** Creates a key under a hard budget. Returns it with its name. */
async function limitedKey(more: Omit<NewKey, "name"> = {}, limit = "100"): Promise<{ name: string; key: string }> {
  const name = `key-${names++}`;
  const key = await proxy.addKey(name, more);
  await proxy.budget(`key:${name}`, limit);
  return { name, key };
}

function send(
  body: object | string,
  { key = proxy.key, headers = {} }: { readonly key?: string; readonly headers?: Record<string, string> } = {},
): Promise<WireAnswer> {
  const whole = typeof body === "string" ? body : { model: "tiered", max_tokens: 1000, messages: hello, ...body };
  const json = { "content-type": "application/json" };
  return fetchAnswer({ url: proxy.url, key }, whole, { path: "/v1/messages", headers: { ...json, ...headers } });
}

const errorIn = ({ body }: WireAnswer) => (JSON.parse(body.toString()) as { error: Record<string, unknown> }).error;

const run = (input_tokens: number, output_tokens: number, more: object = {}) => ({
  type: "message",
  input_tokens,
  output_tokens,
  ...more,
});
const halves = [run(70_000, 10), run(70_000, 10)];
const compaction = run(180_000, 5, { type: "compaction" });
const advisor = run(60_000, 7, { type: "advisor_message", model: "adviser-model" });
/** Usage of two runs, as the first event and the last one state it. The first event knows only the first run. */
const started = { input_tokens: 70_000, output_tokens: 1 };
const total = { input_tokens: 140_000, output_tokens: 20 };
const ofHalves = 140_000 + 20 * 5;

const inHalves = { ...total, iterations: halves };
const advised = { ...total, iterations: [...halves, advisor] };
const compacted = { ...total, iterations: [compaction, ...halves] };
const first = { input_tokens: 70_000, output_tokens: 10, iterations: halves.slice(1) };

describe("the runs of a message", () => {
  it.each<[what: string, cost: number, whole: object, deltas: readonly object[]]>([
    ["in the tier of each run", ofHalves, inHalves, [inHalves]],
    ["with a compaction that the totals leave out", ofHalves + 5 * (180_000 + 5 * 5), compacted, [compacted]],
    ["with an advisor at the price of its own model", ofHalves + 10 * 60_000 + 20 * 7, advised, [advised]],
    ["that only the last of several deltas states", ofHalves, inHalves, [{ output_tokens: 5 }, total, inHalves]],
    ["that a later delta does not repeat", ofHalves, inHalves, [inHalves, total]],
    ["with an extra one that a later delta does not repeat", ofHalves + 600_140, advised, [advised, total]],
    ["that a later delta empties", ofHalves, inHalves, [inHalves, { ...total, iterations: [] }]],
    ["that a later delta sets to null", ofHalves, inHalves, [inHalves, { ...total, iterations: null }]],
    ["that grow", ofHalves, inHalves, [first, inHalves]],
  ])("are charged %s, as a stream and as a whole answer", async (_, cost, whole, deltas) => {
    const stream = [
      messageStart(started, "tiered"),
      textBlock(["Hello"]),
      ...deltas.map((usage) => messageDelta(usage)),
      messageStop,
    ].join("");
    answer = { body: stream, headers: events };
    expect((await send({ stream: true })).body.toString()).toBe(stream);
    const expected = { source: "reported", cost: micro(cost), doubts: [] };
    expect(await charges.settled()).toMatchObject(expected);
    answer = { body: JSON.stringify(messageAnswer({ model: "tiered", usage: whole })) };
    expect((await send({})).headers["x-farebox-cost-usd"]).toBe(usd(micro(cost)));
    expect(await charges.settled()).toMatchObject(expected);
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });

  it("are charged as one run, with a doubt, if the totals grow after them", async () => {
    const deltas = [inHalves, { ...total, output_tokens: 30 }].map((usage) => messageDelta(usage));
    answer = {
      body: messageStart(started, "tiered") + textBlock(["x"]) + deltas.join("") + messageStop,
      headers: events,
    };
    await send({ stream: true });
    const cost = micro(5 * (140_000 + 30 * 5));
    expect(await charges.settled()).toMatchObject({ cost, doubts: ["usage_unknown_class"] });
  });
});

const usage = { input_tokens: 1000, output_tokens: 100 };
const plainCost = 1000 + 100 * 5;

describe("a fast or regional message under a hard budget", () => {
  const quick = { model: "quick", max_tokens: 1000 };

  it.each<[what: string, body: object, stated: object, held: number, charged: number]>([
    ["that is fast", { speed: "fast" }, { speed: "fast" }, 2, 2],
    ["that is fast, and whose answer does not say so", { speed: "fast" }, {}, 2, 2],
    ["whose answer was not fast", { speed: "fast" }, { speed: "standard" }, 2, 1],
    ["that is in a region", { inference_geo: "us" }, { inference_geo: "us" }, 1.1, 1.1],
    ["whose answer is in a region unasked", {}, { inference_geo: "us" }, 1, 1.1],
    ["whose answer names no region", { inference_geo: "us" }, { inference_geo: "not_available" }, 1.1, 1],
    ["that is both", { speed: "fast", inference_geo: "us" }, { speed: "fast", inference_geo: "us" }, 2.2, 2.2],
    ["that asks for what is standard", { speed: "standard", inference_geo: "global" }, {}, 1, 1],
  ])("is held and charged with the factors of one %s", async (_, body, stated, held, charged) => {
    const { key } = await limitedKey();
    for (const stream of [false, true]) {
      const start = messageStart({ ...usage, output_tokens: 1, ...stated }, "quick");
      answer = stream
        ? { body: start + textBlock(["x"]) + messageDelta({ output_tokens: 100 }) + messageStop, headers: events }
        : { body: JSON.stringify(messageAnswer({ model: "quick", usage: { ...usage, ...stated } })) };
      expect((await send({ ...quick, ...body, stream }, { key })).status).toBe(200);
      const promptTokens = Math.ceil((gateway.received.at(-1)?.body.length ?? 0) * 1.5) + 3 + 8;
      const { hold, cost, doubts } = await charges.settled();
      expect({ hold: usd(hold), cost: usd(cost), doubts }).toEqual({
        hold: usd(micro((promptTokens + 5000) * held)),
        cost: usd(micro(plainCost * charged)),
        doubts: [],
      });
    }
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });

  it("is refused with 429 and no retry if its speed has no factor, so that Claude Code continues at standard speed", async () => {
    const { key } = await limitedKey();
    const before = gateway.received.length;
    const refused = await send({ speed: "fast" }, { key });
    expect([refused.status, refused.headers["x-should-retry"], refused.headers["retry-after"]]).toEqual([
      429,
      "false",
      undefined,
    ]);
    expect(errorIn(refused)).toMatchObject({ type: "rate_limit_error", param: "speed" });
    expect(JSON.parse(refused.body.toString())).toMatchObject({
      type: "error",
      request_id: refused.headers["request-id"],
    });
    for (const body of [
      { inference_geo: "us" },
      { speed: "fast", container: "c" },
      { speed: "fast", inference_geo: "us" },
    ]) {
      const other = await send(body, { key });
      expect([other.status, errorIn(other)["type"]]).toEqual([400, "policy_blocked"]);
    }
    expect(gateway.received.length).toBe(before);
    answer = { body: JSON.stringify(messageAnswer({ model: "tiered", usage })) };
    expect((await send({}, { key })).status).toBe(200);
    await charges.settled();
  });

  it("passes without a hard budget, with a doubt if its speed has no factor", async () => {
    answer = { body: JSON.stringify(messageAnswer({ model: "tiered", usage: { ...usage, speed: "fast" } })) };
    expect((await send({ speed: "fast" })).status).toBe(200);
    expect(await charges.settled()).toMatchObject({ cost: micro(plainCost), doubts: ["service_tier"] });
    answer = { body: JSON.stringify(messageAnswer({ model: "tiered", usage: { ...usage, speed: "standard" } })) };
    expect((await send({ speed: "fast" })).status).toBe(200);
    expect(await charges.settled()).toMatchObject({ cost: micro(plainCost), doubts: [] });
  });
});

const custom = '{"name":"read","input_schema":{"type":"object"}}';
const search = '{"type":"web_search_20250305","name":"web_search"}';
const code = '{"type":"code_execution_20250825","name":"code_execution"}';
const toolset = '{"type":"mcp_toolset","mcp_server_name":"x"}';
const servers = '"mcp_servers":[{"type":"url","url":"https://x.example","name":"x"}]';
const start = '{"model":"tiered","max_tokens":100, "messages":[{"role":"user","content":"h\u00e9llo"}]';

describe("tools of the gateway that nothing bounds", () => {
  it.each<[what: string, given: string, sent: string, removed: string]>([
    [
      "a search without max_uses, next to another tool",
      `${start},"tools":[${search}, ${custom}],"tool_choice":{"type":"auto"}}`,
      `${start},"tools":[${custom}],"tool_choice":{"type":"auto"}}`,
      "web_search_20250305",
    ],
    [
      "the only tool, with a choice that is free",
      `${start},"tools":[${code}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true},"stream":false}`,
      `${start},"stream":false}`,
      "code_execution_20250825",
    ],
    [
      "a container with its tool",
      `${start},"tools":[${code},${custom}],"container":"c_1"}`,
      `${start},"tools":[${custom}]}`,
      "container, code_execution_20250825",
    ],
    [
      "servers of tools with their tools",
      `{${servers},${start.slice(1)},"tools":[${custom},${toolset}]}`,
      `${start},"tools":[${custom}]}`,
      "mcp_servers, mcp_toolset",
    ],
    [
      "a tool next to one that the choice requires",
      `${start},"tools":[${custom},${code}],"tool_choice":{"type":"tool","name":"read"}}`,
      `${start},"tools":[${custom}],"tool_choice":{"type":"tool","name":"read"}}`,
      "code_execution_20250825",
    ],
    [
      "a tool next to any that the choice requires",
      `${start},"tools":[${code},${custom}],"tool_choice":{"type":"any"}}`,
      `${start},"tools":[${custom}],"tool_choice":{"type":"any"}}`,
      "code_execution_20250825",
    ],
  ])("are taken out with the policy remove: %s", async (_, given, sent, removed) => {
    const { key } = await limitedKey({ hostedTools: "remove" });
    answer = { body: JSON.stringify(messageAnswer({ model: "tiered", usage })) };
    const got = await send(given, { key });
    expect([got.status, got.headers["x-farebox-removed-tools"]]).toEqual([200, removed]);
    expect(gateway.received.at(-1)?.body.toString()).toBe(sent);
    const { hold, doubts } = await charges.settled();
    await send(sent, { key });
    expect({ hold, doubts }).toEqual({ hold: (await charges.settled()).hold, doubts: [] });
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });

  it.each<[what: string, more: string, param: string]>([
    [
      "names the tool",
      `"tools":[${custom},${code}],"tool_choice":{"type":"tool","name":"code_execution"}`,
      "tool_choice",
    ],
    ["requires any tool", `"tools":[${code}],"tool_choice":{"type":"any"}`, "tool_choice"],
  ])("are refused with the policy remove if the choice %s", async (_, more, param) => {
    const { key } = await limitedKey({ hostedTools: "remove" });
    const before = gateway.received.length;
    const refused = await send(`${start},${more}}`, { key });
    expect([refused.status, errorIn(refused)["param"], gateway.received.length]).toEqual([400, param, before]);
  });

  it("are refused together with what is no tool, whatever the policy is", async () => {
    for (const hostedTools of ["remove", "allow"] as const) {
      const { key } = await limitedKey({ hostedTools });
      const refused = await send(`${start},"tools":[${code}],"thread":{"id":"t"}}`, { key });
      expect([refused.status, errorIn(refused)["type"]]).toEqual([400, "policy_blocked"]);
      expect(String(errorIn(refused)["message"])).toContain("thread");
    }
  });

  it("pass with the policy allow, with the doubt hosted_tool", async () => {
    const { key } = await limitedKey({ hostedTools: "allow" });
    const stated = { ...usage, server_tool_use: { web_search_requests: 3 } };
    answer = { body: JSON.stringify(messageAnswer({ model: "tiered", usage: stated })) };
    for (const more of [`"tools":[${search}]`, `${servers},"tools":[${toolset}]`, `"tools":[${code}]`]) {
      const given = `${start},${more}}`;
      const got = await send(given, { key });
      expect([got.status, gateway.received.at(-1)?.body.toString()]).toEqual([200, given]);
      const { source, doubts } = await charges.settled();
      expect([source, doubts]).toEqual(["reported", expect.arrayContaining(["hosted_tool"])]);
    }
  });
});

describe("a retry of a message with the same idempotency key", () => {
  const sentBody = () => gateway.received.at(-1)?.body.toString();

  it("repeats the output cap of the first try, and is refused under a smaller one", async () => {
    answer = { body: JSON.stringify(messageAnswer({ model: "tiered", usage })) };
    const { name, key } = await limitedKey({ outputCap: 500 });
    const headers = { "idempotency-key": "capped" };
    const given = '{"model":"tiered","max_tokens":32000,"messages":[{"role":"user","content":"hi"}]}';
    await send(given, { key, headers });
    expect(sentBody()).toBe(given.replace("32000", "500"));
    await updateKey({ ...tools, keys: proxy.serving.keys }, name, { outputCap: 700 });
    const again = await send(given, { key, headers });
    expect([again.status, sentBody()]).toEqual([200, given.replace("32000", "500")]);
    await updateKey({ ...tools, keys: proxy.serving.keys }, name, { outputCap: 400 });
    const before = gateway.received.length;
    const refused = await send(given, { key, headers });
    expect([refused.status, errorIn(refused)["code"], gateway.received.length]).toEqual([409, "conflict", before]);
    await charges.allSettled();
  });

  it("repeats a fitted maximum after the budget changes", async () => {
    answer = { body: JSON.stringify(messageAnswer({ model: "tiered", usage })) };
    const { name, key } = await limitedKey({}, "0.2");
    const headers = { "idempotency-key": "fitted" };
    const given = '{"model":"tiered","max_tokens":128000,"messages":[{"role":"user","content":"hi"}]}';
    const first = await send(given, { key, headers });
    const fitted = first.headers["x-farebox-fitted"];
    expect(sentBody()).toBe(given.replace("128000", String(fitted)));
    await proxy.budget(`key:${name}`, "100");
    const again = await send(given, { key, headers });
    expect([again.status, sentBody()]).toEqual([200, given.replace("128000", String(fitted))]);
    expect((await send(given, { key })).headers["x-farebox-fitted"]).toBeUndefined();
    expect(sentBody()).toBe(given);
    await charges.allSettled();
  });

  it("is refused if its first try was sent without a fitted maximum that it now needs", async () => {
    answer = { body: JSON.stringify(messageAnswer({ model: "tiered", usage })) };
    const { name, key } = await limitedKey();
    const headers = { "idempotency-key": "whole" };
    await send({ max_tokens: 128_000 }, { key, headers });
    await proxy.budget(`key:${name}`, "0.2");
    const before = gateway.received.length;
    const refused = await send({ max_tokens: 128_000 }, { key, headers });
    expect([refused.status, gateway.received.length]).toEqual([402, before]);
    expect((await send({ max_tokens: 128_000 }, { key })).headers["x-farebox-fitted"]).toBeDefined();
    await charges.allSettled();
  });
});
