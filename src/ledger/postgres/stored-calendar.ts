import type { Calendar } from "../../ports/calendar.ts";
import { calendarOf } from "../../platform/clock.ts";
import type { Database } from "./connection.ts";
import { storedTimeZone } from "./time-zone.ts";

/** The ledger's own calendar; the given one where it has none yet. */
export async function storedCalendar(database: Database, otherwise: Calendar): Promise<Calendar> {
  const stored = await storedTimeZone(database);
  return stored === null || stored === otherwise.timeZone ? otherwise : calendarOf(stored);
}
