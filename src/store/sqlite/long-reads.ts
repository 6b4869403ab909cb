import type { Calendar } from "../../ports/calendar.ts";
import type { LongRead, LongReadAnswers } from "../long-reads.ts";
import { readCorrections, readSamples, readTotals } from "./account-samples.ts";
import { readAudit } from "./audit-entries.ts";
import type { Connection } from "./connection.ts";
import { copyInto } from "./copy.ts";
import { readUntoldWindows } from "./outbox.ts";
import { readPostings } from "./postings.ts";
import { readCharges } from "./reads.ts";
import { readRecent } from "./recent.ts";
import { readPrunedUntil, readReport } from "./report.ts";
import { readSpend } from "./spend.ts";
import { verify } from "./verify.ts";

export function readLong(
  db: Connection,
  calendar: Calendar,
  read: LongRead,
  onProgress?: (share: number) => void,
): LongReadAnswers[LongRead["kind"]] {
  switch (read.kind) {
    case "charges":
      return readCharges(db, read.query);
    case "recent":
      return readRecent(db, read.query);
    case "report":
      return readReport(db, calendar, read.query);
    case "spend":
      return readSpend(db, calendar, read.query);
    case "postings":
      return readPostings(db, calendar, read.query, read.after);
    case "untoldWindows":
      return readUntoldWindows(db, calendar, read.at, read.limit);
    case "prunedUntil":
      return readPrunedUntil(db, calendar);
    case "totals":
      return readTotals(db);
    case "corrections":
      return readCorrections(db, read.since, read.until);
    case "samples":
      return readSamples(db, read.since, read.until);
    case "audit":
      return readAudit(db, read.query);
    case "verify":
      return verify(db, calendar, onProgress);
    case "copy":
      return copyInto(db, read.file);
  }
}
