import { randomBytes } from "node:crypto";
import { z } from "zod";
import { adminRoles, reservedAdminNames, type Admin } from "../core/keys.ts";
import type { AdminStore } from "../ports/stores.ts";
import type { Clock } from "../ports/clock.ts";
import { digestOfKey, lifetimeMsMax } from "./key-changes.ts";
import { isoTime } from "../core/time.ts";
import { nameSchema } from "./fields.ts";
import { failure, noSuch, parseInput, type Failure } from "./result.ts";

interface AdminTools {
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

/**
 * Creates an admin with a token of 256 random bits, and stores only the token's digest. `authorExpiresAt` is the time
 * when the author's own token expires; null if it never does. The new token must not expire later.
 */
export async function createAdmin(
  tools: AdminTools,
  input: NewAdmin,
  authorExpiresAt: number | null = null,
): Promise<CreatedAdmin | Failure> {
  const parsed = parseInput(newAdminSchema, input);
  if (!parsed.ok) return parsed;
  const { name, role, lifetimeMs } = parsed.value;
  const id = randomBytes(6).toString("hex");
  const text = `sk-fba-${id}-${randomBytes(32).toString("base64url")}`;
  const createdAt = tools.clock.now();
  const expiresAt = lifetimeMs === null ? null : createdAt + lifetimeMs;
  if (authorExpiresAt !== null && (expiresAt === null || expiresAt > authorExpiresAt))
    return failure(
      "invalid",
      `expires must state a lifetime that ends by ${isoTime(authorExpiresAt)}, because your own token expires then`,
      "expires",
    );
  const admin: Admin = { id, name, role, digest: digestOfKey(text), createdAt, expiresAt, revokedAt: null };
  const creation = await tools.admins.create(admin, tools.by);
  if (!creation.ok)
    return failure(
      "name_taken",
      `there is already an admin named ${name}; a name cannot be used again, even if its admin is revoked`,
    );
  return { ok: true, admin, text };
}

type RevokedAdmin = {
  readonly ok: true;
  readonly admin: Admin;
  /** False if the token was already revoked. The time of the first revocation is kept. */
  readonly first: boolean;
};

/**
 * Revokes an admin's token permanently. A second call changes nothing. With `keepsEditor`, fails for the last editor
 * with a valid token, and for the last editor whose token does not expire.
 */
export async function revokeAdmin(
  tools: AdminTools,
  nameOrId: string,
  keepsEditor = false,
): Promise<RevokedAdmin | Failure> {
  const shown = await showAdmin(tools.admins, nameOrId);
  if (!shown.ok) return shown;
  const { admin } = shown;
  if (admin.revokedAt !== null) return { ok: true, admin, first: false };
  const revokedAt = tools.clock.now();
  const revocation = await tools.admins.revoke(admin.id, revokedAt, tools.by, keepsEditor);
  if (revocation === "last_editor")
    return failure(
      "refused",
      `the admin ${admin.name} is the last editor${admin.expiresAt === null ? " whose token does not expire" : ""}; create another one first, or run 'farebox admins revoke ${admin.name}' on the proxy's machine`,
    );
  return { ok: true, admin: { ...admin, revokedAt }, first: true };
}

/** Finds an admin by name or id. If a token was given by mistake, the message does not repeat it. */
export async function showAdmin(
  admins: AdminStore,
  nameOrId: string,
): Promise<{ readonly ok: true; readonly admin: Admin } | Failure> {
  const admin = await admins.find(nameOrId);
  if (admin !== undefined) return { ok: true, admin };
  if (nameOrId.startsWith("sk-")) return failure("not_found", "give the admin's name or id, not the token itself");
  const names = (await admins.list()).map(({ name }) => name);
  return noSuch("admin", nameOrId, names);
}
