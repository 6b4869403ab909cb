import type { AccountSamples } from "../../ports/account-samples.ts";
import type { AuditLog } from "../../ports/audit-log.ts";
import type { BudgetStore, LedgerMaintenance, LedgerQueries, ReportQuery, OldHold } from "../../ports/ledger.ts";
import type { PostedCharge } from "../what-if-sums.ts";
import type { Budget, BudgetWindow, Caller } from "../../core/budget.ts";
import type { Charge } from "../../core/charge.ts";
import type { PriceVersion } from "../../core/price.ts";

/** Queries that may take seconds. A proxy answers them on a separate thread. */
export interface LongQueries {
  readonly charges: LedgerQueries["charges"];
  readonly recent: LedgerQueries["recent"];
  readonly report: LedgerQueries["report"];
  readonly spend: LedgerQueries["spend"];
  readonly rawUnits: LedgerQueries["rawUnits"];
  readonly prunedUntil: LedgerQueries["prunedUntil"];
  readonly totals: LedgerQueries["totals"];
  readonly corrections: LedgerQueries["corrections"];
  readonly windows: BudgetStore["windows"];
  readonly windowsToAlert: BudgetStore["windowsToAlert"];
  readonly samples: AccountSamples["list"];
  readonly audit: AuditLog["entries"];
  readonly verify: LedgerMaintenance["verify"];
  /** Returns a page of charges for `whatIf`. */
  readonly postings: (query: ReportQuery, after: PageEnd | null) => Promise<PostingPage>;
  /** Writes the whole ledger to a new file. */
  readonly copy: (file: string) => Promise<string>;
}

/** Message that asks another thread for a long query. */
export type LongQuery = {
  [Name in keyof LongQueries]: readonly [name: Name, ...args: Parameters<LongQueries[Name]>];
}[keyof LongQueries];

/** End of a page of postings: its last charge. */
export interface PageEnd {
  readonly at: number;
  readonly seq: number;
}

export interface PostingPage {
  readonly postings: readonly PostedCharge[];
  /** Null after the last page. */
  readonly end: PageEnd | null;
}

/*
 * Short queries are answered at once from a file, and later from a server.
 */

export type Later<T> = T | Promise<T>;

/** Queries that take milliseconds at most; see the ledger's port. */
export interface ShortQueries {
  charge(id: string): Later<Charge | undefined>;
  price(id: string): Later<PriceVersion | undefined>;
  pending(): Later<{ readonly count: number; readonly oldestAt: number | null }>;
  oldHolds(before: number): Later<readonly OldHold[]>;
  budgets(): Later<readonly Budget[]>;
  windowsOf(caller: Caller, at: number): Later<readonly BudgetWindow[]>;
}
