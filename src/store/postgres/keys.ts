import { keyAction, keyEntry, type NameOfKey } from "../../core/audit.ts";
import { changedKey, type Key, type KeyChange, type KeyState } from "../../core/keys.ts";
import type { ChangedKey, KeyCreation, KeyPage, KeyPageQuery } from "../../ports/key-store.ts";
import type { KeyReadings } from "../readings.ts";
import { keyColumns, keyOf, type KeyRow } from "../rows/keys.ts";
import { recordAudit } from "./audit-entries.ts";
import type { Statements } from "./connection.ts";
import { withNumbers } from "../numbers.ts";
import { ensureTeam } from "./teams.ts";

/** Inserts a key, unless its name was ever given to another one. Throws where its id or digest is taken. */
export async function createKey(db: Statements, key: Key, by: string): Promise<KeyCreation> {
  const added = await db.run(
    `insert into keys (team, digest, models, rpm, tpm, parallel, output_cap, expires_at, rotated_at, previous_digest, previous_valid_until, id, name,
     created_at, revoked_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) on conflict (name) do nothing`,
    [...keyColumns(key), key.id, key.name, key.createdAt, key.revokedAt],
  );
  if (added === 0) return { ok: false, reason: "name_taken" };
  await ensureTeam(db, key.team, { at: key.createdAt, by });
  await recordAudit(db, keyEntry("keys.create", null, key, { at: key.createdAt, by }));
  return { ok: true };
}

export async function updateKey(
  db: Statements,
  id: string,
  change: KeyChange,
  at: number,
  by: string,
): Promise<ChangedKey | undefined> {
  const before = await lockedKey(db, id);
  if (before === undefined) return undefined;
  const after = changedKey(before, change);
  await ensureTeam(db, after.team, { at, by });
  await db.run(
    `update keys set team = $1, digest = $2, models = $3, rpm = $4, tpm = $5, parallel = $6, output_cap = $7, expires_at = $8,
     rotated_at = $9, previous_digest = $10, previous_valid_until = $11 where id = $12`,
    [...keyColumns(after), id],
  );
  await recordAudit(db, keyEntry(keyAction(change), before, after, { at, by }));
  return { before, after };
}

/** Sets the instant of revocation, unless one is set; false when there is no such key. */
export async function revokeKey(db: Statements, id: string, at: number, by: string): Promise<boolean> {
  const key = await lockedKey(db, id);
  if (key === undefined) return false;
  if (key.revokedAt !== null) return true;
  await db.run("update keys set revoked_at = $1 where id = $2", [at, id]);
  await recordAudit(db, keyEntry("keys.revoke", key, { ...key, revokedAt: at }, { at, by }));
  return true;
}

async function lockedKey(db: Statements, id: string): Promise<Key | undefined> {
  return found(await db.row<KeyRow>("select * from keys where id = $1 for update", [id]));
}

/** The names of all keys by their ids, for what is written down of one. */
export async function keyNamesIn(db: Statements, ids: readonly string[]): Promise<NameOfKey> {
  const rows = await db.rows<{ id: string; name: string }>("select id, name from keys where id = any($1)", [ids]);
  const names = new Map(rows.map(({ id, name }) => [id, name]));
  return (id) => names.get(id);
}

/** Short reads of keys. */
export class KeyReads implements KeyReadings {
  readonly #db: Statements;

  constructor(db: Statements) {
    this.#db = db;
  }

  async byId(id: string): Promise<Key | undefined> {
    return found(await this.#db.row<KeyRow>({ name: "key", text: "select * from keys where id = $1" }, [id]));
  }

  /** An id is never mistaken for another key's name. */
  async find(nameOrId: string): Promise<Key | undefined> {
    return found(
      await this.#db.row<KeyRow>("select * from keys where id = $1 or name = $1 order by (id = $1) desc limit 1", [
        nameOrId,
      ]),
    );
  }

  async list(): Promise<readonly Key[]> {
    return (await this.#db.rows<KeyRow>("select * from keys order by seq")).map((row) => keyOf(withNumbers(row)));
  }

  async page({ limit, after, state, at }: KeyPageQuery): Promise<KeyPage> {
    const values: unknown[] = [limit + 1];
    const parameter = (value: unknown) => `$${values.push(value)}`;
    const where = [
      ...(after === undefined ? [] : [`seq > (select seq from keys where id = ${parameter(after)})`]),
      ...(state === undefined ? [] : [stateConditions[state](() => parameter(at))]),
    ];
    const rows = await this.#db.rows<KeyRow>(
      `select * from keys ${where.length === 0 ? "" : `where ${where.join(" and ")}`} order by seq limit $1`,
      values,
    );
    const keys = rows.slice(0, limit).map((row) => keyOf(withNumbers(row)));
    return { keys, next: rows.length > limit ? (keys.at(-1)?.id ?? null) : null };
  }
}

/** `stateOf` of core/keys.ts for the database, with the instant where it needs one. */
const stateConditions: Readonly<Record<KeyState, (at: () => string) => string>> = {
  revoked: () => "revoked_at is not null",
  expired: (at) => `revoked_at is null and expires_at is not null and expires_at <= ${at()}`,
  live: (at) => `revoked_at is null and (expires_at is null or expires_at > ${at()})`,
};

function found(row: KeyRow | undefined): Key | undefined {
  return row && keyOf(withNumbers(row));
}
