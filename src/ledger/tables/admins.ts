import type { Admin } from "../../core/keys.ts";
import { adminEntry } from "../../core/audit.ts";
import type { AdminStore } from "../../ports/admin-store.ts";
import { recordAudit } from "./audit.ts";
import { write } from "../queries/query.ts";
import { all, insert, locked, one, type Table } from "./table.ts";

const select = `select id, name, role, digest, created_at as "createdAt", expires_at as "expiresAt", revoked_at as "revokedAt" from admins`;

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
      const { id, name, role, digest, createdAt, expiresAt, revokedAt } = admin;
      const row = { id, name, role, digest, created_at: createdAt, expires_at: expiresAt, revoked_at: revokedAt };
      if (!(yield* insert("admins", row, "on conflict (name) do nothing"))) return { ok: false, reason: "name_taken" };
      yield* recordAudit(adminEntry("admins.create", null, admin, { at: createdAt, by }));
      return { ok: true };
    },
    *revoke(id, at, by) {
      const admin = yield* locked<Admin>("update", `${select} where id = ?`, id);
      if (admin === undefined) return false;
      if (admin.revokedAt !== null) return true;
      yield* write("update admins set revoked_at = ? where id = ?", at, id);
      yield* recordAudit(adminEntry("admins.revoke", admin, { ...admin, revokedAt: at }, { at, by }));
      return true;
    },
  },
};
