import { keyFacts } from "../core/audit.ts";
import { isLive, type Key } from "../core/keys.ts";

/** A key as `keys list` and the admin API give it. */
export function keyJson(key: Key, now: number) {
  const state = key.revokedAt !== null ? "revoked" : isLive(key, now) ? "live" : "expired";
  return { ...keyFacts(key), state };
}

/** A key that was just made, with its text: the only time that this is shown. */
export function newKeyJson(key: Key, text: string) {
  const { id, name, ...facts } = keyFacts(key);
  return { id, name, key: text, ...facts };
}
