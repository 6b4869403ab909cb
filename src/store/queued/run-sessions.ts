import type { RunSession } from "../../core/run-sessions.ts";
import type { RunSessionCreation, RunSessions } from "../../ports/run-sessions.ts";
import { submitOrThrow, type CommandQueue } from "../queue.ts";
import type { RunSessionReadings } from "../readings.ts";

/** Sessions of `farebox run` in the ledger's database. */
export class QueuedRunSessions implements RunSessions {
  readonly #queue: CommandQueue;
  readonly #reads: RunSessionReadings;

  constructor(queue: CommandQueue, reads: RunSessionReadings) {
    this.#queue = queue;
    this.#reads = reads;
  }

  async secret(): Promise<string> {
    return this.#reads.secret();
  }

  async find(id: string): Promise<RunSession | undefined> {
    return this.#reads.find(id);
  }

  async create(session: RunSession, by: string | null): Promise<RunSessionCreation> {
    return submitOrThrow(this.#queue, ["createSession", session, by]);
  }

  async end(id: string, at: number): Promise<RunSession | undefined> {
    return submitOrThrow(this.#queue, ["endSession", id, at]);
  }

  async tidy(at: number): Promise<number> {
    return submitOrThrow(this.#queue, ["tidySessions", at]);
  }
}
