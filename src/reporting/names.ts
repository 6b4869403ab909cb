import type { Key } from "../core/keys.ts";
import type { KeyStore } from "../ports/key-store.ts";

/** The name of a key by its id; the id itself for a key that is not in the store, null for no key at all. */
export type NameOf = (keyId: string) => string | null;

export async function keyNames(keys: KeyStore): Promise<NameOf> {
  const names = new Map((await keys.list()).map((key) => [key.id, key.name]));
  return (id) => (id === "" ? null : (names.get(id) ?? id));
}

/** As `keyNames`, for a few keys among many. */
export async function keyNamesOf(keys: KeyStore, ids: Iterable<string>): Promise<NameOf> {
  const found = await Promise.all([...new Set(ids)].map((id) => keys.findById(id)));
  const names = new Map(found.filter((key) => key !== undefined).map((key) => [key.id, key.name]));
  return (id) => (id === "" ? null : (names.get(id) ?? id));
}

/** Names one key alone, for a reader who may not see others. */
export function ownName(key: Key | null): NameOf {
  return (id) => (key !== null && id === key.id ? key.name : null);
}

export { isoTime, isoTimeOrNull } from "../core/time.ts";
