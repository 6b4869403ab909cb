import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { answeringGateway, type AnsweringGateway } from "../../support/answering-gateway.ts";
import { readPage, valueOf } from "../../support/metrics-page.ts";
import { priceFolder } from "../../support/price-files.ts";
import { startProxy, type RunningProxy } from "../../support/running-proxy.ts";
import { scriptedGateway } from "../../support/scripted-gateway.ts";
import { fetchAnswer, lastErrorCode, open } from "../../support/wire-client.ts";
import { patientClock } from "../../support/patient-clock.ts";

/*
 * Tests of a gateway that writes its answer in a burst: it generates the whole answer first. An answer has up to 16,384
 * tokens, at USD 10 per million.
 */

const modelMax = 16_384;
const prices = `provider: example
defaults: { tokenizer: o200k_base, context_tokens: 100000, max_output_tokens: ${modelMax}, reasoning: false, max_output_field: { chat: max_tokens } }
models:
  live:
    group: official
    streams: live
    prices: [{ from: 2026-01-01, source: "made up", official: { input: "0.01", output: "10.00" } }]
  burst:
    group: official
    prices: [{ from: 2026-01-01, source: "made up", official: { input: "0.01", output: "10.00" } }]
`;

const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`;
const written = (tokens: number) =>
  Array.from({ length: Math.ceil(tokens / 500) }, (_, index) =>
    event({ choices: [{ index: 0, delta: { content: " harbour".repeat(Math.min(500, tokens - index * 500)) } }] }),
  ).join("");
const ending = (tokens: number) =>
  event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }) +
  event({ choices: [], usage: { prompt_tokens: 9, completion_tokens: tokens, total_tokens: 9 + tokens } }) +
  "data: [DONE]\n\n";

let gateway: AnsweringGateway;
let folder: string;
/** Tokens that the gateway generated and bills, even if they are not read. */
let generated = 0;
/** True if the gateway obeys a stated maximum. */
let obeys = true;
const everything = new AsyncDisposableStack();
beforeAll(async () => {
  folder = everything.use(priceFolder(prices)).path;
  gateway = everything.use(
    await answeringGateway(({ body }) => {
      const { max_tokens: maximum } = JSON.parse(body.toString()) as { max_tokens?: number };
      const tokens = obeys ? Math.min(maximum ?? modelMax, modelMax) : modelMax;
      generated += tokens;
      return { headers: { "content-type": "text/event-stream" }, body: written(tokens) + ending(tokens) };
    }),
  );
});
afterAll(() => everything.disposeAsync());

async function proxyWith(limit: string): Promise<RunningProxy> {
  generated = 0;
  obeys = true;
  const proxy = await startProxy({
    gatewayUrl: gateway.url,
    env: { FAREBOX_PRICING: folder },
    clock: patientClock(),
  });
  await proxy.budget("all", limit);
  return proxy;
}

const streamOf = (model: string, more: object = {}) => ({
  model,
  stream: true,
  messages: [{ role: "user", content: "hello" }],
  ...more,
});
const fetchStream = (proxy: RunningProxy, model: string, key = proxy.key, more: object = {}) =>
  fetchAnswer({ url: proxy.url, key }, JSON.stringify(streamOf(model, more)));
/** Returns the gateway's bill in USD. */
const billed = () => (generated * 10) / 1_000_000;
const burstsOf = async (proxy: RunningProxy, model: string) =>
  valueOf(readPage(await proxy.metrics()), "farebox_stream_bursts_total", { model });
const marksOf = async ({ serving }: RunningProxy) => {
  const result = await serving.ledger.burstMarks(null, Date.now());
  return result.ok ? result.marks.map(({ key, model, live }) => [key === "*" ? "all" : "one", model, live]) : [];
};

describe("a model that may burst", () => {
  it("stays within a budget of 0.05 USD, in parallel and one after the other", async () => {
    await using proxy = await proxyWith("0.05");
    for (let turn = 0; turn < 3; turn++)
      await Promise.all(Array.from({ length: 5 }, () => fetchStream(proxy, "burst")));
    expect(billed()).toBeLessThanOrEqual(0.05);
    expect(generated).toBeGreaterThan(1024);
    expect(await marksOf(proxy)).toEqual([]);
  });
});

describe("a model that is assumed to stream live", () => {
  it("exceeds a budget by at most one answer for each stream of its first burst, as documented", async () => {
    await using proxy = await proxyWith("0.05");
    await Promise.all(Array.from({ length: 3 }, () => fetchStream(proxy, "live")));
    const [first, ...others] = await proxy.charges();
    expect([first?.basis?.by, others.length]).toEqual(["slice", 2]);
    // As in docs/guarantees.md: each stream may write the model's maximum but holds only a slice.
    const exposure = (3 * (modelMax - 1024) * 10) / 1_000_000;
    expect(billed()).toBeLessThanOrEqual(0.05 + exposure);
    expect(await marksOf(proxy)).toEqual([["one", "live", 0]]);
    expect(await burstsOf(proxy, "live")).not.toBe("0");
  });

  it("holds the worst case, or has its maximum fitted to the remaining budget, after its first burst", async () => {
    await using proxy = await proxyWith("0.40");
    await fetchStream(proxy, "live");
    expect(billed()).toBeCloseTo(0.16384);
    const answers = await Promise.all(Array.from({ length: 4 }, () => fetchStream(proxy, "live")));
    expect(answers.filter(({ headers }) => headers["x-farebox-fitted"] !== undefined).length).toBeGreaterThan(0);
    expect(billed()).toBeLessThanOrEqual(0.4);
    const bases = (await proxy.charges()).map(({ basis }) => basis?.by);
    expect(bases[0]).toBe("slice");
    expect(bases.slice(1)).not.toContain("slice");
  });

  it("is marked for the key of its burst, and for all keys after a second key's burst", async () => {
    await using proxy = await proxyWith("100");
    const [bob, carol] = [await proxy.addKey("bob"), await proxy.addKey("carol")];
    await fetchStream(proxy, "live");
    await fetchStream(proxy, "live", bob);
    expect(await marksOf(proxy)).toContainEqual(["all", "live", 0]);
    await fetchStream(proxy, "live", carol);
    expect((await proxy.charges()).map(({ basis }) => basis?.by)).toEqual(["slice", "slice", "model"]);
  });

  it("is not marked by a stream with a stated maximum, which its hold covers", async () => {
    await using proxy = await proxyWith("100");
    await fetchStream(proxy, "live", proxy.key, { max_tokens: 4000 });
    expect(await marksOf(proxy)).toEqual([]);
  });
});

describe("a gateway that ignores a stated maximum", () => {
  it("is cut off as soon as it exceeds the maximum, if the budget has no room", async () => {
    await using scripted = await scriptedGateway();
    await using proxy = await startProxy({
      gatewayUrl: scripted.url,
      env: { FAREBOX_PRICING: folder },
      clock: patientClock(),
    });
    await proxy.budget("all", "0.0125");
    const opening = open(proxy, streamOf("burst", { max_tokens: 1000 }));
    const { response, closed } = await scripted.nextChat();
    response.writeHead(200, { "content-type": "text/event-stream" });
    // Counting errors up to a tenth of the maximum plus 64 tokens are tolerated.
    response.write(written(1160));
    const client = await opening;
    await client.take(written(1160).length);
    response.write(written(500));
    await closed;
    expect(lastErrorCode(await client.rest())).toBe("budget_exceeded");
    expect(await proxy.charges()).toMatchObject([{ source: "partial", reason: "budget_exceeded" }]);
  });

  it("may finish its answer if the budget has room", async () => {
    await using proxy = await proxyWith("10");
    obeys = false;
    const answer = await fetchStream(proxy, "burst", proxy.key, { max_tokens: 1000 });
    expect(answer.body.toString()).toContain("[DONE]");
    expect(await proxy.charges()).toMatchObject([{ source: "reported", tokens: { output: modelMax } }]);
  });
});
