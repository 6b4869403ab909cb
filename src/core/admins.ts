import type { Key } from "./keys.ts";

/** Viewers only read; editors also change. */
export const adminRoles = ["viewer", "editor"] as const;
export type AdminRole = (typeof adminRoles)[number];

/** A token of the admin API. Only a digest of its secret is stored. */
export interface Admin extends Pick<Key, "id" | "name" | "digest" | "createdAt" | "expiresAt" | "revokedAt"> {
  readonly role: AdminRole;
}

/** The name under which `FAREBOX_ADMIN_TOKEN` makes changes. */
export const settingsAdmin = "env";

/** The name under which farebox itself makes changes, as in its demo. */
export const fareboxAdmin = "farebox";

/** Names in the audit log that no admin can have. */
export const reservedAdminNames: readonly string[] = [settingsAdmin, fareboxAdmin];

/**
 * Reasons to refuse a call of the admin API. `too_many`: refused at once, because too many failed attempts are waiting.
 */
export const adminFailures = ["missing", "unknown", "expired", "revoked", "too_many"] as const;
export type AdminFailure = (typeof adminFailures)[number];
