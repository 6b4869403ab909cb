import { keyOfScope, keyOfSubject } from "../../core/scope.ts";
import { changedKey, fareboxAdmin, type Key, type KeyState } from "../../core/keys.ts";
import { keyAction, keyEntry, type NameOfKey } from "../../core/audit.ts";
import type { Budget } from "../../core/budget.ts";
import type { KeyStore } from "../../ports/stores.ts";
import { Conditions } from "../queries/page.ts";
import { rowsOf, write, type Query } from "../queries/query.ts";
import { recordAudit } from "./audit.ts";
import { limitColumns, limitColumnNames, limitsOf, type LimitColumns } from "./limits.ts";
import { all, insert, locked, marks, one, update, type Table } from "./table.ts";
import { ensureTeam } from "./teams.ts";

export interface KeyRow extends LimitColumns {
  readonly id: string;
  readonly name: string;
  readonly team: string | null;
  readonly digest: string;
  readonly labels: string | null;
  readonly pinned_tags: string | null;
  readonly pinned_user: string | null;
  readonly requires: string | null;
  readonly created_at: number;
  readonly expires_at: number | null;
  readonly revoked_at: number | null;
  readonly suspended_at: number | null;
  readonly rotated_at: number | null;
  readonly previous_digest: string | null;
  readonly previous_valid_until: number | null;
}

export const keyColumns = `id, name, team, digest, ${limitColumnNames}, labels, pinned_tags, pinned_user, requires, created_at, expires_at, revoked_at, suspended_at, rotated_at,
  previous_digest, previous_valid_until`;
const select = `select ${keyColumns} from keys`;
const selectById = `${select} where id = ?`;

export function keyOf(row: KeyRow): Key {
  const { id, name, team, digest, previous_digest: previous, previous_valid_until: validUntil } = row;
  return {
    id,
    name,
    team,
    digest,
    ...limitsOf(row),
    labels: row.labels === null ? {} : JSON.parse(row.labels),
    tags: row.pinned_tags === null ? {} : JSON.parse(row.pinned_tags),
    user: row.pinned_user,
    requires: row.requires === null ? [] : JSON.parse(row.requires),
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    suspendedAt: row.suspended_at,
    rotatedAt: row.rotated_at,
    previous: previous === null || validUntil === null ? null : { digest: previous, validUntil },
  };
}

/** Returns a list or an object as JSON; null if it is empty. */
function jsonOf(value: object): string | null {
  return Object.keys(value).length === 0 ? null : JSON.stringify(value);
}

/** Returns the columns of a key that can change. */
function mutableColumns(key: Key) {
  return {
    team: key.team,
    digest: key.digest,
    ...limitColumns(key),
    labels: jsonOf(key.labels),
    pinned_tags: jsonOf(key.tags),
    pinned_user: key.user,
    requires: jsonOf(key.requires),
    expires_at: key.expiresAt,
    suspended_at: key.suspendedAt,
    rotated_at: key.rotatedAt,
    previous_digest: key.previous?.digest ?? null,
    previous_valid_until: key.previous?.validUntil ?? null,
  };
}

/** SQL condition that a key is neither revoked nor expired. The value of its placeholder is the instant. */
export const isLive = "revoked_at is null and (expires_at is null or expires_at > ?)";

/** SQL condition and values for each state of a key. Must agree with `stateOf` in core/keys.ts. */
export const stateConditions: Readonly<Record<KeyState, (at: number) => readonly [sql: string, ...values: number[]]>> =
  {
    revoked: () => ["revoked_at is not null"],
    expired: (at) => ["revoked_at is null and expires_at is not null and expires_at <= ?", at],
    suspended: (at) => [`suspended_at is not null and ${isLive}`, at],
    live: (at) => [`suspended_at is null and ${isLive}`, at],
  };

/** Returns a key and locks its row until the transaction ends; undefined if there is no such key. */
export function* lockedKey(id: string): Query<Key | undefined> {
  const row = yield* locked<KeyRow>("update", selectById, id);
  return row && keyOf(row);
}

/** Returns a function, for audit entries, that returns the name of the key in a budget's scope or in the subject. */
export function* keyNames({ scope }: Pick<Budget, "scope">, subject = ""): Query<NameOfKey> {
  const id = keyOfScope(scope) ?? keyOfSubject(scope, subject);
  const found = id === null ? undefined : yield* one<{ name: string }>("select name from keys where id = ?", id);
  return () => found?.name;
}

export const keys: Table<KeyStore, "create" | "update" | "revoke"> = {
  queries: {
    *findById(id) {
      const row = yield* one<KeyRow>(selectById, id);
      return row && keyOf(row);
    },
    *find(nameOrId) {
      const sql = `${select} where id = ? or name = ? order by id = ? desc limit 1`;
      const row = yield* one<KeyRow>(sql, nameOrId, nameOrId, nameOrId);
      return row && keyOf(row);
    },
    *names(ids) {
      if (ids.length === 0) return new Map();
      const sql = `select id, name from keys where id in (${marks(ids)})`;
      const rows = yield* rowsOf<{ id: string; name: string }>({ sql, values: ids });
      return new Map(rows.map(({ id, name }) => [id, name]));
    },
    *list() {
      return (yield* all<KeyRow>(`${select} order by seq`)).map(keyOf);
    },
    *page({ limit, after, state, at }) {
      const where = new Conditions().add("seq > (select seq from keys where id = ?)", after);
      if (state !== undefined) where.add(...stateConditions[state](at));
      const rows = yield* all<KeyRow>(`${select} where ${where.sql} order by seq limit ?`, ...where.values, limit + 1);
      const keys = rows.slice(0, limit).map(keyOf);
      return { keys, next: rows.length > limit ? (keys.at(-1)?.id ?? null) : null };
    },
  },
  announces: true,
  writes: {
    /** Throws if another key has the id or the digest. */
    *create(key, by = fareboxAdmin) {
      const { id, name, team, createdAt, revokedAt } = key;
      const row = { ...mutableColumns(key), id, name, created_at: createdAt, revoked_at: revokedAt };
      if (!(yield* insert("keys", row, "on conflict (name) do nothing"))) return { ok: false, reason: "name_taken" };
      yield* ensureTeam(team, { at: createdAt, by });
      yield* recordAudit(keyEntry("keys.create", null, key, { at: createdAt, by }));
      return { ok: true };
    },
    *update(id, change, at, by = fareboxAdmin) {
      const before = yield* lockedKey(id);
      if (before === undefined) return undefined;
      const after = changedKey(before, change);
      yield* ensureTeam(after.team, { at, by });
      yield* update("keys", mutableColumns(after), "id = ?", id);
      yield* recordAudit(keyEntry(keyAction(change), before, after, { at, by }));
      return { before, after };
    },
    *revoke(id, at, by = fareboxAdmin) {
      const key = yield* lockedKey(id);
      if (key === undefined) return false;
      if (key.revokedAt !== null) return true;
      yield* write("update keys set revoked_at = ? where id = ?", at, id);
      yield* recordAudit(keyEntry("keys.revoke", key, { ...key, revokedAt: at }, { at, by }));
      return true;
    },
  },
};
