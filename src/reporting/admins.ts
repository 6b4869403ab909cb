import { stateOf, type Admin } from "../core/keys.ts";
import { adminDetails } from "../core/audit.ts";

/** An admin as `admins list` gives it. */
export function adminJson(admin: Admin, now: number) {
  return { ...adminDetails(admin), state: stateOf(admin, now) };
}

/** An admin that was just made, with the token: the only time that this is shown. */
export function newAdminJson(admin: Admin, text: string) {
  const { id, name, ...facts } = adminDetails(admin);
  return { id, name, token: text, ...facts };
}
