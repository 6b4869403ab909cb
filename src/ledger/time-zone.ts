import type { Calendar } from "../ports/calendar.ts";

/**
 * Throws an error if the ledger's stored time zone is no longer that of the calendar. A proxy may start in another time
 * zone while a command runs, and the windows of the command would then be wrong. `stored`: null if none is stored yet.
 */
export function checkTimeZone(stored: string | null, { timeZone }: Calendar): void {
  if (stored === null || stored === timeZone) return;
  throw new Error(`the time zone of the ledger has changed from ${timeZone} to ${stored}; run the command again`);
}
