import type { Clock, Timer } from "../../ports/clock.ts";
import { voidCommand, type BatchChannel, type Command, type Outcome, type ReplyTo } from "./commands.ts";

/** Commands in one transaction at most: it bounds how long the next one waits. */
const batchMax = 256;
const firstPauseMs = 50;
const longestPauseMs = 5000;

interface Waiting {
  readonly command: Command;
  readonly answer: (outcome: Outcome) => void;
}

export type Answer<C extends Command> =
  | { readonly ok: true; readonly reply: ReplyTo<C> }
  /** Nothing was written. */
  | { readonly ok: false };

/**
 * Groups commands for the one writer, without a timer: all that arrive while a transaction runs go into the next one.
 * What ends a hold is tried again, with growing pauses, until the writer has acknowledged it; everything else is
 * answered at once when it could not be written.
 */
export class CommandQueue {
  readonly #channel: BatchChannel;
  readonly #clock: Clock;
  readonly #onWrite: (seconds: number, calls: number) => void;
  readonly #onChanged: () => void;
  #queue: Waiting[] = [];
  /** Settlements that wait for the writer to recover. */
  #resting: Waiting[] = [];
  #pauseMs = firstPauseMs;
  #wakeUp: Timer | null = null;
  #running: Promise<void> | null = null;
  #closed: Promise<void> | null = null;

  constructor(channel: BatchChannel, clock: Clock, on: { write(seconds: number, calls: number): void; changed(): void }) {
    this.#channel = channel;
    this.#clock = clock;
    this.#onWrite = on.write;
    this.#onChanged = on.changed;
  }

  /** Rejects where the command itself is at fault (an amount beyond 64 bits, a bug). */
  submit<C extends Command>(command: C): Promise<Answer<C>> {
    if (this.#closed !== null) return Promise.resolve({ ok: false });
    return new Promise((resolve, reject) => {
      this.#add(command, (outcome) => {
        if (outcome.kind === "done") resolve({ ok: true, reply: outcome.reply as ReplyTo<C> });
        else if (outcome.kind === "unavailable") resolve({ ok: false });
        else reject(new Error(outcome.message));
      });
    });
  }

  /** Writes what waits, as far as it can be written, and then closes the channel. */
  close(): Promise<void> {
    this.#closed ??= this.#finish();
    return this.#closed;
  }

  async #finish(): Promise<void> {
    this.#wake();
    while (this.#running !== null) await this.#running;
    await this.#channel.close();
  }

  #add(command: Command, answer: (outcome: Outcome) => void): void {
    this.#queue.push({ command, answer });
    this.#run();
  }

  #run(): void {
    // The microtask lets calls of the same tick share the first transaction.
    this.#running ??= Promise.resolve().then(() => this.#drain());
  }

  async #drain(): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#queue.splice(0, batchMax);
      try {
        const result = await this.#channel.apply(batch.map(({ command }) => command));
        batch.forEach((waiting, index) => this.#conclude(waiting, result.outcomes[index]));
        if (result.outcomes.some(({ kind }) => kind === "done")) this.#writerWorks();
        if (result.changed) this.#onChanged();
        this.#onWrite(result.seconds, batch.length);
      } catch {
        for (const waiting of batch) this.#concludeUnknown(waiting);
      }
    }
    this.#running = null;
  }

  #conclude(waiting: Waiting, outcome: Outcome = { kind: "failed", message: "no outcome" }): void {
    if (outcome.kind === "unavailable" && endsHold(waiting.command) && this.#closed === null) this.#rest(waiting);
    else waiting.answer(outcome);
  }

  /** The writer died: a settlement is idempotent and tried again, and a hold that may have been written is ended. */
  #concludeUnknown(waiting: Waiting): void {
    const { command } = waiting;
    this.#conclude(waiting, { kind: "unavailable", message: "the writer died" });
    if (command[0] !== "hold" || this.#closed !== null) return;
    const end = { at: this.#clock.now(), status: null, servedModel: null, gatewayRequestId: null, durationMs: null, firstTokenMs: null };
    this.#rest({ command: voidCommand(command[1], "not_sent", end), answer: () => {} });
  }

  #rest(waiting: Waiting): void {
    this.#resting.push(waiting);
    if (this.#wakeUp !== null) return;
    this.#wakeUp = this.#clock.after(this.#pauseMs, () => this.#wake());
    this.#pauseMs = Math.min(this.#pauseMs * 2, longestPauseMs);
  }

  #writerWorks(): void {
    this.#pauseMs = firstPauseMs;
    this.#wake();
  }

  #wake(): void {
    this.#wakeUp?.cancel();
    this.#wakeUp = null;
    if (this.#resting.length === 0) return;
    this.#queue.push(...this.#resting);
    this.#resting = [];
    this.#run();
  }
}

function endsHold([op]: Command): boolean {
  return op === "post" || op === "void";
}
