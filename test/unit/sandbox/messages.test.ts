import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseUsd } from "../../../src/core/money.ts";
import { startSandbox } from "../../../src/sandbox/server.ts";
import type { Sandbox } from "../../../src/sandbox/options.ts";
import { fetchFromSandbox, type SandboxRequestOptions } from "../../support/sandbox-client.ts";

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await startSandbox({ seed: 7, startingBalanceUsd: "100000" });
});
afterAll(() => sandbox.close());

const hello = { model: "claude-opus-5-5", max_tokens: 1000, messages: [{ role: "user", content: "Say hello." }] };
const weather = { name: "weather", input_schema: { type: "object", properties: { city: { type: "string" } } } };
const search = { type: "web_search_20250305", name: "web_search", max_uses: 2 };

interface Options extends SandboxRequestOptions {
  readonly on?: Sandbox;
}

function post(body: object, { on = sandbox, headers = {}, ...options }: Options = {}) {
  return fetchFromSandbox(on, body, {
    path: "/v1/messages",
    headers: { "anthropic-version": "2023-06-01", ...headers },
    ...options,
  });
}

async function messageFrom(body: object, options: Options = {}) {
  const { status, body: bytes } = await post(body, options);
  expect(status).toBe(200);
  return JSON.parse(bytes.toString());
}

/** Reads a stream's events, after checking that the name of each is its type. */
async function eventsFrom(body: object, options: Options = {}) {
  const seen = await post({ ...body, stream: true }, options);
  const events = seen.body
    .toString()
    .split("\n\n")
    .filter((text) => text !== "")
    .map((text) => {
      const [, name, data = ""] = /^event: (\w+)\ndata: (.*)$/.exec(text) ?? [];
      const event = JSON.parse(data);
      expect(event.type).toBe(name);
      return event;
    });
  return { ...seen, events };
}

/** Returns the last bill as a number of pico-USD. */
function lastBill(on = sandbox): bigint {
  const call = on.ledger.at(-1);
  if (call === undefined) throw new Error("nothing was billed");
  return call.cost;
}

function usd(text: string): bigint {
  return parseUsd(text) ?? 0n;
}

describe("an answer of the sandbox's /v1/messages", () => {
  it("has Anthropic's form and is billed for its usage", async () => {
    const message = await messageFrom(hello, { scenario: "prompt:1000+tokens:100", path: "/v1/messages?beta=true" });
    expect(message).toMatchObject({
      id: expect.stringMatching(/^msg_/),
      type: "message",
      role: "assistant",
      model: "claude-opus-5-5",
      content: [{ type: "text", text: expect.stringMatching(/\w+/) }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: {
        input_tokens: 1000,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        output_tokens: 100,
        service_tier: "standard",
        inference_geo: "global",
      },
    });
    expect(lastBill()).toBe(usd("0.006")); // 1000 × 4 + 100 × 20 USD per million
    expect(sandbox.ledger.at(-1)).toMatchObject({
      completionId: message.id,
      promptTokens: 1000,
      completionTokens: 100,
      stream: false,
    });
  });

  it("streams the same text and usage, and bills the same", async () => {
    const scenario = "tokens:40";
    const plain = await messageFrom(hello, { scenario });
    const cost = lastBill();
    const { events, headers } = await eventsFrom(hello, { scenario });
    expect(headers["content-type"]).toBe("text/event-stream; charset=utf-8");
    expect(events.filter(({ type }) => type !== "content_block_delta").map(({ type }) => type)).toEqual([
      "message_start",
      "ping",
      "content_block_start",
      "content_block_stop",
      "message_delta",
      "message_stop",
    ]);
    const [begun] = events;
    const { input_tokens, service_tier } = plain.usage;
    expect(begun.message).toMatchObject({ content: [], usage: { input_tokens, service_tier, output_tokens: 1 } });
    expect(events.at(-2)).toMatchObject({
      delta: { stop_reason: "end_turn" },
      usage: { input_tokens, output_tokens: 40 },
    });
    expect(events.map(({ delta }) => delta?.text ?? "").join("")).not.toBe("");
    expect(lastBill()).toBe(cost);
  });

  it("bills each class of tokens at its own price, fast mode, the US and long prompts", async () => {
    const scenario = "prompt:10000+cached:2000+written:3000+written-1h:1000+tokens:100";
    const message = await messageFrom(hello, { scenario });
    expect(message.usage).toMatchObject({
      input_tokens: 4000,
      cache_read_input_tokens: 2000,
      cache_creation_input_tokens: 4000,
      cache_creation: { ephemeral_5m_input_tokens: 3000, ephemeral_1h_input_tokens: 1000 },
    });
    // 4000 × 4 + 2000 × 4 + 3000 × 5 + 1000 × 8 + 100 × 20
    expect(lastBill()).toBe(usd("0.049"));
    expect((await messageFrom({ ...hello, speed: "fast" }, { scenario })).usage.speed).toBe("fast");
    // The same, twice, except for 2000 × 4
    expect(lastBill()).toBe(usd("0.09"));
    expect((await messageFrom({ ...hello, inference_geo: "us" }, { scenario })).usage.inference_geo).toBe("us");
    expect(lastBill()).toBe(usd("0.0539"));
    const haiku = { ...hello, model: "claude-haiku-5-5" };
    await messageFrom(haiku, { scenario: "prompt:100000+tokens:100" });
    expect(lastBill()).toBe(usd("0.01005")); // 100000 × 0.10 + 100 × 0.50
    await messageFrom(haiku, { scenario: "prompt:100001+tokens:100" });
    expect(lastBill()).toBe(usd("0.0502505")); // 100001 × 0.50 + 100 × 2.50
  });

  it("thinks within max_tokens: in a block, or hidden", async () => {
    const thinking = { type: "enabled", budget_tokens: 500 };
    const { content, usage } = await messageFrom({ ...hello, thinking }, { scenario: "reasoning:200+tokens:50" });
    expect(content).toMatchObject([
      { type: "thinking", thinking: expect.stringMatching(/\w+/), signature: expect.stringMatching(/\w+/) },
      { type: "text" },
    ]);
    expect(usage).toMatchObject({ output_tokens: 250, output_tokens_details: { thinking_tokens: 200 } });
    expect(lastBill()).toBe(BigInt(usage.input_tokens * 4 + 250 * 20) * 1_000_000n);
    const omitted = { type: "adaptive", display: "omitted" };
    const hidden = await messageFrom({ ...hello, thinking: omitted }, { scenario: "reasoning:200+tokens:50" });
    expect(hidden.content[0]).toMatchObject({ type: "thinking", thinking: "" });
    expect(hidden.usage.output_tokens).toBe(250);
    const limited = await messageFrom(
      { ...hello, thinking, max_tokens: 600 },
      { scenario: "reasoning:500+tokens:1000" },
    );
    expect(limited).toMatchObject({ stop_reason: "max_tokens", usage: { output_tokens: 600 } });
    expect(await messageFrom({ ...hello, max_tokens: 0 })).toMatchObject({ content: [], usage: { output_tokens: 0 } });
  });

  it("calls a forced tool, or the tools that the scenario lists", async () => {
    const body = { ...hello, tools: [search, weather] };
    const forced = await messageFrom({ ...body, tool_choice: { type: "any" } });
    expect(forced).toMatchObject({
      stop_reason: "tool_use",
      content: [
        { type: "tool_use", id: expect.stringMatching(/^toolu_/), name: "weather", input: { city: "harbour" } },
      ],
    });
    expect((await messageFrom(body)).stop_reason).toBe("end_turn");
    expect((await messageFrom(body, { scenario: "tool-calls" })).content).toMatchObject([{ name: "weather" }]);
    const calls = [
      { name: "one", input: { a: 1 } },
      { name: "two", input: { b: ["x"] } },
    ];
    const { events } = await eventsFrom(body, { scenario: `tool-calls:${JSON.stringify(calls)}` });
    const begun = events.filter(({ type }) => type === "content_block_start");
    expect(begun.map(({ content_block: block }) => block.name)).toEqual(["one", "two"]);
    const inputs = [0, 1].map((wanted) =>
      JSON.parse(events.map(({ index, delta }) => (index === wanted && delta?.partial_json) || "").join("")),
    );
    expect(inputs).toEqual(calls.map(({ input }) => input));
  });

  it("searches at most max_uses times; each search has a price and bills the prompt again", async () => {
    const body = { ...hello, tools: [search] };
    const { usage, content } = await messageFrom(body, { scenario: "prompt:1000+searches:5+tokens:30" });
    expect(content.map(({ type }: { type: string }) => type)).toEqual([
      "server_tool_use",
      "web_search_tool_result",
      "server_tool_use",
      "web_search_tool_result",
      "text",
    ]);
    expect(usage.server_tool_use).toEqual({ web_search_requests: 2, web_fetch_requests: 0 });
    const queries = usage.iterations.map(({ output_tokens: tokens }: { output_tokens: number }) => tokens);
    const [first, second, last] = queries as [number, number, number];
    expect(last).toBe(30);
    // Results have 500 tokens, and the queries are part of the next prompt.
    const prompts = [1000, 1500 + first, 2000 + first + second];
    expect(usage.iterations.map(({ input_tokens: tokens }: { input_tokens: number }) => tokens)).toEqual(prompts);
    const input = 4500 + 2 * first + second;
    const output = first + second + 30;
    expect(usage).toMatchObject({ input_tokens: input, output_tokens: output });
    expect(lastBill()).toBe(BigInt(input * 4 + output * 20) * 1_000_000n + usd("0.02"));
    const { events } = await eventsFrom(body, { scenario: "prompt:1000+searches:5+tokens:30" });
    expect(events[0].message.usage.input_tokens).toBe(1000);
    expect(events.at(-2).usage).toMatchObject({ input_tokens: input, server_tool_use: { web_search_requests: 2 } });
    expect((await messageFrom(hello, { scenario: "searches:5" })).usage.server_tool_use).toBeNull();
  });

  it("is billed by the runs of each prompt, not by their sum", async () => {
    const body = { ...hello, model: "claude-haiku-5-5", tools: [search] };
    const { usage } = await messageFrom(body, { scenario: "prompt:60000+searches:1+tokens:10" });
    expect(usage.input_tokens).toBeGreaterThan(100_000);
    const cost = BigInt(usage.input_tokens * 100_000 + usage.output_tokens * 500_000);
    expect(lastBill()).toBe(cost + usd("0.01"));
  });

  it("bills a refusal only if it has output", async () => {
    const before = sandbox.billed.calls;
    expect(await messageFrom(hello, { scenario: "refusal" })).toMatchObject({ stop_reason: "refusal", content: [] });
    expect((await eventsFrom(hello, { scenario: "refusal" })).events.at(-2).delta.stop_reason).toBe("refusal");
    expect(sandbox.billed.calls).toBe(before);
    const { usage } = await messageFrom(hello, { scenario: "refusal:7" });
    expect(usage.output_tokens).toBe(7);
    expect(lastBill()).toBe(BigInt(usage.input_tokens * 4 + 7 * 20) * 1_000_000n);
  });
});

describe("a stream of the sandbox's /v1/messages that ends early", () => {
  it.each([
    ["cut:5", "ECONNRESET", undefined],
    ["stream-error:5", null, "error"],
    ["reset-after-headers", "ECONNRESET", undefined],
    ["no-finish", null, "content_block_stop"],
    ["no-done", null, "message_delta"],
  ])("by %s is billed for what was written", async (scenario, broken, last) => {
    const seen = await eventsFrom(hello, { scenario: `${scenario}+prompt:1000+tokens:50` });
    expect(seen.broken).toBe(broken);
    if (last !== undefined) expect(seen.events.at(-1).type).toBe(last);
    const written = scenario.includes("5") ? 5 : scenario.startsWith("reset") ? 0 : 50;
    expect(lastBill()).toBe(BigInt(1000 * 4 + written * 20) * 1_000_000n);
    expect(sandbox.ledger.at(-1)).toMatchObject({ deliveredTokens: written, stream: true });
  });

  it("is billed for the searches that were written, and for hidden thinking once it ended", async () => {
    const tools = { ...hello, tools: [search] };
    const whole = await messageFrom(tools, { scenario: "prompt:1000+searches:2+tokens:30" });
    const [{ output_tokens: query }] = whole.usage.iterations;
    await eventsFrom(tools, { scenario: `prompt:1000+searches:2+tokens:30+cut:${query}` });
    // The first search was written, and the next run had begun.
    expect(lastBill()).toBe(BigInt((2500 + query) * 4 + query * 20) * 1_000_000n + usd("0.01"));
    const thinking = { type: "adaptive", display: "omitted" };
    await eventsFrom({ ...hello, thinking }, { scenario: "prompt:1000+reasoning:300+tokens:30+cut:4" });
    expect(lastBill()).toBe(BigInt(1000 * 4 + 303 * 20) * 1_000_000n);
  });
});

describe("the sandbox's prompt cache", () => {
  const long = (text: string) => `${text} ${"The quiet train carries a letter. ".repeat(300)}`;
  const cached = { type: "ephemeral" };
  const system = (ttl?: string) => [
    { type: "text", text: long("Rules."), cache_control: ttl === undefined ? cached : { ...cached, ttl } },
  ];
  const asks = (text: string, cache = true) => ({
    role: "user",
    content: [{ type: "text", text, ...(cache && { cache_control: cached }) }],
  });

  it("writes a prompt up to its breakpoints, and reads it until its lifetime ends", async () => {
    let now = 1_760_000_000_000;
    await using own = await startSandbox({ now: () => now });
    const body = { ...hello, system: system(), messages: [asks(long("Question."))] };
    const first = (await messageFrom(body, { on: own })).usage;
    expect(first).toMatchObject({ input_tokens: 0, cache_read_input_tokens: 0 });
    expect(first.cache_creation.ephemeral_5m_input_tokens).toBeGreaterThan(3000);
    expect(lastBill(own)).toBe(BigInt(first.cache_creation_input_tokens * 5 + first.output_tokens * 20) * 1_000_000n);
    now += 299_000;
    const second = (await messageFrom(body, { on: own })).usage;
    expect(second).toMatchObject({
      input_tokens: 0,
      cache_read_input_tokens: first.cache_creation_input_tokens,
      cache_creation_input_tokens: 0,
    });
    now += 299_000;
    // Reading renewed the entry. A longer conversation finds it, although the breakpoint is at a later block.
    const longer = { ...body, messages: [asks(long("Question."), false), asks("And now?")] };
    const third = (await messageFrom(longer, { on: own })).usage;
    expect(third.cache_read_input_tokens).toBe(first.cache_creation_input_tokens);
    expect(third.cache_creation_input_tokens).toBeGreaterThan(0);
    now += 300_000;
    expect((await messageFrom(longer, { on: own })).usage.cache_read_input_tokens).toBe(0);
  });

  it("depends on the model and on every byte before the breakpoint; short prompts are not cached", async () => {
    await using own = await startSandbox();
    const body = { ...hello, system: system() };
    const usageFor = async (more: object) => (await messageFrom({ ...body, ...more }, { on: own })).usage;
    const { cache_creation_input_tokens: written } = await usageFor({});
    expect(written).toBeGreaterThan(1024);
    expect(await usageFor({})).toMatchObject({ cache_read_input_tokens: written });
    expect(await usageFor({ messages: [asks("Other.", false)] })).toMatchObject({ cache_read_input_tokens: written });
    expect(await usageFor({ model: "claude-sonnet-5-5" })).toMatchObject({ cache_read_input_tokens: 0 });
    expect(await usageFor({ tools: [weather] })).toMatchObject({ cache_read_input_tokens: 0 });
    expect(await usageFor({ system: "short", messages: [asks("Short.")] })).toMatchObject({
      cache_creation_input_tokens: 0,
    });
  });

  it("divides what is written between one hour and five minutes, and does not write a refused prompt", async () => {
    await using own = await startSandbox();
    const body = { ...hello, system: system("1h"), messages: [asks(long("Question."))] };
    await post(body, { on: own, scenario: "status:529" });
    const { cache_creation: written, ...usage } = (await messageFrom(body, { on: own })).usage;
    expect(written.ephemeral_1h_input_tokens).toBeGreaterThan(1024);
    expect(written.ephemeral_5m_input_tokens).toBeGreaterThan(1024);
    const { ephemeral_1h_input_tokens: hour, ephemeral_5m_input_tokens: minutes } = written;
    expect(lastBill(own)).toBe(BigInt(hour * 8 + minutes * 5 + usage.output_tokens * 20) * 1_000_000n);
    const top = { ...hello, system: long("Other rules."), cache_control: cached };
    expect((await messageFrom(top, { on: own })).usage.cache_creation.ephemeral_5m_input_tokens).toBeGreaterThan(1024);
  });
});

describe("the sandbox's errors under /v1/messages", () => {
  const headers = { "anthropic-version": "2023-06-01" };

  it.each([
    [400, "invalid_request_error"],
    [402, "billing_error"],
    [404, "not_found_error"],
    [429, "rate_limit_error"],
    [500, "api_error"],
    [529, "overloaded_error"],
  ])("have Anthropic's form: %d is %s", async (status, type) => {
    const seen = await post(hello, { scenario: `status:${status}` });
    expect(seen.status).toBe(status);
    expect(seen.headers["retry-after"]).toBe(status === 429 ? "1" : undefined);
    expect(JSON.parse(seen.body.toString())).toEqual({
      type: "error",
      error: { type, message: expect.any(String) },
      request_id: seen.headers["request-id"],
    });
  });

  it.each([
    ["a wrong x-api-key", { "x-api-key": "wrong" }, 401],
    ["a wrong bearer token", { authorization: "Bearer wrong" }, 401],
    ["two keys of which one is wrong", { authorization: "Bearer sk-sandbox", "x-api-key": "wrong" }, 401],
    ["no key", {}, 401],
    ["x-api-key", { "x-api-key": "sk-sandbox" }, 200],
    ["both keys", { authorization: "Bearer sk-sandbox", "x-api-key": "sk-sandbox" }, 200],
  ])("include 401 for a wrong key: %s", async (_, credentials, status) => {
    const answer = await fetch(`${sandbox.url}/v1/messages`, {
      method: "POST",
      headers: { ...headers, ...credentials } as Record<string, string>,
      body: JSON.stringify(hello),
    });
    expect(answer.status).toBe(status);
    const { type, error } = (await answer.json()) as { type: string; error?: { type: string } };
    expect([type, error?.type]).toEqual(status === 200 ? ["message", undefined] : ["error", "authentication_error"]);
  });

  it.each([
    ["max_tokens: Field required", { ...hello, max_tokens: undefined }],
    ["messages: at least one message is required", { ...hello, messages: [] }],
    ["`max_tokens` must be greater than", { ...hello, thinking: { type: "enabled", budget_tokens: 1000 } }],
    ["max_tokens: Input should be a whole number", { ...hello, max_tokens: 1.5 }],
    [
      "A maximum of 4 blocks with cache_control may be provided. Found 5.",
      { ...hello, tools: Array.from({ length: 5 }, () => ({ ...weather, cache_control: { type: "ephemeral" } })) },
    ],
  ])("name what is wrong: %s", async (words, body) => {
    const { status, body: bytes } = await post(body);
    expect(status).toBe(400);
    expect(JSON.parse(bytes.toString()).error.message).toContain(words);
  });

  it("require anthropic-version, and name an unknown path", async () => {
    const seen = await fetchFromSandbox(sandbox, hello, { path: "/v1/messages" });
    expect(JSON.parse(seen.body.toString()).error.message).toBe("anthropic-version: header is required");
    const batches = await post(hello, { path: "/v1/messages/batches" });
    expect(batches.status).toBe(404);
    expect(JSON.parse(batches.body.toString()).error.type).toBe("not_found_error");
  });
});

it("the sandbox counts tokens without a bill, as many as it then bills", async () => {
  const before = sandbox.billed.calls;
  const { max_tokens: _, ...body } = { ...hello, system: "Be brief.", tools: [weather] };
  const seen = await post(body, { path: "/v1/messages/count_tokens" });
  expect(sandbox.billed.calls).toBe(before);
  const { input_tokens: counted } = JSON.parse(seen.body.toString());
  expect((await messageFrom({ ...body, max_tokens: 10 })).usage.input_tokens).toBe(counted);
  expect((await post(body, { path: "/v1/messages/count_tokens", scenario: "status:404" })).status).toBe(404);
});
