import type { Clock, Timer } from "../ports/clock.ts";
import { LedgerUnavailable } from "../ports/ledger.ts";
import { unseenEnd, voidCommand, type BatchChannel, type Command, type Outcome, type ReplyTo } from "./commands.ts";
import type { Health } from "./health.ts";

/** Commands in one transaction at most: it bounds how long the next one waits. */
const batchMax = 256;
/** Settlements that wait for company at most. */
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

/** Takes commands and answers each. */
export interface CommandSink {
  /** Rejects where the command itself is at fault (an amount beyond 64 bits, a bug). */
  submit<C extends Command>(command: C): Promise<Answer<C>>;
}

interface QueueListener {
  /** Told of each transaction: its time and the calls in it. */
  write(seconds: number, calls: number): void;
  changed(): void;
  /** Receives whether writing works. */
  readonly health?: Pick<Health, "failed" | "works">;
}

/**
 * Groups commands for the one writer: all that arrive during a transaction go into the next one, and no caller that needs the
 * answer waits for a timer. No caller waits for a settlement, so a single one is kept for a moment and goes with the next hold:
 * one transaction less, and the hold does not queue behind it.
 * A settlement, and the binding of a task, is retried with growing pauses until the writer has acknowledged it. Every other
 * command is answered at once when it could not be written.
 */
export class CommandQueue implements CommandSink {
  readonly #channel: BatchChannel;
  readonly #clock: Clock;
  readonly #on: QueueListener;
  readonly #settlePauseMs: number;
  readonly #afterTurn: (callback: () => void) => void;
  /** Fires when settlements have waited long enough for company. */
  #settleTimer: Timer | null = null;
  #queue: Waiting[] = [];
  /** Settlements that wait for the writer to recover. */
  #resting: Waiting[] = [];
  #pauseMs = firstPauseMs;
  #wakeUp: Timer | null = null;
  #running: Promise<void> | null = null;
  #closed: Promise<void> | null = null;

  /**
   * `settlePauseMs`: how long a settlement may wait for a hold to share its transaction; 0 for not at all. `afterTurn`: calls
   * back when the present turn of the event loop is over; handed in where a simulation owns what a turn is.
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

  /** Writes what waits, as far as it can be written, and then closes the channel. */
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
    // Whatever arrives in the same turn of the event loop shares the first transaction.
    this.#running ??= new Promise<void>((resolve) => this.#afterTurn(resolve)).then(() => this.#drain());
  }

  /** Whether there are only settlements, and few. */
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

  /** The writer died: a settlement is idempotent and tried again, and a hold that may have been written is ended. */
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

/** What is tried until it is written: a task that runs at the gateway must be known, too. */
function mustBeWritten(command: Command): boolean {
  return endsHold(command) || command[0] === "bindTask";
}

/** Throws where the command could not be written. */
export async function submitOrThrow<const C extends Command>(queue: CommandQueue, command: C): Promise<ReplyTo<C>> {
  const answer = await queue.submit(command);
  if (!answer.ok) throw new LedgerUnavailable(answer.message);
  return answer.reply;
}
