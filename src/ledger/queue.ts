import type { Clock, Timer } from "../ports/clock.ts";
import { LedgerUnavailable } from "../ports/ledger.ts";
import { unseenEnd, voidCommand, type BatchChannel, type Command, type Outcome, type ReplyTo } from "./commands.ts";
import type { Health } from "./health.ts";

/** Largest number of commands in one transaction. Limits how long the next command waits. */
const batchMax = 256;
/** Largest number of settlements that wait for a hold to share its transaction. */
const restingSettlesMax = 64;
const firstPauseMs = 50;
const longestPauseMs = 5000;

interface Waiting {
  readonly command: Command;
  readonly answer: (outcome: Outcome) => void;
}

export type Answer<C extends Command> =
  | { readonly ok: true; readonly reply: ReplyTo<C> }
  /** Nothing was written. */
  | { readonly ok: false; readonly message: string };

/** Accepts commands and answers each. */
export interface CommandSink {
  /** Submits a command. Rejects if the command itself is faulty: a bug, or an amount beyond 64 bits. */
  submit<C extends Command>(command: C): Promise<Answer<C>>;
}

interface QueueListener {
  /** Receives the duration of each transaction in seconds, and its number of calls. */
  write(seconds: number, calls: number): void;
  changed(): void;
  /** Receives each failure and success of writing. */
  readonly health?: Pick<Health, "failed" | "works">;
}

/**
 * Groups commands for the one writer. Commands that arrive during a transaction share the next one, without a timer.
 * Settlements are the exception: no caller waits for them, so a few are kept briefly to share the next hold's transaction.
 * This saves a transaction, and the hold does not wait for it.
 * Retries settlements and bindings of tasks with growing pauses until they are written. Other commands fail at once.
 */
export class CommandQueue implements CommandSink {
  readonly #channel: BatchChannel;
  readonly #clock: Clock;
  readonly #on: QueueListener;
  readonly #settlePauseMs: number;
  readonly #afterTurn: (callback: () => void) => void;
  /** Fires when settlements have waited for a hold long enough. */
  #settleTimer: Timer | null = null;
  #queue: Waiting[] = [];
  /** Commands that must be written and wait for the writer to recover. */
  #resting: Waiting[] = [];
  #pauseMs = firstPauseMs;
  #wakeUp: Timer | null = null;
  #running: Promise<void> | null = null;
  #closed: Promise<void> | null = null;

  /**
   * `settlePauseMs`: longest time that a settlement waits to share a hold's transaction; 0 for no wait. `afterTurn`: calls back
   * at the end of the current turn of the event loop. Simulations pass their own.
   */
  constructor(
    channel: BatchChannel,
    clock: Clock,
    on: QueueListener,
    settlePauseMs = 0,
    afterTurn: (callback: () => void) => void = setImmediate,
  ) {
    this.#settlePauseMs = settlePauseMs;
    this.#afterTurn = afterTurn;
    this.#channel = channel;
    this.#clock = clock;
    this.#on = on;
  }

  submit<C extends Command>(command: C): Promise<Answer<C>> {
    if (this.#closed !== null) return Promise.resolve({ ok: false, message: "the ledger is closed" });
    return new Promise((resolve, reject) => {
      this.#add(command, (outcome) => {
        if (outcome.kind === "done") resolve({ ok: true, reply: outcome.reply as ReplyTo<C> });
        else if (outcome.kind === "unavailable") resolve({ ok: false, message: outcome.message });
        else reject(new Error(outcome.message));
      });
    });
  }

  /** Tries to write all waiting commands once, and then closes the channel. */
  close(): Promise<void> {
    this.#closed ??= this.#finish();
    return this.#closed;
  }

  async #finish(): Promise<void> {
    this.#wake();
    this.#start();
    while (this.#running !== null) await this.#running;
    await this.#channel.close();
  }

  #add(command: Command, answer: (outcome: Outcome) => void): void {
    this.#queue.push({ command, answer });
    this.#run();
  }

  #run(): void {
    if (this.#running !== null) return;
    if (this.#mayRest()) this.#settleTimer ??= this.#clock.after(this.#settlePauseMs, () => this.#start());
    else this.#start();
  }

  #start(): void {
    this.#settleTimer?.cancel();
    this.#settleTimer = null;
    if (this.#queue.length === 0) return;
    // Commands that arrive in the same turn of the event loop share the first transaction.
    this.#running ??= new Promise<void>((resolve) => this.#afterTurn(resolve)).then(() => this.#drain());
  }

  /** Returns true if the queue contains only a few settlements. */
  #mayRest(): boolean {
    if (this.#settlePauseMs === 0 || this.#closed !== null || this.#queue.length > restingSettlesMax) return false;
    return this.#queue.every(({ command }) => endsHold(command));
  }

  async #drain(): Promise<void> {
    do {
      const batch = this.#queue.splice(0, batchMax);
      try {
        const result = await this.#channel.apply(batch.map(({ command }) => command));
        batch.forEach((waiting, index) => this.#conclude(waiting, result.outcomes[index]));
        if (result.outcomes.some(({ kind }) => kind === "done")) this.#writerWorks();
        if (result.changed) this.#on.changed();
        this.#on.write(result.seconds, batch.length);
      } catch {
        for (const waiting of batch) this.#concludeUnknown(waiting);
      }
    } while (this.#queue.length > 0 && !this.#mayRest());
    this.#running = null;
    if (this.#queue.length > 0) this.#run();
  }

  #conclude(waiting: Waiting, outcome: Outcome = { kind: "failed", message: "no outcome" }): void {
    if (outcome.kind === "unavailable") this.#on.health?.failed(outcome.message);
    if (outcome.kind === "unavailable" && mustBeWritten(waiting.command) && this.#closed === null) this.#rest(waiting);
    else waiting.answer(outcome);
  }

  /** Handles a failure of the writer. Retries settlements, which are idempotent. Voids holds, which may have been written. */
  #concludeUnknown(waiting: Waiting): void {
    const { command } = waiting;
    this.#conclude(waiting, { kind: "unavailable", message: "the writer died" });
    if (command[0] !== "hold" || this.#closed !== null) return;
    this.#rest({ command: voidCommand(command[1], "not_sent", unseenEnd(this.#clock.now())), answer: () => {} });
  }

  #rest(waiting: Waiting): void {
    this.#resting.push(waiting);
    if (this.#wakeUp !== null) return;
    this.#wakeUp = this.#clock.after(this.#pauseMs, () => this.#wake());
    this.#pauseMs = Math.min(this.#pauseMs * 2, longestPauseMs);
  }

  #writerWorks(): void {
    this.#on.health?.works(this.#resting.length);
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
  return op === "post" || op === "void" || op === "endTask";
}

/** Returns true if a command is retried until it is written. This includes bindings, so that no running task is unknown. */
function mustBeWritten(command: Command): boolean {
  return endsHold(command) || command[0] === "bindTask";
}

/** Submits a command. Throws `LedgerUnavailable` if it could not be written. */
export async function submitOrThrow<const C extends Command>(queue: CommandQueue, command: C): Promise<ReplyTo<C>> {
  const answer = await queue.submit(command);
  if (!answer.ok) throw new LedgerUnavailable(answer.message);
  return answer.reply;
}
