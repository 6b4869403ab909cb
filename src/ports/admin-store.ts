import type { Admin } from "../core/keys.ts";

export type AdminCreation = { readonly ok: true } | { readonly ok: false; readonly reason: "name_taken" };

export type AdminRevocation = "revoked" | "unknown" | "last_editor";

/** Tokens of the admin API. `by`: author of the change, for the audit log. */
export interface AdminStore {
  create(admin: Admin, by: string): Promise<AdminCreation>;
  findById(id: string): Promise<Admin | undefined>;
  /** Returns the admin with an id or name; undefined if there is none. */
  find(nameOrId: string): Promise<Admin | undefined>;
  /** Returns all admins in the order of creation. */
  list(): Promise<readonly Admin[]>;
  /**
   * Revokes an admin at the instant, unless the admin is already revoked. `keepsEditor`: true to refuse the only editor
   * with a valid token, and the only editor with a token that does not expire.
   */
  revoke(id: string, at: number, by: string, keepsEditor: boolean): Promise<AdminRevocation>;
}
