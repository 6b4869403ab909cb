import { noTokens } from "../core/tokens.ts";
import { decompose, type Usage } from "../core/usage.ts";
import { isObject, objectOr, type JsonObject } from "./json.ts";

/** More than any model can bill for one request; a larger number is no usage but noise. */
const tokensMax = 1_000_000_000;

/**
 * Reads a usage object of the chat or the responses vocabulary, or of a duration. Undefined where it is absent, empty, all zeros, or has a
 * negative, fractional or non-numeric total: an unknown usage is never taken for 0.
 */
export function readUsage(value: unknown): Usage | undefined {
  if (!isObject(value)) return undefined;
  if (value["type"] === "duration") return durationOf(value["seconds"]);
  const prompt = firstOf(value, ["prompt_tokens", "input_tokens"]);
  const completion = firstOf(value, ["completion_tokens", "output_tokens"]);
  const total = firstOf(value, ["total_tokens"]);
  if (!isCount(prompt)) return undefined;
  if (completion !== undefined && !isCount(completion)) return undefined;
  if (total !== undefined && !isCount(total)) return undefined;
  if (completion === undefined && (total === undefined || total < prompt)) return undefined;
  if (prompt + (completion ?? 0) + (total ?? 0) === 0) return undefined;

  const promptParts = objectOr(value["prompt_tokens_details"] ?? value["input_tokens_details"] ?? value["input_token_details"]);
  const completionParts = objectOr(value["completion_tokens_details"] ?? value["output_tokens_details"] ?? value["output_token_details"]);
  return decompose({
    prompt,
    completion,
    total,
    cached: part(promptParts, "cached_tokens"),
    cacheWrite: part(promptParts, "cache_creation_tokens") || part(promptParts, "cache_write_tokens"),
    audioInput: part(promptParts, "audio_tokens"),
    imageInput: part(promptParts, "image_tokens"),
    reasoning: part(completionParts, "reasoning_tokens"),
    audioOutput: part(completionParts, "audio_tokens"),
    imageOutput: part(completionParts, "image_tokens"),
  });
}

/** Seconds of sound; a part of one counts as a whole one. */
function durationOf(seconds: unknown): Usage | undefined {
  if (typeof seconds !== "number" || !(seconds > 0) || seconds > tokensMax) return undefined;
  return { tokens: { ...noTokens, audio_input: Math.ceil(seconds) }, clamped: false, unit: "second" };
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= tokensMax;
}

/** The first member that is stated; null counts as not stated. */
function firstOf(object: JsonObject, names: readonly string[]): unknown {
  for (const name of names) {
    const value = object[name];
    if (value !== undefined && value !== null) return value;
  }
  return undefined;
}

/** A malformed part counts as none: its tokens stay in the plain class of their whole. */
function part(object: JsonObject, name: string): number {
  const value = object[name];
  return isCount(value) ? value : 0;
}
