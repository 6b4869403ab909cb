import type { Calendar } from "../../ports/calendar.ts";
import type { OpenFailure } from "../store.ts";
import { lockBudgets, rebuildWindows } from "./budget-steps.ts";
import { announce } from "./changes.ts";
import type { Database, Statements } from "./connection.ts";
import { isLiveProxy } from "./owners.ts";
import { calendarOf } from "../../platform/clock.ts";
import { chargeCounts } from "../queries/report.ts";
import { rollupAmounts, rollupCounts, rollupDimensions, rollupSums, selectDimensions } from "../rollups.ts";

/** Returns the stored time zone of windows and days; null if none is stored yet. */
export async function storedTimeZone(db: Statements): Promise<string | null> {
  const row = await db.row<{ time_zone: string | null }>("select time_zone from meta");
  return row?.time_zone ?? null;
}

/**
 * Stores the time zone. If it changes, rebuilds the windows and the rollup by days from the charges. Returns a failure
 * if the time zone would change while a proxy other than `except` runs on the ledger.
 */
export async function applyTimeZone(
  database: Database,
  calendar: Calendar,
  { at, except }: { readonly at: number; readonly except: number | null },
): Promise<OpenFailure | null> {
  const { timeZone } = calendar;
  return database.transaction(async (db) => {
    await lockBudgets(db);
    const stored = await storedTimeZone(db);
    if (stored === timeZone) return null;
    if (stored !== null && (await hasOtherProxies(db, except))) {
      return {
        kind: "unusable",
        message: `the running proxies use the time zone ${stored}, but this proxy is set to ${timeZone}; set FAREBOX_TIME_ZONE=${stored}, or stop those proxies first`,
      };
    }
    await db.run("update meta set time_zone = $1", [timeZone]);
    await rebuildDays(db, calendar);
    await rebuildWindows(db, calendar, at);
    await announce(db);
    return null;
  });
}

async function hasOtherProxies(db: Statements, except: number | null): Promise<boolean> {
  const sql = `select 1 from owners where ${isLiveProxy} and epoch is distinct from $1::bigint limit 1`;
  return (await db.row(sql, [except])) !== undefined;
}

/** Returns the calendar of the ledger's stored time zone; `otherwise` if the ledger stores none yet. */
export async function storedCalendar(database: Database, otherwise: Calendar): Promise<Calendar> {
  const stored = await storedTimeZone(database);
  return stored === null || stored === otherwise.timeZone ? otherwise : calendarOf(stored);
}

/** Rebuilds the rollup by days from the charges and carried sums, for another time zone. Call `lockBudgets` first. */
export async function rebuildDays(db: Statements, calendar: Calendar): Promise<void> {
  await db.run("delete from rollup_day");
  const { dates, starts, ends } = await daysOfCharges(db, calendar);
  await db.run(
    `insert into rollup_day (day, ${[...rollupDimensions, "shard", ...rollupSums].join(", ")})
     select day, ${selectDimensions}, 0,
       ${rollupCounts.map((name) => `sum(${chargeCounts[name]})`).join(", ")},
       ${rollupAmounts.map((name) => `coalesce(sum(charges.${name}), 0)`).join(", ")}
     from unnest($1::text[], $2::bigint[], $3::bigint[]) days (day, starts_at, ends_at)
     join charges on admitted_at >= starts_at and admitted_at < ends_at and state = 'posted'
     left join carried on carried.charge = charges.seq
     group by 1, ${rollupDimensions.map((_, index) => index + 2).join(", ")}`,
    [dates, starts, ends],
  );
}

/** Returns all days of the calendar from the first charge to the last. */
async function daysOfCharges(db: Statements, calendar: Calendar) {
  const days = { dates: [] as string[], starts: [] as number[], ends: [] as number[] };
  const range = await db.row<{ first: bigint | null; last: bigint | null }>(
    "select min(admitted_at) as first, max(admitted_at) as last from charges",
  );
  if (range?.first == null || range.last === null) return days;
  for (let at = Number(range.first); at <= Number(range.last);) {
    const { start, end } = calendar.spanOf("1d", at);
    days.dates.push(calendar.dateOf(at));
    days.starts.push(start);
    days.ends.push(end ?? at + 1);
    at = end ?? at + 1;
  }
  return days;
}
