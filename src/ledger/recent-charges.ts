import type { RecentQuery } from "../ports/spend.ts";
import { Conditions } from "./queries/page.ts";

/** Number of charges that a query without a cursor scans. */
const firstQueryCharges = 5_000;
/** Number of charges that a query with a cursor scans. Small, because clients send such a query every second. */
const laterQueryCharges = 1_000;
/** Longest expected delay between a charge's recorded end and the write of that end, in milliseconds. */
export const writeDelayMsMax = 2_000;

/** Returns how many of the newest charges a query scans. */
export function chargesToScan({ after }: RecentQuery): number {
  return after === undefined ? firstQueryCharges : laterQueryCharges;
}

/** Returns the SQL conditions of a query, without the condition of its cursor. */
export function recentConditions({ key, team, model, state }: RecentQuery): Conditions {
  return new Conditions().add("key = ?", key).add("team = ?", team).add("model = ?", model).add("state = ?", state);
}
