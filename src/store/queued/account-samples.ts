import type { AccountSample } from "../../core/account-sample.ts";
import type { AccountSamples } from "../../ports/account-samples.ts";
import type { LongReads } from "../long-reads.ts";
import { submitOrThrow, type CommandQueue } from "../queue.ts";
import type { ShortReadings } from "../readings.ts";

/** Samples that one transaction removes at most. */
const removedAtOnce = 200;

/** Samples of the gateway's account in the ledger's database. */
export class QueuedAccountSamples implements AccountSamples {
  readonly #queue: CommandQueue;
  readonly #reads: Pick<ShortReadings, "latestSample">;
  readonly #longReads: LongReads;

  constructor(queue: CommandQueue, reads: Pick<ShortReadings, "latestSample">, longReads: LongReads) {
    this.#queue = queue;
    this.#reads = reads;
    this.#longReads = longReads;
  }

  async add(sample: AccountSample): Promise<boolean> {
    return (await this.#queue.submit(["addSample", sample])).ok;
  }

  async list(since: number, until: number): Promise<readonly AccountSample[]> {
    return this.#longReads.read({ kind: "samples", since, until });
  }

  async latest(): Promise<AccountSample | undefined> {
    return this.#reads.latestSample();
  }

  /** Some at a time: a hold must not wait for many. */
  async remove(askedAts: readonly number[]): Promise<void> {
    for (let from = 0; from < askedAts.length; from += removedAtOnce) {
      await submitOrThrow(this.#queue, ["removeSamples", askedAts.slice(from, from + removedAtOnce)]);
    }
  }
}
