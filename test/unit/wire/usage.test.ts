import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { noTokens, type TokenCounts } from "../../../src/core/usage.ts";
import { readUsage } from "../../../src/wire/usage.ts";
import { runs } from "../../support/effort.ts";

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
      writesAreUnsplit: true,
    });
    expect(
      readUsage({
        input_tokens: 10,
        output_tokens: 5,
        cache_creation_input_tokens: 50,
        cache_creation: { ephemeral_5m_input_tokens: 50 },
      }),
    ).not.toHaveProperty("writesAreUnsplit");
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

  const plain = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
  it.each<[string, object]>([
    ["at the top", { video_seconds: 3 }],
    ["in details", { prompt_tokens_details: { smell_tokens: 3 } }],
    ["in an object", { extra: { deep: [{ tokens: 3 }] } }],
    ["in a very deep object", { extra: JSON.parse("[".repeat(2000) + "]".repeat(2000)) }],
    ["of a modality", { promptTokensDetails: [{ modality: "SMELL", tokenCount: 3 }] }],
    ["of a modality that is not stated", { promptTokensDetails: [{}] }],
    ["instead of details", { prompt_tokens_details: 3 }],
    ["as a malformed part", { prompt_tokens_details: { cached_tokens: -1, audio_tokens: "3" } }],
    ["of further runs of the model", { iterations: [{ input_tokens: 3 }, { input_tokens: 4 }] }],
  ])("doubts an unknown count %s", (_, more) => {
    expect(readUsage({ ...plain, ...more })).toEqual({
      tokens: { ...noTokens, input: 10, output: 5 },
      clamped: false,
      doubts: ["usage_unknown_class"],
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
    for (const more of [
      { num_sources_used: 2 },
      { num_search_queries: 1 },
      { server_side_tool_usage_details: { x_search_calls: 1 } },
    ]) {
      expect(readUsage({ ...plain, ...more })?.doubts).toEqual(["hosted_tool"]);
    }
    expect(readUsage({ ...plain, num_sources_used: 0 })).not.toHaveProperty("doubts");
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
    ["a number in a text", { prompt_tokens: "10", completion_tokens: 5 }],
    ["a malformed total", { prompt_tokens: 10, completion_tokens: 5, total_tokens: "15" }],
    ["absurd", { prompt_tokens: 1e18, completion_tokens: 5 }],
    // It must not be read as a completion of 0.
    ["a total below the prompt, and no completion", { prompt_tokens: 10, total_tokens: 4 }],
  ])("rejects a usage that is %s", (_, usage) => {
    expect(readUsage(usage)).toBeUndefined();
  });
});

function expectPlain(stated: unknown, tokens: Partial<TokenCounts>): void {
  const { writesAreUnsplit: _, ...usage } = readUsage(stated) ?? {};
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

/** Returns true if the first never costs less, at any price with cached input at most at the input rate. */
function costsNoLess(read: TokenCounts, truth: TokenCounts): boolean {
  const { input, cached_input, ...rest } = truth;
  return (
    read.input >= input &&
    read.input + read.cached_input >= input + cached_input &&
    Object.entries(rest).every(([name, count]) => read[name as keyof TokenCounts] >= count)
  );
}
