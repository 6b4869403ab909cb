import type { Key, KeyChange } from "../core/keys.ts";

export type KeyCreation = { readonly ok: true } | { readonly ok: false; readonly reason: "name_taken" };

/** A key before and after a change. */
export interface ChangedKey {
  readonly before: Key;
  readonly after: Key;
}

/** A team that a key is given and that is not there yet comes to be, without limits, in the same transaction. */
export interface KeyStore {
  /** `by`, here and below: who makes the change, for the audit; farebox itself where nobody is named. */
  create(key: Key, by?: string): Promise<KeyCreation>;
  findById(id: string): Promise<Key | undefined>;
  /** By name or by id: a name serves wherever an id does. */
  find(nameOrId: string): Promise<Key | undefined>;
  /** In the order of creation. */
  list(): Promise<readonly Key[]>;
  /** Changes what `change` names, in one step with reading what was there; undefined when there is no such key. */
  update(id: string, change: KeyChange, at: number, by?: string): Promise<ChangedKey | undefined>;
  /** Sets the instant of revocation, once; false when there is no such key. */
  revoke(id: string, at: number, by?: string): Promise<boolean>;
}
