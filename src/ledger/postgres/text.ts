/**
 * Returns a text that PostgreSQL can store. It accepts neither NUL nor half of a surrogate pair, and clients and
 * gateways may put both into a name. Each is replaced by the replacement character.
 */
export function storable(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\u{FFFD}");
}

/** Escapes in JSON that PostgreSQL refuses. */
const refused = /\\u(0000|d[89a-f])/;

/** Returns JSON whose texts PostgreSQL can store. */
export function storableJson(value: unknown): string {
  const text = JSON.stringify(value);
  return refused.test(text)
    ? JSON.stringify(value, (_name, part: unknown) => (typeof part === "string" ? storable(part) : part))
    : text;
}
