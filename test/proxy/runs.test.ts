import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { formatUsd, type PicoUsd } from "../../src/core/money.ts";
import type { Doubt } from "../../src/core/usage.ts";
import { answeringGateway, type AnsweringGateway, type Answering } from "../support/answering-gateway.ts";
import { priceFolder } from "../support/price-files.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { callAdmin } from "../support/admin-client.ts";
import { fetchAnswer } from "../support/wire-client.ts";

/** Prices of USD 1 and 5 per million prompt tokens in two tiers, so that a token costs 1 or 5 micro-USD. */
const prices = `provider: example
defaults: { tokenizer: o200k_base, context_tokens: 1000000, max_output_tokens: 1000, reasoning: false }
models:
  small:
    group: official
    prices:
      - from: 2026-01-01
        source: "made up"
        official: { input: "1.00", output: "2.00" }
        tiers: [{ from_prompt_tokens: 100000, official: { input: "5.00", output: "10.00" } }]
  adviser-model:
    group: official
    prices: [{ from: 2026-01-01, source: "made up", official: { input: "10.00", output: "20.00" } }]
  picture: { group: official, prices: [{ from: 2026-01-01, source: "made up", per_request: { official: "0.05" } }] }
`;

const token = "an-admin-token-of-sufficient-length";
let answer: Answering = {};
let gateway: AnsweringGateway;
let proxy: RunningProxy;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  const folder = everything.use(priceFolder(prices)).path;
  gateway = everything.use(await answeringGateway(() => answer));
  proxy = everything.use(
    await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_PRICING: folder, FAREBOX_ADMIN_TOKEN: token } }),
  );
});
afterAll(() => everything.disposeAsync());

/** Sends a request whose answer states this usage. Returns the charge, and the cost in the header. */
async function chargedFor(usage: object, more: object = {}) {
  answer = {
    body: JSON.stringify({
      object: "chat.completion",
      model: "small",
      choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "hi" } }],
      usage,
      ...more,
    }),
  };
  const body = { model: "small", messages: [{ role: "user", content: "hi" }] };
  const { headers } = await fetchAnswer({ url: proxy.url, key: proxy.key }, body, { path: "/v1/chat/completions" });
  const charge = (await proxy.charges()).at(-1);
  if (charge === undefined) throw new Error("no charge");
  return { charge, header: headers["x-farebox-cost-usd"] };
}

const microUsd = (amount: number) => BigInt(amount * 1_000_000) as PicoUsd;
const message = (input_tokens: number, output_tokens = 0) => ({ type: "message", input_tokens, output_tokens });
const top = { input_tokens: 140_000, output_tokens: 20 };
const halves = [message(70_000, 10), message(70_000, 10)];

describe("runs of a model are charged", () => {
  it.each<[what: string, amount: number, doubts: readonly Doubt[], usage: object]>([
    ["in the tier of each run", 140_000 + 40, [], { ...top, iterations: halves }],
    [
      "in two tiers",
      5 * 120_000 + 20_000 + 10 * 10 + 2 * 10,
      [],
      { ...top, iterations: [message(120_000, 10), message(20_000, 10)] },
    ],
    [
      "for a compaction that the totals leave out",
      5 * 180_000 + 10 * 5 + 140_000 + 40,
      [],
      { ...top, iterations: [{ ...message(180_000, 5), type: "compaction" }, ...halves] },
    ],
    [
      "for an advisor at the price of its own model",
      140_000 + 40 + 10 * 60_000 + 20 * 7,
      [],
      { ...top, iterations: [...halves, { ...message(60_000, 7), type: "advisor_message", model: "adviser-model" }] },
    ],
    [
      "for an advisor of the requested model in its own tier",
      140_000 + 40 + 60_000 + 14,
      [],
      {
        ...top,
        iterations: [...halves, { ...message(60_000, 7), type: "advisor_message", model: "small-2026-01-01" }],
      },
    ],
    [
      "for an advisor without a price at the price of the request",
      140_000 + 40 + 60_000 + 14,
      ["served_model"],
      { ...top, iterations: [...halves, { ...message(60_000, 7), type: "advisor_message", model: "unheard-of" }] },
    ],
    [
      "for an advisor with a price per request at the price of the request",
      140_000 + 40 + 60_000 + 14,
      ["served_model"],
      { ...top, iterations: [...halves, { ...message(60_000, 7), type: "advisor_message", model: "picture" }] },
    ],
    [
      "for an advisor without a name",
      140_000 + 40 + 60_000 + 14,
      ["usage_unknown_class"],
      { ...top, iterations: [...halves, { ...message(60_000, 7), type: "advisor_message" }] },
    ],
    [
      "for an advisor whose tokens the totals may include",
      5 * 140_000 + 200 + 10 * 1_000 + 20 * 5,
      ["usage_contradicts"],
      {
        ...top,
        iterations: [message(70_000), { ...message(1_000, 5), type: "advisor_message", model: "adviser-model" }],
      },
    ],
    [
      "as one run if they contradict the totals",
      5 * 150_000 + 10 * 20,
      ["usage_contradicts"],
      { ...top, iterations: [message(75_000, 5), message(75_000, 5)] },
    ],
    [
      "as one run if they leave out a part of the totals",
      5 * 140_000 + 10 * 20,
      ["usage_unknown_class"],
      { ...top, iterations: [message(70_000, 5), message(60_000, 5)] },
    ],
    ["without the runs that state no tokens", 140_000 + 40, [], { ...top, iterations: [...halves, message(0), {}] }],
    [
      "with a doubt if a run cannot be read",
      140_000 + 40,
      ["usage_unknown_class"],
      { ...top, iterations: [...halves, { type: "compaction", input_tokens: "many" }] },
    ],
    [
      "with a doubt if a run is no object",
      140_000 + 40,
      ["usage_unknown_class"],
      { ...top, iterations: [...halves, 7] },
    ],
  ])("%s", async (_, amount, doubts, usage) => {
    const { charge, header } = await chargedFor(usage);
    expect({ cost: charge.cost, doubts: charge.doubts }).toEqual({ cost: microUsd(amount), doubts });
    expect(header).toBe(formatUsd(microUsd(amount)));
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });

  it("at the more expensive of the requested and the serving model as a whole", async () => {
    const { charge, header } = await chargedFor({ ...top, iterations: halves }, { model: "adviser-model" });
    expect(charge).toMatchObject({ cost: microUsd(10 * 140_000 + 20 * 20), doubts: ["served_model"] });
    expect(header).toBe(formatUsd(microUsd(10 * 140_000 + 20 * 20)));
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });

  it("and listed only if they have a tier or a price of their own", async () => {
    const { charge: small } = await chargedFor({ ...message(20), iterations: [message(10), message(10)] });
    expect(small).toMatchObject({ runs: [], tokens: { input: 20 } });
    const advised = { ...message(60_000, 7), type: "advisor_message", model: "adviser-model" };
    const { charge } = await chargedFor({ ...top, iterations: [...halves, advised] });
    expect(charge).toMatchObject({
      tokens: { input: 200_000, output: 27 },
      runs: [
        { tokens: { input: 140_000, output: 20 }, promptTokens: 70_000, model: null, priceId: null },
        { tokens: { input: 60_000, output: 7 }, promptTokens: 60_000, model: "adviser-model" },
      ],
    });
  });

  it("with items of the cost by model and tier", async () => {
    const advised = { ...message(60_000, 7), type: "advisor_message", model: "adviser-model" };
    const { charge } = await chargedFor({ ...top, iterations: [message(120_000, 20), message(20_000), advised] });
    const { json } = await callAdmin(proxy.url, "GET", `/charges/${charge.id}`, { token });
    expect(json).toMatchObject({
      items: [
        { class: "input", model: null, tokens: 120_000, tier_from: 100_000, cost_usd: "0.60" },
        { class: "output", model: null, tokens: 20, tier_from: 100_000, cost_usd: "0.0002" },
        { class: "input", model: null, tokens: 20_000, tier_from: 0, cost_usd: "0.02" },
        { class: "input", model: "adviser-model", tokens: 60_000, cost_usd: "0.60" },
        { class: "output", model: "adviser-model", tokens: 7, cost_usd: "0.00014" },
      ],
      runs: [{ prompt_tokens: 120_000 }, { prompt_tokens: 20_000 }, { model: "adviser-model" }],
      cost_usd: "1.22034",
    });
  });
});
