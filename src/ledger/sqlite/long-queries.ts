import type { Calendar } from "../../ports/calendar.ts";
import type { LongQueries } from "../queries/interfaces.ts";
import { sqliteDialect } from "../queries/dialects.ts";
import { sharedQueries } from "../queries/shared.ts";
import { answer } from "./answer.ts";
import { createPrivateFile, type Connection } from "./connection.ts";
import { readWindows, readWindowsToAlert } from "./short-queries.ts";
import { readRecent } from "./recent.ts";
import { verify } from "./verify.ts";
import { closeSync, fsyncSync, openSync } from "node:fs";
import { dirname } from "node:path";

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

/**
 * Writes everything that the connection sees to a new file, durably. This includes a file that was deleted while open.
 */
export function copyInto(db: Connection, file: string): string {
  if (createPrivateFile(file) === "exists") throw new Error(`${file} already exists`);
  db.prepare("vacuum into ?").run(file);
  for (const path of [file, dirname(file)]) {
    const open = openSync(path, "r");
    fsyncSync(open);
    closeSync(open);
  }
  return file;
}
