import { describe, expect, it } from "vitest";
import { costOf } from "../../../src/core/cost.ts";
import type { PicoUsd, PicoUsdPerToken } from "../../../src/core/money.ts";
import { noTokens, type Doubt, type TokenClass, type TokenCounts } from "../../../src/core/usage.ts";
import { usageFor } from "../../../src/request/charged-usage.ts";
import { endpoints } from "../../../src/wire/endpoints/endpoints.ts";
import { model, pinned, request } from "./examples.ts";

const chat = "/v1/chat/completions";
const recording = "/v1/audio/transcriptions";
const embeddings = "/v1/embeddings";

/** Rates in USD for a million tokens, and the classes of a prompt. */
const prices: Readonly<Record<string, { rates: Partial<TokenCounts>; prompt: readonly TokenClass[] }>> = {
  [chat]: {
    rates: { input: 3, cached_input: 0.3, cache_write: 3.75, cache_write_1h: 6, audio_input: 3, output: 15 },
    prompt: ["input", "cached_input", "cache_write"],
  },
  [recording]: { rates: { input: 2.5, audio_input: 6, output: 10 }, prompt: ["input", "cached_input", "audio_input"] },
  [embeddings]: { rates: { input: 0.02 }, prompt: ["input", "cached_input"] },
};
const fee = 10_000_000_000n as PicoUsd;

/** Returns the cost of an answer in micro-USD, and the doubts of its usage. */
function charged(route: string, body: object) {
  const reader = endpoints.find((endpoint) => endpoint.route === route)?.answerReader();
  reader?.push(
    Buffer.from(JSON.stringify({ choices: [{ message: { content: "Hi" } }], data: [], text: "Hi", ...body })),
  );
  const answer = reader?.end();
  const { rates, prompt } = prices[route] ?? { rates: {}, prompt: [] };
  const perToken = Object.fromEntries(
    Object.entries({ ...noTokens, ...rates }).map(([name, usd]) => [name, BigInt(usd * 1_000_000) as PicoUsdPerToken]),
  ) as Record<TokenClass, PicoUsdPerToken>;
  const price = pinned({
    tiers: [{ fromPromptTokens: 0, charged: perToken, list: perToken }],
    fees: { web_search_call: { charged: fee, list: fee, inputTokens: 0 } },
  });
  const asked = request({
    classes: { prompt, completion: ["output"] },
    size: { audioParts: route === recording ? 1 : 0 },
  });
  const usage = usageFor(
    {
      model: model({ price }),
      request: asked,
      billed: [{ servedPrice: null, billing: undefined }],
      runPrice: () => ({ isOther: false, price: null }),
    },
    answer?.usage,
  );
  if (usage === undefined) return undefined;
  const cost = costOf(price.version, usage.tokens, { serviceTier: null, calls: answer?.toolCalls ?? {} }).charged;
  return { microUsd: Number(cost) / 1_000_000, doubts: usage.doubts ?? [] };
}

describe("an answer is charged", () => {
  const input = { input_tokens: 2_000, output_tokens: 200 };
  const whole = { prompt_tokens: 12_000, completion_tokens: 200, total_tokens: 12_200 };
  const top = { input_tokens: 23_000, output_tokens: 1_000 };
  const message = { type: "message", ...top };
  const compaction = { type: "compaction", input_tokens: 180_000, output_tokens: 3_500 };
  const searched = { prompt_tokens: 600, completion_tokens: 200 };
  const small = { prompt_tokens: 34, completion_tokens: 10 };
  const unknown: readonly Doubt[] = ["usage_unknown_class"];
  const store = "under an unknown name";

  it.each<[what: string, microUsd: number, doubts: readonly Doubt[], body: object]>([
    [
      "for its cache writes, in Bifrost's words",
      46_500,
      [],
      {
        usage: {
          ...whole,
          prompt_tokens_details: {
            cached_tokens: 10_000,
            cached_read_tokens: 0,
            cached_write_tokens: 10_000,
            cached_write_token_details: { cached_write_tokens_5m: 10_000, cached_write_tokens_1h: 0 },
          },
        },
      },
    ],
    [`for its cache writes, ${store}`, 46_500, unknown, { usage: { ...input, cache_store_tokens: 10_000 } }],
    [
      `for its cache writes, ${store} and in the total`,
      46_500,
      unknown,
      { usage: { ...input, total_tokens: 12_200, cacheStore: { tokens: "10000" } } },
    ],
    [
      `for its cache writes, ${store} in the prompt`,
      46_500,
      unknown,
      { usage: { ...whole, cache_store_tokens: 10_000 } },
    ],
    [
      `for its cache writes, ${store} in the details and in the cached tokens`,
      46_500,
      unknown,
      { usage: { ...whole, prompt_tokens_details: { cached_tokens: 10_000, stored_tokens: 10_000 } } },
    ],
    [
      "for its cache writes, of an unknown lifetime",
      46_500,
      unknown,
      { usage: { ...input, cache_creation: { ephemeral_24h_input_tokens: 10_000 } } },
    ],
    ["for its compaction", 676_500, [], { usage: { ...top, iterations: [compaction, message] } }],
    [
      "for its compaction, as the only run",
      676_500,
      ["usage_contradicts"],
      { usage: { ...top, iterations: [compaction] } },
    ],
    [
      "for no declined attempt",
      84_000,
      [],
      {
        usage: {
          ...top,
          iterations: [
            { ...message, input_tokens: 99 },
            { ...message, type: "fallback_message" },
          ],
        },
      },
    ],
    ["for its searches, in Perplexity's words", 54_800, [], { usage: { ...searched, num_search_queries: 5 } }],
    [
      "for its searches, in camel case",
      54_800,
      [],
      { usage: { ...searched, serverToolUse: { webSearchRequests: 5 } } },
    ],
    [
      "for its searches, as text",
      54_800,
      [],
      { usage: { ...searched, server_tool_use: { web_search_requests: "5" } } },
    ],
    ["for its citations", 64_800, [], { usage: { ...searched, citation_tokens: 20_000, total_tokens: 800 } }],
    ["by the usage of its choice", 252, [], { choices: [{ usage: small }] }],
    ["by the usages of its choices", 402, ["usage_contradicts"], { choices: [{ usage: small }, { usage: small }] }],
    [
      "by the usage of the answer that its choices agree with",
      402,
      [],
      { usage: { prompt_tokens: 34, completion_tokens: 20 }, choices: [{ usage: small }, { usage: small }] },
    ],
    ["by the usage in a delta", 252, [], { choices: [{ delta: { usage: small } }] }],
    ["by Groq's usage", 252, [], { x_groq: { usage: small } }],
    ["by the usage in its metadata", 252, [], { meta: { usage: small } }],
    ["by counts that are texts", 4_500, [], { usage: { prompt_tokens: "1000", completion_tokens: "100" } }],
  ])("%s", (_what, microUsd, doubts, body) => {
    expect(charged(chat, body)).toEqual({ microUsd, doubts });
  });

  it.each<[what: string, microUsd: number, doubts: readonly Doubt[], usage: object]>([
    ["only in the total", 300, [], { prompt_tokens: 4, completion_tokens: 5, total_tokens: 49 }],
    [
      "in the total and in the details",
      300,
      [],
      { prompt_tokens: 4, completion_tokens: 5, total_tokens: 49, prompt_tokens_details: { audio_tokens: 40 } },
    ],
    [
      "only in the details",
      300,
      [],
      { prompt_tokens: 4, completion_tokens: 5, prompt_tokens_details: { audio_tokens: 40 } },
    ],
    ["under an unknown name", 300, unknown, { prompt_tokens: 4, completion_tokens: 5, heard_tokens: 40 }],
    [
      "under an unknown name, in the total",
      300,
      unknown,
      { prompt_tokens: 4, completion_tokens: 5, total_tokens: 49, heard_tokens: 40 },
    ],
  ])("for its sound, once, if it is stated %s", (_what, microUsd, doubts, usage) => {
    expect(charged(recording, { usage })).toEqual({ microUsd, doubts });
  });

  it.each<[object]>([
    [{ total_tokens: 1_000 }],
    [{ prompt_tokens: "1000" }],
    [{ prompt_tokens: 0, total_tokens: 1_000 }],
  ])("for the input of embeddings: %j", (usage) => {
    expect(charged(embeddings, { usage })).toEqual({ microUsd: 20, doubts: [] });
  });
});
