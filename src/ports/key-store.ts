import type { Key, KeyChange, KeyState } from "../core/keys.ts";

export type KeyCreation = { readonly ok: true } | { readonly ok: false; readonly reason: "name_taken" };

/** A key before and after a change. */
export interface ChangedKey {
  readonly before: Key;
  readonly after: Key;
}

/** Query for one page of the keys, in the order of creation. */
export interface KeyPageQuery {
  /** 1 to 1000. */
  readonly limit: number;
  /** Id of the last key on the previous page. */
  readonly after?: string;
  /** Only keys in this state at the instant `at`. */
  readonly state?: KeyState;
  readonly at: number;
}

export interface KeyPage {
  readonly keys: readonly Key[];
  /** Id after which the next page starts; null on the last page. */
  readonly next: string | null;
}

/** Keys. If a key names a team that does not exist, the same transaction creates the team without limits. */
export interface KeyStore {
  /** `by`, here and below: author for the audit log; `farebox` by default. */
  create(key: Key, by?: string): Promise<KeyCreation>;
  findById(id: string): Promise<Key | undefined>;
  /** Finds a key by name or id. */
  find(nameOrId: string): Promise<Key | undefined>;
  /** Returns the names of keys by their ids. Omits unknown ids. */
  names(ids: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Returns all keys in the order of creation. */
  list(): Promise<readonly Key[]>;
  /** Returns a page of keys. The page after an unknown id is empty. */
  page(query: KeyPageQuery): Promise<KeyPage>;
  /** Atomically reads the key and changes the fields in `change`. Returns undefined for an unknown key. */
  update(id: string, change: KeyChange, at: number, by?: string): Promise<ChangedKey | undefined>;
  /** Revokes a key at the instant, unless it is already revoked. Returns false if the key does not exist. */
  revoke(id: string, at: number, by?: string): Promise<boolean>;
}
