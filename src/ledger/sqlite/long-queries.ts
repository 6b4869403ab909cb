import type { Calendar } from "../../ports/calendar.ts";
import type { LongQueries } from "../long-queries.ts";
import { sqliteDialect } from "../queries/dialects.ts";
import { sharedQueries } from "../queries/long-queries.ts";
import { answer } from "./answer.ts";
import type { Connection } from "./connection.ts";
import { copyInto } from "./copy.ts";
import { readWindows, readWindowsToAlert } from "./short-queries.ts";
import { readRecent } from "./recent.ts";
import { verify } from "./verify.ts";

/** Returns the long queries of a file, each answered at once on this thread. */
export function longQueries(db: Connection, calendar: Calendar): LongQueries {
  return {
    ...sharedQueries(sqliteDialect, calendar, async (query) => answer(db, query)),
    recent: async (query) => readRecent(db, query),
    windows: async (at) => readWindows(db, calendar, at),
    windowsToAlert: async (at, limit) => readWindowsToAlert(db, calendar, at, limit),
    verify: async (onProgress) => verify(db, { calendar, onProgress }),
    copy: async (file) => copyInto(db, file),
  };
}
