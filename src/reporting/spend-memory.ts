import { LRUCache } from "lru-cache";
import type { Clock } from "../ports/clock.ts";
import type { LedgerQueries } from "../ports/ledger.ts";
import type { SpendQuery, SpendRow } from "../ports/spend.ts";

/**
 * Age from which cached sums are read again, in milliseconds. A correction or a late settlement may appear only after
 * that time.
 */
const keptMs = 60_000;
/**
 * Largest number of cached queries, and largest number of rows of all cached queries. Beyond either, the cache removes
 * the least recently used queries.
 */
const queriesMax = 200;
const rowsMax = 300_000;

/**
 * Caches sums of past days and hours for a minute. Summing a month of a large ledger takes tens of milliseconds, and
 * only a correction or a late settlement changes the result. Returns older sums as well, while it reads them again in
 * the background.
 */
export class SpendMemory {
  readonly #ledger: LedgerQueries;
  readonly #past: LRUCache<string, readonly SpendRow[], SpendQuery>;

  constructor(ledger: LedgerQueries, clock: Clock) {
    this.#ledger = ledger;
    this.#past = new LRUCache({
      max: queriesMax,
      maxSize: rowsMax,
      sizeCalculation: (rows) => Math.max(rows.length, 1),
      ttl: keptMs,
      ttlResolution: 0,
      perf: { now: () => clock.monotonic() },
      allowStale: true,
      noDeleteOnStaleGet: true,
      noDeleteOnFetchRejection: true,
      // Returns the result of a running query even if another query replaces its entry in the cache.
      ignoreFetchAbort: true,
      fetchMethod: (_name, _stale, { context }) => ledger.spend(context),
    });
  }

  /** Returns spending before `currentStart` from the cache, and later spending from the ledger. */
  async spend(query: SpendQuery, currentStart: number): Promise<readonly SpendRow[]> {
    if (currentStart <= query.since) return this.#ledger.spend(query);
    if (currentStart >= query.until) return this.#fetch(query);
    const [past, present] = await Promise.all([
      this.#fetch({ ...query, until: currentStart }),
      this.#ledger.spend({ ...query, since: currentStart }),
    ]);
    return [...past, ...present];
  }

  #fetch(query: SpendQuery): Promise<readonly SpendRow[]> {
    return this.#past.forceFetch(JSON.stringify(query), { context: query });
  }
}
