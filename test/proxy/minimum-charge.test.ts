import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { formatUsd, usd, type PicoUsd } from "../../src/core/money.ts";
import { answeringGateway, type Answering } from "../support/answering-gateway.ts";
import { documents } from "../support/documents.ts";
import { priceFolder } from "../support/price-files.ts";
import { startProxy, type RunningProxy } from "../support/running-proxy.ts";
import { fetchAnswer } from "../support/wire-client.ts";

/* The worked table of docs/prices.md: each row is sent as a request, and each of its figures is computed again. */

const [, section = ""] = /^## Minimum charge\n([^]*?)^## /m.exec(documents.get("docs/prices.md") ?? "") ?? [];
const rows = [...section.matchAll(/^\| (.*) \|$/gm)].map(([, row = ""]) => row.split(" | ")).slice(1);
const [, inputRate = "", cachedRate = "", outputRate = "", searchFee = ""] =
  /USD (\S+) for input, (\S+) for cached input and (\S+) for output per 1M tokens\. A web search costs USD (\S+)\. /.exec(
    section,
  ) ?? [];

interface Way {
  readonly stream?: true;
  readonly status?: number;
  readonly model?: string;
  readonly searches?: number;
}

/** Requests of the table that are not plain. */
const ways: Readonly<Record<string, Way>> = {
  "a stream": { stream: true },
  "a failed call": { status: 500 },
  "answered by a model with the same rates and a minimum of USD 0.01": { model: "higher" },
  "the same, with a minimum of USD 0.001": { model: "lower" },
  "one web search": { searches: 1 },
};

/** Minimums of the table's second column, as price files state them. */
const minimums: Readonly<Record<string, string>> = {
  "20 tokens": "{ tokens: 20 }",
  "USD 0.005": '{ usd: "0.005" }',
  "20 tokens, USD 0.005": '{ tokens: 20, usd: "0.005" }',
};
const modelOf = (minimum: string) => `model-${Object.keys(minimums).indexOf(minimum)}`;

function model(name: string, minimum: string): string {
  const rates = `{ input: "${inputRate}", cached_input: "${cachedRate}", output: "${outputRate}" }`;
  return `  ${name}:
    prices:
      - from: 2026-01-01
        source: "made up for a test"
        official: ${rates}
        gateway: ${rates}
        minimum: ${minimum}
        fees: { web_search_call: { usd: "${searchFee}", gateway: "${searchFee}", input_tokens: 1000 } }
`;
}

const prices = `provider: example
defaults: { tokenizer: o200k_base, context_tokens: 100000, max_output_tokens: 1000, reasoning: false }
models:
${Object.entries(minimums)
  .map(([minimum, block]) => model(modelOf(minimum), block))
  .join("")}${model("higher", '{ usd: "0.01" }')}${model("lower", '{ usd: "0.001" }')}`;

let answer: Answering = {};
let proxy: RunningProxy;
const everything = new AsyncDisposableStack();

beforeAll(async () => {
  const gateway = everything.use(await answeringGateway(() => answer));
  const { path } = everything.use(priceFolder(prices));
  proxy = everything.use(await startProxy({ gatewayUrl: gateway.url, env: { FAREBOX_PRICING: path } }));
});
afterAll(() => everything.disposeAsync());

/** Answers as the gateway would for a request that used these tokens. */
function answerOf(way: Way, asked: string, [prompt, cached, output]: readonly [number, number, number]): Answering {
  if (way.status !== undefined) return { status: way.status, body: JSON.stringify({ error: { message: "failed" } }) };
  const usage = {
    prompt_tokens: prompt,
    completion_tokens: output,
    total_tokens: prompt + output,
    prompt_tokens_details: { cached_tokens: cached },
    ...(way.searches !== undefined && { server_tool_use: { web_search_requests: way.searches } }),
  };
  const common = { model: way.model ?? asked, usage };
  if (way.stream === undefined) {
    const choices = [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "ok" } }];
    return { body: JSON.stringify({ object: "chat.completion", choices, ...common }) };
  }
  const choices = [{ index: 0, finish_reason: "stop", delta: { content: "ok" } }];
  const chunks = [{ choices }, { choices: [], ...common }].map((more) => ({
    object: "chat.completion.chunk",
    model: asked,
    ...more,
  }));
  const body = [...chunks.map((chunk) => JSON.stringify(chunk)), "[DONE]"].map((data) => `data: ${data}\n\n`).join("");
  return { headers: { "content-type": "text/event-stream" }, body };
}

const micros = (rate: string) => usd(rate) / 1_000_000n;

describe("the table of minimum charges in docs/prices.md", () => {
  it("has rows for every way and every minimum", () => {
    expect(rows.length).toBeGreaterThan(10);
    const requests = rows.map(([request]) => request);
    expect(requests).toEqual(expect.arrayContaining(Object.keys(ways)));
    expect(new Set(rows.map(([, minimum]) => minimum))).toEqual(new Set(Object.keys(minimums)));
  });

  it.each(rows)("states what is charged for %s, with a minimum of %s", async (request, minimum, ...figures) => {
    const [prompt = NaN, cached = NaN, output = NaN] = figures.slice(0, 3).map(Number);
    const [tokenCost, added, fees, charged] = figures.slice(3);
    const way = ways[request ?? ""] ?? {};
    const asked = modelOf(minimum ?? "");
    answer = answerOf(way, asked, [prompt, cached, output]);
    const before = (await proxy.charges()).length;
    const search = way.searches === undefined ? {} : { web_search_options: {} };
    const messages = [{ role: "user", content: "hi" }];
    await fetchAnswer(proxy, { model: asked, messages, max_tokens: 1000, ...search, stream: way.stream });
    const [charge, ...others] = (await proxy.charges()).slice(before);
    expect(others).toEqual([]);

    const ofTokens =
      BigInt(prompt - cached) * micros(inputRate) +
      BigInt(cached) * micros(cachedRate) +
      BigInt(output) * micros(outputRate);
    const ofFees = BigInt(way.searches ?? 0) * usd(searchFee);
    const cost = charge?.cost ?? (0n as PicoUsd);
    expect({ tokenCost, added, fees, charged }).toEqual({
      tokenCost: formatUsd(ofTokens as PicoUsd),
      added: formatUsd((cost - ofTokens - ofFees) as PicoUsd),
      fees: formatUsd(ofFees as PicoUsd),
      charged: formatUsd(cost),
    });
    expect(charge?.minimumApplied ?? false).toBe(cost > ofTokens + ofFees);
    if (way.status === undefined) expect(charge).toMatchObject({ source: "reported" });
    // A chat cannot limit its searches, so its hold does not cover their fees.
    if (charge !== undefined && way.searches === undefined) expect(charge.hold).toBeGreaterThanOrEqual(cost);
  });

  it("agrees with the ledger", async () => {
    expect((await proxy.serving.ledger.verify()).differences).toEqual([]);
  });
});
