import OpenAI, {
  APIError,
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  NotFoundError,
  RateLimitError,
} from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Charge } from "../../src/core/charge.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { tempFolder } from "../support/ledger-fixtures.ts";
import type { Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { scriptedGateway, usage } from "../support/scripted-gateway.ts";

type Messages = OpenAI.Chat.ChatCompletionMessageParam[];

let proxy: RunningProxy;
let client: OpenAI;
/** Scenario of the gateway for the nth request of this test, counted from 1, so that a retry can succeed. */
let scenarioOf: ((nth: number) => string | undefined) | undefined;
let chargesBefore: number;
let seenBefore: number;
let billedBefore: number;

beforeAll(async () => {
  proxy = await startProxy({ sandbox: { scenario: () => scenarioOf?.(seen().length) } });
  await proxy.budget("key:alice", "100", "1mo");
  client = clientWith({});
});
afterAll(() => proxy[Symbol.asyncDispose]());
beforeEach(async () => {
  scenarioOf = undefined;
  chargesBefore = (await proxy.charges()).length;
  seenBefore = proxy.sandbox.requests.length;
  billedBefore = proxy.sandbox.ledger.length;
});

function clientWith(options: {
  apiKey?: string;
  baseURL?: string;
  maxRetries?: number;
  defaultHeaders?: Record<string, string>;
}): OpenAI {
  return new OpenAI({
    apiKey: proxy.key,
    baseURL: `${proxy.url}/v1`,
    organization: null,
    project: null,
    logLevel: "off",
    ...options,
  });
}

const hello: Messages = [{ role: "user", content: "Say hello." }];
const seen = () => proxy.sandbox.requests.slice(seenBefore);
const billed = () => proxy.sandbox.ledger.slice(billedBefore);

async function charges(): Promise<Charge[]> {
  return (await proxy.charges()).slice(chargesBefore);
}

/** Returns the only charge of this test after checking that it matches the gateway's bill. */
async function chargeAsBilled(more: Partial<Charge> = {}): Promise<Charge> {
  const [charge, ...others] = await charges();
  if (charge === undefined || others.length > 0) throw new Error("expected one charge");
  const [bill] = billed();
  expect(charge).toMatchObject({
    state: "posted",
    source: "reported",
    cost: bill?.cost,
    status: 200,
    model: "gpt-4o",
    overage: 0n,
    ...more,
  });
  expect(charge.tokens.input + charge.tokens.cached_input).toBe(bill?.promptTokens);
  expect(charge.tokens.output + charge.tokens.reasoning).toBe(bill?.completionTokens);
  return charge;
}

async function errorFrom(work: Promise<unknown>): Promise<unknown> {
  try {
    await work;
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

describe("the openai client", () => {
  it("reads a plain answer with its cost in the headers", async () => {
    const { data, response } = await client.chat.completions
      .create({ model: "gpt-4o", messages: hello, max_tokens: 50 })
      .withResponse();
    expect(data.choices[0]?.message.content).toMatch(/\w+/);
    const charge = await chargeAsBilled({ stream: false });
    expect(data.usage?.total_tokens).toBe(charge.tokens.input + charge.tokens.output);
    expect(response.headers.get("x-farebox-request-id")).toBe(charge.id);
    expect(response.headers.get("x-request-id")).toBe(charge.gatewayRequestId);
    expect(Number(response.headers.get("x-farebox-cost-usd"))).toBe(Number(charge.cost) / 1e12);
  });

  it("sends a tag in UTF-8 with the code of the documentation", async () => {
    using folder = tempFolder();
    const document = readFileSync(new URL("../../docs/clients.md", import.meta.url), "utf8");
    const code = /^const inHeader = .*$/m.exec(document)?.[0] ?? "";
    const file = join(folder.path, "in-header.mjs");
    writeFileSync(file, `export ${code}`);
    const { inHeader } = (await import(pathToFileURL(file).href)) as { inHeader(text: string): string };
    expect(document).toContain('defaultHeaders: { "x-farebox-tag": inHeader("feature=検索") }');
    const defaultHeaders = { "x-farebox-tag": inHeader("feature=検索"), "x-farebox-user": inHeader("山田") };
    await clientWith({ defaultHeaders }).chat.completions.create({ model: "gpt-4o", messages: hello, max_tokens: 5 });
    await chargeAsBilled({ tags: { feature: "検索" }, user: "山田" });
  });

  it("reads a stream for which it did not request usage, and which is charged as reported", async () => {
    const stream = await client.chat.completions.create({
      model: "gpt-4o",
      messages: hello,
      max_tokens: 60,
      stream: true,
    });
    let text = "";
    for await (const chunk of stream) {
      expect(chunk.usage).toBeFalsy();
      text += chunk.choices[0]?.delta.content ?? "";
    }
    expect(text).not.toBe("");
    await chargeAsBilled({ stream: true, source: "reported" });
  });

  it("reads a stream with usage", async () => {
    const stream = await client.chat.completions.create({
      model: "gpt-4o",
      messages: hello,
      max_tokens: 60,
      stream: true,
      stream_options: { include_usage: true },
    });
    const usages: unknown[] = [];
    for await (const chunk of stream) if (chunk.usage) usages.push(chunk.usage);
    const charge = await chargeAsBilled({ stream: true });
    expect(usages).toEqual([
      expect.objectContaining({ prompt_tokens: charge.tokens.input, completion_tokens: charge.tokens.output }),
    ]);
    expect(charge.firstTokenMs).not.toBeNull();
  });

  it("reads two choices, plain and streamed", async () => {
    const answer = await client.chat.completions.create({ model: "gpt-4o", messages: hello, max_tokens: 40, n: 2 });
    expect(answer.choices.map(({ index }) => index)).toEqual([0, 1]);
    await chargeAsBilled();
    const stream = await client.chat.completions.create({
      model: "gpt-4o",
      messages: hello,
      max_tokens: 40,
      n: 2,
      stream: true,
    });
    for await (const _ of stream);
    const [, second] = await charges();
    expect(second).toMatchObject({ source: "reported", state: "posted", cost: billed()[1]?.cost });
  });

  it("reads tool calls as the gateway made them", async () => {
    const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
    const tools: OpenAI.Chat.ChatCompletionTool[] = [
      { type: "function", function: { name: "weather", description: "Weather of a city", parameters } },
    ];
    const body = { model: "gpt-4o", messages: hello, max_tokens: 200, tools, tool_choice: "required" } as const;
    const answer = await client.chat.completions.create(body);
    const [call] = answer.choices[0]?.message.tool_calls ?? [];
    expect(call?.type === "function" && call.function.name).toBe("weather");
    await chargeAsBilled();
    const runner = client.chat.completions.stream({ ...body, stream_options: { include_usage: true } });
    const final = await runner.finalChatCompletion();
    expect(final.choices[0]?.finish_reason).toBe("tool_calls");
    const [, second] = await charges();
    expect(second).toMatchObject({ state: "posted", source: "reported", cost: billed()[1]?.cost });
  });

  it("can ask for a response format", async () => {
    const answer = await client.chat.completions.create({
      model: "gpt-4o",
      messages: [{ role: "user", content: "Give me JSON." }],
      max_tokens: 100,
      response_format: {
        type: "json_schema",
        json_schema: { name: "thing", schema: { type: "object", properties: { a: { type: "string" } } } },
      },
    });
    expect(JSON.parse(answer.choices[0]?.message.content ?? "")).toBeTypeOf("object");
    await chargeAsBilled();
  });

  it("can use the deprecated field functions", async () => {
    const answer = await client.chat.completions.create({
      model: "gpt-4o",
      messages: hello,
      max_tokens: 100,
      functions: [{ name: "weather", parameters: { type: "object", properties: {} } }],
      function_call: "auto",
    });
    expect(answer.choices).toHaveLength(1);
    await chargeAsBilled();
    expect(JSON.parse(seen()[0]?.body.toString() ?? "")).toHaveProperty("functions");
  });

  it("is charged for cached and reasoning tokens separately", async () => {
    scenarioOf = () => "prompt:1000+cached:600+reasoning:30";
    await client.chat.completions.create({
      model: "gpt-4o",
      messages: [{ role: "user", content: "x ".repeat(1000) }],
      max_completion_tokens: 200,
    });
    const charge = await chargeAsBilled();
    expect(charge.tokens).toMatchObject({ input: 400, cached_input: 600, reasoning: 30 });
  });

  it("works with a base URL without /v1, and lists models at both base URLs", async () => {
    const bare = clientWith({ baseURL: proxy.url });
    await bare.chat.completions.create({ model: "gpt-4o", messages: hello, max_tokens: 20 });
    await chargeAsBilled({ route: "/v1/chat/completions" });
    for (const each of [bare, client]) {
      const ids: string[] = [];
      for await (const model of each.models.list()) ids.push(model.id);
      expect(ids).toContain("gpt-4o");
      expect(ids).toContain("claude-sonnet-4-6");
      expect(await each.models.retrieve("gpt-4o")).toMatchObject({ id: "gpt-4o", object: "model", owned_by: "openai" });
    }
    expect(await errorFrom(client.models.retrieve("no-such-model"))).toBeInstanceOf(NotFoundError);
    expect(await charges()).toHaveLength(1);
  });
});

describe("a client that aborts", () => {
  it("in the middle of a stream ends the gateway's stream at once and is charged for what was delivered", async () => {
    scenarioOf = () => "endless:5";
    const stream = await client.chat.completions.create({
      model: "gpt-4o",
      messages: hello,
      max_tokens: 5000,
      stream: true,
    });
    let chunks = 0;
    for await (const _ of stream) if (++chunks === 20) stream.controller.abort();
    await proxy.sandbox.waitFor(() => seen()[0]?.ended === "clientLeft");
    const [charge] = await charges();
    expect(charge).toMatchObject({ state: "posted", source: "partial", reason: "client_left", status: 200 });
    expect(charge?.tokens.output).toBeGreaterThanOrEqual(chunks - 1);
    // The gateway may have written more before it noticed that the client had left.
    expect(charge?.tokens.output).toBeLessThanOrEqual(billed()[0]?.completionTokens ?? 0);
    expect(charge?.tokens.input).toBe(billed()[0]?.promptTokens);
    expect(charge?.cost).toBeLessThan(charge?.hold ?? 0n);
  });

  it("before a stream's headers ends the gateway's request as well", async () => {
    scenarioOf = () => "silent";
    const controller = new AbortController();
    const completion = client.chat.completions.create(
      { model: "gpt-4o", messages: hello, max_tokens: 50, stream: true },
      { signal: controller.signal },
    );
    await proxy.sandbox.waitFor(() => seen()[0]?.body.length !== 0 && seen().length === 1);
    controller.abort();
    expect(await errorFrom(completion)).toBeInstanceOf(APIUserAbortError);
    await proxy.sandbox.waitFor(() => seen()[0]?.ended === "clientLeft");
    const [charge] = await charges();
    expect(charge).toMatchObject({ state: "posted", source: "partial", reason: "client_left", status: null });
    expect(charge?.tokens).toMatchObject({ output: 0 });
    expect(charge?.tokens.input).toBeGreaterThan(0);
  });

  it("before a plain answer is charged what the gateway billed, because the answer is read to its end", async () => {
    await using gateway = await scriptedGateway();
    await using own = await startProxy({ gatewayUrl: gateway.url });
    const gone = Promise.withResolvers<void>();
    const onRequest = (message: unknown) => {
      const { response, server } = message as { response: ServerResponse; server: Server };
      if (new URL(own.url).port === String((server.address() as AddressInfo).port))
        response.once("close", gone.resolve);
    };
    subscribe("http.server.request.start", onRequest);
    const controller = new AbortController();
    const completion = clientWith({ apiKey: own.key, baseURL: `${own.url}/v1` }).chat.completions.create(
      { model: "gpt-4o", messages: hello, max_tokens: 50 },
      { signal: controller.signal },
    );
    const { response } = await gateway.nextChat();
    unsubscribe("http.server.request.start", onRequest);
    controller.abort();
    expect(await errorFrom(completion)).toBeInstanceOf(APIUserAbortError);
    // The proxy has noticed that the client left.
    await gone.promise;
    const choice = { index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" };
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ model: "gpt-4o", choices: [choice], usage }));
    expect(await own.onlyCharge()).toMatchObject({ state: "posted", source: "reported", status: null, overage: 0n });
  });
});

describe("the openai client's error", () => {
  it("for a wrong key is an AuthenticationError", async () => {
    const error = await errorFrom(
      clientWith({ apiKey: "sk-fb-abc-wrong" }).chat.completions.create({ model: "gpt-4o", messages: hello }),
    );
    expect(error).toBeInstanceOf(AuthenticationError);
    expect(error).toMatchObject({ status: 401, code: "invalid_api_key", type: "invalid_request_error", param: null });
    expect(seen()).toHaveLength(0);
    expect(await charges()).toHaveLength(0);
  });

  it("for an invalid request is a BadRequestError, from Farebox or from the gateway", async () => {
    const ours = await errorFrom(client.chat.completions.create({ model: "", messages: hello }));
    expect(ours).toBeInstanceOf(BadRequestError);
    expect(ours).toMatchObject({ code: "invalid_request", param: "model" });
    expect(await charges()).toHaveLength(0);
    scenarioOf = () => "status:400";
    const theirs = await errorFrom(client.chat.completions.create({ model: "gpt-4o", messages: hello }));
    expect(theirs).toBeInstanceOf(BadRequestError);
    expect((theirs as APIError).headers?.get("x-farebox-error")).toBeNull();
    expect(await charges()).toMatchObject([{ state: "voided", reason: "gateway_400", status: 400, cost: null }]);
  });

  it("for an exhausted budget is a 402 with the budget's figures, after one attempt", async () => {
    const poor = await proxy.addKey("poor");
    await proxy.budget("key:poor", "0.000001", "1d");
    let requests = 0;
    const counting = new OpenAI({
      apiKey: poor,
      baseURL: `${proxy.url}/v1`,
      maxRetries: 5,
      logLevel: "off",
      fetch: (...args) => (requests++, fetch(...args)),
    });
    const error = await errorFrom(
      counting.chat.completions.create({ model: "gpt-4o", messages: hello, max_tokens: 50 }),
    );
    expect(error).toBeInstanceOf(APIError);
    expect(error).toMatchObject({
      status: 402,
      code: "budget_exceeded",
      type: "insufficient_quota",
      error: { metadata: { scope: "key:poor", period: "1d" } },
    });
    expect(requests).toBe(1);
    expect(seen()).toHaveLength(0);
  });

  it("for a busy gateway leads to retries, with a charge for each attempt", async () => {
    scenarioOf = (nth) => (nth <= 2 ? "status:429" : undefined);
    const answer = await client.chat.completions.create({ model: "gpt-4o", messages: hello, max_tokens: 20 });
    expect(answer.choices).toHaveLength(1);
    const rows = await charges();
    expect(rows.map(({ state, status }) => `${state} ${status}`)).toEqual(["voided 429", "voided 429", "posted 200"]);
    expect(rows[2]?.cost).toBe(billed()[0]?.cost);
    expect(billed()).toHaveLength(1);
  });

  it("for a gateway that stays busy, or a budget that other requests hold, is a RateLimitError", async () => {
    scenarioOf = () => "status:429";
    const once = clientWith({ maxRetries: 0 });
    expect(await errorFrom(once.chat.completions.create({ model: "gpt-4o", messages: hello }))).toBeInstanceOf(
      RateLimitError,
    );

    scenarioOf = () => "silent";
    const bob = clientWith({ apiKey: await proxy.addKey("bob"), maxRetries: 0 });
    await proxy.budget("key:bob", "0.0004", "1d");
    const controller = new AbortController();
    const running = bob.chat.completions.create(
      { model: "gpt-4o", messages: hello, max_tokens: 50, stream: true },
      { signal: controller.signal },
    );
    await proxy.sandbox.waitFor(() => seen().length === 2);
    const held = await errorFrom(bob.chat.completions.create({ model: "gpt-4o", messages: hello, max_tokens: 50 }));
    expect(held).toBeInstanceOf(RateLimitError);
    expect(held).toMatchObject({ status: 429, code: "budget_held" });
    controller.abort();
    await errorFrom(running);
    expect((await charges()).map(({ state }) => state)).toEqual(["voided", "posted"]);
  });

  it("in the middle of a stream is raised for gateway errors and for broken streams", async () => {
    for (const [scenario, code] of [
      ["stream-error:5", null],
      ["cut:5", "gateway_stream_broken"],
      ["no-finish", "gateway_stream_broken"],
    ] as const) {
      scenarioOf = () => scenario;
      const stream = await client.chat.completions.create({
        model: "gpt-4o",
        messages: hello,
        max_tokens: 50,
        stream: true,
      });
      const error = await errorFrom(
        (async () => {
          for await (const _ of stream);
        })(),
      );
      expect(error, scenario).toBeInstanceOf(APIError);
      if (code !== null) expect(error, scenario).toMatchObject({ code });
    }
    const rows = await charges();
    expect(rows.map(({ state, source }) => `${state} ${source}`)).toEqual(
      Array.from({ length: 3 }, () => "posted partial"),
    );
    rows.forEach(({ cost }, index) => expect(cost).toBeGreaterThanOrEqual(billed()[index]?.cost ?? 1n));
  });
});

it("all requests of the openai client together leave a ledger without differences", async () => {
  await proxy.serving.settled();
  expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  expect((await proxy.serving.ledger.pending()).count).toBe(0);
});
