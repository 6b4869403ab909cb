import type { KeyStore } from "../ports/key-store.ts";

/** The name of a key by its id; the id itself for a key that is not in the store, null for no key at all. */
export type NameOf = (keyId: string) => string | null;

export async function keyNames(keys: KeyStore): Promise<NameOf> {
  const names = new Map((await keys.list()).map((key) => [key.id, key.name]));
  return (id) => (id === "" ? null : (names.get(id) ?? id));
}

export { isoTime } from "../core/iso-time.ts";
