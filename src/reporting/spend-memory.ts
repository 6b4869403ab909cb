import type { Clock } from "../ports/clock.ts";
import type { LedgerQueries } from "../ports/ledger.ts";
import type { SpendQuery, SpendRow } from "../ports/spend.ts";

/** Longest age of remembered sums, in milliseconds. A correction or a late settlement shows only after that. */
const keptMs = 60_000;
/** Largest number of remembered queries. Beyond it, the oldest are forgotten. */
const queriesMax = 200;

/**
 * Remembers sums of past days and hours for a minute. Adding up a month of a large ledger takes tens of milliseconds, and
 * only a correction or a late settlement changes the result.
 */
export class SpendMemory {
  readonly #ledger: LedgerQueries;
  readonly #clock: Clock;
  readonly #known = new Map<string, Known>();

  constructor(ledger: LedgerQueries, clock: Clock) {
    this.#ledger = ledger;
    this.#clock = clock;
  }

  /** Returns spending up to `over` from memory, and spending since then from the ledger. */
  async spend(query: SpendQuery, over: number): Promise<readonly SpendRow[]> {
    if (over <= query.since) return this.#ledger.spend(query);
    const [past, present] = await Promise.all([
      this.#past({ ...query, until: over }),
      this.#ledger.spend({ ...query, since: over }),
    ]);
    return [...past, ...present];
  }

  /** Returns remembered sums. If they are too old, they are still returned while they are read again. */
  async #past(query: SpendQuery): Promise<readonly SpendRow[]> {
    const name = JSON.stringify(query);
    const known = this.#known.get(name);
    if (known === undefined) return this.#read(name, query);
    if (this.#clock.monotonic() - known.at >= keptMs && !known.isRead) {
      known.isRead = true;
      this.#read(name, query).catch(() => undefined);
    }
    return known.rows;
  }

  #read(name: string, query: SpendQuery): Promise<readonly SpendRow[]> {
    const rows = this.#ledger.spend(query);
    const before = this.#known.get(name);
    const read = { at: this.#clock.monotonic(), rows, isRead: false };
    if (before === undefined) this.#keep(name, read);
    else rows.then(() => this.#keep(name, read)).catch(() => (before.isRead = false));
    if (before === undefined) rows.catch(() => this.#known.delete(name));
    return rows;
  }

  #keep(name: string, read: Known): void {
    this.#known.delete(name);
    this.#known.set(name, read);
    const [oldest] = this.#known.keys();
    if (this.#known.size > queriesMax && oldest !== undefined) this.#known.delete(oldest);
  }
}

interface Known {
  readonly at: number;
  readonly rows: Promise<readonly SpendRow[]>;
  /** True while the sums are read again. */
  isRead: boolean;
}
