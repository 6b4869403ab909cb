import type { Clock, Timer } from "../ports/clock.ts";
import {
  LedgerUnavailable,
  type BurstMarksResult,
  type ChargeEnd,
  type Charging,
  type ExtendResult,
  type HoldRequest,
  type HoldResult,
  type Posting,
  type SettleResult,
  type FirstTextResult,
} from "../ports/ledger.ts";
import {
  endsHold,
  unseenEnd,
  voidCommand,
  type BatchChannel,
  type Command,
  type Outcome,
  type ReplyTo,
  holdCommand,
  postCommand,
} from "./commands.ts";
import type { PicoUsd } from "../core/money.ts";
import type { StreamObservation } from "../core/slices.ts";
import { messageOf } from "../core/fault.ts";

/** Largest number of commands in one transaction. This limits how long the next command waits. */
const batchMax = 256;
/** Largest number of settlements that wait to share a hold's transaction. */
const waitingSettlesMax = 64;
/** Longest time for which commands that keep arriving are gathered into one transaction, in milliseconds. */
const gatherMs = 2;
/**
 * Numbers of queued commands between which gathering more saves time. A single client sends at most two at a time: the
 * settlement of its last request, and the hold of the next one.
 */
const gatherSizes = { min: 3, max: 32 } as const;
/** Pause before the first retry, in milliseconds. It doubles with each retry. */
const firstPauseMs = 50;
/** Longest pause before a retry, in milliseconds. */
const longestPauseMs = 5000;

interface Waiting {
  readonly command: Command;
  readonly answer: (outcome: Outcome) => void;
}

export type Answer<C extends Command> =
  | { readonly ok: true; readonly reply: ReplyTo<C> }
  /** The command was not written, or its outcome is unknown. */
  | { readonly ok: false; readonly message: string };

/** Accepts commands and answers each. */
export interface CommandSink {
  /** Submits a command. Rejects if the command can never succeed, because of a bug or an amount beyond 64 bits. */
  submit<C extends Command>(command: C): Promise<Answer<C>>;
}

interface QueueListener {
  /** Receives the duration of each batch in seconds, and its number of commands. */
  write(seconds: number, commands: number): void;
  /** Called after each batch that changed keys, teams, budgets or settings. */
  changed(): void;
  /** Receives failures and successes of writes. */
  readonly health?: Pick<Health, "failed" | "succeeded">;
}

/**
 * Groups commands for the only writer. Commands that arrive during a transaction share the next one, and so do commands
 * that arrive in consecutive turns of the event loop. A few settlements may wait briefly and share the transaction of the
 * next hold: this saves a transaction, and no client waits for a settlement. Retries settlements and task bindings with
 * growing pauses until they are written. Other commands fail at once.
 */
export class CommandQueue implements CommandSink {
  readonly #channel: BatchChannel;
  readonly #clock: Clock;
  readonly #on: QueueListener;
  readonly #settlePauseMs: number;
  readonly #afterTurn: (callback: () => void) => void;
  /** Starts a transaction for settlements that have waited `settlePauseMs` for a hold. */
  #settleTimer: Timer | null = null;
  #queue: Waiting[] = [];
  /** Commands that wait for a retry, because they must be written. */
  #toRetry: Waiting[] = [];
  #pauseMs = firstPauseMs;
  #wakeUp: Timer | null = null;
  #running: Promise<void> | null = null;
  #closed: Promise<void> | null = null;

  /**
   * `settlePauseMs`: longest time that a settlement waits to share a hold's transaction; 0 for no wait. `afterTurn`
   * calls `callback` at the end of the current turn of the event loop. Simulations pass another function.
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
    if (this.#mayWait()) this.#settleTimer ??= this.#clock.after(this.#settlePauseMs, () => this.#start());
    else this.#start();
  }

  #start(): void {
    this.#settleTimer?.cancel();
    this.#settleTimer = null;
    if (this.#queue.length === 0) return;
    // Commands that arrive in the same turn of the event loop share the first transaction.
    this.#running ??= this.#turn().then(() => this.#drain());
  }

  #turn(): Promise<void> {
    return new Promise((resolve) => this.#afterTurn(resolve));
  }

  /**
   * Waits until a turn of the event loop ends without a new command, because a transaction costs as much as ten requests
   * in it.
   */
  async #gather(): Promise<void> {
    const until = this.#clock.monotonic() + gatherMs;
    let before: number = gatherSizes.min - 1;
    while (this.#queue.length > before && this.#queue.length < gatherSizes.max && this.#clock.monotonic() < until) {
      before = this.#queue.length;
      await this.#turn();
    }
  }

  /** Returns true if the queue contains only settlements, and few enough to wait for a hold. */
  #mayWait(): boolean {
    if (this.#settlePauseMs === 0 || this.#closed !== null || this.#queue.length > waitingSettlesMax) return false;
    return this.#queue.every(({ command }) => endsHold(command));
  }

  async #drain(): Promise<void> {
    do {
      await this.#gather();
      const batch = this.#queue.splice(0, batchMax);
      try {
        const result = await this.#channel.apply(batch.map(({ command }) => command));
        batch.forEach((waiting, index) => this.#conclude(waiting, result.outcomes[index]));
        if (result.outcomes.some(({ kind }) => kind === "done")) this.#onWritten();
        if (result.changed) this.#on.changed();
        this.#on.write(result.seconds, batch.length);
      } catch (error) {
        const message = messageOf(error);
        for (const waiting of batch) this.#concludeUnknown(waiting, message);
      }
    } while (this.#queue.length > 0 && !this.#mayWait());
    this.#running = null;
    if (this.#queue.length > 0) this.#run();
  }

  #conclude(waiting: Waiting, outcome: Outcome = { kind: "failed", message: "no outcome" }): void {
    if (outcome.kind === "unavailable") this.#on.health?.failed(outcome.message);
    if (outcome.kind === "unavailable" && mustBeWritten(waiting.command) && this.#closed === null) this.#retry(waiting);
    else waiting.answer(outcome);
  }

  /**
   * Handles a command of unknown outcome. Retries settlements and task bindings, which are idempotent. Voids a hold,
   * because the hold may have been written.
   */
  #concludeUnknown(waiting: Waiting, message: string): void {
    const { command } = waiting;
    this.#conclude(waiting, { kind: "unavailable", message });
    if (command[0] !== "hold" || this.#closed !== null) return;
    this.#retry({ command: voidCommand(command[1], "not_sent", unseenEnd(this.#clock.now())), answer: () => {} });
  }

  /** Submits a command again after a pause. */
  #retry(waiting: Waiting): void {
    this.#toRetry.push(waiting);
    if (this.#wakeUp !== null) return;
    this.#wakeUp = this.#clock.after(this.#pauseMs, () => this.#wake());
    this.#pauseMs = Math.min(this.#pauseMs * 2, longestPauseMs);
  }

  /** Handles a batch of which at least one command was written. */
  #onWritten(): void {
    this.#on.health?.succeeded(this.#toRetry.length);
    this.#pauseMs = firstPauseMs;
    this.#wake();
  }

  #wake(): void {
    this.#wakeUp?.cancel();
    this.#wakeUp = null;
    if (this.#toRetry.length === 0) return;
    this.#queue.push(...this.#toRetry);
    this.#toRetry = [];
    this.#run();
  }
}

/**
 * Returns true for commands that are retried until they are written: settlements, and task bindings, because only a
 * bound task is polled.
 */
function mustBeWritten(command: Command): boolean {
  return endsHold(command) || command[0] === "bindTask";
}

/** Submits a command. Throws `LedgerUnavailable` if it cannot be written. */
export async function submitOrThrow<const C extends Command>(queue: CommandQueue, command: C): Promise<ReplyTo<C>> {
  const answer = await queue.submit(command);
  if (!answer.ok) throw new LedgerUnavailable(answer.message);
  return answer.reply;
}

/** Largest number of price ids in `#pricesWritten`. */
const pricesKept = 10_000;

/** Implements `Charging` with commands to a writer in this process or another. */
export class QueuedCharges implements Charging {
  readonly #commands: CommandSink;
  /** Ids of prices that the ledger has stored. A hold need not send their text again. */
  readonly #pricesWritten = new Set<string>();

  constructor(commands: CommandSink) {
    this.#commands = commands;
  }

  hold(request: HoldRequest): Promise<HoldResult> {
    const priceId = request.price?.id;
    const isWritten = priceId !== undefined && this.#pricesWritten.has(priceId);
    const answering = this.#commands.submit(holdCommand(request, !isWritten));
    if (priceId === undefined || isWritten) return answering.then(replyOf);
    return answering.then((answer) => {
      if (answer.ok && answer.reply.ok) this.#remember(priceId);
      return replyOf(answer);
    });
  }

  extend(id: string, amount: PicoUsd, atLeast: PicoUsd, at: number): Promise<ExtendResult> {
    return this.#commands.submit(["extend", id, amount, atLeast, at]).then(replyOf);
  }

  firstText(name: string, text: string | null, at: number): Promise<FirstTextResult> {
    return this.#commands.submit(["run", "firstTexts.firstText", [name, text, at]]).then(replyOf);
  }

  burstMarks(seen: StreamObservation | null, at: number): Promise<BurstMarksResult> {
    return this.#commands.submit(["run", "streamBursts.burstMarks", [seen, at]]).then(replyOf);
  }

  post(id: string, posting: Posting, end: ChargeEnd): Promise<SettleResult> {
    return this.#commands.submit(postCommand(id, posting, end)).then(replyOf);
  }

  void(id: string, reason: string, end: ChargeEnd): Promise<SettleResult> {
    return this.#commands.submit(voidCommand(id, reason, end)).then(replyOf);
  }

  #remember(priceId: string): void {
    if (this.#pricesWritten.size >= pricesKept) this.#pricesWritten.clear();
    this.#pricesWritten.add(priceId);
  }
}

const unavailable = { ok: false, reason: "unavailable" } as const;

/** Returns the reply to a command; `unavailable` if the command was not written, or if its outcome is unknown. */
export function replyOf<C extends Command>(answer: Answer<C>): ReplyTo<C> | typeof unavailable {
  return answer.ok ? answer.reply : unavailable;
}

/** Event in the store of a running proxy. */
export type StoreEvent =
  /** Writes fail. Not reported again before `writable`. */
  | { readonly kind: "unwritable"; readonly reason: string }
  /** Writes work again. `waited`: number of settlements and task bindings that had to wait. */
  | { readonly kind: "writable"; readonly afterMs: number; readonly waited: number }
  /** The open ledger file was deleted or replaced. Its contents were saved as the file `copy`. */
  | { readonly kind: "copied"; readonly copy: string }
  /** The open ledger file was deleted or replaced, and its contents could not be saved. */
  | { readonly kind: "not_copied"; readonly reason: string };

/** Shortest time between two `unwritable` reports, in milliseconds. Limits the reports of an intermittently full disk. */
const reportEveryMs = 10_000;

/** Tracks whether writes work, and reports changes. */
export class Health {
  readonly #clock: Clock;
  readonly #onEvent: (event: StoreEvent) => void;
  #failingSince: number | null = null;
  #reportedAt: number | null = null;
  #isReported = false;

  constructor(clock: Clock, onEvent: (event: StoreEvent) => void) {
    this.#clock = clock;
    this.#onEvent = onEvent;
  }

  /** Records that a write failed. */
  failed(reason: string): void {
    const now = this.#clock.monotonic();
    this.#failingSince ??= now;
    if (this.#isReported || (this.#reportedAt !== null && now - this.#reportedAt < reportEveryMs)) return;
    this.#isReported = true;
    this.#reportedAt = now;
    this.#onEvent({ kind: "unwritable", reason });
  }

  /** Records that a write succeeded. `waited`: number of commands that wait for a retry. */
  succeeded(waited: number): void {
    if (this.#failingSince === null) return;
    const afterMs = this.#clock.monotonic() - this.#failingSince;
    this.#failingSince = null;
    if (!this.#isReported) return;
    this.#isReported = false;
    this.#onEvent({ kind: "writable", afterMs, waited });
  }
}
