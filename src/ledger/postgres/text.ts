/**
 * A text as PostgreSQL can hold it: neither the character of code 0 nor half of a surrogate pair is text to it, and clients and
 * gateways may put both into a name. Each becomes the character that stands for what cannot be shown.
 */
export function storable(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\u{FFFD}");
}

/** What `JSON.stringify` escapes beside other characters that cannot be printed, and PostgreSQL refuses. */
const refused = /\\u(0000|d[89a-f])/;

/** A value as JSON whose texts PostgreSQL can hold. */
export function storableJson(value: unknown): string {
  const text = JSON.stringify(value);
  return refused.test(text)
    ? JSON.stringify(value, (_name, part: unknown) => (typeof part === "string" ? storable(part) : part))
    : text;
}
