/** Returns true for the name of an output maximum in any spelling, such as `maxOutputTokens`. */
export function isOutputMaximum(name: string): boolean {
  const letters = lettersOf(name);
  return maximums.has(letters) || /^max(?!chunk).*(?:token|output|length|len$)/.test(letters);
}

/**
 * Returns true for an output maximum or a model, and for ids of stored requests, whose maximums Farebox does not see.
 */
export function isOutputMember(name: string): boolean {
  return isOutputMaximum(name) || models.has(lettersOf(name));
}

function lettersOf(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z]/g, "");
}

/** Output maximums with other names than `max…`. */
const maximums: ReadonlySet<string> = new Set(["num predict", "n predict", "tokens to generate"].map(lettersOf));
/** Other names of models, and ids of stored requests. */
const models: ReadonlySet<string> = new Set(
  ["model", "model id", "model name", "input file id", "assistant id"].map(lettersOf),
);
