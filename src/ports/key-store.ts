import type { Key } from "../core/keys.ts";

export type KeyCreation = { readonly ok: true } | { readonly ok: false; readonly reason: "name_taken" };

export interface KeyStore {
  create(key: Key): Promise<KeyCreation>;
  findById(id: string): Promise<Key | undefined>;
  /** By name or by id: a name serves wherever an id does. */
  find(nameOrId: string): Promise<Key | undefined>;
  /** In the order of creation. */
  list(): Promise<readonly Key[]>;
  /** Sets the instant of revocation, once; false when there is no such key. */
  revoke(id: string, at: number): Promise<boolean>;
}
