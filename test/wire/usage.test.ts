import { describe, expect, it } from "vitest";
import { noTokens } from "../../src/core/tokens.ts";
import { readUsage } from "../../src/wire/usage.ts";

describe("readUsage", () => {
  it.each<[string, unknown, object]>([
    ["the chat vocabulary", { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }, { input: 10, output: 5 }],
    ["the responses vocabulary", { input_tokens: 10, output_tokens: 5, total_tokens: 15 }, { input: 10, output: 5 }],
    ["no total", { prompt_tokens: 10, completion_tokens: 5 }, { input: 10, output: 5 }],
    ["a total alone", { prompt_tokens: 10, total_tokens: 15 }, { input: 10, output: 5 }],
    ["a null completion", { prompt_tokens: 10, completion_tokens: null, total_tokens: 10 }, { input: 10 }],
    ["a total that tells more", { prompt_tokens: 10, completion_tokens: 5, total_tokens: 100 }, { input: 10, output: 90 }],
    ["a total that tells less", { prompt_tokens: 10, completion_tokens: 5, total_tokens: 3 }, { input: 10, output: 5 }],
    ["an empty prompt", { prompt_tokens: 0, completion_tokens: 5 }, { output: 5 }],
    ["cached and written tokens", { prompt_tokens: 100, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 60, cache_creation_tokens: 10 } }, { input: 30, cached_input: 60, cache_write: 10, output: 5 }],
    ["written tokens under the other name", { prompt_tokens: 100, completion_tokens: 5, prompt_tokens_details: { cache_write_tokens: 10 } }, { input: 90, cache_write: 10, output: 5 }],
    ["reasoning", { prompt_tokens: 1, completion_tokens: 50, completion_tokens_details: { reasoning_tokens: 40 } }, { input: 1, output: 10, reasoning: 40 }],
    ["details of the responses vocabulary", { input_tokens: 10, output_tokens: 5, input_tokens_details: { cached_tokens: 4 }, output_tokens_details: { reasoning_tokens: 2 } }, { input: 6, cached_input: 4, output: 3, reasoning: 2 }],
    ["sound and pictures", { prompt_tokens: 10, completion_tokens: 10, prompt_tokens_details: { audio_tokens: 3, image_tokens: 2 }, completion_tokens_details: { audio_tokens: 4, image_tokens: 1 } }, { input: 5, audio_input: 3, image_input: 2, output: 5, audio_output: 4, image_output: 1 }],
    ["details that are null", { prompt_tokens: 10, completion_tokens: 5, prompt_tokens_details: null, completion_tokens_details: null }, { input: 10, output: 5 }],
    ["malformed details", { prompt_tokens: 10, completion_tokens: 5, prompt_tokens_details: { cached_tokens: -1, audio_tokens: "3" }, completion_tokens_details: [] }, { input: 10, output: 5 }],
  ])("reads %s", (_, usage, tokens) => {
    expect(readUsage(usage)).toEqual({ tokens: { ...noTokens, ...tokens }, clamped: false });
  });

  it("reads parts beyond their whole to the dearer side, and says so", () => {
    expect(readUsage({ prompt_tokens: 10, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 90 } })).toEqual({ tokens: { ...noTokens, input: 90, output: 5 }, clamped: true });
    expect(readUsage({ prompt_tokens: 10, completion_tokens: 5, completion_tokens_details: { reasoning_tokens: 9 } })).toEqual({ tokens: { ...noTokens, input: 10, reasoning: 9 }, clamped: true });
  });

  it.each<[string, unknown]>([
    ["absent", undefined],
    ["null", null],
    ["empty", {}],
    ["a list", [1, 2]],
    ["a text", "10"],
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
    // It was read as a completion of 0.
    ["a total below the prompt, and no completion", { prompt_tokens: 10, total_tokens: 4 }],
  ])("does not believe one that is %s", (_, usage) => {
    expect(readUsage(usage)).toBeUndefined();
  });
});
