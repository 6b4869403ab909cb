import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { usd } from "../../src/core/money.ts";
import { errorCode, fetchAnswer, eventsIn, lastErrorCode, type WireAnswer } from "../support/wire-client.ts";
import { NewCharges } from "../support/new-charges.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { patientClock } from "../support/patient-clock.ts";

let proxy: RunningProxy;
let newCharges: NewCharges;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  proxy = everything.use(await startProxy({ clock: patientClock() }));
  await proxy.budget("key:alice", "1000", "total", "soft");
  newCharges = new NewCharges(proxy);
});
afterAll(() => everything.disposeAsync());

const at = (path: string, body: object, key = proxy.key): Promise<WireAnswer> =>
  fetchAnswer({ url: proxy.url, key }, body, { path });
const responses = (more: object = {}, scenario = "tokens:20") => ({
  model: "gpt-4o",
  input: `Say hello. #sandbox ${scenario}`,
  ...more,
});
const completions = (more: object = {}, scenario = "tokens:10") => ({
  model: "gpt-4o",
  prompt: `Once upon a time #sandbox ${scenario}`,
  ...more,
});
const embeddings = (more: object = {}) => ({ model: "text-embedding-3-small", input: "a text", ...more });

describe("an answer of a text endpoint", () => {
  it.each([
    ["/v1/responses", responses()],
    ["/v1/responses", responses({ stream: true })],
    ["/v1/responses", responses({ max_output_tokens: 5 })],
    ["/v1/responses", responses({}, "cached:8+reasoning:30+tokens:20")],
    ["/v1/responses", responses({ stream: true }, "cached:8+reasoning:30+tokens:20+split")],
    [
      "/v1/responses",
      responses({
        instructions: "Be brief.",
        tools: [{ type: "function", name: "f", parameters: { properties: { a: {} } } }],
        tool_choice: "required",
      }),
    ],
    ["/v1/completions", completions()],
    ["/v1/completions", completions({ n: 3, max_tokens: 40 })],
    ["/v1/completions", completions({ prompt: ["a b c", "d e f"], max_tokens: 4 })],
    ["/v1/completions", completions({ prompt: [1, 2, 3, 4] })],
    ["/v1/completions", completions({ stream: true, stream_options: { include_usage: true } })],
    ["/v1/embeddings", embeddings()],
    ["/v1/embeddings", embeddings({ input: ["one", "two", "three"], encoding_format: "base64", dimensions: 8 })],
    [
      "/v1/embeddings",
      embeddings({
        input: [
          [1, 2, 3],
          [4, 5],
        ],
      }),
    ],
  ])("belongs to an unchanged request, and costs what its usage states: %s %j", async (path, body) => {
    const answer = await at(path, body);
    expect(answer.status).toBe(200);
    const { charge, billed } = await newCharges.settledAndBilled();
    expect(charge).toMatchObject({
      route: path,
      state: "posted",
      source: "reported",
      formula: "tokens",
      cost: billed?.cost,
      overage: 0n,
    });
    const seen = proxy.sandbox.requests.findLast(({ path: asked }) => asked === path);
    expect(seen?.body.toString()).toBe(JSON.stringify(body));
  });

  it("states its cost in the headers if it is plain", async () => {
    const answer = await at("/v1/responses", responses({}, "prompt:1000+cached:400+tokens:40+reasoning:60"));
    // 1,000 tokens at USD 1.25 and 100 at USD 5 per million: gpt-4o at half of the official price; cached tokens cost
    // the same.
    expect(answer.headers["x-farebox-cost-usd"]).toBe("0.00175");
    const charge = await newCharges.settled();
    newCharges.billed();
    expect(charge).toMatchObject({
      cost: 1_750_000_000n,
      tokens: { input: 600, cached_input: 400, output: 40, reasoning: 60 },
    });
    expect(charge.listCost).toBe(600n * 2_500_000n + 400n * 1_250_000n + 100n * 10_000_000n);
  });
});

describe("an answer without usage", () => {
  it.each([
    ["/v1/responses", responses({}, "no-usage+tokens:50")],
    ["/v1/responses", responses({ stream: true }, "no-usage+tokens:50")],
    ["/v1/completions", completions({ max_tokens: 50 }, "no-usage+tokens:50")],
    ["/v1/completions", completions({ stream: true, max_tokens: 50 }, "no-usage+tokens:50")],
    ["/v1/embeddings", embeddings({ input: ["one text #sandbox no-usage", "another #sandbox no-usage"] })],
  ])("is counted like the gateway counts it: %s %j", async (path, body) => {
    expect((await at(path, body)).status).toBe(200);
    const { charge, billed } = await newCharges.settledAndBilled();
    expect(charge).toMatchObject({
      state: "posted",
      source: "counted",
      tokens: { input: billed?.promptTokens, output: billed?.completionTokens },
    });
  });
});

describe("a stream of /v1/responses", () => {
  it("is charged for what arrived if it breaks off, and ends with an error event that also has OpenAI's error object", async () => {
    const answer = await at("/v1/responses", responses({ stream: true }, "cut:7+tokens:40"));
    const last = JSON.parse(eventsIn(answer.body).at(-1) ?? "");
    expect(last).toMatchObject({
      type: "error",
      code: "gateway_stream_broken",
      error: { code: "gateway_stream_broken" },
    });
    expect(answer.body.toString()).toContain("event: error\ndata: ");
    expect(await newCharges.settled()).toMatchObject({ source: "partial", tokens: { output: 7 } });
    newCharges.billed();
  });

  it("ends with an error if its last event is missing", async () => {
    const answer = await at("/v1/responses", responses({ stream: true }, "no-finish+tokens:12"));
    expect(lastErrorCode(answer.body)).toBe("gateway_stream_broken");
    expect(await newCharges.settled()).toMatchObject({ source: "partial", tokens: { output: 12 } });
    newCharges.billed();
  });

  it("passes unchanged if it reports a failure, and is charged for what it wrote", async () => {
    const answer = await at("/v1/responses", responses({ stream: true }, "failed+tokens:12"));
    expect(JSON.parse(eventsIn(answer.body).at(-1) ?? "")).toMatchObject({ type: "response.failed" });
    expect(await newCharges.settled()).toMatchObject({
      source: "partial",
      reason: "gateway_failed",
      tokens: { output: 12 },
    });
    newCharges.billed();
  });

  it("is complete without usage if its last event arrived", async () => {
    const answer = await at("/v1/responses", responses({ stream: true }, "no-usage+tokens:5"));
    expect(lastErrorCode(answer.body)).toBeUndefined();
    expect(await newCharges.settled()).toMatchObject({ source: "counted" });
    newCharges.billed();
  });
});

describe("a budget", () => {
  let poor: string;
  beforeAll(async () => {
    poor = await proxy.addKey("poor");
    await proxy.budget("key:poor", "0.05");
  });

  it.each([
    ["/v1/responses", "tools[0]", responses({ tools: [{ type: "web_search" }] })],
    ["/v1/responses", "background", responses({ background: true })],
    ["/v1/responses", "prompt", responses({ prompt: { id: "pmpt_1" } })],
    ["/v1/responses", "service_tier", responses({ service_tier: "scale" })],
    ["/v1/completions", "service_tier", completions({ service_tier: "scale" })],
    ["/v1/embeddings", "service_tier", embeddings({ service_tier: "priority" })],
    ["/v1/embeddings", "input", embeddings({ input: [{ image: "x" }] })],
  ])("refuses %s with the unbounded '%s' if it is hard", async (path, param, body) => {
    const answer = await at(path, body, poor);
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.body.toString()).error).toMatchObject({ code: "invalid_request", param });
  });

  it.each([
    // Context of gpt-4o, 128,000 tokens, at USD 1.25 per million.
    ["/v1/responses", responses({ previous_response_id: "resp_1", max_output_tokens: 10 }), 160_000_000_000n],
    [
      "/v1/responses",
      responses({
        input: [{ role: "user", content: [{ type: "input_file", file_id: "file-1" }] }],
        max_output_tokens: 10,
      }),
      160_000_000_000n,
    ],
  ])("holds the full context for %s if the body does not contain the whole prompt", async (path, body, least) => {
    expect((await at(path, body)).status).toBe(200);
    expect((await newCharges.settled()).hold).toBeGreaterThan(least);
    newCharges.billed();
  });

  it.each([
    ["/v1/responses", responses({ max_output_tokens: 1_000_000 })],
    ["/v1/completions", completions({ max_tokens: 16_000, n: 10 })],
    [
      "/v1/embeddings",
      { model: "text-embedding-3-large", input: Array.from({ length: 1000 }, () => "ab ".repeat(500)) },
    ],
  ])("answers 402 to %s if it is hard and the worst case does not fit", async (path, body) => {
    const answer = await at(path, body, poor);
    expect(answer.status).toBe(402);
    expect(errorCode(answer)).toBe("budget_exceeded");
  });

  it("holds the input of embeddings and no output", async () => {
    expect((await at("/v1/embeddings", embeddings({ input: "x".repeat(1000) }))).status).toBe(200);
    const charge = await newCharges.settled();
    newCharges.billed();
    // 1,061 bytes of JSON and 3 tokens of template at USD 0.02 per million.
    expect(charge.hold).toBe(
      BigInt(Buffer.byteLength(JSON.stringify(embeddings({ input: "x".repeat(1000) }))) + 3) * 20_000n,
    );
  });

  it("grows the hold of a Responses stream that states no maximum", async () => {
    const answer = await at("/v1/responses", responses({ stream: true }, "tokens:3000+group:10"), poor);
    expect(lastErrorCode(answer.body)).toBeUndefined();
    const charge = await newCharges.settled();
    newCharges.billed();
    expect(charge).toMatchObject({ source: "reported", overage: 0n });
    expect(charge.tokens.output).toBe(3000);
  });
});

it("text endpoints refuse fields that the gateway might read differently", async () => {
  for (const [path, body] of [
    ["/v1/responses", '{"model":"gpt-4o","input":"a","Max_Output_Tokens":9}'],
    ["/v1/completions", '{"model":"gpt-4o","prompt":"a","n":1,"n":5}'],
    ["/v1/embeddings", '{"model":"gpt-4o","input":"a","MODEL":"b"}'],
    ["/v1/embeddings", '{"model":"gpt-4o"}'],
  ] as const) {
    const answer = await fetchAnswer(proxy, body, { path });
    expect([answer.status, errorCode(answer)]).toEqual([400, "invalid_request"]);
  }
});

it("text endpoints have their routes in the metrics", async () => {
  const page = await proxy.metrics();
  for (const path of ["responses", "completions", "embeddings"]) expect(page).toContain(`route="/v1/${path}"`);
});

it("text endpoints accept paths without /v1", async () => {
  expect((await at("/embeddings", embeddings())).status).toBe(200);
  expect(await newCharges.settled()).toMatchObject({ route: "/v1/embeddings" });
  newCharges.billed();
});

it("requests to all text endpoints count against the limits of their key", async () => {
  const slow = await proxy.addKey("slow", { limits: { rpm: 2, tpm: null, parallel: null } });
  expect((await at("/v1/embeddings", embeddings(), slow)).status).toBe(200);
  expect((await at("/v1/responses", responses(), slow)).status).toBe(200);
  const refused = await at("/v1/completions", completions(), slow);
  expect([refused.status, errorCode(refused)]).toEqual([429, "rate_limit_exceeded"]);
  const few = await proxy.addKey("few", { limits: { rpm: null, tpm: 100, parallel: null } });
  expect((await at("/v1/embeddings", embeddings({ input: "word ".repeat(200) }), few)).status).toBe(429);
  await newCharges.allSettled();
  newCharges.billed();
});

it("content that is a single image without a list is held as an image", async () => {
  await using own = await startProxy();
  const image = "https://media.example/a.png";
  const chat = { type: "image_url", image_url: { url: image } };
  const part = { type: "input_image", image_url: image };
  const sent = [
    ["/v1/chat/completions", { model: "gpt-4o", max_tokens: 1, messages: [{ role: "user", content: chat }] }],
    ["/v1/responses", { model: "gpt-4o", max_output_tokens: 1, input: [{ role: "user", content: part }] }],
  ] as const;
  for (const [path, body] of sent) await fetchAnswer({ url: own.url, key: own.key }, body, { path });
  // 1,445 tokens of the largest image at USD 1.25 per million.
  for (const { hold } of await own.charges()) expect(hold).toBeGreaterThan(usd("0.0018"));
});
