/** Prompts without a chat around them. */
export interface PlainPrompts {
  readonly texts: readonly string[];
  /** Those that came as tokens. */
  readonly tokens: number;
  /** How many there are, at least 1: each has a context of its own. */
  readonly prompts: number;
}

/** One text, several, one list of tokens, or several: as the interface takes them. Anything else is one prompt without text. */
export function promptsOf(value: unknown): PlainPrompts {
  if (typeof value === "string") return { texts: [value], tokens: 0, prompts: 1 };
  if (!Array.isArray(value) || value.length === 0) return { texts: [], tokens: 0, prompts: 1 };
  const texts = value.filter((item) => typeof item === "string");
  if (value.every((item) => typeof item === "number")) return { texts, tokens: value.length, prompts: 1 };
  const tokens = value.reduce((sum: number, item) => sum + (Array.isArray(item) ? item.length : 0), 0);
  return { texts, tokens, prompts: value.length };
}
