import Database from "better-sqlite3";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { formatUsd } from "../../src/core/money.ts";
import { answeringGateway, type AnsweringGateway, type Answering } from "../support/answering-gateway.ts";
import { priceFolder } from "../support/price-files.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { fetchAnswer, type WireAnswer } from "../support/wire-client.ts";

/** Prices of USD 1 and 2 per million tokens, so that a token costs 1 or 2 micro-USD. */
const prices = `provider: example
defaults: { tokenizer: o200k_base, context_tokens: 100000, max_output_tokens: 1000, reasoning: false }
models:
  small:
    served_as: [twin, elsewhere-small]
    group: official
    obeys_max_tool_calls: true
    prices:
      - from: 2026-01-01
        source: "made up for a test"
        official: { input: "1.00", output: "2.00" }
        service_tiers:
          priority: { official: { input: "2.00", output: "4.00" } }
          flex: { official: { input: "0.50", output: "1.00" } }
        fees: { web_search_call: { usd: "0.01", input_tokens: 5000 }, file_search_call: { usd: "0.002", input_tokens: 8000 }, free_call: { usd: "0", input_tokens: 0 } }
  large:
    group: official
    prices: [{ from: 2026-01-01, source: "made up", official: { input: "10.00", output: "20.00" } }]
  twin:
    group: official
    prices: [{ from: 2026-01-01, source: "made up", official: { input: "5.00", output: "5.00" } }]
  disobedient:
    group: official
    prices: [{ from: 2026-01-01, source: "made up", official: { input: "1.00", output: "2.00" }, fees: { web_search_call: { usd: "0.01", input_tokens: 5000 } } }]
  per-image:
    group: official
    prices: [{ from: 2026-01-01, source: "made up", per_request: { official: "0.05" } }]
  per-large-image:
    group: official
    prices: [{ from: 2026-01-01, source: "made up", per_request: { official: "0.20" } }]
  priceless: { group: official }
`;

let answer: Answering = {};
let gateway: AnsweringGateway;
let proxy: RunningProxy;
let folder: string;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  folder = everything.use(priceFolder(prices)).path;
  gateway = everything.use(await answeringGateway(() => answer));
  proxy = everything.use(await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_PRICING: folder } }));
});
afterAll(() => everything.disposeAsync());

const usage = { prompt_tokens: 1000, completion_tokens: 1000, total_tokens: 2000 };
const chatAnswer = (more: object): object => ({
  object: "chat.completion",
  model: "small",
  choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "hi" } }],
  usage,
  ...more,
});
const responseOf = (more: object): object => ({
  object: "response",
  status: "completed",
  model: "small",
  output: [{ type: "message", content: [{ type: "output_text", text: "hi" }] }],
  usage: { input_tokens: 1000, output_tokens: 1000, total_tokens: 2000 },
  ...more,
});
const events = (list: readonly object[], end = ""): object => ({
  headers: { "content-type": "text/event-stream" },
  body: list.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("") + end,
});
const chunk = (delta: object, more: object = {}) => ({
  object: "chat.completion.chunk",
  model: "small",
  choices: [{ index: 0, delta, finish_reason: null }],
  ...more,
});
const usageChunk = (more: object = {}) => ({
  object: "chat.completion.chunk",
  model: "small",
  choices: [],
  usage,
  ...more,
});

const chat = "/v1/chat/completions";
const responses = "/v1/responses";
const messages = [{ role: "user", content: "hi" }];

/** Sends a request and returns the given answer with its charge. */
async function exchange(path: string, body: object, given: object, key = proxy.key) {
  answer = "body" in given ? (given as Answering) : { body: JSON.stringify(given) };
  const got: WireAnswer = await fetchAnswer({ url: proxy.url, key }, body, { path });
  const charge = (await proxy.charges()).at(-1);
  if (charge === undefined) throw new Error("no charge");
  return { answer: got, charge };
}

describe("the model of an answer", () => {
  it("is charged at the higher of both prices with a doubt if it is not the requested one, and the charge names both", async () => {
    const body = { models: ["gpt-4o", "o1-pro"], route: "fallback", model: "gpt-4o", messages };
    const { answer: got, charge } = await exchange(chat, body, chatAnswer({ model: "o1-pro" }));
    expect(charge).toMatchObject({
      model: "gpt-4o",
      servedModel: "o1-pro",
      source: "reported",
      doubts: ["served_model"],
    });
    expect(formatUsd(charge.cost ?? (0n as never))).toBe("0.75");
    expect(got.headers["x-farebox-cost-usd"]).toBe("0.75");
    const stored = await proxy.serving.ledger.price(charge.servedPriceId ?? "");
    expect(stored).toMatchObject({ model: "o1-pro" });
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });

  const at = { small: 3_000_000_000n, large: 30_000_000_000n };
  it.each<[string, string, string, bigint, boolean]>([
    ["the same model", "small", "small", at.small, false],
    ["a dated name of the model", "small", "small-2026-05-05", at.small, false],
    ["the model with its provider", "small", "example/small", at.small, false],
    ["the model in another letter case", "small", "Example/Small", at.small, false],
    ["a model of served_as", "small", "twin", at.small, false],
    ["a dated name of a served_as model", "small", "twin-2026-05-05", at.small, false],
    ["a served_as model that no price file has", "small", "elsewhere-small", at.small, false],
    ["a more expensive model", "small", "large", at.large, true],
    ["a more expensive dated model with its provider", "small", "example/large-2026-05-05", at.large, true],
    ["a cheaper model", "large", "small", at.large, true],
    ["a model that no price file has", "small", "mystery", at.small, true],
    ["a model without a price", "small", "priceless", at.small, true],
  ])("is charged and doubted correctly if it is %s", async (_, model, served, cost, isDoubted) => {
    const { charge } = await exchange(chat, { model, messages }, chatAnswer({ model: served }));
    expect(charge).toMatchObject({ cost, servedModel: served, doubts: isDoubted ? ["served_model"] : [] });
    expect(charge.servedPriceId === null).toBe(!isDoubted || served === "mystery" || served === "priceless");
  });

  it("adds neither an amount nor a doubt to a request for a model without a price", async () => {
    const { charge } = await exchange(chat, { model: "mystery", messages }, chatAnswer({ model: "large" }));
    expect(charge).toMatchObject({ cost: null, formula: "unpriced", doubts: [] });
  });

  const stream = [chunk({ content: "hi" }), chunk({}, { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })];
  it.each<[string, string, object, object]>([
    [
      "a stream's usage",
      chat,
      { model: "small", messages, stream: true },
      events([...stream, usageChunk({ model: "large" })], "data: [DONE]\n\n"),
    ],
    [
      "a stream's last chunk",
      chat,
      { model: "small", messages, stream: true },
      events([...stream, { ...usageChunk(), model: undefined }, { model: "large", choices: [] }], "data: [DONE]\n\n"),
    ],
    [
      "a stream of responses",
      responses,
      { model: "small", input: "hi", stream: true },
      events([{ type: "response.completed", response: responseOf({ model: "large" }) }]),
    ],
    ["a response", responses, { model: "small", input: "hi" }, responseOf({ model: "large" })],
    ["a completion", "/v1/completions", { model: "small", prompt: "hi" }, chatAnswer({ model: "large" })],
    [
      "embeddings",
      "/v1/embeddings",
      { model: "small", input: "hi" },
      { object: "list", data: [], model: "large", usage },
    ],
    [
      "images",
      "/v1/images/generations",
      { model: "small", prompt: "hi" },
      { data: [{}], model: "large", usage: { input_tokens: 1000, output_tokens: 1000, total_tokens: 2000 } },
    ],
    [
      "a stream of images",
      "/v1/images/generations",
      { model: "small", prompt: "hi", stream: true },
      events([
        {
          type: "image_generation.completed",
          model: "large",
          usage: { input_tokens: 1000, output_tokens: 1000, total_tokens: 2000 },
        },
      ]),
    ],
  ])("is recognized in %s", async (_, path, body, given) => {
    expect((await exchange(path, body, given)).charge).toMatchObject({
      cost: at.large,
      source: "reported",
      servedModel: "large",
      doubts: ["served_model"],
    });
  });

  it("is charged at its price per request, for each image", async () => {
    const { charge } = await exchange(
      "/v1/images/generations",
      { model: "per-image", prompt: "hi", n: 3 },
      { data: [{}], model: "per-large-image" },
    );
    expect(charge).toMatchObject({ cost: 600_000_000_000n, formula: "per_request", doubts: ["served_model"] });
  });

  it("reduces the remaining budget that the headers state if it is more expensive", async () => {
    const key = await proxy.addKey("roomy");
    await proxy.budget("key:roomy", "1");
    const { answer: got, charge } = await exchange(
      chat,
      { model: "small", messages, max_tokens: 10 },
      chatAnswer({ model: "large" }),
      key,
    );
    expect(got.headers["x-farebox-budget-remaining-usd"]).toBe("0.97");
    expect(charge.overage).toBeGreaterThan(0n);
  });
});

describe("the service tier of a charge", () => {
  const whole = (tier: unknown) => chatAnswer(tier === undefined ? {} : { service_tier: tier });
  it.each<[string, object, unknown, bigint, string | null, boolean]>([
    ["the answer's tier rather than the request's", { service_tier: "priority" }, "default", 3_000n, null, false],
    ["the answer's tier although the request states none", {}, "priority", 6_000n, "priority", false],
    [
      "the request's tier if the answer states none",
      { service_tier: "priority" },
      undefined,
      6_000n,
      "priority",
      false,
    ],
    ["the answer's cheaper tier", { service_tier: "flex" }, "flex", 1_500n, "flex", false],
    [
      "none if the request states auto and the answer nothing",
      { service_tier: "auto" },
      undefined,
      3_000n,
      null,
      false,
    ],
    ["the answer's tier with a doubt if it has no rate", {}, "scale", 3_000n, "scale", true],
    ["the request's tier with a doubt if it has no rate", { service_tier: "batch" }, undefined, 3_000n, "batch", true],
    ["unknown with a doubt if it is not a string", {}, { name: "priority" }, 3_000n, "unknown", true],
  ])("is %s", async (_, asked, stated, micro, serviceTier, isDoubted) => {
    const { answer: got, charge } = await exchange(chat, { model: "small", messages, ...asked }, whole(stated));
    expect(charge).toMatchObject({
      cost: micro * 1_000_000n,
      billing: { serviceTier, calls: {} },
      doubts: isDoubted ? ["service_tier"] : [],
    });
    expect(got.headers["x-farebox-cost-usd"]).toBe(formatUsd(charge.cost ?? (0n as never)));
  });

  const long = "x".repeat(12_000);
  const finish = chunk({}, { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
  it.each<[string, string, object, object]>([
    [
      "a stream's usage",
      chat,
      { stream: true, messages },
      events([chunk({ content: "hi" }), finish, usageChunk({ service_tier: "priority" })], "data: [DONE]\n\n"),
    ],
    [
      "a stream's first chunk alone",
      chat,
      { stream: true, messages },
      events(
        [chunk({ content: "hi" }, { service_tier: "priority" }), chunk({ content: long }), finish, usageChunk()],
        "data: [DONE]\n\n",
      ),
    ],
    ["a plain answer's usage", chat, { messages }, chatAnswer({ usage: { ...usage, service_tier: "priority" } })],
    ["a response", responses, { input: "hi" }, responseOf({ service_tier: "priority" })],
    [
      "a stream of responses",
      responses,
      { input: "hi", stream: true },
      events([
        { type: "response.created", response: { model: "small", service_tier: "auto" } },
        { type: "response.completed", response: responseOf({ service_tier: "priority" }) },
      ]),
    ],
    ["a completion", "/v1/completions", { prompt: "hi" }, chatAnswer({ service_tier: "priority" })],
  ])("is read from %s", async (_, path, body, given) => {
    expect((await exchange(path, { model: "small", ...body }, given)).charge).toMatchObject({
      cost: 6_000_000_000n,
      billing: { serviceTier: "priority" },
      doubts: [],
    });
  });

  it.each([
    ["/v1/completions", { prompt: "hi" }],
    ["/v1/embeddings", { input: "hi" }],
  ])("is taken from a request to %s if the answer states none", async (path, body) => {
    const { charge } = await exchange(
      path,
      { model: "small", service_tier: "priority", ...body },
      { ...chatAnswer({}), data: [] },
    );
    expect(charge).toMatchObject({ cost: 6_000_000_000n, billing: { serviceTier: "priority" }, doubts: [] });
  });

  it("has a doubt if the model that answers has no rate for it", async () => {
    const { charge } = await exchange(
      chat,
      { model: "small", messages, service_tier: "flex" },
      chatAnswer({ model: "large", service_tier: "flex" }),
    );
    expect(charge).toMatchObject({ cost: 30_000_000_000n, doubts: ["served_model", "service_tier"] });
  });

  it("is held at the higher of its and the standard rate under a hard budget, or refused without a rate", async () => {
    const key = await proxy.addKey("tiers");
    await proxy.budget("key:tiers", "100");
    const holdOf = async (more: object) =>
      (await exchange(chat, { model: "small", messages, max_tokens: 500, ...more }, whole("default"), key)).charge
        .hold ?? 0n;
    const plain = await holdOf({});
    const bytes = (tier: string) => BigInt(`,"service_tier":"${tier}"`.length) * 1_000_000n;
    expect(await holdOf({ service_tier: "priority" })).toBe(2n * (plain + bytes("priority")));
    expect(await holdOf({ service_tier: "flex" })).toBe(plain + bytes("flex"));
    expect(await holdOf({ service_tier: "auto" })).toBe(2n * (plain + bytes("auto")));
    const { answer: refused } = await exchange(
      chat,
      { model: "small", messages, service_tier: "scale" },
      whole("default"),
      key,
    );
    expect([refused.status, JSON.parse(refused.body.toString()).error.param]).toEqual([400, "service_tier"]);
  });
});

describe("hosted tool calls", () => {
  const search = (more: object = {}) => ({
    type: "web_search_call",
    status: "completed",
    action: { type: "search" },
    ...more,
  });
  const output = [
    search(),
    { type: "reasoning" },
    search(),
    { type: "file_search_call" },
    search({ action: { type: "open_page" } }),
    { type: "function_call", name: "f", arguments: "{}" },
  ];
  const counted = { web_search_call: 2, file_search_call: 1 };
  const cost = 3_000_000_000n + 22_000_000_000n;
  const tools = [{ type: "web_search" }, { type: "file_search" }];
  const itemDone = (item: object, index: number) => ({ type: "response.output_item.done", output_index: index, item });

  it.each<[string, string, object, object, Record<string, number>]>([
    ["the items of a response", responses, { input: "hi", tools }, responseOf({ output }), counted],
    [
      "a stream's last event",
      responses,
      { input: "hi", tools, stream: true },
      events([...output.map(itemDone), { type: "response.completed", response: responseOf({ output }) }]),
      counted,
    ],
    [
      "the events of a stream whose last event has no items",
      responses,
      { input: "hi", tools, stream: true },
      events([
        ...output.flatMap((item, index) => [
          { ...itemDone(item, index), type: "response.output_item.added" },
          itemDone(item, index),
        ]),
        { type: "response.completed", response: responseOf({ output: [] }) },
      ]),
      counted,
    ],
    [
      "a chat's usage",
      chat,
      { messages },
      chatAnswer({ usage: { ...usage, server_tool_use: { web_search_requests: 2, web_fetch_requests: 0 } } }),
      { web_search_call: 2 },
    ],
    [
      "the usage of a chat's stream",
      chat,
      { messages, stream: true },
      events(
        [chunk({ content: "hi" }), usageChunk({ usage: { ...usage, server_tool_use: { web_search_requests: 2 } } })],
        "data: [DONE]\n\n",
      ),
      { web_search_call: 2 },
    ],
  ])("are charged as counted in %s", async (_, path, body, given, calls) => {
    const { charge } = await exchange(path, { model: "small", ...body }, given);
    const withoutFiles = cost - 2_000_000_000n;
    expect(charge).toMatchObject({
      cost: calls === counted ? cost : withoutFiles,
      billing: { serviceTier: null, calls },
      doubts: [],
    });
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });

  it.each<[string, string, object, object, object]>([
    [
      "have no fee",
      responses,
      { input: "hi", tools: [{ type: "mcp" }] },
      responseOf({ output: [{ type: "mcp_call" }] }),
      { mcp_call: 1 },
    ],
    [
      "use the preview tool",
      responses,
      { input: "hi", tools: [{ type: "web_search_preview_2025_03_11" }] },
      responseOf({ output: [search()] }),
      { web_search_preview_call: 1 },
    ],
    [
      "an answer with citations does not count",
      chat,
      { messages },
      chatAnswer({
        choices: [{ finish_reason: "stop", message: { content: "hi", annotations: [{ type: "url_citation" }] } }],
      }),
      { unstated_call: 1 },
    ],
    ["were requested and are not counted", chat, { messages, web_search_options: {} }, chatAnswer({}), {}],
    [
      "were requested in the tools list and are not counted",
      chat,
      { messages, tools: [{ type: "web_search_20250305" }] },
      chatAnswer({}),
      {},
    ],
  ])("that %s add a doubt but no fee to the charge", async (_, path, body, given, calls) => {
    const { charge } = await exchange(path, { model: "small", ...body }, given);
    expect(charge).toMatchObject({
      cost: 3_000_000_000n,
      billing: { calls },
      doubts: expect.arrayContaining(["hosted_tool"]),
    });
  });

  it.each([{ web_search_requests: 0 }, { web_search_requests: 0, web_fetch_requests: 0 }])(
    "that the usage counts as 0 have no doubt: %j",
    async (server_tool_use) => {
      const { charge } = await exchange(
        chat,
        { model: "small", messages, tools: [{ type: "web_search_20250305" }] },
        chatAnswer({ usage: { ...usage, server_tool_use } }),
      );
      expect(charge).toMatchObject({ cost: 3_000_000_000n, billing: { calls: {} }, doubts: [] });
    },
  );

  it("in a broken stream are charged as far as they arrived", async () => {
    const cut = events([
      { type: "response.created", response: { model: "small" } },
      { type: "response.output_item.added", output_index: 0, item: search() },
    ]);
    const { charge } = await exchange(responses, { model: "small", input: "hi", tools, stream: true }, cut);
    expect(charge).toMatchObject({ source: "partial", billing: { calls: { web_search_call: 1 } } });
    expect(charge.cost).toBeGreaterThan(10_000_000_000n);
  });

  describe("under a hard budget", () => {
    let key: string;
    beforeAll(async () => {
      key = await proxy.addKey("tools");
      await proxy.budget("key:tools", "100");
    });
    const lastBody = () => gateway.received.at(-1)?.body.toString();

    it("hold the prompt again for each call, added tokens and fees; only the written maximum changes the body", async () => {
      const plain = `{ "model":"small",\t"input":"hi", "max_output_tokens":100 }`;
      const body = `{ "model":"small",\t"input":"hi", "max_output_tokens":100, "tools":[{"type":"web_search"},{"type":"file_search"}], "max_tool_calls" : null }`;
      const send = async (text: string) => {
        answer = { body: JSON.stringify(responseOf({ output })) };
        const got = await fetchAnswer({ url: proxy.url, key }, text, { path: responses });
        return { got, charge: (await proxy.charges()).at(-1) };
      };
      const bare = await send(plain);
      expect(lastBody()).toBe(plain);
      expect(bare.got.headers["x-farebox-tool-calls"]).toBeUndefined();
      const { got, charge } = await send(body);
      expect(lastBody()).toBe(body.replace("null", "4"));
      expect(got.headers["x-farebox-tool-calls"]).toBe("4");
      // The bound adds 16 template tokens for each tool.
      const prompt = BigInt((bare.charge?.hold ?? 0n) / 1_000_000n) - 200n + BigInt(body.length - plain.length) + 32n;
      expect(charge?.hold).toBe((5n * prompt + 10n * 8_000n + 200n) * 1_000_000n + 4n * 10_000_000_000n);
      expect(charge).toMatchObject({ cost, overage: 0n });
    });

    it("are limited by a maximum that is written first if the body has none", async () => {
      const body = { model: "small", input: "hi", tools: [{ type: "web_search" }], stream: true };
      const { answer: got } = await exchange(
        responses,
        body,
        events([{ type: "response.completed", response: responseOf({ output }) }]),
        key,
      );
      expect(lastBody()).toBe(JSON.stringify({ max_tool_calls: 4, ...body }));
      expect(got.headers["x-farebox-tool-calls"]).toBe("4");
    });

    it("are held up to the maximum that the request states", async () => {
      const body = {
        model: "small",
        input: "hi",
        max_output_tokens: 100,
        tools: [{ type: "web_search" }],
        max_tool_calls: 2,
      };
      const { answer: got, charge } = await exchange(responses, body, responseOf({}), key);
      expect(lastBody()).toBe(JSON.stringify(body));
      expect(got.headers["x-farebox-tool-calls"]).toBeUndefined();
      const other = (await exchange(responses, { ...body, max_tool_calls: 3 }, responseOf({}), key)).charge;
      const prompt = ((charge.hold ?? 0n) - 20_000_000_000n) / 1_000_000n - 200n - 3n * 5_000n;
      expect(prompt % 3n).toBe(0n);
      expect(other.hold).toBe(((prompt / 3n) * 4n + 6n * 5_000n + 200n) * 1_000_000n + 30_000_000_000n);
    });

    it.each<[string, string, object, string]>([
      [
        "a tool without a fee",
        responses,
        { input: "hi", tools: [{ type: "web_search" }, { type: "mcp" }] },
        "tools[1]",
      ],
      [
        "the preview tool, which has its own fee",
        responses,
        { input: "hi", tools: [{ type: "web_search_preview" }] },
        "tools[0]",
      ],
      ["a maximum that is not a number", responses, { input: "hi", tools, max_tool_calls: "4" }, "max_tool_calls"],
      ["a maximum below 0", responses, { input: "hi", tools, max_tool_calls: -1 }, "max_tool_calls"],
      ["a maximum above 1000", responses, { input: "hi", tools, max_tool_calls: 1001 }, "max_tool_calls"],
      ["a chat", chat, { messages, tools: [{ type: "web_search" }] }, "tools[0]"],
      [
        "a model that does not obey the maximum",
        responses,
        { model: "disobedient", input: "hi", tools: [{ type: "web_search" }] },
        "tools[0]",
      ],
      ["a maximum in another letter case", responses, { input: "hi", tools, Max_Tool_Calls: 4 }, "max_tool_calls"],
    ])("are refused for %s", async (_, path, body, param) => {
      const asked = gateway.received.length;
      const { answer: got } = await exchange(path, { model: "small", ...body }, responseOf({}), key);
      expect([got.status, JSON.parse(got.body.toString()).error.param]).toEqual([400, param]);
      expect(gateway.received).toHaveLength(asked);
    });

    it("are refused with FAREBOX_TOOL_CALLS=0 if the request states no maximum", async () => {
      await using other = await startProxy({
        gatewayUrl: gateway.url,
        env: { FAREBOX_PRICING: folder, FAREBOX_TOOL_CALLS: "0" },
      });
      await other.budget("key:alice", "100");
      const send = (more: object) =>
        fetchAnswer(
          { url: other.url, key: other.key },
          { model: "small", input: "hi", tools, ...more },
          { path: responses },
        );
      answer = { body: JSON.stringify(responseOf({})) };
      expect([(await send({})).status, (await send({ max_tool_calls: 1 })).status]).toEqual([400, 200]);
    });
  });

  it("do not change the body without a hard budget", async () => {
    const body = { model: "small", input: "hi", tools };
    const { answer: got } = await exchange(responses, body, responseOf({}));
    expect(gateway.received.at(-1)?.body.toString()).toBe(JSON.stringify(body));
    expect(got.headers["x-farebox-tool-calls"]).toBeUndefined();
  });
});

describe("verify", () => {
  it("recomputes charges from both prices, the tier and the calls, and reports each tampered charge", async () => {
    await using own = await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_PRICING: folder } });
    answer = { body: JSON.stringify(chatAnswer({ model: "large", service_tier: "priority" })) };
    for (let sentSoFar = 0; sentSoFar < 3; sentSoFar++)
      await fetchAnswer({ url: own.url, key: own.key }, { model: "small", messages });
    answer = {
      body: JSON.stringify(
        chatAnswer({ service_tier: "priority", usage: { ...usage, server_tool_use: { web_search_requests: 3 } } }),
      ),
    };
    for (let sentSoFar = 0; sentSoFar < 3; sentSoFar++)
      await fetchAnswer({ url: own.url, key: own.key }, { model: "small", messages });
    const [, second, , fourth, fifth] = (await own.charges()).map(({ id }) => id);
    expect((await own.serving.ledger.verify()).differences).toEqual([]);
    const file = new Database(own.database);
    file.prepare("UPDATE charges SET served_price_id = NULL WHERE id = ?").run(second);
    file.prepare("UPDATE charges SET service_tier = NULL WHERE id = ?").run(fourth);
    file.prepare("UPDATE charges SET tool_calls = '{\"web_search_call\":2}' WHERE id = ?").run(fifth);
    file.close();
    const found = (await own.serving.ledger.verify()).differences.flatMap((difference) =>
      difference.kind === "charge" ? [difference.id] : [],
    );
    expect(new Set(found)).toEqual(new Set([second, fourth, fifth]));
  });
});
