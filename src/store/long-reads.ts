import type { AccountSample, LedgerTotals } from "../core/account-sample.ts";
import type { BudgetWindow } from "../core/budget.ts";
import type { Charge } from "../core/charge.ts";
import type { CorrectionMade } from "../core/reconciliation.ts";
import type { AuditPage, AuditQuery } from "../ports/audit-log.ts";
import type {
  ChargePage,
  ChargeQuery,
  OfSession,
  RawUnits,
  ReportQuery,
  ReportRow,
  TimeSpan,
  Verification,
} from "../ports/ledger.ts";
import type { RecentCursor, RecentQuery, SpendQuery, SpendRow } from "../ports/spend.ts";
import type { PostedCharge } from "./what-if-sums.ts";

/** Reads that may take seconds. */
export type LongRead =
  | { readonly kind: "charges"; readonly query: ChargeQuery }
  | { readonly kind: "recent"; readonly query: RecentQuery }
  | { readonly kind: "report"; readonly query: ReportQuery & OfSession }
  | { readonly kind: "spend"; readonly query: SpendQuery }
  | { readonly kind: "rawUnits"; readonly span: TimeSpan }
  | { readonly kind: "postings"; readonly query: ReportQuery; readonly after: PageEnd | null }
  | { readonly kind: "windows"; readonly at: number }
  | { readonly kind: "windowsToAlert"; readonly at: number; readonly limit: number }
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
  rawUnits: readonly RawUnits[];
  postings: PostingPage;
  windows: readonly BudgetWindow[];
  windowsToAlert: readonly BudgetWindow[];
  prunedUntil: number | null;
  totals: LedgerTotals;
  corrections: readonly CorrectionMade[];
  samples: readonly AccountSample[];
  audit: AuditPage;
  verify: Verification;
  copy: string;
}

/** Where a page of postings ends: its last charge, or the instant from which on there is none. */
export interface PageEnd {
  readonly at: number;
  readonly seq: number;
}

export interface PostingPage {
  readonly postings: readonly PostedCharge[];
  /** Null after the last page. */
  readonly end: PageEnd | null;
}

/** Answers long reads; in a thread of its own where a proxy runs. */
export interface LongReads {
  /** `onProgress` is told the share that is done where the work is not on another thread, and only by a verification. */
  read<R extends LongRead>(read: R, onProgress?: (share: number) => void): Promise<LongReadAnswers[R["kind"]]>;
  close(): Promise<void>;
}
