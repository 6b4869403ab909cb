import type { Calendar } from "../../ports/calendar.ts";
import type { OpenFailure } from "../store.ts";
import { lockBudgets, rebuildWindows } from "./budgets.ts";
import { announce } from "./changes.ts";
import type { Database, Statements } from "./connection.ts";
import { rebuildDays } from "./rollups.ts";

/** The zone of windows and days; null where none was stored yet. */
export async function storedTimeZone(db: Statements): Promise<string | null> {
  const row = await db.row<{ time_zone: string | null }>("select time_zone from meta");
  return row?.time_zone ?? null;
}

/**
 * Stores the zone; where it is another one than before, windows and days are rebuilt from the charges. Refused while
 * other proxies than `except` count in the zone that is stored.
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
    if (stored !== null && (await othersRun(db, except))) {
      return {
        kind: "unusable",
        message: `the proxies that run on it count in ${stored}, and this one is to count in ${timeZone}: set FAREBOX_TIME_ZONE=${stored}, or stop them first`,
      };
    }
    await db.run("update meta set time_zone = $1", [timeZone]);
    await rebuildWindows(db, calendar, at);
    await rebuildDays(db, calendar);
    await announce(db);
    return null;
  });
}

async function othersRun(db: Statements, except: number | null): Promise<boolean> {
  const row = await db.row(
    `select 1 from owners where serves = 1 and ended_at is null and epoch is distinct from $1::bigint
     and beat_at > clock_timestamp() - interval '5 seconds' limit 1`,
    [except],
  );
  return row !== undefined;
}
