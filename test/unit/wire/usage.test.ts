import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { usagesIn } from "../../../src/core/several-usages.ts";
import { completionTotal, noTokens, type Doubt, type TokenCounts, type Usage } from "../../../src/core/usage.ts";
import type { JsonObject } from "../../../src/wire/json.ts";
import { readUsage, readUsageOf } from "../../../src/wire/usage.ts";
import { runs } from "../../support/effort.ts";

const top = { input_tokens: 23_000, output_tokens: 1_000 };
const compaction = { type: "compaction", input_tokens: 180_000, output_tokens: 3_500 };
const withRuns = (iterations: readonly object[], totals: object = top) => ({ ...totals, iterations });

describe("readUsage", () => {
  it.each<[string, unknown, object]>([
    ["the chat vocabulary", { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }, { input: 10, output: 5 }],
    ["the responses vocabulary", { input_tokens: 10, output_tokens: 5, total_tokens: 15 }, { input: 10, output: 5 }],
    ["no total", { prompt_tokens: 10, completion_tokens: 5 }, { input: 10, output: 5 }],
    ["a total alone", { prompt_tokens: 10, total_tokens: 15 }, { input: 10, output: 5 }],
    ["a null completion", { prompt_tokens: 10, completion_tokens: null, total_tokens: 10 }, { input: 10 }],
    [
      "a total above prompt and completion",
      { prompt_tokens: 10, completion_tokens: 5, total_tokens: 100 },
      { input: 10, output: 90 },
    ],
    ["an empty prompt", { prompt_tokens: 0, completion_tokens: 5 }, { output: 5 }],
    [
      "the lifetimes of written tokens in details",
      {
        prompt_tokens: 100,
        completion_tokens: 5,
        prompt_tokens_details: {
          cached_tokens: 60,
          cache_creation_tokens: 30,
          cache_creation_token_details: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20 },
        },
      },
      { input: 10, cached_input: 60, cache_write: 10, cache_write_1h: 20, output: 5 },
    ],
    [
      "cached and written tokens",
      {
        prompt_tokens: 100,
        completion_tokens: 5,
        prompt_tokens_details: { cached_tokens: 60, cache_creation_tokens: 10 },
      },
      { input: 30, cached_input: 60, cache_write: 10, output: 5 },
    ],
    [
      "written tokens under the other name",
      { prompt_tokens: 100, completion_tokens: 5, prompt_tokens_details: { cache_write_tokens: 10 } },
      { input: 90, cache_write: 10, output: 5 },
    ],
    [
      "reasoning",
      { prompt_tokens: 1, completion_tokens: 50, completion_tokens_details: { reasoning_tokens: 40 } },
      { input: 1, output: 10, reasoning: 40 },
    ],
    [
      "details of the responses vocabulary",
      {
        input_tokens: 10,
        output_tokens: 5,
        input_tokens_details: { cached_tokens: 4 },
        output_tokens_details: { reasoning_tokens: 2 },
      },
      { input: 6, cached_input: 4, output: 3, reasoning: 2 },
    ],
    [
      "sound and pictures",
      {
        prompt_tokens: 10,
        completion_tokens: 10,
        prompt_tokens_details: { audio_tokens: 3, image_tokens: 2 },
        completion_tokens_details: { audio_tokens: 4, image_tokens: 1 },
      },
      { input: 5, audio_input: 3, image_input: 2, output: 5, audio_output: 4, image_output: 1 },
    ],
    [
      "details that are null",
      { prompt_tokens: 10, completion_tokens: 5, prompt_tokens_details: null, completion_tokens_details: null },
      { input: 10, output: 5 },
    ],
  ])("reads %s", (_, usage, tokens) => {
    expectPlain(usage, tokens);
  });

  it.each<[string, object, object]>([
    [
      "Anthropic's own",
      {
        input_tokens: 10,
        output_tokens: 5,
        cache_read_input_tokens: 600,
        cache_creation_input_tokens: 40,
        cache_creation: { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 10 },
        server_tool_use: { web_search_requests: 2 },
        service_tier: "standard",
        iterations: [{ type: "message", input_tokens: 10 }],
      },
      { input: 10, cached_input: 600, cache_write: 30, cache_write_1h: 10, output: 5 },
    ],
    [
      "Anthropic's own of a fully cached prompt",
      { input_tokens: 0, output_tokens: 5, cache_read_input_tokens: 600 },
      { cached_input: 600, output: 5 },
    ],
    [
      "Anthropic's own without the sum of writes",
      {
        input_tokens: 10,
        output_tokens: 5,
        cache_creation: { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 10 },
      },
      { input: 10, cache_write: 30, cache_write_1h: 10, output: 5 },
    ],
    [
      "Anthropic's, converted, with cached tokens inside the prompt",
      {
        prompt_tokens: 1000,
        completion_tokens: 5,
        cache_read_input_tokens: 600,
        cache_creation_input_tokens: 40,
        cache_creation: { ephemeral_5m_input_tokens: 40 },
      },
      { input: 360, cached_input: 600, cache_write: 40, output: 5 },
    ],
    [
      "Anthropic's, converted, with more cached tokens than the prompt",
      { prompt_tokens: 10, completion_tokens: 5, cache_read_input_tokens: 600 },
      { input: 10, cached_input: 600, output: 5 },
    ],
    [
      "Anthropic's, converted, with cached tokens outside the prompt by the total",
      { prompt_tokens: 1000, completion_tokens: 5, total_tokens: 1605, cache_read_input_tokens: 600 },
      { input: 1000, cached_input: 600, output: 5 },
    ],
    [
      "Anthropic's own, with cached tokens inside the prompt by the total",
      { input_tokens: 1000, output_tokens: 5, total_tokens: 1005, cache_read_input_tokens: 600 },
      { input: 400, cached_input: 600, output: 5 },
    ],
    [
      "Anthropic's, converted, with cached tokens in details and next to them",
      {
        prompt_tokens: 1000,
        completion_tokens: 5,
        total_tokens: 1005,
        prompt_tokens_details: { cached_tokens: 600, cached_creation_tokens: 40 },
        cache_read_input_tokens: 600,
        cache_creation_input_tokens: 40,
        claude_cache_creation_1_h_tokens: 40,
      },
      { input: 360, cached_input: 600, cache_write_1h: 40, output: 5 },
    ],
    [
      "Anthropic's, converted, in both vocabularies",
      {
        prompt_tokens: 1000,
        input_tokens: 360,
        completion_tokens: 5,
        output_tokens: 5,
        cache_read_input_tokens: 600,
        cache_creation: { ephemeral_5m_input_tokens: 40 },
      },
      { input: 360, cached_input: 600, cache_write: 40, output: 5 },
    ],
    [
      "in one vocabulary, with zeros in the other",
      { prompt_tokens: 0, completion_tokens: 0, input_tokens: 10, output_tokens: 5, total_tokens: 15 },
      { input: 10, output: 5 },
    ],
    [
      "one with more cached tokens in details than the prompt, outside it by the total",
      { prompt_tokens: 10, completion_tokens: 5, total_tokens: 105, prompt_tokens_details: { cached_tokens: 90 } },
      { input: 10, cached_input: 90, output: 5 },
    ],
    [
      "one with hidden reasoning and cached tokens",
      { prompt_tokens: 1000, completion_tokens: 5, total_tokens: 1095, cache_read_input_tokens: 600 },
      { input: 400, cached_input: 600, output: 95 },
    ],
    [
      "DeepSeek's",
      {
        prompt_tokens: 100,
        completion_tokens: 5,
        total_tokens: 105,
        prompt_cache_hit_tokens: 60,
        prompt_cache_miss_tokens: 40,
        prompt_tokens_details: { cached_tokens: 60 },
        completion_tokens_details: { reasoning_tokens: 2 },
      },
      { input: 40, cached_input: 60, output: 3, reasoning: 2 },
    ],
    [
      "Moonshot's",
      { prompt_tokens: 100, completion_tokens: 5, total_tokens: 105, cached_tokens: 60 },
      { input: 40, cached_input: 60, output: 5 },
    ],
    [
      "Qwen's",
      {
        prompt_tokens: 100,
        completion_tokens: 5,
        total_tokens: 105,
        prompt_tokens_details: {
          cached_tokens: 20,
          cache_creation_input_tokens: 30,
          cache_creation: { ephemeral_5m_input_tokens: 30 },
          cache_type: "ephemeral",
          text_tokens: 90,
          video_tokens: 10,
        },
      },
      { input: 40, cached_input: 20, cache_write: 30, image_input: 10, output: 5 },
    ],
    [
      "xAI's, with a completion without reasoning",
      {
        prompt_tokens: 28,
        completion_tokens: 4,
        total_tokens: 132,
        prompt_tokens_details: { text_tokens: 28, cached_tokens: 5 },
        completion_tokens_details: { reasoning_tokens: 100 },
        num_sources_used: 0,
        cost_in_usd_ticks: 12,
      },
      { input: 23, cached_input: 5, output: 4, reasoning: 100 },
    ],
    [
      "OpenRouter's",
      {
        prompt_tokens: 194,
        completion_tokens: 2,
        total_tokens: 196,
        cost: 1,
        is_byok: false,
        cost_details: { upstream_inference_cost: 19 },
        prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 100 },
      },
      { input: 94, cache_write: 100, output: 2 },
    ],
    [
      "Groq's",
      {
        prompt_tokens: 10,
        completion_tokens: 5,
        total_tokens: 15,
        queue_time: 1,
        prompt_time: 2,
        completion_time: 3,
        total_time: 6,
      },
      { input: 10, output: 5 },
    ],
    [
      "one with predictions",
      {
        prompt_tokens: 10,
        completion_tokens: 50,
        completion_tokens_details: { accepted_prediction_tokens: 10, rejected_prediction_tokens: 20 },
      },
      { input: 10, output: 50 },
    ],
    [
      "one with reasoning at the top",
      { prompt_tokens: 10, completion_tokens: 50, reasoning_tokens: 40 },
      { input: 10, output: 10, reasoning: 40 },
    ],
    [
      "one in camel case",
      { inputTokens: 10, outputTokens: 5, cacheReadInputTokens: 60, cacheWriteInputTokens: 7 },
      { input: 10, cached_input: 60, cache_write: 7, output: 5 },
    ],
    [
      "Gemini's",
      {
        promptTokenCount: 100,
        candidatesTokenCount: 5,
        thoughtsTokenCount: 20,
        toolUsePromptTokenCount: 7,
        cachedContentTokenCount: 30,
        totalTokenCount: 132,
        trafficType: "ON_DEMAND",
        promptTokensDetails: [
          { modality: "TEXT", tokenCount: 50 },
          { modality: "AUDIO", tokenCount: 20 },
          { modality: "IMAGE", tokenCount: 10 },
          { modality: "VIDEO", tokenCount: 15 },
          { modality: "DOCUMENT", tokenCount: 5 },
        ],
        cacheTokensDetails: [{ modality: "TEXT", tokenCount: 30 }],
        toolUsePromptTokensDetails: [{ modality: "TEXT", tokenCount: 7 }],
        candidatesTokensDetails: [{ modality: "IMAGE", tokenCount: 4 }, { modality: "TEXT" }],
      },
      { input: 27, cached_input: 30, audio_input: 20, image_input: 30, output: 1, reasoning: 20, image_output: 4 },
    ],
    [
      "Gemini's with underscores",
      {
        prompt_token_count: 100,
        candidates_token_count: 5,
        total_token_count: 105,
        prompt_tokens_details: [{ modality: "AUDIO", token_count: 40 }],
      },
      { input: 60, audio_input: 40, output: 5 },
    ],
    [
      "Bifrost's, whose cached tokens are reads and writes",
      {
        prompt_tokens: 12_000,
        completion_tokens: 200,
        total_tokens: 12_200,
        prompt_tokens_details: {
          cached_tokens: 10_500,
          cached_read_tokens: 500,
          cached_write_tokens: 10_000,
          cached_write_token_details: { cached_write_tokens_5m: 9_000, cached_write_tokens_1h: 1_000 },
        },
      },
      { input: 1_500, cached_input: 500, cache_write: 9_000, cache_write_1h: 1_000, output: 200 },
    ],
    [
      "Bifrost's, without reads",
      {
        prompt_tokens: 12_000,
        completion_tokens: 200,
        prompt_tokens_details: { cached_tokens: 10_000, cached_write_tokens: 10_000 },
      },
      { input: 2_000, cache_write: 10_000, output: 200 },
    ],
    [
      "Bifrost's, whose cached tokens are reads",
      {
        prompt_tokens: 254,
        completion_tokens: 45,
        prompt_tokens_details: { cached_tokens: 200, cached_read_tokens: 200, cached_write_tokens: 44 },
      },
      { input: 10, cached_input: 200, cache_write: 44, output: 45 },
    ],
    [
      "Bifrost's, next to the prompt",
      {
        input_tokens: 10,
        output_tokens: 5,
        cached_read_tokens: 60,
        cached_write_tokens_5m: 7,
        cached_write_tokens_1h: 8,
      },
      { input: 10, cached_input: 60, cache_write: 7, cache_write_1h: 8, output: 5 },
    ],
    [
      "LangChain's",
      {
        input_tokens: 100,
        output_tokens: 5,
        total_tokens: 105,
        input_token_details: { cache_read: 60, cache_creation: 10 },
      },
      { input: 30, cached_input: 60, cache_write: 10, output: 5 },
    ],
    [
      "Anthropic's own with thinking",
      { input_tokens: 10, output_tokens: 50, output_tokens_details: { thinking_tokens: 40 } },
      { input: 10, output: 10, reasoning: 40 },
    ],
    [
      "Perplexity's",
      {
        prompt_tokens: 33,
        completion_tokens: 7_000,
        total_tokens: 7_033,
        citation_tokens: 20_000,
        num_search_queries: 18,
        reasoning_tokens: 6_000,
      },
      { input: 20_033, output: 1_000, reasoning: 6_000 },
    ],
    [
      "one of texts",
      {
        prompt_tokens: "1000",
        completion_tokens: "50",
        total_tokens: "1050",
        prompt_tokens_details: { cached_tokens: "600" },
      },
      { input: 400, cached_input: 600, output: 50 },
    ],
    [
      "Gemini's of texts",
      {
        promptTokenCount: "100",
        candidatesTokenCount: "5",
        totalTokenCount: "105",
        promptTokensDetails: [{ modality: "AUDIO", tokenCount: "40" }],
      },
      { input: 60, audio_input: 40, output: 5 },
    ],
    [
      "Anthropic's with a compaction",
      withRuns([compaction, { type: "message", ...top }]),
      { input: 203_000, output: 4_500 },
    ],
    [
      "Anthropic's whose totals include a compaction",
      withRuns([compaction, { type: "message", ...top }], { input_tokens: 203_000, output_tokens: 4_500 }),
      { input: 203_000, output: 4_500 },
    ],
    [
      "Anthropic's with a declined attempt",
      withRuns([
        { type: "message", ...top, output_tokens: 9 },
        { type: "fallback_message", ...top, input_tokens: 9 },
        { type: "fallback_message", ...top },
      ]),
      { input: 23_000, output: 1_000 },
    ],
    [
      "Anthropic's with two attempts",
      withRuns([
        { type: "message", input_tokens: 20_000, output_tokens: 400 },
        { type: "message", input_tokens: 3_000, output_tokens: 600 },
      ]),
      { input: 23_000, output: 1_000 },
    ],
    [
      "Gemini's of an answer without candidates",
      { promptTokenCount: 100, totalTokenCount: 120, thoughtsTokenCount: 20 },
      { input: 100, reasoning: 20 },
    ],
  ])("reads a usage that is %s", (_, usage, tokens) => {
    expectPlain(usage, tokens);
  });

  it.each<[string, object, object]>([
    [
      "cached tokens beyond the prompt",
      { prompt_tokens: 10, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 90 } },
      { input: 100, output: 5 },
    ],
    [
      "cached tokens beyond a prompt that the total confirms",
      { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15, cache_read_input_tokens: 90 },
      { input: 100, output: 5 },
    ],
    [
      "cached sound that counts twice in the prompt",
      { prompt_tokens: 100, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 60, audio_tokens: 80 } },
      { input: 80, audio_input: 80, output: 5 },
    ],
    [
      "reasoning beyond the completion",
      { prompt_tokens: 10, completion_tokens: 5, completion_tokens_details: { reasoning_tokens: 9 } },
      { input: 10, output: 5, reasoning: 9 },
    ],
    [
      "two numbers of cached tokens",
      {
        prompt_tokens: 100,
        completion_tokens: 5,
        total_tokens: 105,
        prompt_tokens_details: { cached_tokens: 60 },
        cache_read_input_tokens: 50,
      },
      { input: 160, output: 5 },
    ],
    [
      "two numbers of written tokens",
      {
        prompt_tokens: 100,
        completion_tokens: 5,
        prompt_tokens_details: { cache_write_tokens: 60, cached_creation_tokens: 50 },
      },
      { input: 100, cache_write: 60, output: 5 },
    ],
    [
      "a total that fits cached tokens neither inside nor outside the prompt",
      { prompt_tokens: 100, completion_tokens: 5, total_tokens: 90, cache_read_input_tokens: 60 },
      { input: 160, output: 5 },
    ],
    [
      "a total that fits cached tokens both inside and outside the prompt",
      {
        prompt_tokens: 100,
        completion_tokens: 5,
        total_tokens: 165,
        cache_read_input_tokens: 60,
        completion_tokens_details: { reasoning_tokens: 60 },
      },
      { input: 160, output: 5, reasoning: 60 },
    ],
    [
      "details of one vocabulary and members of another",
      { input_tokens: 100, output_tokens: 5, cache_read_input_tokens: 60, input_tokens_details: { cached_tokens: 60 } },
      { input: 160, output: 5 },
    ],
    ["two prompts", { prompt_tokens: 100, input_tokens: 90, completion_tokens: 5 }, { input: 100, output: 5 }],
    [
      "two completions",
      { prompt_tokens: 100, completion_tokens: 5, output_tokens: 7, reasoning_tokens: 2 },
      { input: 100, output: 7, reasoning: 2 },
    ],
    [
      "hits and misses that are not the prompt",
      { prompt_tokens: 100, completion_tokens: 5, prompt_cache_hit_tokens: 60, prompt_cache_miss_tokens: 50 },
      { input: 170, output: 5 },
    ],
  ])("takes the more expensive reading of %s, with a doubt", (_, usage, tokens) => {
    expect(readUsage(usage)).toMatchObject({
      tokens: { ...noTokens, ...tokens },
      clamped: true,
      doubts: ["usage_contradicts"],
    });
  });

  it("doubts a total below its parts, and ignores it", () => {
    expect(readUsage({ prompt_tokens: 10, completion_tokens: 5, total_tokens: 3 })).toEqual({
      tokens: { ...noTokens, input: 10, output: 5 },
      clamped: false,
      doubts: ["usage_contradicts"],
    });
  });

  it("counts cache writes beyond their two kinds as one-hour writes", () => {
    const usage = {
      input_tokens: 10,
      output_tokens: 5,
      cache_creation_input_tokens: 50,
      cache_creation: { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 10 },
    };
    expect(readUsage(usage)).toMatchObject({
      tokens: { cache_write: 30, cache_write_1h: 20 },
      doubts: ["usage_contradicts"],
    });
    expect(readUsage({ ...usage, cache_creation_input_tokens: 35 })).toMatchObject({
      tokens: { cache_write: 30, cache_write_1h: 10 },
      doubts: ["usage_contradicts"],
    });
  });

  it("marks cache writes that no member splits", () => {
    expect(readUsage({ input_tokens: 10, output_tokens: 5, cache_creation_input_tokens: 50 })).toMatchObject({
      lacksCacheLifetime: true,
    });
    expect(
      readUsage({
        input_tokens: 10,
        output_tokens: 5,
        cache_creation_input_tokens: 50,
        cache_creation: { ephemeral_5m_input_tokens: 50 },
      }),
    ).not.toHaveProperty("lacksCacheLifetime");
  });

  it("counts cached sound and images at the full price, because they have no class of their own", () => {
    const usage = {
      promptTokenCount: 100,
      candidatesTokenCount: 5,
      totalTokenCount: 105,
      cachedContentTokenCount: 70,
      promptTokensDetails: [
        { modality: "TEXT", tokenCount: 20 },
        { modality: "AUDIO", tokenCount: 80 },
      ],
      cacheTokensDetails: [
        { modality: "TEXT", tokenCount: 10 },
        { modality: "AUDIO", tokenCount: 60 },
      ],
    };
    expect(readUsage(usage)).toEqual({
      tokens: { ...noTokens, input: 10, cached_input: 10, audio_input: 80, output: 5 },
      clamped: false,
      doubts: ["usage_unknown_class"],
    });
  });

  it.each<[string, object, object, readonly Doubt[]]>([
    [
      "only the runs that the totals leave out",
      withRuns([compaction]),
      { input: 203_000, output: 4_500 },
      ["usage_contradicts"],
    ],
    [
      "runs with more tokens than the totals",
      withRuns([
        { type: "message", input_tokens: 20_000, output_tokens: 900 },
        { input_tokens: 20_000, output_tokens: 0 },
      ]),
      { input: 40_000, output: 1_000 },
      ["usage_contradicts"],
    ],
    [
      "runs of an unknown kind",
      withRuns([
        { type: "message", ...top },
        { type: "advisor_message", input_tokens: 500, output_tokens: 7 },
      ]),
      { input: 23_500, output: 1_007 },
      ["usage_unknown_class"],
    ],
    [
      "runs with cache writes",
      withRuns([
        { type: "message", ...top },
        { ...compaction, cache_creation_input_tokens: 9, cache_read_input_tokens: 8 },
      ]),
      { input: 203_000, cached_input: 8, cache_write: 9, output: 4_500 },
      [],
    ],
    ["runs alone", { iterations: [{ type: "message", ...top }] }, { input: 23_000, output: 1_000 }, []],
  ])("adds the runs of the model if the usage states %s", (_, stated, tokens, doubts) => {
    const usage = readUsage(stated);
    expect(usage?.tokens).toEqual({ ...noTokens, ...tokens });
    expect(usage?.doubts ?? []).toEqual(doubts);
  });

  it.each<[string, object, object, readonly Doubt[]]>([
    ["the total alone", { total_tokens: 8 }, { input: 8 }, []],
    ["the prompt alone", { prompt_tokens: "8" }, { input: 8 }, []],
    ["a prompt of 0", { prompt_tokens: 0, total_tokens: 8 }, { input: 8 }, []],
    ["a prompt of null", { prompt_tokens: null, total_tokens: 8 }, { input: 8 }, []],
    ["another prompt than total", { prompt_tokens: 5, total_tokens: 8 }, { input: 8 }, ["usage_contradicts"]],
    ["a larger prompt than total", { input_tokens: 8, total_tokens: 5 }, { input: 8 }, ["usage_contradicts"]],
    ["Gemini's total", { totalTokenCount: 8 }, { input: 8 }, []],
    [
      "images",
      { prompt_tokens: 8, total_tokens: 8, prompt_tokens_details: { image_tokens: 3 } },
      { input: 5, image_input: 3 },
      [],
    ],
  ])("of an answer without output is its input if it states %s", (_, stated, tokens, doubts) => {
    const usage = readUsage(stated, "input");
    expect(usage?.tokens).toEqual({ ...noTokens, ...tokens });
    expect(usage?.doubts ?? []).toEqual(doubts);
    expect(readUsageOf({ usage: stated }, "input")).toEqual(usage);
  });

  const spoken = { prompt_tokens: 4, completion_tokens: 635 };
  const sound = { input: 4, audio_input: 2_625, output: 635 };
  it.each<[string, object, object, readonly Doubt[]]>([
    ["only in its total", { ...spoken, total_tokens: 3_264 }, sound, []],
    ["also in its total", { ...spoken, total_tokens: 3_264, input_token_details: { audio_tokens: 2_625 } }, sound, []],
    ["outside of its prompt", { ...spoken, input_token_details: { audio_tokens: 2_625 } }, sound, []],
    [
      "in its prompt",
      { ...spoken, prompt_tokens: 2_629, total_tokens: 3_264, input_token_details: { audio_tokens: 2_625 } },
      sound,
      [],
    ],
    [
      "in its prompt and in its total",
      { ...spoken, total_tokens: 3_264, input_token_details: { audio_tokens: 3 } },
      { input: 1, audio_input: 2_628, output: 635 },
      [],
    ],
    ["nowhere, with a total without a completion", { prompt_tokens: 4, total_tokens: 9 }, { input: 4, output: 5 }, []],
  ])("of a recording counts sound that is stated %s", (_, stated, tokens, doubts) => {
    const usage = readUsage(stated, "sound");
    expect(usage?.tokens).toEqual({ ...noTokens, ...tokens });
    expect(usage?.doubts ?? []).toEqual(doubts);
  });

  it.each<[string, object]>([
    ["a number", { seconds: 8.47 }],
    ["a decimal text", { seconds: "8.470000267028809" }],
    ["audio_seconds", { audio_seconds: 9 }],
    ["prompt_audio_seconds", { prompt_audio_seconds: "9" }],
    ["the duration", { type: "duration", duration: 8.2 }],
  ])("of a recording is a duration, stated as %s", (_, stated) => {
    const duration = { tokens: { ...noTokens, audio_input: 9 }, clamped: false, unit: "second" };
    expect(readUsage(stated, "sound")).toEqual(duration);
    const both = readUsage({ ...spoken, ...stated }, "sound");
    expect(both).toMatchObject({ tokens: { input: 4, output: 635 }, seconds: 9 });
    expect(usagesIn("second", both, [])).toEqual([duration]);
    expect(usagesIn("token", both, [])).toEqual([both]);
  });

  it("doubts two durations, and takes the longer one", () => {
    expect(readUsage({ seconds: 9, audio_seconds: 8 }, "sound")).toMatchObject({
      tokens: { audio_input: 9 },
      doubts: ["usage_contradicts"],
    });
  });

  const plain = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
  it.each<[string, object]>([
    ["at the top", { video_seconds: 3 }],
    ["of another unit in details", { prompt_tokens_details: { cache_ttl_seconds: 300, cached_requests: 1 } }],
    ["of another unit with a word of the prompt", { prompt_cost: 3, cache_read_ms: 4, input_characters: 9 }],
    ["of the output", { output_smell_tokens: 3, total_billed_tokens: 4, extra: { generated_tokens: 5 } }],
    ["in details of the output", { completion_tokens_details: { smell_tokens: 3 } }],
    ["in an object", { extra: { deep: [{ things: 3 }] } }],
    ["in a very deep object", { extra: JSON.parse("[".repeat(2000) + "]".repeat(2000)) }],
    ["of a modality that is not stated", { promptTokensDetails: [{}] }],
    ["instead of details", { prompt_tokens_details: 3 }],
    ["as a malformed part", { prompt_tokens_details: { cached_tokens: -1, audio_tokens: "3.5" } }],
    ["instead of runs of the model", { iterations: 3 }],
    ["of further runs of the model", { iterations: [{ input_tokens: 3 }, { input_tokens: 4 }] }],
  ])("doubts an unknown count %s", (_, more) => {
    expect(readUsage({ ...plain, ...more })).toEqual({
      tokens: { ...noTokens, input: 10, output: 5 },
      clamped: false,
      doubts: ["usage_unknown_class"],
    });
  });

  it.each<[string, object, Partial<TokenCounts>, number]>([
    ["in details", { prompt_tokens_details: { smell_tokens: 3 } }, { input: 10 }, 3],
    ["in details, as text", { prompt_tokens_details: { smell_tokens: "3" } }, { input: 10 }, 3],
    ["in an object in details", { prompt_tokens_details: { smells: { sweet: 1, sour: [2] } } }, { input: 10 }, 3],
    ["of a modality", { promptTokensDetails: [{ modality: "SMELL", tokenCount: 3 }] }, { input: 10 }, 3],
    [
      "in details of cached tokens",
      { cached_tokens: 4, cache_tokens_details: { smell_tokens: 3 } },
      { input: 9, cached_input: 1 },
      3,
    ],
    [
      "that overlaps cached tokens",
      { prompt_tokens_details: { cached_tokens: 8, smell_tokens: 5 } },
      { input: 7, cached_input: 3 },
      5,
    ],
    ["next to the prompt, which includes it by the total", { cache_smell_tokens: 3 }, { input: 10 }, 3],
    [
      "next to the prompt, which excludes it by the total",
      { cache_smell_tokens: 3, total_tokens: 18 },
      { input: 13 },
      3,
    ],
    ["next to the prompt, without a total", { cache_smell_tokens: 3, total_tokens: null }, { input: 13 }, 3],
    ["next to the prompt, and larger than it", { cacheSmellTokens: 13 }, { input: 23 }, 13],
    ["next to the prompt, in an object", { extra: { deep: [{ tokens: 3 }] } }, { input: 10 }, 3],
    [
      "of a lifetime of cache writes",
      { cache_creation: { ephemeral_24h_input_tokens: 3 }, total_tokens: 18 },
      { input: 13 },
      3,
    ],
    [
      "of a lifetime of cache writes, with their sum",
      {
        cache_creation_input_tokens: 5,
        cache_creation: { ephemeral_5m_input_tokens: 2, ephemeral_24h_input_tokens: 3 },
      },
      { input: 8, cache_write: 2 },
      3,
    ],
  ])("counts an unknown number of prompt tokens %s", (_, more, tokens, unknownInput) => {
    expect(readUsage({ ...plain, ...more })).toEqual({
      tokens: { ...noTokens, output: 5, ...tokens },
      clamped: false,
      doubts: ["usage_unknown_class"],
      unknownInput,
    });
  });

  it("adds an unknown number of tokens in the details of a prompt that is smaller", () => {
    expect(readUsage({ ...plain, prompt_tokens_details: { smell_tokens: 11 } })).toEqual({
      tokens: { ...noTokens, input: 21, output: 5 },
      clamped: true,
      doubts: ["usage_contradicts", "usage_unknown_class"],
      unknownInput: 11,
    });
  });

  it("does not doubt unknown zeros, fractions and texts", () => {
    const more = {
      video_seconds: 0,
      latency: 0.25,
      extra: { tier: "flex", deep: [0, null, true, "3"] },
      completion_tokens_details: [],
    };
    expect(readUsage({ ...plain, ...more })).toEqual({ tokens: { ...noTokens, input: 10, output: 5 }, clamped: false });
  });

  it("doubts calls that are billed next to tokens", () => {
    for (const more of [{ num_sources_used: 2 }, { server_side_tool_usage_details: { x_search_calls: 1 } }]) {
      expect(readUsage({ ...plain, ...more })?.doubts).toEqual(["hosted_tool"]);
    }
    expect(readUsage({ ...plain, num_sources_used: 0 })).not.toHaveProperty("doubts");
  });

  it("costs no less than the true usage if it states cache writes under unknown names", () => {
    const count = fc.nat(40);
    fc.assert(
      fc.property(
        fc.record({ input: count, cached: count, five: count, hour: fc.constant(0), output: count, reasoning: count }),
        fc.constantFrom(...unknownWrites),
        fc.record({ discount: fc.nat(10), premium: fc.nat(20) }),
        (truth, write, { discount, premium }) => {
          fc.pre(truth.input + truth.output > 0);
          const usage = readUsage(write(truth));
          if (usage === undefined) throw new Error("no usage");
          const { tokens, unknownInput = 0 } = usage;
          expect(unknownInput).toBeLessThanOrEqual(tokens.input);
          const cost = (input: number, cached: number, writes: number) =>
            input * 10 + cached * (10 - discount) + writes * (10 + premium);
          const written = tokens.cache_write + tokens.cache_write_1h + unknownInput;
          expect(cost(tokens.input - unknownInput, tokens.cached_input, written)).toBeGreaterThanOrEqual(
            cost(truth.input, truth.cached, truth.five),
          );
          expect(completionTotal(tokens)).toBeGreaterThanOrEqual(truth.output + truth.reasoning);
          if (truth.five > 0) expect(usage.doubts).toContain("usage_unknown_class");
        },
      ),
      { numRuns: runs(3000) },
    );
  });

  it("is exact, or costs no less than the true usage, in every vocabulary", () => {
    const count = fc.nat(40);
    fc.assert(
      fc.property(
        fc.record({ input: count, cached: count, five: count, hour: count, output: count, reasoning: count }),
        fc.constantFrom(...vocabularies),
        (truth, write) => {
          fc.pre(truth.input + truth.output > 0);
          const usage = readUsage(write(truth));
          const wanted = {
            ...noTokens,
            input: truth.input,
            cached_input: truth.cached,
            cache_write: truth.five,
            cache_write_1h: truth.hour,
            output: truth.output,
            reasoning: truth.reasoning,
          };
          if (usage?.doubts === undefined) expect(usage?.tokens).toEqual(wanted);
          else expect(costsNoLess(usage.tokens, wanted)).toBe(true);
        },
      ),
      { numRuns: runs(3000) },
    );
  });

  it.each<[string, unknown]>([
    ["absent", undefined],
    ["null", null],
    ["empty", {}],
    ["a list", [1, 2]],
    ["a text", "10"],
    [
      "all zeros next to details",
      { prompt_tokens: 0, completion_tokens: 0, prompt_tokens_details: { cached_tokens: 5 } },
    ],
    ["all zeros", { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }],
    ["nulls", { prompt_tokens: null, completion_tokens: null, total_tokens: null }],
    ["a prompt alone", { prompt_tokens: 10 }],
    ["a completion alone", { completion_tokens: 10 }],
    ["a total alone", { total_tokens: 10 }],
    ["negative", { prompt_tokens: -1, completion_tokens: 5 }],
    ["fractional", { prompt_tokens: 10, completion_tokens: 0.5 }],
    ["a fraction in a text", { prompt_tokens: "10.5", completion_tokens: 5 }],
    ["a negative number in a text", { prompt_tokens: "-1", completion_tokens: 5 }],
    ["an empty text", { prompt_tokens: "", completion_tokens: 5 }],
    ["a malformed total", { prompt_tokens: 10, completion_tokens: 5, total_tokens: "15 tokens" }],
    ["an absurd text", { prompt_tokens: "9999999999", completion_tokens: 5 }],
    ["a running time", { duration: 12, seconds: 3 }],
    ["absurd", { prompt_tokens: 1e18, completion_tokens: 5 }],
    // It must not be read as a completion of 0.
    ["a total below the prompt, and no completion", { prompt_tokens: 10, total_tokens: 4 }],
  ])("rejects a usage that is %s", (_, usage) => {
    expect(readUsage(usage)).toBeUndefined();
  });
});

describe("the usages that one event states", () => {
  const plain = { prompt_tokens: 9, completion_tokens: 5 };
  const cached = { ...plain, prompt_tokens_details: { cached_tokens: 4 } };
  const reasoned = { ...plain, completion_tokens_details: { reasoning_tokens: 3 } };
  const both = { input: 5, cached_input: 4, output: 2, reasoning: 3 };
  const doubted = ["usage_contradicts"];

  it.each<[string, object, Partial<TokenCounts>, string[] | undefined]>([
    [
      "with classes first",
      { usage: cached, x_groq: { usage: plain } },
      { input: 5, cached_input: 4, output: 5 },
      undefined,
    ],
    [
      "with classes last",
      { usage: plain, x_groq: { usage: cached } },
      { input: 5, cached_input: 4, output: 5 },
      undefined,
    ],
    ["with the classes of both", { usage: cached, meta: { usage: reasoned } }, both, undefined],
    ["with the classes of a choice", { usage: reasoned, choices: [{ usage: cached }] }, both, undefined],
    [
      "with a choice without classes",
      { usage: cached, choices: [{ usage: plain }] },
      { input: 5, cached_input: 4, output: 5 },
      undefined,
    ],
    [
      "in doubt if both have classes",
      { usage: cached, meta: { usage: { ...plain, prompt_tokens_details: { cached_tokens: 5 } } } },
      { input: 4, cached_input: 5, output: 5 },
      doubted,
    ],
    [
      "in doubt if the totals differ",
      { usage: cached, meta: { usage: { ...plain, prompt_tokens: 8 } } },
      { input: 8, output: 5 },
      doubted,
    ],
  ])("count once, %s", (_, event, tokens, doubts) => {
    const usage = readUsageOf(event as JsonObject);
    expect(usage?.tokens).toEqual({ ...noTokens, ...tokens });
    expect(usage?.doubts).toEqual(doubts);
  });
});

describe("readUsage of an answer that can be counted", () => {
  it.each<[object, Partial<TokenCounts>, Usage["unstated"]]>([
    [{ prompt_tokens: 9000 }, { input: 9000 }, "completion"],
    [
      { input_tokens: 10, cache_read_input_tokens: 90, output_tokens: null },
      { input: 10, cached_input: 90 },
      "completion",
    ],
    [{ output_tokens: 500 }, { output: 500 }, "prompt"],
    [{ candidatesTokenCount: 400, thoughtsTokenCount: 100 }, { output: 400, reasoning: 100 }, "prompt"],
    [{ completion_tokens: 500, total_tokens: 9500 }, { input: 9000, output: 500 }, "prompt"],
    [{ output_tokens: 500, other_input_tokens: 7 }, { output: 500 }, "prompt"],
    [{ output_tokens: 500, cache_read_input_tokens: 90 }, { output: 500 }, "prompt"],
    [{ prompt_tokens: 9, completion_tokens: 0 }, { input: 9 }, undefined],
    [{ prompt_tokens: 0, completion_tokens: 500, total_tokens: 500 }, { output: 500 }, "prompt"],
    [{ input_tokens: 0, cache_read_input_tokens: 9, output_tokens: 5 }, { cached_input: 9, output: 5 }, undefined],
  ])("accepts one side alone: %j", (stated, tokens, unstated) => {
    const usage = readUsage(stated, "part");
    expect(usage?.tokens).toEqual({ ...noTokens, ...tokens });
    expect(usage?.unstated).toBe(unstated);
    expect(usage).not.toHaveProperty("unknownInput");
  });

  it.each<object>([
    { total_tokens: 10 },
    { prompt_tokens: 0 },
    { completion_tokens: 0 },
    { prompt_tokens: -1, completion_tokens: 5 },
    { prompt_tokens: 10, total_tokens: 4 },
  ])("rejects %j", (stated) => {
    expect(readUsage(stated, "part")).toBeUndefined();
  });
});

function expectPlain(stated: unknown, tokens: Partial<TokenCounts>): void {
  const { lacksCacheLifetime: _, runs: __, ...usage } = readUsage(stated) ?? {};
  expect(usage).toEqual({ tokens: { ...noTokens, ...tokens }, clamped: false });
}

interface Truth {
  readonly input: number;
  readonly cached: number;
  readonly five: number;
  readonly hour: number;
  readonly output: number;
  readonly reasoning: number;
}

const split = ({ five, hour }: Truth) => ({ ephemeral_5m_input_tokens: five, ephemeral_1h_input_tokens: hour });
const cacheAtTop = (truth: Truth) => ({
  cache_read_input_tokens: truth.cached,
  cache_creation_input_tokens: truth.five + truth.hour,
  cache_creation: split(truth),
});
const whole = ({ input, cached, five, hour }: Truth) => input + cached + five + hour;
const written = ({ output, reasoning }: Truth) => output + reasoning;

/** Functions that state one usage in the format of several interfaces. */
const vocabularies: readonly ((truth: Truth) => object)[] = [
  (truth) => ({
    input_tokens: truth.input,
    output_tokens: written(truth),
    reasoning_tokens: truth.reasoning,
    ...cacheAtTop(truth),
  }),
  (truth) => ({
    input_tokens: truth.input,
    output_tokens: written(truth),
    total_tokens: whole(truth) + written(truth),
    reasoning_tokens: truth.reasoning,
    ...cacheAtTop(truth),
  }),
  (truth) => ({
    prompt_tokens: truth.input,
    completion_tokens: written(truth),
    total_tokens: whole(truth) + written(truth),
    reasoning_tokens: truth.reasoning,
    ...cacheAtTop(truth),
  }),
  (truth) => ({
    prompt_tokens: whole(truth),
    completion_tokens: written(truth),
    total_tokens: whole(truth) + written(truth),
    reasoning_tokens: truth.reasoning,
    ...cacheAtTop(truth),
  }),
  (truth) => ({
    prompt_tokens: whole(truth),
    completion_tokens: truth.output,
    total_tokens: whole(truth) + written(truth),
    completion_tokens_details: { reasoning_tokens: truth.reasoning },
    ...cacheAtTop(truth),
  }),
  (truth) => ({
    prompt_tokens: whole(truth),
    completion_tokens: written(truth),
    total_tokens: whole(truth) + written(truth),
    prompt_tokens_details: { cached_tokens: truth.cached, cache_creation: split(truth) },
    completion_tokens_details: { reasoning_tokens: truth.reasoning },
  }),
  (truth) => ({
    prompt_tokens: whole(truth),
    completion_tokens: written(truth),
    reasoning_tokens: truth.reasoning,
    prompt_cache_hit_tokens: truth.cached,
    prompt_cache_miss_tokens: whole(truth) - truth.cached,
    cache_creation: split(truth),
  }),
  (truth) => ({
    promptTokenCount: whole(truth),
    cachedContentTokenCount: truth.cached,
    candidatesTokenCount: truth.output,
    thoughtsTokenCount: truth.reasoning,
    totalTokenCount: whole(truth) + written(truth),
    promptTokensDetails: { cacheCreation: split(truth) },
  }),
];

/** Functions that state cache writes (`five`) under names that Farebox does not know. */
const unknownWrites: readonly ((truth: Truth) => object)[] = [false, true].flatMap((hasTotal) => {
  const sum = (truth: Truth) => (hasTotal ? { total_tokens: whole(truth) + written(truth) } : {});
  const prompt = (truth: Truth) => ({
    prompt_tokens: whole(truth),
    completion_tokens: written(truth),
    reasoning_tokens: truth.reasoning,
    ...sum(truth),
  });
  const rest = (truth: Truth) => ({
    input_tokens: truth.input,
    output_tokens: written(truth),
    cache_read_input_tokens: truth.cached,
    ...sum(truth),
  });
  return [
    (truth: Truth) => ({
      ...prompt(truth),
      prompt_tokens_details: { cached_tokens: truth.cached, cache_stored_tokens: truth.five },
    }),
    (truth: Truth) => ({
      ...prompt(truth),
      prompt_tokens_details: { cached_tokens: truth.cached + truth.five, stored: { week: truth.five } },
    }),
    (truth: Truth) => ({ ...prompt(truth), cached_tokens: truth.cached, cacheStored: truth.five }),
    (truth: Truth) => ({ ...rest(truth), cache_stored_tokens: truth.five }),
    (truth: Truth) => ({ ...rest(truth), cache_stored: { tokens: { week: [`${truth.five}`] } } }),
    (truth: Truth) => ({ ...rest(truth), cache_creation: { ephemeral_1w_input_tokens: truth.five } }),
    (truth: Truth) => ({
      ...rest(truth),
      cache_creation_input_tokens: truth.five,
      cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1w_input_tokens: truth.five },
    }),
  ];
});

/** Returns true if the first never costs less, at any price with cached input at most at the input rate. */
function costsNoLess(read: TokenCounts, truth: TokenCounts): boolean {
  const { input, cached_input, ...rest } = truth;
  return (
    read.input >= input &&
    read.input + read.cached_input >= input + cached_input &&
    Object.entries(rest).every(([name, count]) => read[name as keyof TokenCounts] >= count)
  );
}
