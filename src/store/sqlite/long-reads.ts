import type { Calendar } from "../../ports/calendar.ts";
import type { LongRead, LongReadAnswers } from "../long-reads.ts";
import { sqliteDialect } from "../reading/dialects.ts";
import { readingOf } from "../reading/long-reads.ts";
import { answer } from "./answer.ts";
import type { Connection } from "./connection.ts";
import { copyInto } from "./copy.ts";
import { readWindowsToAlert, readWindows } from "./reads.ts";
import { readRecent } from "./recent.ts";
import { verify } from "./verify.ts";

export function readLong(
  db: Connection,
  calendar: Calendar,
  read: LongRead,
  onProgress?: (share: number) => void,
): LongReadAnswers[LongRead["kind"]] {
  switch (read.kind) {
    case "recent":
      return readRecent(db, read.query);
    case "windows":
      return readWindows(db, calendar, read.at);
    case "windowsToAlert":
      return readWindowsToAlert(db, calendar, read.at, read.limit);
    case "verify":
      return verify(db, { calendar, onProgress });
    case "copy":
      return copyInto(db, read.file);
    default:
      return answer(db, readingOf(sqliteDialect, calendar, read));
  }
}
