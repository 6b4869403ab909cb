import { adminDetails, keyDetails } from "../core/audit.ts";
import { adminStateOf, stateOf, type Admin, type Key } from "../core/keys.ts";
import type { KeyJson, NewKeyJson, RotatedKeyJson } from "./shapes/keys.ts";

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

/** Returns an admin as `admins list` shows it. */
export function adminJson(admin: Admin, now: number) {
  return { ...adminDetails(admin), state: adminStateOf(admin, now) };
}

/** Returns a new admin with its token. The token is shown only once. */
export function newAdminJson(admin: Admin, text: string) {
  const { id, name, ...facts } = adminDetails(admin);
  return { id, name, token: text, ...facts };
}
