import { completionTotal, promptTotal, type TokenCounts } from "../src/core/usage.ts";
import type { Chance } from "./world.ts";

/** Formats in which the gateway reports usage. Each reports exactly what the gateway bills. */
export const vocabularies = [
  "chat",
  "responses",
  "anthropic",
  "anthropic_split",
  "converted",
  "converted_outside",
  "hit_and_miss",
  "gemini",
] as const;
export type Vocabulary = (typeof vocabularies)[number];

export function vocabularyOf(chance: Chance): Vocabulary {
  return chance.happens(0.5) ? "chat" : chance.pick(vocabularies);
}

/** True if a vocabulary can report tokens that were written into a cache. */
export function hasCacheWrites(vocabulary: Vocabulary): boolean {
  return vocabulary !== "gemini";
}

/** Returns the members that report usage in an answer or in the last event of a stream. */
export function usageMembersOf(
  vocabulary: Vocabulary,
  tokens: TokenCounts,
): { readonly usage?: object; readonly usageMetadata?: object } {
  const { input, cached_input: cached, cache_write: written, output, reasoning } = tokens;
  const [prompt, completion] = [promptTotal(tokens), completionTotal(tokens)];
  const total = prompt + completion;
  const cache = { cache_read_input_tokens: cached, cache_creation_input_tokens: written };
  switch (vocabulary) {
    case "chat":
      return {
        usage: {
          prompt_tokens: prompt,
          completion_tokens: completion,
          total_tokens: total,
          prompt_tokens_details: { cached_tokens: cached, ...(written > 0 && { cache_write_tokens: written }) },
          completion_tokens_details: { reasoning_tokens: reasoning },
        },
      };
    case "responses":
      return {
        usage: {
          input_tokens: prompt,
          output_tokens: completion,
          total_tokens: total,
          input_tokens_details: { cached_tokens: cached, ...(written > 0 && { cache_write_tokens: written }) },
          output_tokens_details: { reasoning_tokens: reasoning },
        },
      };
    case "anthropic":
      return { usage: { input_tokens: input, ...cache, output_tokens: completion } };
    case "anthropic_split":
      return {
        usage: {
          input_tokens: input,
          ...cache,
          cache_creation: { ephemeral_5m_input_tokens: written, ephemeral_1h_input_tokens: 0 },
          output_tokens: completion,
        },
      };
    case "converted":
      return {
        usage: {
          prompt_tokens: prompt,
          ...cache,
          prompt_tokens_details: { cached_tokens: cached },
          completion_tokens: completion,
          total_tokens: total,
        },
      };
    case "converted_outside":
      return { usage: { prompt_tokens: input, ...cache, completion_tokens: completion, total_tokens: total } };
    case "hit_and_miss":
      return {
        usage: {
          prompt_tokens: prompt,
          prompt_cache_hit_tokens: cached,
          prompt_cache_miss_tokens: prompt - cached,
          completion_tokens: completion,
          total_tokens: total,
          ...(written > 0 && { prompt_tokens_details: { cache_write_tokens: written } }),
        },
      };
    case "gemini":
      return {
        usageMetadata: {
          promptTokenCount: prompt,
          cachedContentTokenCount: cached,
          candidatesTokenCount: output,
          thoughtsTokenCount: reasoning,
          totalTokenCount: total,
        },
      };
  }
}
