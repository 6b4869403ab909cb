import { adminDetails, type AuditEntry, keyDetails } from "../core/audit.ts";
import { type Admin, adminStateOf, type Key, stateOf } from "../core/keys.ts";
import { isoTime } from "../core/time.ts";
import type { AuditPage } from "../ports/stores.ts";
import type { AuditEntryJson } from "./shapes/health.ts";
import type { KeyJson, NewKeyJson, RotatedKeyJson } from "./shapes/keys.ts";

export function keyJson(key: Key, now: number): KeyJson {
  return { ...keyDetails(key), state: stateOf(key, now) };
}

/** Returns a key with the text of its new secret. The text is shown only once. */
export function rotatedKeyJson(key: Key, text: string): RotatedKeyJson {
  return { id: key.id, name: key.name, key: text, previous_valid_until: keyDetails(key).previous_valid_until };
}

/** Returns a new key with its text. The text is shown only once. */
export function newKeyJson(key: Key, text: string): NewKeyJson {
  const { id, name, ...facts } = keyDetails(key);
  return { id, name, key: text, ...facts };
}

/** Returns an admin as `admins list` shows it. */
export function adminJson(admin: Admin, now: number) {
  return { ...adminDetails(admin), state: adminStateOf(admin, now) };
}

/** Returns a new admin with its token. The token is shown only once. */
export function newAdminJson(admin: Admin, text: string) {
  const { id, name, ...facts } = adminDetails(admin);
  return { id, name, token: text, ...facts };
}

export function auditEntryJson({ id, at, by, action, object, before, after }: AuditEntry): AuditEntryJson {
  return { id, time: isoTime(at), by, action, object, before, after };
}

/** Returns a page of audit entries, newest first, with the cursor of the next page. */
export function auditJson({ entries, next }: AuditPage) {
  return { entries: entries.map(auditEntryJson), next: next === null ? null : String(next) };
}

/** Returns the number of the entry that a cursor names; undefined for an invalid cursor. */
export function readAuditCursor(cursor: string): number | undefined {
  return /^[1-9]\d{0,14}$/.test(cursor) ? Number(cursor) : undefined;
}
