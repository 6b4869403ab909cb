/** Tags attribute a charge: `name=value` pairs of the client's choosing, stored with it and never a metric label. */

/** How many a request may have. */
export const tagsMax = 8;

/** The length of a value, in bytes of UTF-8. */
export const tagValueBytesMax = 128;

/** Names as keys and teams have them. */
export function isTagName(text: string): boolean {
  return /^[a-z0-9][a-z0-9._-]{0,62}$/.test(text);
}

/** The tag that names the session of `farebox run` in which a request was made. */
export const sessionTag = "session";

/** Whether a value of the session's tag belongs to `farebox run`: only its credential may carry it. */
export function isRunSession(value: string): boolean {
  return /^run_[a-z0-9]{1,40}$/.test(value);
}

/** Returns the session of `farebox run` that tags name; null for none. */
export function runSessionOf(tags: Readonly<Record<string, string>>): string | null {
  const value = Object.hasOwn(tags, sessionTag) ? tags[sessionTag] : undefined;
  return value !== undefined && isRunSession(value) ? value : null;
}
