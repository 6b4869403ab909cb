import { noTokens, type TokenCounts, type Unit } from "./tokens.ts";

/** What a usage object stated, as whole numbers; absent parts are undefined. Totals include their parts. */
export interface StatedUsage {
  readonly prompt: number;
  readonly completion: number | undefined;
  readonly total: number | undefined;
  readonly cached: number;
  readonly cacheWrite: number;
  readonly audioInput: number;
  readonly imageInput: number;
  readonly reasoning: number;
  readonly audioOutput: number;
  readonly imageOutput: number;
}

/** Disjoint token counts, and whether the statement contradicted itself and was read to the dearer side. */
export interface Usage {
  readonly tokens: TokenCounts;
  /** What was counted, where it is no tokens: such a usage is none for a model that is billed otherwise. */
  readonly unit?: Unit;
  readonly clamped: boolean;
}

/**
 * Takes a nested usage statement apart into disjoint classes; the one place that does.
 *
 * The completion is the larger of what is stated and total less prompt, because some conversions leave reasoning out.
 * Parts that exceed their whole are not believed: the whole grows to hold them, and the discounted part (cached) is
 * read as plain input, which is the dearer reading.
 */
export function decompose(stated: StatedUsage): Usage {
  const completion = Math.max(stated.completion ?? 0, (stated.total ?? 0) - stated.prompt);
  const dearPrompt = stated.cacheWrite + stated.audioInput + stated.imageInput;
  const promptClamped = dearPrompt + stated.cached > stated.prompt;
  const prompt = Math.max(stated.prompt, dearPrompt + stated.cached);
  const cached = promptClamped ? 0 : stated.cached;
  const completionParts = stated.reasoning + stated.audioOutput + stated.imageOutput;
  return {
    tokens: {
      ...noTokens,
      input: prompt - cached - dearPrompt,
      cached_input: cached,
      cache_write: stated.cacheWrite,
      audio_input: stated.audioInput,
      image_input: stated.imageInput,
      output: Math.max(completion - completionParts, 0),
      reasoning: stated.reasoning,
      audio_output: stated.audioOutput,
      image_output: stated.imageOutput,
    },
    clamped: promptClamped || completionParts > completion,
  };
}

/** The usage where it counts what the model is billed by; undefined where it does not. */
export function usageIn(unit: Unit, usage: Usage | undefined): Usage | undefined {
  return usage !== undefined && (usage.unit ?? "token") === unit ? usage : undefined;
}
