import type { Key } from "../core/keys.ts";

export type KeyCreation = { readonly ok: true } | { readonly ok: false; readonly reason: "name_taken" };

export interface KeyStore {
  /** `by`: who makes the key, for the audit; farebox itself where nobody is named. */
  create(key: Key, by?: string): Promise<KeyCreation>;
  findById(id: string): Promise<Key | undefined>;
  /** By name or by id: a name serves wherever an id does. */
  find(nameOrId: string): Promise<Key | undefined>;
  /** In the order of creation. */
  list(): Promise<readonly Key[]>;
  /** Sets the instant of revocation, once; false when there is no such key. */
  revoke(id: string, at: number, by?: string): Promise<boolean>;
}
