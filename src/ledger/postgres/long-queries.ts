import type { Calendar } from "../../ports/calendar.ts";
import type { LongQueries } from "../queries/interfaces.ts";
import { postgresDialect } from "../queries/dialects.ts";
import { sharedQueries } from "../queries/shared.ts";
import { answer } from "./answer.ts";
import type { Database } from "./connection.ts";
import { readWindows, readWindowsToAlert } from "./short-queries.ts";
import { readRecent } from "./recent.ts";
import { verify } from "./verify.ts";

/**
 * Returns the long queries of a server, each from one snapshot. As many run at a time as the database has connections.
 */
export function longQueries(database: Database, calendar: Calendar): LongQueries {
  const shared = sharedQueries(postgresDialect, calendar, (query) =>
    database.transaction((db) => answer(db, query), "snapshot"),
  );
  return {
    ...shared,
    async totals() {
      const totals = await shared.totals();
      // Rows do not become visible in the order of their numbers. With the requests added, each row advances the
      // counter.
      return { ...totals, written: totals.written + totals.requests };
    },
    recent: (query) => readRecent(database, query),
    windows: (at) => database.transaction((db) => readWindows(db, calendar, at), "snapshot"),
    windowsToAlert: (at, limit) =>
      database.transaction((db) => readWindowsToAlert(db, calendar, at, limit), "snapshot"),
    verify: (onProgress) => verify(database, { calendar, onProgress }),
    copy: () => Promise.reject(new Error("a database on a server is copied by its own tools")),
  };
}
