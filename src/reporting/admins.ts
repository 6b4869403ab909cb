import { stateOf, type Admin } from "../core/keys.ts";
import { adminDetails } from "../core/audit.ts";

/** Returns an admin as `admins list` shows it. */
export function adminJson(admin: Admin, now: number) {
  return { ...adminDetails(admin), state: stateOf(admin, now) };
}

/** Returns a new admin with its token. The token is shown only once. */
export function newAdminJson(admin: Admin, text: string) {
  const { id, name, ...facts } = adminDetails(admin);
  return { id, name, token: text, ...facts };
}
