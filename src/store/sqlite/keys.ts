import { keyEntry, type NameOfKey } from "../../core/audit.ts";
import type { Key } from "../../core/keys.ts";
import type { KeyCreation } from "../../ports/key-store.ts";
import { recordAudit } from "./audit-entries.ts";
import type { Connection, Statement } from "./connection.ts";
import { keyOf, type KeyRow } from "./rows.ts";

/** Inserts a key, unless its name was ever given to another one. Throws where its id or digest is taken. */
export function createKey(db: Connection, key: Key, by: string): KeyCreation {
  const taken = db.prepare("select 1 from keys where name = ?").get(key.name);
  if (taken !== undefined) return { ok: false, reason: "name_taken" };
  db.prepare(
    "insert into keys (id, name, team, digest, models, created_at, expires_at, revoked_at) values (?, ?, ?, ?, ?, ?, ?, ?)",
  ).run(
    key.id, key.name, key.team, key.digest, key.models === null ? null : JSON.stringify(key.models),
    key.createdAt, key.expiresAt, key.revokedAt,
  );
  recordAudit(db, keyEntry("keys.create", null, key, { at: key.createdAt, by }));
  return { ok: true };
}

/** Sets the instant of revocation, unless one is set; false when there is no such key. */
export function revokeKey(db: Connection, id: string, at: number, by: string): boolean {
  const key = new KeyReads(db).byId(id);
  if (key === undefined) return false;
  if (key.revokedAt !== null) return true;
  db.prepare("update keys set revoked_at = ? where id = ?").run(at, id);
  recordAudit(db, keyEntry("keys.revoke", key, { ...key, revokedAt: at }, { at, by }));
  return true;
}

/** The name of a key by its id, for what is written down of it. */
export function keyNamesIn(db: Connection): NameOfKey {
  const name = db.prepare("select name from keys where id = ?").pluck();
  return (id) => name.get(id) as string | undefined;
}

/** Short reads of keys, on whichever connection. */
export class KeyReads {
  readonly #byId: Statement;
  readonly #byName: Statement;
  readonly #all: Statement;

  constructor(db: Connection) {
    this.#byId = db.prepare("select * from keys where id = ?");
    this.#byName = db.prepare("select * from keys where name = ?");
    this.#all = db.prepare("select * from keys order by seq");
  }

  byId(id: string): Key | undefined {
    return found(this.#byId.get(id));
  }

  /** An id is never mistaken for another key's name. */
  find(nameOrId: string): Key | undefined {
    return this.byId(nameOrId) ?? found(this.#byName.get(nameOrId));
  }

  list(): readonly Key[] {
    return this.#all.all().map((row) => keyOf(row as KeyRow));
  }
}

function found(row: unknown): Key | undefined {
  return row === undefined ? undefined : keyOf(row as KeyRow);
}
