import { fareboxItself } from "../../core/admins.ts";
import { keyAction, keyEntry } from "../../core/audit.ts";
import { changedKey, stateOf, type Key, type KeyChange } from "../../core/keys.ts";
import type { Changes } from "../../ports/changes.ts";
import type { ChangedKey, KeyCreation, KeyPage, KeyPageQuery, KeyStore } from "../../ports/key-store.ts";
import { recordAudit } from "./audit-log.ts";
import { announce, type MemoryState } from "./state.ts";
import { ensureTeam } from "./teams.ts";

export class MemoryKeyStore implements KeyStore {
  readonly #state: MemoryState;

  constructor(state: MemoryState) {
    this.#state = state;
  }

  async create(key: Key, by = fareboxItself): Promise<KeyCreation> {
    if (this.#all().some(({ name }) => name === key.name)) return { ok: false, reason: "name_taken" };
    if (this.#all().some(({ id, digest }) => id === key.id || digest === key.digest))
      throw new Error("key id or digest is taken");
    ensureTeam(this.#state, key.team, { at: key.createdAt, by });
    recordAudit(this.#state, keyEntry("keys.create", null, key, { at: key.createdAt, by }));
    this.#put(key);
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

  async page({ limit, after, state, at }: KeyPageQuery): Promise<KeyPage> {
    const all = this.#all();
    const last = after === undefined ? -1 : all.findIndex(({ id }) => id === after);
    const rest =
      after !== undefined && last === -1
        ? []
        : all.slice(last + 1).filter((key) => state === undefined || stateOf(key, at) === state);
    const keys = rest.slice(0, limit);
    return { keys, next: rest.length > limit ? (keys.at(-1)?.id ?? null) : null };
  }

  async update(id: string, change: KeyChange, at: number, by = fareboxItself): Promise<ChangedKey | undefined> {
    const before = this.#state.keys.get(id);
    if (before === undefined) return undefined;
    const after = changedKey(before, change);
    ensureTeam(this.#state, after.team, { at, by });
    recordAudit(this.#state, keyEntry(keyAction(change), before, after, { at, by }));
    this.#put(after);
    return { before, after };
  }

  async revoke(id: string, at: number, by = fareboxItself): Promise<boolean> {
    const key = this.#state.keys.get(id);
    if (key === undefined) return false;
    const revoked = { ...key, revokedAt: key.revokedAt ?? at };
    recordAudit(this.#state, keyEntry("keys.revoke", key, revoked, { at, by }));
    this.#put(revoked);
    return true;
  }

  #put(key: Key): void {
    this.#state.keys.set(key.id, key);
    announce(this.#state);
  }

  #all(): readonly Key[] {
    return [...this.#state.keys.values()];
  }
}

/** Changes of keys, teams and budgets in this state, told at once. */
export function memoryChanges(state: MemoryState): Changes {
  return {
    onChange(listener) {
      state.listeners.add(listener);
      return () => void state.listeners.delete(listener);
    },
  };
}
