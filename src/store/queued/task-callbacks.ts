import type { TaskCallback, TaskCallbacks } from "../../ports/task-callbacks.ts";
import type { CommandQueue } from "../queue.ts";
import type { CallbackReadings } from "../readings.ts";

/** Callbacks in the ledger's database: writes through the queue of the writer. */
export class QueuedTaskCallbacks implements TaskCallbacks {
  readonly #queue: CommandQueue;
  readonly #reads: CallbackReadings;

  constructor(queue: CommandQueue, reads: CallbackReadings) {
    this.#queue = queue;
    this.#reads = reads;
  }

  async put(callback: TaskCallback): Promise<boolean> {
    return (await this.#queue.submit(["putCallback", callback])).ok;
  }

  async byDigest(digest: string): Promise<TaskCallback | undefined> {
    return this.#reads.byDigest(digest);
  }

  async byCharge(charge: string): Promise<TaskCallback | undefined> {
    return this.#reads.byCharge(charge);
  }
}
