/* oxlint-disable unicorn/require-post-message-target-origin -- these are threads, not windows of a browser */
import type { Worker } from "node:worker_threads";
import type { HoldResult, SettleResult } from "../../ports/ledger.ts";
import { startThread } from "../../platform/thread.ts";
import type { BatchChannel, BatchResult, Command, Outcome } from "../commands.ts";
import type { StoreEvent } from "../queue.ts";
import type { LongQueries } from "../queries/interfaces.ts";
import { lostFile, type OpenedFiles } from "./opened-files.ts";
import type { Shortage } from "../../core/budget.ts";
import type { PicoUsd } from "../../core/money.ts";
import { messageOf } from "../../core/fault.ts";

/**
 * Role of a reader thread. `read`: queries that may take seconds. `figures`: queries for figures that are read often.
 */
type ReaderRole = "read" | "figures";

/** Data that a thread receives at its start. */
export interface ThreadData {
  readonly role: "write" | ReaderRole;
  readonly path: string;
  readonly timeZone: string;
  readonly owner: number;
  /** Counter of changes when the store was opened. */
  readonly changes: number;
  readonly subjectsMax?: number | undefined;
  readonly opened: OpenedFiles;
}

export type WriterMessage =
  | (Omit<BatchResult, "outcomes"> & { readonly kind: "applied"; readonly outcomes: PackedOutcomes })
  /** The contents of a lost ledger were copied to a file, or could not be copied. */
  | CopyResult
  /** Another process changed keys, budgets or settings. */
  | { readonly kind: "changed" }
  | { readonly kind: "lost"; readonly lost: Lost };

export type CopyResult = Extract<StoreEvent, { kind: "copied" | "not_copied" }>;

/** Report of a file that was deleted, moved or replaced while open. */
export interface Lost {
  readonly reason: string;
  readonly hasCharges: boolean;
}

export type ReaderMessage =
  | { readonly ok: true; readonly answer: unknown }
  | { readonly ok: false; readonly message: string };

interface Call<T> {
  readonly resolve: (answer: T) => void;
  readonly reject: (error: Error) => void;
}

/**
 * Worker thread that answers calls in order. `start` or the first call starts the thread. If the thread crashes, or
 * ends because it was idle, the next call starts a new thread.
 */
class CallableThread<T> {
  readonly #data: ThreadData;
  readonly #onMessage: (message: unknown) => T | undefined;
  /** Timer that ends an idle thread. Each call resets it. Null if an idle thread does not end. */
  readonly #idle: NodeJS.Timeout | null;
  #worker: Worker | null = null;
  #calls: Call<T>[] = [];
  /** Resolves when the thread that most recently ended because it was idle has closed its files. */
  #ended: Promise<void> = Promise.resolve();

  /**
   * `onMessage` returns the answer in a message; undefined if the message is not an answer. `idleMs`: the thread ends
   * after this time without a call, in milliseconds.
   */
  constructor(data: ThreadData, onMessage: (message: unknown) => T | undefined, idleMs?: number) {
    this.#data = data;
    this.#onMessage = onMessage;
    this.#idle = idleMs === undefined ? null : setTimeout(() => this.#endIfIdle(), idleMs).unref();
  }

  get isRunning(): boolean {
    return this.#worker !== null;
  }

  start(): void {
    this.#startedWorker();
  }

  call(message: unknown): Promise<T> {
    const worker = this.#startedWorker();
    this.#idle?.refresh();
    return new Promise((resolve, reject) => {
      this.#calls.push({ resolve, reject });
      worker.postMessage(message);
    });
  }

  /** Stops the thread at once and rejects waiting calls. */
  async stop(): Promise<void> {
    await this.#worker?.terminate();
  }

  /** Stops the thread. Resolves after the thread has answered its calls and closed its files. */
  async close(): Promise<void> {
    if (this.#idle !== null) clearTimeout(this.#idle);
    if (this.#worker !== null) await endThread(this.#worker);
    await this.#ended;
  }

  #endIfIdle(): void {
    if (this.#calls.length > 0) this.#idle?.refresh();
    else if (this.#worker !== null) {
      this.#ended = endThread(this.#worker);
      this.#worker = null;
    }
  }

  #startedWorker(): Worker {
    if (this.#worker !== null) return this.#worker;
    const worker = startThread(new URL("./worker.ts", import.meta.url), { workerData: this.#data });
    worker.on("message", (message) => {
      const answer = this.#onMessage(message);
      if (answer !== undefined) this.#calls.shift()?.resolve(answer);
    });
    const onExit = (reason: string) => {
      if (this.#worker !== worker) return;
      this.#worker = null;
      const calls = this.#calls;
      this.#calls = [];
      for (const { reject } of calls)
        reject(new Error(`the ledger's ${this.#data.role} thread ended unexpectedly: ${reason}`));
    };
    worker.on("error", (error) => onExit(messageOf(error)));
    worker.on("exit", (code) => onExit(`exit ${code}`));
    this.#worker = worker;
    return worker;
  }
}

/** Ends a thread. Resolves after it has answered its calls and closed its files. */
function endThread(worker: Worker): Promise<void> {
  return new Promise((resolve) => {
    worker.once("exit", () => resolve());
    worker.postMessage("close");
  });
}

/** Receives events that the writer's thread notices. */
export interface WatchListener {
  /** Another process changed keys, budgets or settings. */
  changed(): void;
  /**
   * A file of the ledger was deleted, moved or replaced. Called once for each loss. `copy` writes the contents of the
   * ledger to a new file.
   */
  lost(lost: Lost, copy: (file: string) => Promise<CopyResult>): void;
}

/** Writer of a running proxy, on a separate thread. */
export class WriterThread implements BatchChannel {
  readonly #thread: CallableThread<BatchResult | CopyResult>;
  /** Reason for refusing all commands while the thread copies a lost ledger; null at any other time. */
  #copying: string | null = null;

  constructor(data: Omit<ThreadData, "role">, on: WatchListener) {
    this.#thread = new CallableThread({ ...data, role: "write" }, (given) => {
      const message = given as WriterMessage;
      if (message.kind === "changed") on.changed();
      if (message.kind === "lost") on.lost(message.lost, (file) => this.#copy(file, message.lost.reason));
      if (message.kind === "copied" || message.kind === "not_copied") return message;
      if (message.kind !== "applied") return undefined;
      const { outcomes, seconds, changed } = message;
      return { outcomes: unpackOutcomes(outcomes), seconds, changed };
    });
    // Starts the thread before the first batch, because the thread also watches for changes by other processes.
    this.#thread.start();
  }

  async apply(commands: readonly Command[]): Promise<BatchResult> {
    const message = this.#copying;
    if (message !== null)
      return { outcomes: commands.map(() => ({ kind: "unavailable", message })), seconds: 0, changed: false };
    return (await this.#thread.call(commands)) as BatchResult;
  }

  /** Stops the thread at once, like a crash. */
  stop(): Promise<void> {
    return this.#thread.stop();
  }

  close(): Promise<void> {
    return this.#thread.close();
  }

  /**
   * Copies a lost ledger. The writer makes the copy, because a new connection would find no file or another file.
   * Refuses commands meanwhile, so that they do not wait.
   */
  async #copy(file: string, reason: string): Promise<CopyResult> {
    this.#copying = reason;
    try {
      return (await this.#thread.call(file)) as CopyResult;
    } finally {
      this.#copying = null;
    }
  }
}

/**
 * Time without a query after which a reader ends, in milliseconds. The readers of a busy proxy stay: while requests are
 * charged, alerts query the ledger every second, and metrics are usually scraped at least once a minute.
 */
const idleMs: Readonly<Record<ReaderRole, number>> = { read: 30_000, figures: 90_000 };

/**
 * Runs queries of a proxy on a separate thread. The thread starts with the first query and ends when it is idle. The
 * thread for `read` also checkpoints the write-ahead log.
 */
export class ReaderThread {
  readonly #thread: CallableThread<ReaderMessage>;
  readonly #opened: OpenedFiles;
  /** Queries that the thread answers. The thread does not receive arguments that are functions. */
  readonly queries = new Proxy({} as LongQueries, {
    get:
      (_, name) =>
      (...args: unknown[]) =>
        this.#ask(
          name,
          args.filter((each) => typeof each !== "function"),
        ),
  });

  constructor(data: Omit<ThreadData, "role">, role: ReaderRole) {
    this.#opened = data.opened;
    this.#thread = new CallableThread({ ...data, role }, (message) => message as ReaderMessage, idleMs[role]);
  }

  async #ask(name: string | symbol, args: readonly unknown[]): Promise<unknown> {
    const lost = this.#thread.isRunning ? undefined : lostFile(this.#opened);
    if (lost !== undefined) throw lost;
    const message = await this.#thread.call([name, ...args]);
    if (!message.ok) throw new Error(message.message);
    return message.answer;
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}

/**
 * Outcomes in the format that the writer's thread sends. Frequent outcomes are flat, because objects take five times as
 * long to clone. In them, only the window that refused a hold is an object, which the refusals of a batch share.
 */
type PackedOutcomes = readonly unknown[];

/**
 * Tags that state which values follow: a whole outcome, the remaining amounts after a hold, the cost and overage of a
 * first post, or the shortage of a refusal.
 */
const [whole, held, posted, refused] = [0, 1, 2, 3] as const;

export function packOutcomes(outcomes: readonly Outcome[]): PackedOutcomes {
  const packed: unknown[] = [];
  for (const outcome of outcomes) {
    const reply = outcome.kind === "done" && typeof outcome.reply === "object" ? outcome.reply : null;
    if (reply !== null && isHeld(reply)) packed.push(held, reply.room, reply.keyRoom);
    else if (reply !== null && isPosted(reply)) packed.push(posted, reply.cost, reply.overage);
    else if (reply !== null && isRefused(reply)) {
      const { window, needed, exhausted } = reply.shortage;
      packed.push(refused, window, needed, exhausted);
    } else packed.push(whole, outcome);
  }
  return packed;
}

export function unpackOutcomes(packed: PackedOutcomes): readonly Outcome[] {
  const outcomes: Outcome[] = [];
  for (let at = 0; at < packed.length;) {
    const kind = packed[at++];
    if (kind === held) {
      const room = packed[at++] as PicoUsd | null;
      const keyRoom = packed[at++] as PicoUsd | null;
      outcomes.push({ kind: "done", reply: { ok: true, room, keyRoom } });
    } else if (kind === posted) {
      const cost = packed[at++] as PicoUsd | null;
      const overage = packed[at++] as PicoUsd;
      outcomes.push({ kind: "done", reply: { ok: true, first: true, state: "posted", cost, overage } });
    } else if (kind === refused) {
      const window = packed[at++] as Shortage["window"];
      const needed = packed[at++] as PicoUsd;
      const exhausted = packed[at++] as boolean;
      outcomes.push({ kind: "done", reply: { ok: false, reason: "no_room", shortage: { window, needed, exhausted } } });
    } else outcomes.push(packed[at++] as Outcome);
  }
  return outcomes;
}

function isHeld(reply: object): reply is Extract<HoldResult, { ok: true }> {
  return "room" in reply && "ok" in reply && reply.ok === true;
}

function isPosted(reply: object): reply is Extract<SettleResult, { ok: true }> {
  return "first" in reply && reply.first === true && "state" in reply && reply.state === "posted";
}

function isRefused(reply: object): reply is Extract<HoldResult, { reason: "no_room" }> {
  return "shortage" in reply;
}
