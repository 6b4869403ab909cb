import type { AccountSample, LedgerTotals } from "../../core/account-sample.ts";
import type { BudgetWindow } from "../../core/budget.ts";
import type { Charge } from "../../core/charge.ts";
import type { CorrectionMade } from "../../core/reconciliation.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { AuditPage, AuditQuery } from "../../ports/audit-log.ts";
import type { ChargePage, ChargeQuery, ReportQuery, ReportRow, Verification } from "../../ports/ledger.ts";
import type { RecentCursor, RecentQuery, SpendQuery, SpendRow } from "../../ports/spend.ts";
import { readCorrections, readSamples, readTotals } from "./account-samples.ts";
import { readAudit } from "./audit-entries.ts";
import type { Connection } from "./connection.ts";
import { copyInto } from "./copy.ts";
import { readUntoldWindows } from "./outbox.ts";
import { readPostings, type PageEnd, type PostingPage } from "./postings.ts";
import { readCharges } from "./reads.ts";
import { readRecent } from "./recent.ts";
import { readPrunedUntil, readReport } from "./report.ts";
import { readSpend } from "./spend.ts";
import { verify } from "./verify.ts";

/** Reads that may take seconds. */
export type LongRead =
  | { readonly kind: "charges"; readonly query: ChargeQuery }
  | { readonly kind: "recent"; readonly query: RecentQuery }
  | { readonly kind: "report"; readonly query: ReportQuery }
  | { readonly kind: "spend"; readonly query: SpendQuery }
  | { readonly kind: "postings"; readonly query: ReportQuery; readonly after: PageEnd | null }
  | { readonly kind: "untoldWindows"; readonly at: number; readonly limit: number }
  | { readonly kind: "prunedUntil" }
  | { readonly kind: "totals" }
  | { readonly kind: "corrections"; readonly since: number; readonly until: number }
  | { readonly kind: "samples"; readonly since: number; readonly until: number }
  | { readonly kind: "audit"; readonly query: AuditQuery }
  | { readonly kind: "verify" }
  /** Writes all that there is into a new file. */
  | { readonly kind: "copy"; readonly file: string };

export interface LongReadAnswers {
  charges: ChargePage;
  recent: { readonly charges: readonly Charge[]; readonly cursor: RecentCursor };
  report: readonly ReportRow[];
  spend: readonly SpendRow[];
  postings: PostingPage;
  untoldWindows: readonly BudgetWindow[];
  prunedUntil: number | null;
  totals: LedgerTotals;
  corrections: readonly CorrectionMade[];
  samples: readonly AccountSample[];
  audit: AuditPage;
  verify: Verification;
  copy: string;
}

/** Answers long reads; in a thread of its own where a proxy runs. */
export interface LongReads {
  /** `onProgress` is told the share that is done where the work is not on another thread, and only by a verification. */
  read<R extends LongRead>(read: R, onProgress?: (share: number) => void): Promise<LongReadAnswers[R["kind"]]>;
  close(): Promise<void>;
}

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
