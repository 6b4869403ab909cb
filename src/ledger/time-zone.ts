import type { Calendar } from "../ports/calendar.ts";
import { LedgerUnavailable } from "../ports/ledger.ts";
import { rowOf, type Query } from "./queries/query.ts";

/**
 * Throws `LedgerUnavailable` if the ledger's stored time zone is no longer that of the calendar. A proxy may start in
 * another time zone while a command runs, and the windows and days of the command would then be wrong. Must run after
 * the transaction has locked the budgets.
 */
export function* checkTimeZone({ timeZone }: Calendar): Query<void> {
  const meta = yield* rowOf<{ time_zone: string | null }>({ sql: "select time_zone from meta", values: [] });
  const stored = meta?.time_zone ?? timeZone;
  if (stored !== timeZone)
    throw new LedgerUnavailable(
      `the time zone of the ledger has changed from ${timeZone} to ${stored}; run the command again`,
    );
}
