import { fareboxItself } from "../../core/admins.ts";
import { keyEntry } from "../../core/audit.ts";
import type { Key } from "../../core/keys.ts";
import type { Changes } from "../../ports/changes.ts";
import type { KeyCreation, KeyStore } from "../../ports/key-store.ts";
import { recordAudit } from "./audit-log.ts";
import { announce, type MemoryState } from "./state.ts";

export class MemoryKeyStore implements KeyStore {
  readonly #state: MemoryState;

  constructor(state: MemoryState) {
    this.#state = state;
  }

  async create(key: Key, by = fareboxItself): Promise<KeyCreation> {
    if (this.#all().some(({ name }) => name === key.name)) return { ok: false, reason: "name_taken" };
    if (this.#all().some(({ id, digest }) => id === key.id || digest === key.digest)) throw new Error("key id or digest is taken");
    this.#state.keys.set(key.id, key);
    recordAudit(this.#state, keyEntry("keys.create", null, key, { at: key.createdAt, by }));
    announce(this.#state);
    return { ok: true };
  }

  async findById(id: string): Promise<Key | undefined> {
    return this.#state.keys.get(id);
  }

  async find(nameOrId: string): Promise<Key | undefined> {
    return this.#state.keys.get(nameOrId) ?? this.#all().find(({ name }) => name === nameOrId);
  }

  async list(): Promise<readonly Key[]> {
    return this.#all();
  }

  async revoke(id: string, at: number, by = fareboxItself): Promise<boolean> {
    const key = this.#state.keys.get(id);
    if (key === undefined) return false;
    const revoked = { ...key, revokedAt: key.revokedAt ?? at };
    this.#state.keys.set(id, revoked);
    recordAudit(this.#state, keyEntry("keys.revoke", key, revoked, { at, by }));
    announce(this.#state);
    return true;
  }

  #all(): readonly Key[] {
    return [...this.#state.keys.values()];
  }
}

/** Changes of keys and budgets in this state, told at once. */
export function memoryChanges(state: MemoryState): Changes {
  return {
    onChange(listener) {
      state.listeners.add(listener);
      return () => void state.listeners.delete(listener);
    },
  };
}
