import { randomBytes } from "node:crypto";
import { z } from "zod";
import { adminRoles, reservedAdminNames, type Admin } from "../core/keys.ts";
import type { AdminStore } from "../ports/admin-store.ts";
import type { Clock } from "../ports/clock.ts";
import { digestOfKey, lifetimeMsMax } from "./keys.ts";
import { nameSchema } from "./fields.ts";
import { failure, parseInput, type Failure } from "./result.ts";

export interface AdminTools {
  readonly admins: AdminStore;
  readonly clock: Clock;
  /** Author of the change, for the audit. */
  readonly by: string;
}

export const newAdminSchema = z.strictObject({
  name: nameSchema.refine(
    (name) => !reservedAdminNames.includes(name),
    `must not be ${reservedAdminNames.join(" or ")}`,
  ),
  role: z.enum(adminRoles, `must be ${adminRoles.join(" or ")}`),
  /** Lifetime of the token in milliseconds; null if it never expires. */
  lifetimeMs: z.int().positive().max(lifetimeMsMax).nullable().default(null),
});

export type NewAdmin = z.input<typeof newAdminSchema>;

export type CreatedAdmin = {
  readonly ok: true;
  readonly admin: Admin;
  /** The token, `sk-fba-<id>-<secret>`. It is not stored, so it cannot be shown again. */
  readonly text: string;
};

/** Creates a token of 256 random bits; only its digest is stored. */
export async function createAdmin(tools: AdminTools, input: NewAdmin): Promise<CreatedAdmin | Failure> {
  const parsed = parseInput(newAdminSchema, input);
  if (!parsed.ok) return parsed;
  const { name, role, lifetimeMs } = parsed.value;
  const id = randomBytes(6).toString("hex");
  const text = `sk-fba-${id}-${randomBytes(32).toString("base64url")}`;
  const createdAt = tools.clock.now();
  const expiresAt = lifetimeMs === null ? null : createdAt + lifetimeMs;
  const admin: Admin = { id, name, role, digest: digestOfKey(text), createdAt, expiresAt, revokedAt: null };
  const creation = await tools.admins.create(admin, tools.by);
  if (!creation.ok)
    return failure(
      "name_taken",
      `there is an admin named ${name} already; names are used once, also by revoked admins`,
    );
  return { ok: true, admin, text };
}

export type RevokedAdmin = {
  readonly ok: true;
  readonly admin: Admin;
  /** False if the token was already revoked. The time of the first revocation is kept. */
  readonly first: boolean;
};

/** Revokes an admin's token permanently. A second call changes nothing. */
export async function revokeAdmin(tools: AdminTools, nameOrId: string): Promise<RevokedAdmin | Failure> {
  const admin = await tools.admins.find(nameOrId);
  if (admin === undefined) return noSuchAdmin(nameOrId);
  if (admin.revokedAt !== null) return { ok: true, admin, first: false };
  const revokedAt = tools.clock.now();
  await tools.admins.revoke(admin.id, revokedAt, tools.by);
  return { ok: true, admin: { ...admin, revokedAt }, first: true };
}

/** Returns the failure for an unknown admin. The message does not repeat a token that was given by mistake. */
function noSuchAdmin(nameOrId: string): Failure {
  if (nameOrId.startsWith("sk-")) return failure("not_found", "give the admin's name or id, not the token itself");
  return failure("not_found", `there is no admin ${JSON.stringify(nameOrId)}`);
}
