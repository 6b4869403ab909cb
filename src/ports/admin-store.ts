import type { Admin } from "../core/keys.ts";

export type AdminCreation = { readonly ok: true } | { readonly ok: false; readonly reason: "name_taken" };

/** Tokens of the admin API. `by`: author of the change, for the audit. */
export interface AdminStore {
  create(admin: Admin, by: string): Promise<AdminCreation>;
  findById(id: string): Promise<Admin | undefined>;
  /** Finds an admin by name or id. */
  find(nameOrId: string): Promise<Admin | undefined>;
  /** Returns all admins in the order of creation. */
  list(): Promise<readonly Admin[]>;
  /** Sets the instant of revocation once. Returns false if the admin does not exist. */
  revoke(id: string, at: number, by: string): Promise<boolean>;
}
