import { completionTotal, promptTotal, type TokenCounts } from "../src/core/usage.ts";
import type { Chance } from "./world.ts";

/** Ways to state a usage. Each says exactly what the gateway bills. */
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

/** True if a vocabulary can state tokens that were written into a cache. */
export function statesWrites(vocabulary: Vocabulary): boolean {
  return vocabulary !== "gemini";
}

/** Returns the members of an answer, or of the last event of a stream, that state its usage. */
export function statementOf(
  vocabulary: Vocabulary,
  tokens: TokenCounts,
): { readonly usage?: object; readonly usageMetadata?: object } {
  const { input, cached_input: cached, cache_write: written, output, reasoning } = tokens;
  const [prompt, completion] = [promptTotal(tokens), completionTotal(tokens)];
  const total = prompt + completion;
  const beside = { cache_read_input_tokens: cached, cache_creation_input_tokens: written };
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
      return { usage: { input_tokens: input, ...beside, output_tokens: completion } };
    case "anthropic_split":
      return {
        usage: {
          input_tokens: input,
          ...beside,
          cache_creation: { ephemeral_5m_input_tokens: written, ephemeral_1h_input_tokens: 0 },
          output_tokens: completion,
        },
      };
    case "converted":
      return {
        usage: {
          prompt_tokens: prompt,
          ...beside,
          prompt_tokens_details: { cached_tokens: cached },
          completion_tokens: completion,
          total_tokens: total,
        },
      };
    case "converted_outside":
      return { usage: { prompt_tokens: input, ...beside, completion_tokens: completion, total_tokens: total } };
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
