import { isObject, listOr } from "../json.ts";

/** Prompts without a chat around them. */
export interface PlainPrompts {
  readonly texts: readonly string[];
  /** Those that came as tokens. */
  readonly tokens: number;
  /** Number of prompts, at least 1: each has a context of its own. */
  readonly prompts: number;
  /** True if a part is neither text nor tokens, such as an image: its cost is unknown. */
  readonly hasParts: boolean;
}

/** One text, several, one list of tokens, or several: as the interface takes them. Anything else is one prompt without text. */
export function promptsOf(value: unknown): PlainPrompts {
  if (typeof value === "string") return { texts: [value], tokens: 0, prompts: 1, hasParts: false };
  if (!Array.isArray(value) || value.length === 0)
    return { texts: [], tokens: 0, prompts: 1, hasParts: isObject(value) };
  const hasParts = value.some(
    (item) => isObject(item) || listOr(item).some((part) => typeof part === "object" && part !== null),
  );
  const texts = value.filter((item) => typeof item === "string");
  if (value.every((item) => typeof item === "number")) return { texts, tokens: value.length, prompts: 1, hasParts };
  const tokens = value.reduce((sum: number, item) => sum + (Array.isArray(item) ? item.length : 0), 0);
  return { texts, tokens, prompts: value.length, hasParts };
}
