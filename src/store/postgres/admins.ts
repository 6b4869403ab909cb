import type { Admin } from "../../core/admins.ts";
import { adminEntry } from "../../core/audit.ts";
import type { AdminCreation } from "../../ports/admin-store.ts";
import type { AdminReadings } from "../readings.ts";
import { adminOf, type AdminRow } from "../rows/keys.ts";
import { recordAudit } from "./audit-entries.ts";
import type { Statements } from "./connection.ts";
import { withNumbers } from "../numbers.ts";

/** Inserts an admin, unless the name was ever given to another one. */
export async function createAdmin(db: Statements, admin: Admin, by: string): Promise<AdminCreation> {
  const { id, name, role, digest, createdAt, expiresAt, revokedAt } = admin;
  const added = await db.run(
    `insert into admins (id, name, role, digest, created_at, expires_at, revoked_at) values ($1, $2, $3, $4, $5, $6, $7)
     on conflict (name) do nothing`,
    [id, name, role, digest, createdAt, expiresAt, revokedAt],
  );
  if (added === 0) return { ok: false, reason: "name_taken" };
  await recordAudit(db, adminEntry("admins.create", null, admin, { at: createdAt, by }));
  return { ok: true };
}

/** Sets the instant of revocation, unless one is set; false when there is no such admin. */
export async function revokeAdmin(db: Statements, id: string, at: number, by: string): Promise<boolean> {
  const admin = found(await db.row<AdminRow>("select * from admins where id = $1 for update", [id]));
  if (admin === undefined) return false;
  if (admin.revokedAt !== null) return true;
  await db.run("update admins set revoked_at = $1 where id = $2", [at, id]);
  await recordAudit(db, adminEntry("admins.revoke", admin, { ...admin, revokedAt: at }, { at, by }));
  return true;
}

/** Short reads of admins. */
export class AdminReads implements AdminReadings {
  readonly #db: Statements;

  constructor(db: Statements) {
    this.#db = db;
  }

  async byId(id: string): Promise<Admin | undefined> {
    return found(await this.#db.row<AdminRow>("select * from admins where id = $1", [id]));
  }

  /** An id is never mistaken for another one's name. */
  async find(nameOrId: string): Promise<Admin | undefined> {
    return found(
      await this.#db.row<AdminRow>("select * from admins where id = $1 or name = $1 order by (id = $1) desc limit 1", [
        nameOrId,
      ]),
    );
  }

  async list(): Promise<readonly Admin[]> {
    return (await this.#db.rows<AdminRow>("select * from admins order by seq")).map((row) => adminOf(withNumbers(row)));
  }
}

function found(row: AdminRow | undefined): Admin | undefined {
  return row && adminOf(withNumbers(row));
}
