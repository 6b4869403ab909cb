import { fareboxAdmin } from "../../core/keys.ts";
import type { Ledger } from "../../ports/ledger.ts";
import type { LongQueries, PageEnd, PostingPage } from "../long-queries.ts";
import { submitOrThrow, type CommandQueue } from "../queue.ts";
import type { ShortQueries } from "../short-queries.ts";
import { WhatIfSummer } from "../what-if-sums.ts";
import { QueuedCharges } from "./charges.ts";

/** Most orphaned holds that one transaction settles. */
const recoveredAtOnce = 200;

export interface LedgerParts {
  readonly queue: CommandQueue;
  /** Short queries. */
  readonly short: ShortQueries;
  readonly long: LongQueries;
  /** Long queries that are asked often, as by each scrape of the metrics; may be the same as `long`. */
  readonly figures: LongQueries;
  readonly stream: Ledger["stream"];
}

/** Creates a ledger in a database: writes go through the writer's queue, queries have connections of their own. */
export function queuedLedger({ queue, short, long, figures, stream }: LedgerParts): Ledger {
  const { charges, recent, report, rawUnits, spend, prunedUntil, totals, corrections, windowsToAlert, verify } = long;
  const charging = new QueuedCharges(queue);
  return Object.assign(charging, {
    charges,
    recent,
    report,
    rawUnits,
    spend,
    prunedUntil,
    totals,
    corrections,
    windowsToAlert,
    verify,
    stream,
    windows: figures.windows,
    windowsOf: async (caller, at) => short.windowsOf(caller, at),
    budgets: async () => short.budgets(),
    charge: async (id) => short.charge(id),
    price: async (id) => short.price(id),
    pending: async () => short.pending(),
    oldHolds: async (before) => short.oldHolds(before),
    async adjust(id, correction) {
      const answer = await queue.submit(["adjust", id, correction]);
      return answer.ok ? answer.reply : "unavailable";
    },
    setBudget: (budget, at, by = fareboxAdmin) => submitOrThrow(queue, ["run", "budgets.setBudget", [budget, at, by]]),
    removeBudget: (scope, period, at, by = fareboxAdmin) =>
      submitOrThrow(queue, ["run", "budgets.removeBudget", [scope, period, at, by]]),
    async whatIf(query, recompute, onProgress) {
      const sums = new WhatIfSummer(query.by, recompute);
      let after: PageEnd | null = null;
      do {
        const page: PostingPage = await long.postings(query, after);
        for (const posting of page.postings) sums.add(posting);
        after = page.end;
        if (after !== null) onProgress?.((after.at - query.since) / (query.until - query.since));
      } while (after !== null);
      return sums.rows();
    },
    async recover(at) {
      let total = 0;
      for (;;) {
        const count = await submitOrThrow(queue, ["recover", at, recoveredAtOnce]);
        total += count;
        if (count < recoveredAtOnce) return total;
      }
    },
    isWritable: async () => (await queue.submit(["touch"])).ok,
  } satisfies Omit<Ledger, keyof QueuedCharges>);
}
