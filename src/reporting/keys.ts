import { keyDetails } from "../core/audit.ts";
import { stateOf, type Key } from "../core/keys.ts";
import type { KeyPage } from "../ports/key-store.ts";
import type { KeyJson, KeyListJson, NewKeyJson, RotatedKeyJson } from "./shapes/keys.ts";

export function keyJson(key: Key, now: number): KeyJson {
  return { ...keyDetails(key), state: stateOf(key, now) };
}

/** Returns a key with the text of its new secret. The text is shown only once. */
export function rotatedKeyJson(key: Key, text: string): RotatedKeyJson {
  return { id: key.id, name: key.name, key: text, previous_valid_until: keyDetails(key).previous_valid_until };
}

/** Returns a new key with its text. The text is shown only once. */
export function newKeyJson(key: Key, text: string): NewKeyJson {
  const { id, name, ...facts } = keyDetails(key);
  return { id, name, key: text, ...facts };
}

/** Returns one page of keys. */
export function keysJson({ keys, next }: KeyPage, now: number): KeyListJson {
  return { keys: keys.map((key) => keyJson(key, now)), next };
}
