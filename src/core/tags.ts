/**
 * Tags attribute a charge: `name=value` pairs that the client chooses. They are stored with it and are never metric
 * labels.
 */

/** Most tags of a request. */
export const tagsMax = 8;

/** The length of a value, in bytes of UTF-8. */
export const tagValueBytesMax = 128;

/** Names as keys and teams have them. */
export function isTagName(text: string): boolean {
  return /^[a-z0-9][a-z0-9._-]{0,62}$/.test(text);
}

/** The tag that names the session of `farebox run` in which a request was made. */
export const sessionTag = "session";

/** Reports that a value of the session tag belongs to `farebox run`: only its credential may use it. */
export function isRunSession(value: string): boolean {
  return /^run_[a-z0-9]{1,40}$/.test(value);
}

/** Returns the session of `farebox run` that tags name; null for none. */
export function runSessionOf(tags: Readonly<Record<string, string>>): string | null {
  const value = Object.hasOwn(tags, sessionTag) ? tags[sessionTag] : undefined;
  return value !== undefined && isRunSession(value) ? value : null;
}
