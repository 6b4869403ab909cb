import { keyFacts } from "../core/audit.ts";
import { isLive, type Key } from "../core/keys.ts";

/** A key as `keys list` and the admin API give it. */
export function keyJson(key: Key, now: number) {
  return { ...keyFacts(key), state: stateOf(key, now) };
}

/** Whether a key or an admin opens anything now, and why not. */
export function stateOf(who: Pick<Key, "revokedAt" | "expiresAt">, now: number): "live" | "expired" | "revoked" {
  if (who.revokedAt !== null) return "revoked";
  return isLive(who, now) ? "live" : "expired";
}

/** A key that was just given a new secret, with its text: the only time that this is shown. */
export function rotatedKeyJson(key: Key, text: string) {
  return { id: key.id, name: key.name, key: text, previous_valid_until: keyFacts(key).previous_valid_until };
}

/** A key that was just made, with its text: the only time that this is shown. */
export function newKeyJson(key: Key, text: string) {
  const { id, name, ...facts } = keyFacts(key);
  return { id, name, key: text, ...facts };
}
