import { fareboxItself } from "../../core/admins.ts";
import type { LedgerTotals } from "../../core/account-sample.ts";
import type { Budget, BudgetWindow, Caller } from "../../core/budget.ts";
import type { Charge } from "../../core/charge.ts";
import type { PicoUsd } from "../../core/money.ts";
import type { PriceVersion } from "../../core/price.ts";
import type { ChargedFacts, Recomputed } from "../../core/what-if.ts";
import type { CorrectionMade } from "../../core/reconciliation.ts";
import type {
  AdjustResult, ChargeEnd, ChargePage, ChargeQuery, Correction, ExtendResult, HoldRequest, HoldResult, Ledger, OldHold, Posting, ReportQuery, ReportRow,
  SettleResult, TimeSpan, Verification, WhatIfRow,
} from "../../ports/ledger.ts";
import type { RecentCursor, RecentQuery, SpendQuery, SpendRow } from "../../ports/spend.ts";
import { WhatIfSummer } from "../what-if-sums.ts";
import { holdCommand, postCommand, voidCommand } from "../commands.ts";
import type { LongReads, PageEnd, PostingPage } from "../long-reads.ts";
import { submitOrThrow, type CommandQueue } from "../queue.ts";
import type { ShortReadings } from "../readings.ts";

/** Price ids that are remembered as written at most. */
const pricesKept = 10_000;
/** Orphaned holds that one transaction ends at most. */
const recoveredAtOnce = 200;

const unavailable = { ok: false, reason: "unavailable" } as const;

/** A ledger in a database: writes through the queue of the writer, reads on connections of their own. */
export class QueuedLedger implements Ledger {
  readonly #queue: CommandQueue;
  readonly #reads: ShortReadings;
  readonly #longReads: LongReads;
  readonly #stream: Ledger["stream"];
  /** Prices that are durable: their text need not cross to the writer again. */
  readonly #pricesWritten = new Set<string>();

  constructor(queue: CommandQueue, reads: ShortReadings, longReads: LongReads, stream: Ledger["stream"]) {
    this.#queue = queue;
    this.#reads = reads;
    this.#longReads = longReads;
    this.#stream = stream;
  }

  async hold(request: HoldRequest): Promise<HoldResult> {
    const priceId = request.price?.id;
    const isWritten = priceId !== undefined && this.#pricesWritten.has(priceId);
    const answer = await this.#queue.submit(holdCommand(request, !isWritten));
    if (!answer.ok) return unavailable;
    if (answer.reply.ok && priceId !== undefined && !isWritten) {
      if (this.#pricesWritten.size >= pricesKept) this.#pricesWritten.clear();
      this.#pricesWritten.add(priceId);
    }
    return answer.reply;
  }

  async extend(id: string, amount: PicoUsd, atLeast: PicoUsd): Promise<ExtendResult> {
    const answer = await this.#queue.submit(["extend", id, amount, atLeast]);
    return answer.ok ? answer.reply : unavailable;
  }

  async post(id: string, posting: Posting, end: ChargeEnd): Promise<SettleResult> {
    const answer = await this.#queue.submit(postCommand(id, posting, end));
    return answer.ok ? answer.reply : unavailable;
  }

  async void(id: string, reason: string, end: ChargeEnd): Promise<SettleResult> {
    const answer = await this.#queue.submit(voidCommand(id, reason, end));
    return answer.ok ? answer.reply : unavailable;
  }

  async adjust(id: string, correction: Correction): Promise<AdjustResult> {
    const answer = await this.#queue.submit(["adjust", id, correction]);
    return answer.ok ? answer.reply : "unavailable";
  }

  async setBudget(budget: Omit<Budget, "id">, at: number, by = fareboxItself): Promise<Budget> {
    return submitOrThrow(this.#queue, ["setBudget", budget, at, by]);
  }

  async removeBudget(scope: string, period: string, at: number, by = fareboxItself): Promise<boolean> {
    return submitOrThrow(this.#queue, ["removeBudget", scope, period, at, by]);
  }

  async budgets(): Promise<readonly Budget[]> {
    return this.#reads.budgets();
  }

  async windows(at: number): Promise<readonly BudgetWindow[]> {
    return this.#reads.windows(at);
  }

  async windowsOf(caller: Caller, at: number): Promise<readonly BudgetWindow[]> {
    return this.#reads.windowsOf(caller, at);
  }

  async untoldWindows(at: number, limit: number): Promise<readonly BudgetWindow[]> {
    return this.#longReads.read({ kind: "untoldWindows", at, limit });
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

  async report(query: ReportQuery): Promise<readonly ReportRow[]> {
    return this.#longReads.read({ kind: "report", query });
  }

  async spend(query: SpendQuery): Promise<readonly SpendRow[]> {
    return this.#longReads.read({ kind: "spend", query });
  }

  async whatIf(query: ReportQuery, recompute: (charge: ChargedFacts) => Recomputed, onProgress?: (share: number) => void): Promise<readonly WhatIfRow[]> {
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

  /** Writes what waits. Reads need no end of their own. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#queue.close();
  }
}
