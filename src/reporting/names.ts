import type { Key } from "../core/keys.ts";
import type { KeyStore } from "../ports/stores.ts";

/** Returns the name to show for a key id; null if there is no key, or if the reader may not see its name. */
export type NameOf = (keyId: string) => string | null;

/** Reads the names of all keys. For an unknown id, the returned function returns the id. */
export async function keyNames(keys: KeyStore): Promise<NameOf> {
  const names = new Map((await keys.list()).map((key) => [key.id, key.name]));
  return (id) => (id === "" ? null : (names.get(id) ?? id));
}

/**
 * Reads the names of the keys with these ids. Ignores null and "", which stand for no key. For any other id, the
 * returned function returns the id.
 */
export async function keyNamesOf(keys: KeyStore, ids: Iterable<string | null>): Promise<NameOf> {
  const names = await keys.names([...new Set(ids)].filter((id): id is string => id !== null && id !== ""));
  return (id) => (id === "" ? null : (names.get(id) ?? id));
}

/** Reads the names of the keys that rows refer to. */
export function keyNamesIn(keys: KeyStore, rows: readonly { readonly key: string }[]): Promise<NameOf> {
  const ids = rows.map(({ key }) => key);
  return keyNamesOf(keys, ids);
}

/**
 * Returns a function that returns the name of this key, and null for all other keys. It is for a reader who may see
 * only this key.
 */
export function ownName(key: Key | null): NameOf {
  return (id) => (key !== null && id === key.id ? key.name : null);
}

/** Formats values, such as "env=prod, team=search"; returns null if there are none. */
export function pairsText(values: Readonly<Record<string, string>>): string | null {
  const pairs = Object.entries(values).map(([name, value]) => `${name}=${value}`);
  return pairs.length === 0 ? null : pairs.join(", ");
}
