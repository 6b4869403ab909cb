import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BodyBytes } from "../../src/ports/exchange.ts";
import { shippedPrices } from "../../src/server/package.ts";
import { loadCatalogue } from "../../src/catalogue/load.ts";
import { formatUsd, noMoney } from "../../src/core/money.ts";
import { settlementFor } from "../../src/core/settlement.ts";
import type { Catalogue } from "../../src/ports/catalogue.ts";
import { meterResponse } from "../../src/request/meter.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { createTokenCounter } from "../../src/platform/tokens/token-counter.ts";
import { readChatRequest } from "../../src/wire/endpoints/chat-completions.ts";
import { NewCharges, chatWith } from "../support/new-charges.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { delta, done, finish, scriptedGateway } from "../support/scripted-gateway.ts";
import { fetchAnswer, bytesOf, open } from "../support/wire-client.ts";

let proxy: RunningProxy;
let newCharges: NewCharges;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  proxy = everything.use(await startProxy());
  await proxy.budget("key:alice", "1000", "total", "soft");
  newCharges = new NewCharges(proxy);
});
afterAll(() => everything.disposeAsync());

describe("an answer without usage", () => {
  const conversation = [
    { role: "system", content: "You are brief." },
    { role: "user", name: "ann", content: "Où est la gare? 駅はどこですか 😀" },
    { role: "assistant", content: "There." },
  ];
  it.each(["gpt-4o", "gpt-4o-mini", "gpt-4.1", "gpt-4.1-nano", "gpt-4o-2024-08-06"])(
    "is counted like the gateway counts it with %s, plain and streamed",
    async (model) => {
      for (const stream of [false, true]) {
        const last = { role: "user", content: "Tell me more. #sandbox no-usage+tokens:60" };
        const answer = await fetchAnswer(proxy, { model, stream, messages: [...conversation, last] });
        expect(answer.status).toBe(200);
        expect(answer.headers["x-farebox-cost-usd"]).toBeUndefined();
        const { charge, billed } = await newCharges.settledAndBilled();
        expect(charge).toMatchObject({ state: "posted", source: "counted", formula: "tokens" });
        expect(charge.tokens).toMatchObject({ input: billed?.promptTokens, output: billed?.completionTokens });
        expect(charge.cost).toBe(billed?.cost);
      }
    },
  );

  it.each([
    ["several choices", { n: 3 }],
    ["parts of text", { messages: [{ role: "user", content: [{ type: "text", text: "Hello #sandbox no-usage" }] }] }],
  ])("is counted like the gateway counts it with %s", async (_what, more) => {
    await fetchAnswer(proxy, { ...chatWith("no-usage+tokens:25"), ...more });
    const { charge, billed } = await newCharges.settledAndBilled();
    expect(charge.tokens).toMatchObject({ input: billed?.promptTokens, output: billed?.completionTokens });
  });

  it("is counted with an estimate for tools and with the text of tool calls", async () => {
    const parameters = { type: "object", properties: { city: { type: "string", description: "Where" } } };
    const tools = [{ type: "function", function: { name: "weather", description: "Weather now", parameters } }];
    for (const stream of [false, true]) {
      await fetchAnswer(proxy, { ...chatWith("no-usage", { stream }), tools, tool_choice: "required" });
      const charge = await newCharges.settled();
      const [billed] = newCharges.billed();
      expect(charge).toMatchObject({ source: "counted" });
      // Farebox counts the function's name; the sandbox's bill does not.
      expect(charge.tokens.output).toBeGreaterThanOrEqual(billed?.completionTokens ?? 0);
      expect(charge.tokens.input).toBeGreaterThan(20);
    }
  });

  it("is counted with a margin for a model whose tokenizer is not public", async () => {
    for (const model of ["claude-sonnet-4-6", "gemini-2.5-flash"]) {
      await fetchAnswer(proxy, { ...chatWith("no-usage+tokens:100"), model });
      const charge = await newCharges.settled();
      const [billed] = newCharges.billed();
      expect(charge).toMatchObject({ source: "counted" });
      expect(charge.tokens.output).toBeGreaterThanOrEqual(Math.ceil(1.15 * (billed?.completionTokens ?? 0)));
      expect(charge.tokens.input).toBeGreaterThanOrEqual(Math.ceil(1.15 * (billed?.promptTokens ?? 0)));
    }
  });

  it("is counted for an unknown model, and its cost is null instead of 0", async () => {
    await fetchAnswer(proxy, { ...chatWith("no-usage+tokens:30"), model: "wonder-1" });
    const charge = await newCharges.settled();
    newCharges.billed();
    expect(charge).toMatchObject({
      state: "posted",
      source: "counted",
      formula: "unpriced",
      cost: null,
      listCost: null,
    });
    expect(charge.tokens.output).toBe(30);
  });
});

describe("reported usage", () => {
  it.each([
    ["cached prompt tokens", "prompt:500+cached:200", { input: 300, cached_input: 200 }],
    ["hidden reasoning", "reasoning:70+tokens:30", { output: 30, reasoning: 70 }],
    ["reasoning that only the total includes", "reasoning-outside:70+tokens:30", { output: 100 }],
    ["output above the maximum", "over-limit:25", { output: 75 }],
  ])("is charged once for %s", async (_what, scenario, tokens) => {
    for (const more of [{}, { stream: true, stream_options: { include_usage: true } }]) {
      const answer = await fetchAnswer(proxy, chatWith(scenario, { max_tokens: 50, ...more }));
      expect(answer.status).toBe(200);
      const { charge, billed } = await newCharges.settledAndBilled();
      if (scenario.startsWith("over")) expect(charge).toMatchObject({ source: "reported", cost: billed?.cost, tokens });
      else expect(charge).toMatchObject({ source: "reported", tokens });
    }
  });

  it("above the hold is posted in full, as overage", async () => {
    await fetchAnswer(proxy, chatWith("over-limit:200000", { max_tokens: 5 }));
    const { charge, billed } = await newCharges.settledAndBilled();
    expect(charge.cost).toBe(billed?.cost);
    expect(charge.overage).toBe((charge.cost ?? 0n) - (charge.hold ?? 0n));
    expect(charge.overage).toBeGreaterThan(0n);
  });
});

describe("usage in another vocabulary", () => {
  type Scripted = readonly [
    name: string,
    member: "usage" | "usageMetadata",
    usage: object,
    tokens: object,
    doubts: readonly string[],
  ];
  const usages: readonly Scripted[] = [
    [
      "Anthropic's",
      "usage",
      {
        input_tokens: 10,
        output_tokens: 5,
        cache_read_input_tokens: 600,
        cache_creation: { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 10 },
      },
      { input: 10, cached_input: 600, cache_write: 30, cache_write_1h: 10, output: 5 },
      [],
    ],
    [
      "a converted one that contradicts itself",
      "usage",
      {
        prompt_tokens: 100,
        completion_tokens: 5,
        prompt_tokens_details: { cached_tokens: 60 },
        cache_read_input_tokens: 50,
      },
      { input: 160, cached_input: 0, output: 5 },
      ["usage_contradicts"],
    ],
    [
      "one with an unknown count",
      "usage",
      { prompt_tokens: 100, completion_tokens: 5, video_seconds: 8 },
      { input: 100, output: 5 },
      ["usage_unknown_class"],
    ],
    [
      "Gemini's",
      "usageMetadata",
      {
        promptTokenCount: 100,
        candidatesTokenCount: 5,
        thoughtsTokenCount: 20,
        cachedContentTokenCount: 60,
        totalTokenCount: 125,
      },
      { input: 40, cached_input: 60, output: 5, reasoning: 20 },
      [],
    ],
  ];

  it.each(usages)("is charged as stated, with its doubts: %s", async (_name, member, usage, tokens, doubts) => {
    await using gateway = await scriptedGateway();
    await using scripted = await startProxy({ gatewayUrl: gateway.url });
    const ledger = new NewCharges(scripted);
    const hello = { model: "claude-sonnet-4-6", max_tokens: 2_000, messages: [{ role: "user", content: "hello" }] };

    const plain = fetchAnswer(scripted, hello);
    const whole = await gateway.nextChat();
    const choice = { index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" };
    whole.response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ id: "c", model: "claude-sonnet-4-6", choices: [choice], [member]: usage }));
    const { headers } = await plain;
    const charge = await ledger.settled();
    expect(charge).toMatchObject({ source: "reported", tokens, doubts });
    expect(headers["x-farebox-cost-usd"]).toBe(formatUsd(charge.cost ?? noMoney));

    // Gemini states the usage so far in every chunk.
    const streamed = fetchAnswer(scripted, { ...hello, stream: true });
    const { response } = await gateway.nextChat();
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(
      delta("Hi", {
        model: hello.model,
        ...(member !== "usage" && { [member]: { ...usage, candidatesTokenCount: 1, totalTokenCount: 121 } }),
      }),
    );
    response.end(finish({ [member]: usage, model: hello.model }) + done);
    await streamed;
    expect(await ledger.settled()).toMatchObject({ source: "reported", tokens, doubts, cost: charge.cost });
  });

  it("is charged as audio if it does not separate audio from text", async () => {
    await using gateway = await scriptedGateway();
    await using scripted = await startProxy({ gatewayUrl: gateway.url });
    const ledger = new NewCharges(scripted);
    const sound = { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } };
    const spoken = {
      model: "gpt-audio",
      max_tokens: 2_000,
      modalities: ["text", "audio"],
      messages: [{ role: "user", content: [sound] }],
    };
    const usage = { prompt_tokens: 1_000, completion_tokens: 100, total_tokens: 1_100 };
    const plain = fetchAnswer(scripted, spoken);
    const whole = await gateway.nextChat();
    const message = { role: "assistant", content: null, audio: { id: "a", data: "AAAA", transcript: "Hi" } };
    // Clients skip a byte order mark, and so does Farebox.
    whole.response
      .writeHead(200, { "content-type": "application/json" })
      .end(`\ufeff${JSON.stringify({ model: "gpt-audio", choices: [{ message, finish_reason: "stop" }], usage })}`);
    const { headers, body } = await plain;
    expect(body.subarray(0, 3)).toEqual(Buffer.from("\ufeff"));
    const charge = await ledger.settled();
    expect(charge).toMatchObject({
      source: "reported",
      tokens: { input: 0, audio_input: 1_000, output: 0, audio_output: 100 },
      cost: 1_000n * 32_000_000n + 100n * 64_000_000n,
      doubts: ["usage_unknown_class"],
    });
    expect(headers["x-farebox-cost-usd"]).toBe(formatUsd(charge.cost ?? noMoney));

    const streamed = fetchAnswer(scripted, { ...spoken, stream: true });
    const { response } = await gateway.nextChat();
    response.writeHead(200, { "content-type": "text/event-stream" });
    const detailed = { ...usage, completion_tokens_details: { text_tokens: 100, audio_tokens: 0 } };
    response.end(delta("Hi") + finish({ usage: detailed, model: "gpt-audio" }) + done);
    await streamed;
    expect((await ledger.settled()).tokens).toMatchObject({ audio_input: 1_000, output: 100, audio_output: 0 });
  });

  it("in the middle of a broken stream is not used as its total", async () => {
    await using gateway = await scriptedGateway();
    await using scripted = await startProxy({ gatewayUrl: gateway.url });
    const streamed = fetchAnswer(scripted, {
      model: "gemini-2.5-flash",
      stream: true,
      messages: [{ role: "user", content: "hello" }],
    });
    const { response } = await gateway.nextChat();
    response.writeHead(200, { "content-type": "text/event-stream" });
    const event = {
      candidates: [{ content: { parts: [{ text: "Hi" }] } }],
      model: "gemini-2.5-flash",
      usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 1, totalTokenCount: 6 },
    };
    response.write(`data: ${JSON.stringify(event)}\n\n`, () => response.destroy());
    await streamed;
    expect((await new NewCharges(scripted).settled()).source).not.toBe("reported");
  });
});

it("an image in a prompt without reported usage is counted at the catalogue's bound", async () => {
  const content = [
    { type: "text", text: "hello #sandbox no-usage" },
    { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } },
  ];
  await fetchAnswer(proxy, { model: "gpt-4o", max_tokens: 5, messages: [{ role: "user", content }] });
  const { charge } = await newCharges.settledAndBilled();
  expect(charge.source).toBe("counted");
  expect(charge.tokens.input).toBeGreaterThan(1_000);
});

describe("an answer above 1 MB", () => {
  it.each([false, true])("passes complete and is metered (stream: %s)", async (stream) => {
    const more = stream ? { stream, stream_options: { include_usage: true } } : {};
    const answer = await fetchAnswer(proxy, chatWith("big:1300000", more));
    expect(answer).toMatchObject({ status: 200, broken: null });
    expect(answer.body.length).toBeGreaterThan(1_300_000);
    expect(answer.headers["x-farebox-cost-usd"]).toBeUndefined();
    const { charge, billed } = await newCharges.settledAndBilled();
    expect(charge).toMatchObject({ source: "reported", cost: billed?.cost });
  });

  it("is counted completely if it has no usage", async () => {
    await fetchAnswer(proxy, chatWith("big:1300000+no-usage"));
    const { charge, billed } = await newCharges.settledAndBilled();
    expect(charge).toMatchObject({ source: "counted", tokens: { output: billed?.completionTokens } });
  });

  it("passes to a slow client and is metered", async () => {
    const client = await open(proxy, chatWith("big:6000000"));
    let size = 0;
    const length = Number(client.response.headers["content-length"]);
    while (size < length) {
      size += (await client.take(1)).length;
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(size).toBe(length);
    expect(await client.rest()).toHaveLength(0);
    const { charge, billed } = await newCharges.settledAndBilled();
    expect(charge).toMatchObject({ source: "reported", cost: billed?.cost });
  });
});

describe("hidden output", () => {
  const clock = systemClock();
  let catalogue: Catalogue;
  beforeAll(async () => {
    const loaded = await loadCatalogue({ shipped: shippedPrices, user: undefined });
    if (!loaded.ok) throw new Error("no catalogue");
    ({ catalogue } = loaded);
  });

  /** Settles a stream of this model that wrote "Hello" and broke off after the given time. */
  async function cutAfter(name: string, ranMs: number, choices = 1): Promise<ReturnType<typeof settlementFor>> {
    const model = catalogue.find(name, clock.now());
    const price = model?.price?.version ?? null;
    await using tokens = createTokenCounter();
    const body = bytesOf({ model: name, n: choices, messages: [{ role: "user", content: "hello" }] });
    const read = readChatRequest(body);
    if (!read.ok) throw new Error("the request is sound");
    const ending = { kind: "cut", usage: undefined, texts: ["Hello"], reason: "gateway_reset", ranMs } as const;
    return settlementFor(
      { hold: null, price },
      await meterResponse({ tokens, clock }, ending, {
        model,
        body: new BodyBytes([body]),
        request: read.request,
        inFlightTokens: 0,
        billed: [{ servedPrice: null, billing: undefined }],
        runPrice: () => ({ isOther: false, price: null }),
      }),
    );
  }

  it("of a reasoning model's broken stream is estimated from the model's speed and the duration", async () => {
    expect(await cutAfter("gpt-5", 4_000)).toMatchObject({ source: "partial", tokens: { output: 1_000 } });
    expect(await cutAfter("gpt-5", 4_000, 3)).toMatchObject({ tokens: { output: 3_000 } });
    expect(await cutAfter("gpt-5", 0)).toMatchObject({ tokens: { output: 1 } });
  });

  it("is not assumed for a model that shows all its output", async () => {
    expect(await cutAfter("gpt-4o", 4_000)).toMatchObject({ source: "partial", tokens: { output: 1 } });
  });

  it("is never charged above the hold", async () => {
    const answer = await fetchAnswer(proxy, {
      ...chatWith("cut:3+slow:20", { stream: true, max_tokens: 3 }),
      model: "gpt-5",
    });
    expect(answer.status).toBe(200);
    const charge = await newCharges.settled();
    newCharges.billed();
    expect(charge).toMatchObject({ state: "posted", source: "partial", overage: 0n });
    expect(charge.tokens.output).toBeGreaterThanOrEqual(3);
    expect(charge.cost).toBeLessThanOrEqual(charge.hold ?? 0n);
  });
});
