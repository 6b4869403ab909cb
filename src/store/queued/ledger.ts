import { fareboxAdmin } from "../../core/admins.ts";
import type { LedgerTotals } from "../../core/account-sample.ts";
import type { Budget, BudgetWindow, Caller } from "../../core/budget.ts";
import type { Charge } from "../../core/charge.ts";
import type { PriceVersion } from "../../core/price.ts";
import type { ChargeInputs, Recomputed } from "../../core/what-if.ts";
import type { CorrectionMade } from "../../core/reconciliation.ts";
import type {
  AdjustResult,
  ChargePage,
  ChargeQuery,
  Correction,
  Ledger,
  OldHold,
  RawUnits,
  OfSession,
  ReportQuery,
  ReportRow,
  TimeSpan,
  Verification,
  WhatIfRow,
} from "../../ports/ledger.ts";
import type { RecentCursor, RecentQuery, SpendQuery, SpendRow } from "../../ports/spend.ts";
import { WhatIfSummer } from "../what-if-sums.ts";
import type { LongReads, PageEnd, PostingPage } from "../long-reads.ts";
import { submitOrThrow, type CommandQueue } from "../queue.ts";
import type { ShortReadings } from "../readings.ts";
import { QueuedCharges } from "./charges.ts";

/** Orphaned holds that one transaction ends at most. */
const recoveredAtOnce = 200;

/** A ledger in a database: writes through the queue of the writer, reads on connections of their own. */
export class QueuedLedger extends QueuedCharges implements Ledger {
  readonly #queue: CommandQueue;
  readonly #reads: ShortReadings;
  readonly #longReads: LongReads;
  readonly #figureReads: LongReads;
  readonly #stream: Ledger["stream"];

  /** `figureReads`: answers what is looked at all the time, and may be the same as `longReads`. */
  constructor(
    queue: CommandQueue,
    reads: ShortReadings,
    longReads: LongReads,
    figureReads: LongReads,
    stream: Ledger["stream"],
  ) {
    super(queue);
    this.#queue = queue;
    this.#reads = reads;
    this.#longReads = longReads;
    this.#figureReads = figureReads;
    this.#stream = stream;
  }

  async adjust(id: string, correction: Correction): Promise<AdjustResult> {
    const answer = await this.#queue.submit(["adjust", id, correction]);
    return answer.ok ? answer.reply : "unavailable";
  }

  async setBudget(budget: Omit<Budget, "id">, at: number, by = fareboxAdmin): Promise<Budget> {
    return submitOrThrow(this.#queue, ["run", "budgets.setBudget", [budget, at, by]]);
  }

  async removeBudget(scope: string, period: string, at: number, by = fareboxAdmin): Promise<boolean> {
    return submitOrThrow(this.#queue, ["run", "budgets.removeBudget", [scope, period, at, by]]);
  }

  async budgets(): Promise<readonly Budget[]> {
    return this.#reads.budgets();
  }

  async windows(at: number): Promise<readonly BudgetWindow[]> {
    return this.#figureReads.read({ kind: "windows", at });
  }

  async windowsOf(caller: Caller, at: number): Promise<readonly BudgetWindow[]> {
    return this.#reads.windowsOf(caller, at);
  }

  async windowsToAlert(at: number, limit: number): Promise<readonly BudgetWindow[]> {
    return this.#longReads.read({ kind: "windowsToAlert", at, limit });
  }

  async charge(id: string): Promise<Charge | undefined> {
    return this.#reads.charge(id);
  }

  async charges(query: ChargeQuery): Promise<ChargePage> {
    return this.#longReads.read({ kind: "charges", query });
  }

  async recent(query: RecentQuery): Promise<{ readonly charges: readonly Charge[]; readonly cursor: RecentCursor }> {
    return this.#longReads.read({ kind: "recent", query });
  }

  stream(span: TimeSpan): AsyncIterable<readonly Charge[]> {
    return this.#stream(span);
  }

  async price(id: string): Promise<PriceVersion | undefined> {
    return this.#reads.price(id);
  }

  async report(query: ReportQuery & OfSession): Promise<readonly ReportRow[]> {
    return this.#longReads.read({ kind: "report", query });
  }

  async rawUnits(span: TimeSpan): Promise<readonly RawUnits[]> {
    return this.#longReads.read({ kind: "rawUnits", span });
  }

  async spend(query: SpendQuery): Promise<readonly SpendRow[]> {
    return this.#longReads.read({ kind: "spend", query });
  }

  async whatIf(
    query: ReportQuery,
    recompute: (charge: ChargeInputs) => Recomputed,
    onProgress?: (share: number) => void,
  ): Promise<readonly WhatIfRow[]> {
    const sums = new WhatIfSummer(query.by, recompute);
    let after: PageEnd | null = null;
    do {
      const page: PostingPage = await this.#longReads.read({ kind: "postings", query, after });
      for (const posting of page.postings) sums.add(posting);
      after = page.end;
      if (after !== null) onProgress?.((after.at - query.since) / (query.until - query.since));
    } while (after !== null);
    return sums.rows();
  }

  async prunedUntil(): Promise<number | null> {
    return this.#longReads.read({ kind: "prunedUntil" });
  }

  async pending(): Promise<{ readonly count: number; readonly oldestAt: number | null }> {
    return this.#reads.pending();
  }

  async totals(): Promise<LedgerTotals> {
    return this.#longReads.read({ kind: "totals" });
  }

  async corrections(since: number, until: number): Promise<readonly CorrectionMade[]> {
    return this.#longReads.read({ kind: "corrections", since, until });
  }

  async recover(at: number): Promise<number> {
    let total = 0;
    for (;;) {
      const count = await submitOrThrow(this.#queue, ["recover", at, recoveredAtOnce]);
      total += count;
      if (count < recoveredAtOnce) return total;
    }
  }

  async isWritable(): Promise<boolean> {
    return (await this.#queue.submit(["touch"])).ok;
  }

  async oldHolds(before: number): Promise<readonly OldHold[]> {
    return this.#reads.oldHolds(before);
  }

  async verify(onProgress?: (share: number) => void): Promise<Verification> {
    return this.#longReads.read({ kind: "verify" }, onProgress);
  }
}
