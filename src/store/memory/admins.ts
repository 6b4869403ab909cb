import type { Admin } from "../../core/admins.ts";
import { adminEntry } from "../../core/audit.ts";
import type { AdminCreation, AdminStore } from "../../ports/admin-store.ts";
import { recordAudit } from "./audit-log.ts";
import type { MemoryState } from "./state.ts";

export class MemoryAdminStore implements AdminStore {
  readonly #state: MemoryState;

  constructor(state: MemoryState) {
    this.#state = state;
  }

  async create(admin: Admin, by: string): Promise<AdminCreation> {
    if ((await this.list()).some(({ name }) => name === admin.name)) return { ok: false, reason: "name_taken" };
    this.#state.admins.set(admin.id, admin);
    recordAudit(this.#state, adminEntry("admins.create", null, admin, { at: admin.createdAt, by }));
    return { ok: true };
  }

  async findById(id: string): Promise<Admin | undefined> {
    return this.#state.admins.get(id);
  }

  async find(nameOrId: string): Promise<Admin | undefined> {
    return this.#state.admins.get(nameOrId) ?? (await this.list()).find(({ name }) => name === nameOrId);
  }

  async list(): Promise<readonly Admin[]> {
    return [...this.#state.admins.values()];
  }

  async revoke(id: string, at: number, by: string): Promise<boolean> {
    const admin = this.#state.admins.get(id);
    if (admin === undefined) return false;
    const revoked = { ...admin, revokedAt: admin.revokedAt ?? at };
    this.#state.admins.set(id, revoked);
    recordAudit(this.#state, adminEntry("admins.revoke", admin, revoked, { at, by }));
    return true;
  }
}
