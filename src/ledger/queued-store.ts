import type { AccountSamples, ProxyRuns, TaskStore } from "../ports/stores.ts";
import type { Changes } from "../ports/changes.ts";
import type { Fleet } from "../ports/fleet.ts";
import { LedgerUnavailable, type Ledger } from "../ports/ledger.ts";
import { postCommand, voidCommand, type BatchChannel } from "./commands.ts";
import type { LongQueries, PageEnd, PostedChargePage } from "./queries/interfaces.ts";
import type { Query, RunQuery } from "./queries/query.ts";
import type { ShortQueries } from "./queries/short.ts";
import { type CommandSink, type Health, CommandQueue, replyOf, submitOrThrow, QueuedCharges } from "./queue.ts";
import type { QueuedStore, StoreOptions } from "./store.ts";
import { tables, type RunCommand, type Tables } from "./tables/tables.ts";
import { fareboxAdmin } from "../core/keys.ts";
import { WhatIfSums } from "./what-if-sums.ts";

/** Implements the `Changes` port. */
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

/** Channel of a store that was opened for reading. Refuses all commands. */
export const readOnlyChannel: BatchChannel = {
  apply: async (commands) => ({
    outcomes: commands.map(() => ({ kind: "unavailable", message: "the ledger was opened for reading" })),
    seconds: 0,
    changed: false,
  }),
  close: async () => {},
};

/** Parts of a store that differ between SQLite and PostgreSQL. */
interface QueuedStoreDeps {
  /** Sends commands to the writer. */
  readonly channel: BatchChannel;
  readonly health: Health;
  readonly short: ShortQueries;
  readonly query: RunQuery;
  readonly longQueries: LongQueries;
  /** Queries for `FigureQueries` and `lists`, if a separate thread or pool answers them. */
  readonly figureQueries: LongQueries | undefined;
  readonly stream: Ledger["stream"];
  readonly changes: ChangeListeners;
  readonly fleet?: Fleet | undefined;
  readonly proxies?: ProxyRuns;
  readonly timeZone: string;
  readonly created: boolean;
}

/** Creates a store whose writes go through a queue. `opened`: resources that the store closes after the queue. */
export function queuedStore(
  { clock, onWrite: write = () => {}, settlePauseMs, afterTurn }: StoreOptions,
  opened: AsyncDisposableStack,
  { channel, health, short, query, longQueries, figureQueries, stream, ...deps }: QueuedStoreDeps,
): QueuedStore {
  const { changes, fleet = null, proxies = null, timeZone, created } = deps;
  const on = { write, changed: () => changes.notify(), health };
  const queue = new CommandQueue(channel, clock, on, settlePauseMs, afterTurn);
  opened.defer(() => queue.close());
  const portsOver = (long: LongQueries) => ({
    ledger: queuedLedger({ queue, short, long, figures: figureQueries ?? long, stream }),
    samples: samplesIn(bind("samples", query, queue), long),
    refusals: {
      ...bind("refusals", query, queue),
      list: long.refusals,
      causes: long.refusalCauses,
      count: long.refused,
      excess: long.excessRefusals,
    },
  });
  const { ledger, samples, refusals } = portsOver(longQueries);
  return {
    commands: queue,
    ledger,
    samples,
    refusals,
    figures: figureQueries === undefined ? { ledger, samples, refusals } : portsOver(figureQueries),
    lists: figureQueries ?? longQueries,
    keys: bind("keys", query, queue),
    teams: bind("teams", query, queue),
    admins: bind("admins", query, queue),
    audit: { entries: longQueries.audit },
    outbox: bind("outbox", query, queue),
    tasks: taskStore(query, queue),
    callbacks: bind("callbacks", query, queue),
    sessions: bind("sessions", query, queue),
    dashboardSessions: bind("dashboardSessions", query, queue),
    raiseRequests: bind("raiseRequests", query, queue),
    changes,
    fleet,
    proxies,
    timeZone,
    created,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** Largest number of samples that one transaction removes, so that holds do not wait long for it. */
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

/** Largest number of orphaned holds that one transaction settles. */
const recoveredAtOnce = 200;

interface QueuedLedgerDeps {
  readonly queue: CommandQueue;
  readonly short: ShortQueries;
  readonly long: LongQueries;
  /** Long queries for figures that are read often, such as at each scrape of the metrics. May be the same as `long`. */
  readonly figures: LongQueries;
  readonly stream: Ledger["stream"];
}

/** Creates a ledger that writes through the queue and reads through `short` and `long`. */
export function queuedLedger({ queue, short, long, figures, stream }: QueuedLedgerDeps): Ledger {
  const charging = new QueuedCharges(queue);
  return Object.assign(charging, {
    charges: long.charges,
    recent: long.recent,
    report: long.report,
    rawUnits: long.rawUnits,
    spend: long.spend,
    agentSessions: long.agentSessions,
    agentSums: long.agentSums,
    prunedUntil: long.prunedUntil,
    firstDay: long.firstDay,
    totals: long.totals,
    corrections: long.corrections,
    windowsToAlert: long.windowsToAlert,
    verify: long.verify,
    stream,
    windows: figures.windows,
    ...short,
    async adjust(id, correction) {
      const answer = await queue.submit(["adjust", id, correction]);
      return answer.ok ? answer.reply : { unavailable: answer.message };
    },
    async setBudget(budget, at, by = fareboxAdmin) {
      const before = await long.spentBefore(budget, at);
      return submitOrThrow(queue, ["run", "budgets.setBudget", [budget, at, by, before]]);
    },
    removeBudget: (scope, period, at, by = fareboxAdmin) =>
      submitOrThrow(queue, ["run", "budgets.removeBudget", [scope, period, at, by]]),
    raiseBudget: (raise, at, by = fareboxAdmin) =>
      submitOrThrow(queue, ["run", "budgets.raiseBudget", [raise, at, by]]),
    async whatIf(query, recompute, onProgress) {
      const sums = new WhatIfSums(query.by, recompute);
      let after: PageEnd | null = null;
      do {
        const page: PostedChargePage = await long.postedCharges(query, after);
        for (const charge of page.charges) sums.add(charge);
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

/** Creates the task store. Its changes are queue commands, so one transaction ends a task and settles its charge. */
function taskStore(query: RunQuery, queue: CommandQueue): TaskStore {
  return {
    ...bind("tasks", query, queue),
    bind: (task) => queue.submit(["bindTask", task]).then(replyOf),
    async observe(taskId, observation) {
      return (await queue.submit(["observeTask", taskId, observation])).ok;
    },
    end({ taskId, charge }, { settlement, end, ...details }) {
      const settling =
        settlement.kind === "void" ? voidCommand(charge, settlement.reason, end) : postCommand(charge, settlement, end);
      return queue.submit(["endTask", settling, taskId, { ...details, at: end.at }]).then(replyOf);
    },
  };
}

type Methods<Name extends keyof Tables> = Tables[Name]["queries"] & Tables[Name]["writes"];

/** Port of a small table. Its queries go to the database, and its writes go to the queue. */
type Bound<Name extends keyof Tables> = {
  [Method in keyof Methods<Name>]: Methods<Name>[Method] extends (...args: infer Args) => Query<infer Result>
    ? (...args: Args) => Promise<Result>
    : never;
};

/** Creates the port of a small table. */
export function bind<Name extends keyof typeof tables>(name: Name, query: RunQuery, queue: CommandSink): Bound<Name> {
  const { queries, writes, unavailable = {} }: AnyTable = tables[name];
  const bound: Record<string, (...args: never[]) => Promise<unknown>> = {};
  for (const [method, steps] of Object.entries(queries)) bound[method] = (...args) => query(steps(...args));
  for (const method of Object.keys(writes))
    bound[method] = async (...args) => {
      const answer = await queue.submit(["run", `${name}.${method}`, args] as unknown as RunCommand);
      if (answer.ok) return answer.reply;
      if (method in unavailable) return unavailable[method];
      throw new LedgerUnavailable(answer.message);
    };
  return bound as Bound<Name>;
}

interface AnyTable {
  readonly queries: Readonly<Record<string, (...args: never[]) => Query<unknown>>>;
  readonly writes: Readonly<Record<string, (...args: never[]) => Query<unknown>>>;
  readonly unavailable?: Readonly<Record<string, unknown>>;
}
