import type { AccountSamples, AuditLog } from "../../ports/stores.ts";
import type { Refusals } from "../../ports/refusals.ts";
import type { ListQueries } from "../../ports/lists.ts";
import type { BudgetStore, LedgerMaintenance, LedgerQueries, ReportQuery } from "../../ports/ledger.ts";
import type { SpentBefore } from "../rows/budgets.ts";
import type { PostedCharge } from "../what-if-sums.ts";
import type { Budget } from "../../core/budget.ts";

/** Queries that may take seconds. A proxy answers them on a separate thread. */
export interface LongQueries extends ListQueries {
  readonly charges: LedgerQueries["charges"];
  readonly recent: LedgerQueries["recent"];
  readonly report: LedgerQueries["report"];
  readonly spend: LedgerQueries["spend"];
  readonly agentSessions: LedgerQueries["agentSessions"];
  readonly agentSums: LedgerQueries["agentSums"];
  readonly rawUnits: LedgerQueries["rawUnits"];
  readonly prunedUntil: LedgerQueries["prunedUntil"];
  readonly firstDay: LedgerQueries["firstDay"];
  readonly totals: LedgerQueries["totals"];
  readonly corrections: LedgerQueries["corrections"];
  readonly windows: BudgetStore["windows"];
  readonly windowsToAlert: BudgetStore["windowsToAlert"];
  readonly samples: AccountSamples["list"];
  readonly audit: AuditLog["entries"];
  readonly refusals: Refusals["list"];
  readonly refusalCauses: Refusals["causes"];
  readonly refused: Refusals["count"];
  readonly excessRefusals: Refusals["excess"];
  readonly verify: LedgerMaintenance["verify"];
  /**
   * Returns the amounts spent in the windows of a new budget. The command that creates the budget opens its windows
   * with these amounts. `upTo`: `seq` of a charge; this charge and all earlier ones must be visible. The default is
   * the newest charge. Returns null in the cases that `readSpentBefore` lists.
   */
  readonly spentBefore: (
    budget: Pick<Budget, "scope" | "period">,
    at: number,
    upTo?: number,
  ) => Promise<SpentBefore | null>;
  /** Returns a page of posted charges for `whatIf`. */
  readonly postedCharges: (query: ReportQuery, after: PageEnd | null) => Promise<PostedChargePage>;
}

/** Message that asks another thread to answer a long query. */
export type LongQuery = {
  [Name in keyof LongQueries]: readonly [name: Name, ...args: Parameters<LongQueries[Name]>];
}[keyof LongQueries];

/** Last charge of a page. The next page starts after it. */
export interface PageEnd {
  readonly at: number;
  readonly seq: number;
}

export interface PostedChargePage {
  readonly charges: readonly PostedCharge[];
  /** Null after the last page. */
  readonly end: PageEnd | null;
}
