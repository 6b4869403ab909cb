import type { AccountSamples } from "../../ports/account-samples.ts";
import type { Changes } from "../../ports/changes.ts";
import type { Fleet } from "../../ports/fleet.ts";
import type { Ledger } from "../../ports/ledger.ts";
import type { ProxyRuns } from "../../ports/proxies.ts";
import type { BatchChannel } from "../commands.ts";
import type { LongQueries } from "../long-queries.ts";
import type { CommandQueue } from "../queue.ts";
import type { ShortQueries } from "../short-queries.ts";
import type { QueuedStore } from "../store.ts";
import { bind, type RunQuery } from "../tables/bind.ts";
import { queuedLedger } from "./ledger.ts";
import { taskStore } from "./tasks.ts";

/** Listeners to changes; see the port. */
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

/** Writes nothing: of a store that was opened for reading. */
export const refusing: BatchChannel = {
  apply: async (commands) => ({
    outcomes: commands.map(() => ({ kind: "unavailable", message: "opened for reading" })),
    seconds: 0,
    changed: false,
  }),
  close: async () => {},
};

/** What an engine brings: the rest of a store is the same over every database. */
export interface QueuedParts {
  readonly queue: CommandQueue;
  readonly short: ShortQueries;
  readonly query: RunQuery;
  readonly longQueries: LongQueries;
  /** Those of `FigureQueries`, where others answer them. */
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

/** The store of an engine whose writes go through a queue. */
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
}: QueuedParts): QueuedStore {
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

/** Samples that one transaction removes at most: a hold must not wait for many. */
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
