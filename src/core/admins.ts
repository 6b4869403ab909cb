import type { Key } from "./keys.ts";

/** Viewers may look, editors may change too. */
export const adminRoles = ["viewer", "editor"] as const;
export type AdminRole = (typeof adminRoles)[number];

/** A token of the admin API as it is stored: its secret only as a digest. */
export interface Admin extends Pick<Key, "id" | "name" | "digest" | "createdAt" | "expiresAt" | "revokedAt"> {
  readonly role: AdminRole;
}

/** The name under which `FAREBOX_ADMIN_TOKEN` makes changes. */
export const settingsAdmin = "env";

/** The name under which farebox itself makes changes, as in its demo. */
export const fareboxAdmin = "farebox";

/** Names of the audit that no admin can have. */
export const reservedAdminNames: readonly string[] = [settingsAdmin, fareboxAdmin];

/** What can be wrong with a try to use the admin API. `too_many`: wrong, and answered at once because too many wrong ones wait. */
export const adminFailures = ["missing", "unknown", "expired", "revoked", "too_many"] as const;
export type AdminFailure = (typeof adminFailures)[number];
