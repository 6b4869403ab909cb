import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { answeringGateway, type Answering } from "../support/answering-gateway.ts";
import { harness } from "../support/cli-harness.ts";
import { priceFolder } from "../support/price-files.ts";
import { startProxy } from "../support/running-proxy.ts";
import { stillClock } from "../support/still-clock.ts";
import { fetchAnswer } from "../support/wire-client.ts";

/*
 * Three gateways, each described by a price file of at most five lines. After 60 requests, the ledger, its budgets and
 * the report equal sums that this test computes itself, from rates that are written here.
 */

/** Rates in pico-USD per token: 2_500_000n is USD 2.50 for a million tokens. */
interface Rates {
  readonly input: bigint;
  readonly cached: bigint;
  readonly written: bigint;
  readonly writtenHour: bigint;
  readonly output: bigint;
}

interface Tariff {
  readonly rates: Rates;
  /** Rates of a request whose prompt has more than 200,000 tokens, if they differ. */
  readonly long?: Rates;
  /** Price of a web search, in pico-USD. */
  readonly search: bigint;
}

type Model = "gpt-4o" | "claude-opus-4-6" | "claude-sonnet-4-5" | "gemini-2.5-pro";

interface Gateway {
  readonly name: string;
  readonly file: string;
  /** Names that clients use for the models, in turn. */
  readonly spellings: Readonly<Record<Model, readonly string[]>>;
  readonly tariffs: Readonly<Record<Model, Tariff>>;
  /** Least charge of a request without the fees of tools, in pico-USD. */
  readonly minimum: bigint;
}

const rates = (input: bigint, cached: bigint, written: bigint, writtenHour: bigint, output: bigint): Rates => ({
  input,
  cached,
  written,
  writtenHour,
  output,
});

const spellings = {
  "gpt-4o": ["gpt-4o", "openai/gpt-4o", "GPT-4o", "gpt-4o-2024-11-20", "OpenAI/GPT-4O-2024-11-20"],
  "claude-opus-4-6": ["claude-opus-4-6", "anthropic/claude-opus-4-6", "Claude-Opus-4-6", "claude-opus-4.6"],
  "claude-sonnet-4-5": ["claude-sonnet-4-5", "Anthropic/Claude-Sonnet-4-5", "claude-sonnet-4-5-20250929"],
  "gemini-2.5-pro": ["gemini-2.5-pro", "models/gemini-2.5-pro", "google/Gemini-2.5-Pro"],
} as const;

const gateways: readonly Gateway[] = [
  {
    name: "OpenRouter-like",
    // Official prices of all classes. The gateway's own share is charged on credits, not on requests.
    file: `gateway:
  { fraction: "1", cached_input: official, cache_write: official, cache_write_1h: official,
    fees: { web_search_call: { usd: "0.02", input_tokens: 16000 } } }
`,
    spellings,
    tariffs: {
      "gpt-4o": { rates: rates(2_500_000n, 1_250_000n, 2_500_000n, 2_500_000n, 10_000_000n), search: 20_000_000_000n },
      "claude-opus-4-6": {
        rates: rates(5_000_000n, 500_000n, 6_250_000n, 10_000_000n, 25_000_000n),
        search: 20_000_000_000n,
      },
      "claude-sonnet-4-5": {
        rates: rates(3_000_000n, 300_000n, 3_750_000n, 6_000_000n, 15_000_000n),
        long: rates(6_000_000n, 600_000n, 7_500_000n, 12_000_000n, 22_500_000n),
        search: 20_000_000_000n,
      },
      "gemini-2.5-pro": {
        rates: rates(1_250_000n, 125_000n, 1_250_000n, 1_250_000n, 10_000_000n),
        long: rates(2_500_000n, 250_000n, 2_500_000n, 2_500_000n, 15_000_000n),
        search: 20_000_000_000n,
      },
    },
    minimum: 0n,
  },
  {
    name: "LiteLLM-like",
    // Own names, and a margin of a tenth on one family.
    file: `gateway: { fraction: "1", cached_input: official, cache_write: official }
groups: { margin: { fraction: "1.1" } }
models:
  gpt-4o: { change: { aliases: [team-large] } }
  "claude-*": { change: { group: margin } }
`,
    spellings: { ...spellings, "gpt-4o": [...spellings["gpt-4o"], "team-large", "Team-Large"] },
    tariffs: {
      "gpt-4o": { rates: rates(2_500_000n, 1_250_000n, 2_500_000n, 2_500_000n, 10_000_000n), search: 10_000_000_000n },
      "claude-opus-4-6": {
        rates: rates(5_500_000n, 550_000n, 6_875_000n, 11_000_000n, 27_500_000n),
        search: 11_000_000_000n,
      },
      "claude-sonnet-4-5": {
        rates: rates(3_300_000n, 330_000n, 4_125_000n, 6_600_000n, 16_500_000n),
        long: rates(6_600_000n, 660_000n, 8_250_000n, 13_200_000n, 24_750_000n),
        search: 11_000_000_000n,
      },
      "gemini-2.5-pro": {
        rates: rates(1_250_000n, 125_000n, 1_250_000n, 1_250_000n, 10_000_000n),
        long: rates(2_500_000n, 250_000n, 2_500_000n, 2_500_000n, 15_000_000n),
        search: 0n,
      },
    },
    minimum: 0n,
  },
  {
    name: "PiAPI-like",
    // The shipped table, which charges cached tokens as input, and the gateway's minimum.
    file: `gateway: { minimum: { usd: "0.005" } }
`,
    spellings,
    tariffs: {
      "gpt-4o": { rates: rates(1_250_000n, 1_250_000n, 1_250_000n, 1_250_000n, 5_000_000n), search: 5_000_000_000n },
      "claude-opus-4-6": {
        rates: rates(3_750_000n, 3_750_000n, 4_687_500n, 7_500_000n, 18_750_000n),
        search: 7_500_000_000n,
      },
      "claude-sonnet-4-5": {
        rates: rates(3_000_000n, 3_000_000n, 3_750_000n, 6_000_000n, 15_000_000n),
        long: rates(6_000_000n, 6_000_000n, 7_500_000n, 12_000_000n, 22_500_000n),
        search: 10_000_000_000n,
      },
      "gemini-2.5-pro": {
        rates: rates(1_250_000n, 1_250_000n, 1_250_000n, 1_250_000n, 10_000_000n),
        long: rates(2_500_000n, 2_500_000n, 2_500_000n, 2_500_000n, 15_000_000n),
        search: 0n,
      },
    },
    minimum: 5_000_000_000n,
  },
];

interface Used {
  readonly input: number;
  readonly cached: number;
  readonly written: number;
  readonly writtenHour: number;
  readonly output: number;
}

interface Sent {
  readonly what: "cached reads" | "cache writes" | "tier" | "minimum" | "stream";
  readonly model: Model;
  readonly used: Used;
  readonly stream: boolean;
  readonly searches: number;
}

const nothing = { input: 0, cached: 0, written: 0, writtenHour: 0, output: 0 } as const;

/** Returns `count` requests; `of` returns the parts of the request with this number, from 0. */
function some(
  what: Sent["what"],
  count: number,
  of: (index: number) => Pick<Sent, "model"> & { readonly used: Partial<Used>; readonly searches?: number },
): Sent[] {
  return Array.from({ length: count }, (_, index) => {
    const { model, used, searches = 0 } = of(index);
    return { what, model, used: { ...nothing, ...used }, stream: what === "stream", searches };
  });
}

const at = <T>(list: readonly [T, ...T[]], index: number): T => list[index % list.length] ?? list[0];

/** Numbers of tokens are odd, so that costs have digits in all places. */
const requests: readonly Sent[] = [
  ...some("cached reads", 20, (index) => ({
    model: at<Model>(["gpt-4o", "claude-opus-4-6", "gemini-2.5-pro", "claude-sonnet-4-5"], index),
    used: { input: 1013 + 7 * index, cached: 8009 + 111 * index, output: 301 + index },
  })),
  ...some("cache writes", 10, (index) => ({
    model: at<Model>(["claude-opus-4-6", "claude-sonnet-4-5"], index),
    used: {
      input: 17 + index,
      cached: 4001 + index,
      written: 2003 + 13 * index,
      writtenHour: index % 3 === 0 ? 0 : 501 + index,
      output: 99 + index,
    },
  })),
  // Prompts of 199,998 to 200,007 tokens: the second tier begins at 200,001.
  ...some("tier", 10, (index) => ({
    model: at<Model>(["gemini-2.5-pro", "claude-sonnet-4-5"], index),
    used: { input: 40_000, cached: 159_998 + index, output: 1001 + index },
  })),
  // Tiny requests, and three whose tokens cost less than the third gateway's minimum, exactly the minimum, and more.
  ...some("minimum", 10, (index) =>
    at<ReturnType<Parameters<typeof some>[2]>>(
      [
        { model: "gpt-4o", used: { input: 1, output: 1 } },
        { model: "gpt-4o", used: { input: 3, output: 999 } },
        { model: "gpt-4o", used: { input: 4, output: 999 } },
        { model: "gpt-4o", used: { input: 5, output: 999 } },
        { model: "claude-opus-4-6", used: { input: 3, cached: 5, output: 7 }, searches: 1 },
      ],
      index,
    ),
  ),
  ...some("stream", 10, (index) => ({
    model: at<Model>(["claude-opus-4-6", "gpt-4o", "gemini-2.5-pro"], index),
    used: { input: 701 + index, cached: 2003 + 31 * index, output: 57 + 300 * index },
    searches: index === 3 ? 2 : 0,
  })),
];

/** Computes a cost in whole pico-USD, with nothing of Farebox. */
function costOf({ tariffs, minimum }: Gateway, { model, used, searches }: Sent): bigint {
  const { rates: short, long = short, search } = tariffs[model];
  const prompt = used.input + used.cached + used.written + used.writtenHour;
  const rate = prompt > 200_000 ? long : short;
  const ofTokens = (Object.keys(nothing) as (keyof Used)[]).reduce(
    (sum, name) => sum + BigInt(used[name]) * rate[name],
    0n,
  );
  return (ofTokens > minimum ? ofTokens : minimum) + BigInt(searches) * search;
}

/** Returns usage as the model's provider reports it: Anthropic counts tokens of the cache outside of the prompt. */
function usageOf({ model, used, searches }: Sent): object {
  const { input, cached, written, writtenHour, output } = used;
  const tools = searches === 0 ? {} : { server_tool_use: { web_search_requests: searches } };
  if (model.startsWith("claude-")) {
    const cache_creation = { ephemeral_5m_input_tokens: written, ephemeral_1h_input_tokens: writtenHour };
    return {
      input_tokens: input,
      cache_read_input_tokens: cached,
      ...(written + writtenHour > 0 && { cache_creation }),
      output_tokens: output,
      ...tools,
    };
  }
  return {
    prompt_tokens: input + cached,
    prompt_tokens_details: { cached_tokens: cached },
    completion_tokens: output,
    total_tokens: input + cached + output,
    ...tools,
  };
}

interface Report {
  readonly rows: readonly { readonly model: string; readonly cost_usd: string }[];
  readonly total: { readonly cost_usd: string };
}

/** Reads an amount in USD with at most twelve decimals. */
function picoUsd(text: string): bigint {
  const [whole = "", decimals = ""] = text.split(".");
  return BigInt(whole + decimals.padEnd(12, "0"));
}

function answerOf(sent: Sent): Answering {
  const common = { model: sent.model, usage: usageOf(sent) };
  const choice = { index: 0, finish_reason: "stop" };
  if (!sent.stream) {
    const choices = [{ ...choice, message: { role: "assistant", content: "ok" } }];
    return { body: JSON.stringify({ object: "chat.completion", ...common, choices }) };
  }
  const chunk = { object: "chat.completion.chunk", model: sent.model };
  const chunks = [
    { ...chunk, choices: [{ ...choice, delta: { content: "ok" } }] },
    { ...chunk, ...common, choices: [] },
  ];
  const body = [...chunks.map((each) => JSON.stringify(each)), "[DONE]"].map((data) => `data: ${data}\n\n`).join("");
  return { headers: { "content-type": "text/event-stream" }, body };
}

const gatewaysPage = readFileSync(new URL("../../docs/gateways.md", import.meta.url), "utf8");

describe("a price file of five lines", () => {
  it("is tested with 60 requests", () => {
    const counts = Object.entries(Object.groupBy(requests, ({ what }) => what)).map(([what, of]) => [what, of.length]);
    expect(Object.fromEntries(counts)).toEqual({
      "cached reads": 20,
      "cache writes": 10,
      tier: 10,
      minimum: 10,
      stream: 10,
    });
  });

  it.each(gateways)("describes a gateway that is $name: each charge and their sum are exact", async (gateway) => {
    expect(gateway.file.trimEnd().split("\n").length).toBeLessThanOrEqual(5);
    expect(gatewaysPage).toContain(`\`\`\`yaml\n${gateway.file}\`\`\`\n`);
    let answer: Answering = {};
    await using server = await answeringGateway(() => answer);
    using folder = priceFolder(gateway.file);
    const day = Date.parse("2026-11-29T12:00:00Z");
    await using proxy = await startProxy({
      gatewayUrl: server.url,
      env: { FAREBOX_PRICING: folder.path, FAREBOX_PRESET: "piapi" },
      // Before any price that a later review of the shipped files adds.
      clock: { ...stillClock(), now: () => day },
    });
    // Soft, because a hard budget refuses searches whose number has no bound.
    await proxy.budget("all", "1000", "total", "soft");
    await proxy.budget("each-model", "1000", "1d", "soft");
    const asked: string[] = [];
    for (const [index, sent] of requests.entries()) {
      answer = answerOf(sent);
      const names = gateway.spellings[sent.model];
      const model = names[index % names.length] ?? sent.model;
      asked.push(model);
      const search = sent.searches === 0 ? {} : { web_search_options: {} };
      const messages = [{ role: "user", content: "hi" }];
      const body = { model, messages, max_tokens: 4000, stream: sent.stream, ...search };
      const { status } = await fetchAnswer(proxy, body);
      expect({ model, status }).toEqual({ model, status: 200 });
    }
    expect(new Set(asked)).toEqual(new Set(Object.values(gateway.spellings).flat()));

    const charges = await proxy.charges();
    const found = charges.map(({ model, cost, models, minimumApplied }, index) => ({
      what: requests[index]?.what,
      model,
      cost,
      models,
      minimumApplied,
    }));
    expect(found).toEqual(
      requests.map((sent, index) => ({
        what: sent.what,
        model: asked[index],
        cost: costOf(gateway, sent),
        // Budgets count the charge for the model's id, whatever the client called it.
        models: [sent.model],
        minimumApplied: costOf(gateway, sent) > costOf({ ...gateway, minimum: 0n }, sent),
      })),
    );
    const sumOf = (sent: readonly Sent[]) => sent.reduce((total, each) => total + costOf(gateway, each), 0n);
    const sum = sumOf(requests);
    expect(charges.reduce((total, { cost }) => total + (cost ?? 0n), 0n)).toBe(sum);
    expect(await proxy.serving.ledger.verify()).toEqual({ charges: requests.length, differences: [] });

    const sumsBy = (nameOf: (index: number) => string): [name: string, sum: bigint][] =>
      [...Map.groupBy(requests.keys(), nameOf)].map(([name, indexes]) => [
        name,
        sumOf(indexes.flatMap((index) => requests[index] ?? [])),
      ]);
    const windows = await proxy.serving.ledger.windows(day);
    expect(new Map(windows.map(({ subject, spent, held }) => [subject, { spent, held }]))).toEqual(
      new Map(
        [["", sum] as const, ...sumsBy((index) => requests[index]?.model ?? "")].map(([subject, spent]) => [
          subject,
          { spent, held: 0n },
        ]),
      ),
    );

    using commands = harness();
    commands.env = { FAREBOX_DATABASE: proxy.database };
    const span = ["--since", "2026-11-29", "--until", "2026-11-30"];
    const report = await commands.json<Report>("report", "--by", "model", ...span);
    // The report has a row for each name that clients used.
    expect(new Map(report.rows.map(({ model, cost_usd }) => [model, picoUsd(cost_usd)]))).toEqual(
      new Map(sumsBy((index) => asked[index] ?? "")),
    );
    expect(picoUsd(report.total.cost_usd)).toBe(sum);
  });
});
