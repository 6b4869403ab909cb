import type { Admin } from "../../core/keys.ts";
import { adminEntry } from "../../core/audit.ts";
import type { AdminStore } from "../../ports/stores.ts";
import { recordAudit } from "./audit.ts";
import { rowsOf, write, type Query } from "../queries/query.ts";
import { all, Columns, insert, locked, one, type Table } from "./table.ts";

const columns = new Columns("id", "name", "role", "digest", "createdAt", "expiresAt", "revokedAt");
const select = `select ${columns.select} from admins`;

function lockedEditors(at: number): Query<readonly Admin[]> {
  return rowsOf({
    sql: `${select} where role = 'editor' and revoked_at is null and (expires_at is null or expires_at > ?) order by seq`,
    values: [at],
    isSmall: true,
    lock: "update",
  });
}

/**
 * Returns true if an admin is the last editor, or the last editor whose token does not expire. In the second case, no
 * editor would be left after the other tokens expire. `editors`: all editors with a valid token.
 */
function isLastEditor(admin: Admin, editors: readonly Admin[]): boolean {
  const others = editors.filter(({ id }) => id !== admin.id);
  if (others.length === editors.length) return false;
  return others.every(({ expiresAt }) => admin.expiresAt === null && expiresAt !== null);
}

/** Tokens of the admin API. */
export const admins: Table<AdminStore, "create" | "revoke"> = {
  queries: {
    findById: (id) => one<Admin>(`${select} where id = ?`, id),
    find: (nameOrId) =>
      one<Admin>(`${select} where id = ? or name = ? order by id = ? desc limit 1`, nameOrId, nameOrId, nameOrId),
    list: () => all<Admin>(`${select} order by seq`),
  },
  announces: false,
  writes: {
    *create(admin, by) {
      if (!(yield* insert("admins", columns.rowOf(admin), "on conflict (name) do nothing")))
        return { ok: false, reason: "name_taken" };
      yield* recordAudit(adminEntry("admins.create", null, admin, { at: admin.createdAt, by }));
      return { ok: true };
    },
    *revoke(id, at, by, keepsEditor) {
      // Locks all editors, so that the last two cannot revoke each other at the same time.
      const editors = keepsEditor ? yield* lockedEditors(at) : [];
      const admin = yield* locked<Admin>("update", `${select} where id = ?`, id);
      if (admin === undefined) return "unknown";
      if (admin.revokedAt !== null) return "revoked";
      if (isLastEditor(admin, editors)) return "last_editor";
      yield* write("update admins set revoked_at = ? where id = ?", at, id);
      yield* recordAudit(adminEntry("admins.revoke", admin, { ...admin, revokedAt: at }, { at, by }));
      return "revoked";
    },
  },
};
