import type { AccountSamples } from "../../ports/account-samples.ts";
import type { AuditLog } from "../../ports/audit-log.ts";
import type { BudgetStore, LedgerMaintenance, LedgerQueries, ReportQuery, OldHold } from "../../ports/ledger.ts";
import type { PostedCharge } from "../what-if-sums.ts";
import type { Budget, BudgetWindow, Caller } from "../../core/budget.ts";
import type { Charge } from "../../core/charge.ts";
import type { PriceVersion } from "../../core/price.ts";

/** Queries that may take seconds. A proxy answers them on a thread of their own. */
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
  /** A page of charges as `whatIf` needs them. */
  readonly postings: (query: ReportQuery, after: PageEnd | null) => Promise<PostingPage>;
  /** Writes all that there is into a new file. */
  readonly copy: (file: string) => Promise<string>;
}

/** A long query as another thread is asked for it. */
export type LongQuery = {
  [Name in keyof LongQueries]: readonly [name: Name, ...args: Parameters<LongQueries[Name]>];
}[keyof LongQueries];

/** End of a page of postings: its last charge, or the instant from which on there is none. */
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
 * Short reads, as the stores over the queue ask for them: of a file they are answered at once, of a server later.
 */

export type Later<T> = T | Promise<T>;

/** See the ledger's port. */
export interface ShortQueries {
  charge(id: string): Later<Charge | undefined>;
  price(id: string): Later<PriceVersion | undefined>;
  pending(): Later<{ readonly count: number; readonly oldestAt: number | null }>;
  oldHolds(before: number): Later<readonly OldHold[]>;
  budgets(): Later<readonly Budget[]>;
  windowsOf(caller: Caller, at: number): Later<readonly BudgetWindow[]>;
}
