import { Worker } from "node:worker_threads";
import type { Encoding } from "../../ports/catalogue.ts";
import type { TokenCount } from "../../ports/token-counter.ts";
import type { CountJob, JobBatch, TurnReport } from "./turns.ts";

interface CountingThreadOptions {
  /** Calls that may wait for an answer at once. */
  readonly queueItemsMax: number;
  /** Memory of all texts that wait for an answer: two bytes a UTF-16 unit, and some for each text. */
  readonly queueBytesMax: number;
  /** Starts the thread; a test hands in its own to watch or end it. */
  readonly startThread: () => Worker;
  /** Told when the thread ended unasked; the error is undefined when it only exited. */
  readonly onThreadDeath: (error: unknown) => void;
}

interface PendingJob {
  readonly job: CountJob;
  readonly bytes: number;
  /** Threads that it has been sent to. */
  attempts: number;
  readonly resolve: (count: TokenCount) => void;
}

const busy: TokenCount = { ok: false, reason: "busy" };
const bytesPerText = 64;
const attemptsMax = 2;

/** Starts the worker, as TypeScript in the checkout and as JavaScript in the package. */
export function startCountingThread(): Worker {
  const file = import.meta.url.endsWith(".ts") ? "./worker.ts" : "./worker.js";
  // The process's own flags are not for a thread: `--input-type`, for one, forbids it to have a file.
  return new Worker(new URL(file, import.meta.url), { name: "token-counter", execArgv: [] });
}

/**
 * Counts on one worker thread. It starts with the first call, and again after it has died: its unanswered calls are
 * then sent once more, and answered `busy` when that thread dies too. While the thread is at a turn, calls gather and
 * go to it as one message. An idle thread does not keep the process alive; an unanswered call does.
 */
export class CountingThread implements AsyncDisposable {
  readonly #options: CountingThreadOptions;
  #thread: Worker | undefined;
  #nextId = 0;
  #bytes = 0;
  #waiting: PendingJob[] = [];
  readonly #sent = new Map<number, PendingJob>();
  /** A batch is being gathered, or the thread has not yet taken the last one in. */
  #gathering = false;
  #disposed = false;

  constructor(options: CountingThreadOptions) {
    this.#options = options;
  }

  /** Counts texts together, those from `escapedFrom` on escaped, no further than `atMost`. Answered `busy` when the queue is full, the thread cannot run, or after disposal. */
  count(
    texts: readonly string[],
    encoding: Encoding,
    atMost: number,
    escapedFrom: number = texts.length,
  ): Promise<TokenCount> {
    const bytes = texts.reduce((sum, text) => sum + 2 * text.length + bytesPerText, 0);
    if (!this.#hasRoomFor(bytes)) return Promise.resolve(busy);
    return new Promise((resolve) => {
      this.#bytes += bytes;
      this.#nextId += 1;
      this.#waiting.push({
        job: { id: this.#nextId, encoding, texts, escapedFrom, atMost },
        bytes,
        attempts: 0,
        resolve,
      });
      if (this.#gathering) return;
      this.#gathering = true;
      queueMicrotask(() => this.#sendBatch());
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    const thread = this.#thread;
    this.#thread = undefined;
    for (const pending of [...this.#sent.values(), ...this.#waiting]) this.#settle(pending, busy);
    this.#waiting = [];
    await thread?.terminate();
  }

  #hasRoomFor(bytes: number): boolean {
    const { queueItemsMax, queueBytesMax } = this.#options;
    const items = this.#waiting.length + this.#sent.size;
    return !this.#disposed && items < queueItemsMax && this.#bytes + bytes <= queueBytesMax;
  }

  #sendBatch(): void {
    this.#gathering = this.#waiting.length > 0;
    if (!this.#gathering) return;
    const batch = this.#waiting;
    this.#waiting = [];
    for (const pending of batch) {
      pending.attempts += 1;
      this.#sent.set(pending.job.id, pending);
    }
    const thread = this.#runningThread();
    if (thread === undefined) return;
    thread.ref();
    const message: JobBatch = batch.map((pending) => pending.job);
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    thread.postMessage(message);
  }

  #runningThread(): Worker | undefined {
    if (this.#thread !== undefined) return this.#thread;
    let thread: Worker;
    try {
      thread = this.#options.startThread();
    } catch (error) {
      this.#onThreadEnd(error);
      return undefined;
    }
    this.#thread = thread;
    let reason: unknown;
    thread.on("message", (report: TurnReport) => this.#take(report, thread));
    thread.on("error", (error) => (reason = error));
    thread.on("exit", () => {
      if (this.#thread === thread) this.#onThreadEnd(reason);
    });
    return thread;
  }

  #take(report: TurnReport, thread: Worker): void {
    if (this.#thread !== thread) return;
    for (const { id, tokens } of report.counted) {
      const pending = this.#sent.get(id);
      if (pending !== undefined) this.#settle(pending, { ok: true, tokens });
    }
    if (report.ready) this.#sendBatch();
    if (this.#sent.size === 0) thread.unref();
  }

  /** The thread is gone: what it had not answered goes to the next one, before what has gathered since. */
  #onThreadEnd(reason: unknown): void {
    this.#thread = undefined;
    this.#options.onThreadDeath(reason);
    const again: PendingJob[] = [];
    for (const pending of this.#sent.values()) {
      if (pending.attempts < attemptsMax) again.push(pending);
      else this.#settle(pending, busy);
    }
    this.#sent.clear();
    this.#waiting = [...again, ...this.#waiting];
    this.#sendBatch();
  }

  #settle(pending: PendingJob, count: TokenCount): void {
    this.#sent.delete(pending.job.id);
    this.#bytes -= pending.bytes;
    pending.resolve(count);
  }
}
