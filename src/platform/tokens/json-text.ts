/**
 * The JSON text of a value, for counting only. `JSON.parse` reads nesting of any depth, `JSON.stringify` overflows the
 * stack on some thousands of levels: such a value, or one that is no JSON, is written flat instead.
 */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "";
  } catch {
    return flatText(value);
  }
}

/** Every key and leaf, with a pair of brackets for each level: about as many tokens as its JSON text. */
function flatText(value: unknown): string {
  const parts: string[] = [];
  const seen = new Set<object>();
  const open: unknown[] = [value];
  while (open.length > 0) {
    const next = open.pop();
    if (typeof next !== "object" || next === null) {
      parts.push(`${JSON.stringify(String(next))},`);
    } else if (!seen.has(next)) {
      seen.add(next);
      parts.push("[]");
      for (const [key, inner] of Object.entries(next)) {
        if (!Array.isArray(next)) parts.push(`${JSON.stringify(key)}:`);
        open.push(inner);
      }
    }
  }
  return parts.join("");
}
