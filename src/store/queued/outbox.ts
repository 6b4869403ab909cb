import type { DueMessages, Message, NewMessage, Outbox, Tried } from "../../ports/outbox.ts";
import type { CommandQueue } from "../queue.ts";
import type { OutboxReadings } from "../readings.ts";

/** The outbox in the ledger's database: writes through the queue of the writer. */
export class QueuedOutbox implements Outbox {
  readonly #queue: CommandQueue;
  readonly #reads: OutboxReadings;

  constructor(queue: CommandQueue, reads: OutboxReadings) {
    this.#queue = queue;
    this.#reads = reads;
  }

  async put(messages: readonly NewMessage[]): Promise<readonly string[] | undefined> {
    const answer = await this.#queue.submit(["putMessages", messages]);
    return answer.ok ? answer.reply : undefined;
  }

  async due(query: Parameters<Outbox["due"]>[0]): Promise<DueMessages> {
    return this.#reads.due(query);
  }

  async tried(id: string, tried: Tried): Promise<boolean> {
    return (await this.#queue.submit(["triedMessage", id, tried])).ok;
  }

  async waiting(): Promise<number> {
    return this.#reads.waiting();
  }

  async list(query: Parameters<Outbox["list"]>[0]): Promise<readonly Message[]> {
    return this.#reads.list(query);
  }

  async remove(endedBefore: number, now: number): Promise<number> {
    const answer = await this.#queue.submit(["removeMessages", endedBefore, now]);
    return answer.ok ? answer.reply : 0;
  }
}
