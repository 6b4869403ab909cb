/** Tags attribute a charge: `name=value` pairs of the client's choosing, stored with it and never a metric label. */

/** How many a request may have. */
export const tagsMax = 8;

/** The length of a value, in bytes of UTF-8. */
export const tagValueBytesMax = 128;

/** Names as keys and teams have them. */
export function isTagName(text: string): boolean {
  return /^[a-z0-9][a-z0-9._-]{0,62}$/.test(text);
}
