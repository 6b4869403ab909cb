import type { AccountSamples } from "../ports/account-samples.ts";
import type { Changes } from "../ports/changes.ts";
import type { Fleet } from "../ports/fleet.ts";
import type { Ledger } from "../ports/ledger.ts";
import type { ProxyRuns } from "../ports/proxies.ts";
import { postCommand, voidCommand, type BatchChannel } from "./commands.ts";
import type { LongQueries, PageEnd, PostingPage, ShortQueries } from "./queries/interfaces.ts";
import { submitOrThrow, type CommandQueue } from "./queue.ts";
import type { QueuedStore } from "./store.ts";
import { bind, type RunQuery } from "./tables/bind.ts";
import { fareboxAdmin } from "../core/keys.ts";
import { WhatIfSummer } from "./what-if-sums.ts";
import { QueuedCharges } from "./queued-charges.ts";
import type { TaskStore } from "../ports/task-store.ts";

/** Listeners of the `Changes` port. */
export class ChangeListeners implements Changes {
  readonly #listeners = new Set<() => void>();

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  notify(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** Channel of a store opened for reading. Refuses all commands. */
export const refusing: BatchChannel = {
  apply: async (commands) => ({
    outcomes: commands.map(() => ({ kind: "unavailable", message: "opened for reading" })),
    seconds: 0,
    changed: false,
  }),
  close: async () => {},
};

/** Parts that differ between engines. */
export interface QueuedStoreDeps {
  readonly queue: CommandQueue;
  readonly short: ShortQueries;
  readonly query: RunQuery;
  readonly longQueries: LongQueries;
  /** Queries of `FigureQueries`, if a separate thread answers them. */
  readonly figureQueries: LongQueries | undefined;
  readonly stream: Ledger["stream"];
  readonly changes: Changes;
  /** Null unless given. */
  readonly fleet?: Fleet | null;
  /** Null unless given. */
  readonly proxies?: ProxyRuns | null;
  readonly timeZone: string;
  readonly created: boolean;
  readonly close: () => Promise<void>;
}

/** Creates a store whose writes go through a queue. */
export function queuedStore({
  queue,
  short,
  query,
  longQueries,
  figureQueries,
  stream,
  changes,
  fleet = null,
  proxies = null,
  timeZone,
  created,
  close,
}: QueuedStoreDeps): QueuedStore {
  const on = (long: LongQueries) => ({
    ledger: queuedLedger({ queue, short, long, figures: figureQueries ?? long, stream }),
    samples: samplesIn(bind("samples", query, queue), long),
  });
  const { ledger, samples } = on(longQueries);
  return {
    commands: queue,
    ledger,
    samples,
    figures: figureQueries === undefined ? { ledger, samples } : on(figureQueries),
    keys: bind("keys", query, queue),
    teams: bind("teams", query, queue),
    admins: bind("admins", query, queue),
    audit: { entries: longQueries.audit },
    outbox: bind("outbox", query, queue),
    tasks: taskStore(query, queue),
    callbacks: bind("callbacks", query, queue),
    sessions: bind("sessions", query, queue),
    changes,
    fleet,
    proxies,
    timeZone,
    created,
    [Symbol.asyncDispose]: close,
  };
}

/** Most samples to remove per transaction, so that holds do not wait long. */
const removedAtOnce = 200;

function samplesIn(table: AccountSamples, longQueries: LongQueries): AccountSamples {
  return {
    ...table,
    list: longQueries.samples,
    async remove(askedAts) {
      for (let from = 0; from < askedAts.length; from += removedAtOnce)
        await table.remove(askedAts.slice(from, from + removedAtOnce));
    },
  };
}

/** Most orphaned holds to settle per transaction. */
const recoveredAtOnce = 200;

export interface QueuedLedgerDeps {
  readonly queue: CommandQueue;
  readonly short: ShortQueries;
  readonly long: LongQueries;
  /** Long queries that run often, as on each scrape of the metrics. May be the same as `long`. */
  readonly figures: LongQueries;
  readonly stream: Ledger["stream"];
}

/** Creates a ledger whose writes go through the queue and whose queries use separate connections. */
export function queuedLedger({ queue, short, long, figures, stream }: QueuedLedgerDeps): Ledger {
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

const unavailable = { ok: false, reason: "unavailable" } as const;

/** Creates the task store. Commands of the writer bind and end tasks. */
export function taskStore(query: RunQuery, queue: CommandQueue): TaskStore {
  return {
    ...bind("tasks", query, queue),
    async bind(task) {
      const answer = await queue.submit(["bindTask", task]);
      return answer.ok ? answer.reply : unavailable;
    },
    async observe(taskId, observation) {
      return (await queue.submit(["observeTask", taskId, observation])).ok;
    },
    async end({ taskId, charge }, { settlement, end, ...facts }) {
      const settling =
        settlement.kind === "void" ? voidCommand(charge, settlement.reason, end) : postCommand(charge, settlement, end);
      const answer = await queue.submit(["endTask", settling, taskId, { ...facts, at: end.at }]);
      return answer.ok ? answer.reply : unavailable;
    },
  };
}
