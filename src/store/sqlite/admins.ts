import type { Admin } from "../../core/admins.ts";
import { adminEntry } from "../../core/audit.ts";
import type { AdminCreation } from "../../ports/admin-store.ts";
import type { AdminReadings } from "../readings.ts";
import { adminOf, type AdminRow } from "../rows/keys.ts";
import { recordAudit } from "./audit-entries.ts";
import type { Connection, Statement } from "./connection.ts";

/** Inserts an admin, unless the name was ever given to another one. */
export function createAdmin(db: Connection, admin: Admin, by: string): AdminCreation {
  if (db.prepare("select 1 from admins where name = ?").get(admin.name) !== undefined)
    return { ok: false, reason: "name_taken" };
  const { id, name, role, digest, createdAt, expiresAt, revokedAt } = admin;
  db.prepare(
    "insert into admins (id, name, role, digest, created_at, expires_at, revoked_at) values (?, ?, ?, ?, ?, ?, ?)",
  ).run(id, name, role, digest, createdAt, expiresAt, revokedAt);
  recordAudit(db, adminEntry("admins.create", null, admin, { at: createdAt, by }));
  return { ok: true };
}

/** Sets the instant of revocation, unless one is set; false when there is no such admin. */
export function revokeAdmin(db: Connection, id: string, at: number, by: string): boolean {
  const admin = new AdminReads(db).byId(id);
  if (admin === undefined) return false;
  if (admin.revokedAt !== null) return true;
  db.prepare("update admins set revoked_at = ? where id = ?").run(at, id);
  recordAudit(db, adminEntry("admins.revoke", admin, { ...admin, revokedAt: at }, { at, by }));
  return true;
}

/** Short reads of admins, on whichever connection. */
export class AdminReads implements AdminReadings {
  readonly #byId: Statement;
  readonly #byName: Statement;
  readonly #all: Statement;

  constructor(db: Connection) {
    this.#byId = db.prepare("select * from admins where id = ?");
    this.#byName = db.prepare("select * from admins where name = ?");
    this.#all = db.prepare("select * from admins order by seq");
  }

  byId(id: string): Admin | undefined {
    return found(this.#byId.get(id));
  }

  find(nameOrId: string): Admin | undefined {
    return this.byId(nameOrId) ?? found(this.#byName.get(nameOrId));
  }

  list(): readonly Admin[] {
    return this.#all.all().map((row) => adminOf(row as AdminRow));
  }
}

function found(row: unknown): Admin | undefined {
  return row === undefined ? undefined : adminOf(row as AdminRow);
}
