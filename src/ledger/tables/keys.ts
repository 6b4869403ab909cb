import { changedKey, fareboxAdmin, type Key, type KeyState } from "../../core/keys.ts";
import { keyAction, keyEntry, type NameOfKey } from "../../core/audit.ts";
import type { Budget } from "../../core/budget.ts";
import type { KeyStore } from "../../ports/key-store.ts";
import { write, type Query } from "../queries/query.ts";
import { recordAudit } from "./audit.ts";
import { limitColumns, limitNames, limitsOf, type LimitColumns } from "./limits.ts";
import { all, insert, locked, one, update, type Table } from "./table.ts";
import { ensureTeam } from "./teams.ts";

interface KeyRow extends LimitColumns {
  readonly id: string;
  readonly name: string;
  readonly team: string | null;
  readonly digest: string;
  readonly created_at: number;
  readonly expires_at: number | null;
  readonly revoked_at: number | null;
  readonly rotated_at: number | null;
  readonly previous_digest: string | null;
  readonly previous_valid_until: number | null;
}

const select = `select id, name, team, digest, ${limitNames}, created_at, expires_at, revoked_at, rotated_at, previous_digest,
  previous_valid_until from keys`;
const selectById = `${select} where id = ?`;

function keyOf(row: KeyRow): Key {
  const { id, name, team, digest, previous_digest: previous, previous_valid_until: validUntil } = row;
  return {
    id,
    name,
    team,
    digest,
    ...limitsOf(row),
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    rotatedAt: row.rotated_at,
    previous: previous === null || validUntil === null ? null : { digest: previous, validUntil },
  };
}

/** Returns the columns that a change of a key may write. */
function changingColumns(key: Key) {
  return {
    team: key.team,
    digest: key.digest,
    ...limitColumns(key),
    expires_at: key.expiresAt,
    rotated_at: key.rotatedAt,
    previous_digest: key.previous?.digest ?? null,
    previous_valid_until: key.previous?.validUntil ?? null,
  };
}

/** SQL conditions, with values, that match `stateOf` in core/keys.ts. */
const stateConditions: Readonly<Record<KeyState, (at: number) => readonly [sql: string, ...values: number[]]>> = {
  revoked: () => ["revoked_at is not null"],
  expired: (at) => ["revoked_at is null and expires_at is not null and expires_at <= ?", at],
  live: (at) => ["revoked_at is null and (expires_at is null or expires_at > ?)", at],
};

export function* lockedKey(id: string): Query<Key | undefined> {
  const row = yield* locked<KeyRow>("update", selectById, id);
  return row && keyOf(row);
}

/** Returns the name of a key by id, for the audit. */
export function* keyNames({ scope }: Pick<Budget, "scope">): Query<NameOfKey> {
  const found =
    scope.kind === "key" ? yield* one<{ name: string }>("select name from keys where id = ?", scope.key) : undefined;
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
    *list() {
      return (yield* all<KeyRow>(`${select} order by seq`)).map(keyOf);
    },
    *page({ limit, after, state, at }) {
      const [isInState, ...instant] = state === undefined ? ["true"] : stateConditions[state](at);
      const isAfter = after === undefined ? "true" : "seq > (select seq from keys where id = ?)";
      const rows = yield* all<KeyRow>(
        `${select} where ${isInState} and ${isAfter} order by seq limit ?`,
        ...instant,
        ...(after === undefined ? [] : [after]),
        limit + 1,
      );
      const keys = rows.slice(0, limit).map(keyOf);
      return { keys, next: rows.length > limit ? (keys.at(-1)?.id ?? null) : null };
    },
  },
  announces: true,
  writes: {
    /** Throws if the id or the digest is taken. */
    *create(key, by = fareboxAdmin) {
      const { id, name, team, createdAt, revokedAt } = key;
      const row = { ...changingColumns(key), id, name, created_at: createdAt, revoked_at: revokedAt };
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
      yield* update("keys", changingColumns(after), "id = ?", id);
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
