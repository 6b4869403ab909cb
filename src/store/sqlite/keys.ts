import { keyAction, keyEntry, type NameOfKey } from "../../core/audit.ts";
import { changedKey, type Key, type KeyChange, type KeyState } from "../../core/keys.ts";
import type { ChangedKey, KeyCreation, KeyPage, KeyPageQuery } from "../../ports/key-store.ts";
import type { KeyReadings } from "../readings.ts";
import { keyColumns, keyOf, type KeyRow } from "../rows/keys.ts";
import { recordAudit } from "./audit-entries.ts";
import type { Connection, Statement } from "./connection.ts";
import { ensureTeam } from "./teams.ts";

/** Inserts a key, unless its name was ever given to another one. Throws where its id or digest is taken. */
export function createKey(db: Connection, key: Key, by: string): KeyCreation {
  const taken = db.prepare("select 1 from keys where name = ?").get(key.name);
  if (taken !== undefined) return { ok: false, reason: "name_taken" };
  ensureTeam(db, key.team, { at: key.createdAt, by });
  db.prepare(
    `insert into keys (team, digest, models, rpm, tpm, parallel, output_cap, expires_at, rotated_at, previous_digest, previous_valid_until, id,
     name, created_at, revoked_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  ).run(...keyColumns(key), key.id, key.name, key.createdAt, key.revokedAt);
  recordAudit(db, keyEntry("keys.create", null, key, { at: key.createdAt, by }));
  return { ok: true };
}

export function updateKey(
  db: Connection,
  id: string,
  change: KeyChange,
  at: number,
  by: string,
): ChangedKey | undefined {
  const before = new KeyReads(db).byId(id);
  if (before === undefined) return undefined;
  const after = changedKey(before, change);
  ensureTeam(db, after.team, { at, by });
  db.prepare(
    `update keys set team = ?, digest = ?, models = ?, rpm = ?, tpm = ?, parallel = ?, output_cap = ?, expires_at = ?, rotated_at = ?,
     previous_digest = ?, previous_valid_until = ? where id = ?`,
  ).run(...keyColumns(after), id);
  recordAudit(db, keyEntry(keyAction(change), before, after, { at, by }));
  return { before, after };
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
export class KeyReads implements KeyReadings {
  readonly #db: Connection;
  readonly #byId: Statement;
  readonly #byName: Statement;
  readonly #all: Statement;

  constructor(db: Connection) {
    this.#db = db;
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

  page({ limit, after, state, at }: KeyPageQuery): KeyPage {
    const where = [
      ...(after === undefined ? [] : ["seq > (select seq from keys where id = ?)"]),
      ...(state === undefined ? [] : [stateConditions[state]]),
    ];
    const values = [
      ...(after === undefined ? [] : [after]),
      ...(state === undefined || state === "revoked" ? [] : [at]),
    ];
    const rows = this.#db
      .prepare(`select * from keys ${where.length === 0 ? "" : `where ${where.join(" and ")}`} order by seq limit ?`)
      .all(...values, limit + 1);
    const keys = rows.slice(0, limit).map((row) => keyOf(row as KeyRow));
    return { keys, next: rows.length > limit ? (keys.at(-1)?.id ?? null) : null };
  }
}

/** `stateOf` of core/keys.ts for the database; each but `revoked` with the instant. */
const stateConditions: Readonly<Record<KeyState, string>> = {
  revoked: "revoked_at is not null",
  expired: "revoked_at is null and expires_at is not null and expires_at <= ?",
  live: "revoked_at is null and (expires_at is null or expires_at > ?)",
};

function found(row: unknown): Key | undefined {
  return row === undefined ? undefined : keyOf(row as KeyRow);
}
