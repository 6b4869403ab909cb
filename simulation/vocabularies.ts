import { completionTotal, noTokens, promptTotal, tokenClasses, type TokenCounts } from "../src/core/usage.ts";
import type { Chance } from "./world.ts";

/** Formats in which the gateway reports usage. Each reports exactly what the gateway bills. */
export const vocabularies = [
  "chat",
  "responses",
  "anthropic",
  "anthropic_split",
  "anthropic_runs",
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

/** Runs of the model that the gateway bills separately. */
export interface Runs {
  /** Their sum is the usage of the answer. */
  readonly attempts: readonly TokenCounts[];
  /** Billed in addition; null for none. */
  readonly compaction: TokenCounts | null;
}

/** Divides the tokens of an answer between one to three runs. Some answers have a compaction before them. */
export function runsOf(tokens: TokenCounts, chance: Chance): Runs {
  const attempts: TokenCounts[] = [];
  let rest = tokens;
  for (let left = chance.between(0, 2); left > 0; left--) {
    const part = { ...noTokens };
    for (const name of tokenClasses) part[name] = rest[name] === 0 ? 0 : chance.below(rest[name]);
    if (promptTotal(part) + completionTotal(part) === 0) continue;
    attempts.push(part);
    rest = minus(rest, part);
  }
  const compaction = { ...noTokens, input: chance.between(1, 150), output: chance.between(1, 30) };
  return { attempts: [...attempts, rest], compaction: chance.happens(0.3) ? compaction : null };
}

function minus(one: TokenCounts, other: TokenCounts): TokenCounts {
  const tokens = { ...one };
  for (const name of tokenClasses) tokens[name] -= other[name];
  return tokens;
}

/** Returns the members that report usage in an answer or in the last event of a stream. */
export function usageMembersOf(
  vocabulary: Vocabulary,
  tokens: TokenCounts,
  { attempts, compaction }: Runs,
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
      return { usage: ownUsage(tokens) };
    case "anthropic_split":
      return {
        usage: {
          input_tokens: input,
          ...cache,
          cache_creation: { ephemeral_5m_input_tokens: written, ephemeral_1h_input_tokens: 0 },
          output_tokens: completion,
        },
      };
    case "anthropic_runs": {
      const iterations = [
        ...(compaction === null ? [] : [{ type: "compaction", ...ownUsage(compaction) }]),
        ...attempts.map((run) => ({ type: "message", ...ownUsage(run) })),
      ];
      return { usage: { ...ownUsage(tokens), iterations } };
    }
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

/** Returns a usage in Anthropic's words. */
function ownUsage(tokens: TokenCounts): object {
  return {
    input_tokens: tokens.input,
    cache_read_input_tokens: tokens.cached_input,
    cache_creation_input_tokens: tokens.cache_write,
    output_tokens: completionTotal(tokens),
  };
}

type WithOutput = { readonly output_tokens: number };

/** Returns the usage of the first event of a message: the prompt, an estimate of the output, and other terms. */
export function startUsageOf<Stated extends WithOutput>(tokens: TokenCounts, terms: Stated, isUnsplit: boolean) {
  const { cache_write: short, cache_write_1h: long } = tokens;
  const cache_creation = { ephemeral_5m_input_tokens: short, ephemeral_1h_input_tokens: long };
  return { ...promptUsageOf(tokens, "whole"), ...(!isUnsplit && { cache_creation }), ...terms };
}

/** Returns the prompt as the last event of a message states it, which does not say how long caches are kept. */
export function promptUsageOf(tokens: TokenCounts, how: "whole" | "null" | "absent" | "zero"): object {
  if (how === "absent") return {};
  const stated = (count: number) => (how === "whole" ? count : how === "zero" ? 0 : null);
  return {
    input_tokens: stated(tokens.input),
    cache_read_input_tokens: stated(tokens.cached_input),
    cache_creation_input_tokens: stated(tokens.cache_write + tokens.cache_write_1h),
  };
}

/** Returns one of the `iterations` of a message. */
export function iterationOf(tokens: TokenCounts, model: string | null, type: string): object {
  const output_tokens = completionTotal(tokens);
  return { type, ...(model !== null && { model }), ...startUsageOf(tokens, { output_tokens }, false) };
}
