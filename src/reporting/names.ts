import type { Key } from "../core/keys.ts";
import type { KeyStore } from "../ports/key-store.ts";

/** Returns the name of a key by its id. Returns the id itself for an unknown key, and null for a request without a key. */
export type NameOf = (keyId: string) => string | null;

export async function keyNames(keys: KeyStore): Promise<NameOf> {
  const names = new Map((await keys.list()).map((key) => [key.id, key.name]));
  return (id) => (id === "" ? null : (names.get(id) ?? id));
}

/** Returns names like `keyNames`, but reads only the keys with these ids. */
export async function keyNamesOf(keys: KeyStore, ids: Iterable<string>): Promise<NameOf> {
  const found = await Promise.all([...new Set(ids)].map((id) => keys.findById(id)));
  const names = new Map(found.filter((key) => key !== undefined).map((key) => [key.id, key.name]));
  return (id) => (id === "" ? null : (names.get(id) ?? id));
}

/** Returns names for a reader who may see only this key. */
export function ownName(key: Key | null): NameOf {
  return (id) => (key !== null && id === key.id ? key.name : null);
}

export { isoTime, isoTimeOrNull } from "../core/time.ts";
