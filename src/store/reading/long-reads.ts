import type { Calendar } from "../../ports/calendar.ts";
import type { LongRead, LongReadAnswers } from "../long-reads.ts";
import { samples } from "../tables/account-samples.ts";
import { readAudit } from "../tables/audit.ts";
import { readCorrections, readTotals } from "./account.ts";
import { readCharges } from "./charges.ts";
import { readPostings } from "./postings.ts";
import { readPrunedUntil } from "./pruned.ts";
import type { Dialect } from "./dialects.ts";
import type { Reading } from "./reading.ts";
import { readRawUnits } from "./raw-units.ts";
import { readReport } from "./report.ts";
import { readSpend } from "./spend.ts";

/** Long reads that both databases answer alike. */
export type SharedRead = Exclude<
  LongRead,
  { readonly kind: "recent" | "windows" | "windowsToAlert" | "verify" | "copy" }
>;

export function readingOf(
  dialect: Dialect,
  calendar: Calendar,
  read: SharedRead,
): Reading<LongReadAnswers[SharedRead["kind"]]> {
  switch (read.kind) {
    case "charges":
      return readCharges(dialect, read.query);
    case "report":
      return readReport(dialect, calendar, read.query);
    case "spend":
      return readSpend(calendar, read.query);
    case "rawUnits":
      return readRawUnits(read.span);
    case "postings":
      return readPostings(dialect, calendar, read.query, read.after);
    case "prunedUntil":
      return readPrunedUntil(dialect, calendar);
    case "totals":
      return readTotals();
    case "corrections":
      return readCorrections(read.since, read.until);
    case "samples":
      return samples.queries.list(read.since, read.until);
    case "audit":
      return readAudit(read.query);
  }
}
