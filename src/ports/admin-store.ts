import type { Admin } from "../core/keys.ts";

export type AdminCreation = { readonly ok: true } | { readonly ok: false; readonly reason: "name_taken" };

/** Tokens of the admin API. `by`: who makes the change, for the audit. */
export interface AdminStore {
  create(admin: Admin, by: string): Promise<AdminCreation>;
  findById(id: string): Promise<Admin | undefined>;
  /** By name or by id. */
  find(nameOrId: string): Promise<Admin | undefined>;
  /** In the order of creation. */
  list(): Promise<readonly Admin[]>;
  /** Sets the instant of revocation, once; false when there is no such admin. */
  revoke(id: string, at: number, by: string): Promise<boolean>;
}
