import type { Worker } from "node:worker_threads";
import type { Encoding } from "../../ports/catalogue.ts";
import type { TokenCount } from "../../ports/token-counter.ts";
import { startThread } from "../thread.ts";
import type { CountJob, JobBatch, TurnReport } from "./turns.ts";

interface CountingThreadOptions {
  /** Largest number of calls that may wait for an answer at once. */
  readonly queueItemsMax: number;
  /** Largest memory of all texts that wait for an answer: two bytes per UTF-16 unit, and 64 bytes per text. */
  readonly queueBytesMax: number;
  /** Starts the thread. A test passes its own function to watch or end the thread. */
  readonly startThread: () => Worker;
  /** Called when the thread ends unexpectedly. The error is undefined if the thread exited without one. */
  readonly onThreadFailure: (error: unknown) => void;
}

interface PendingJob {
  readonly job: CountJob;
  readonly bytes: number;
  /** Number of threads that have received the job. */
  attempts: number;
  readonly resolve: (count: TokenCount) => void;
}

const busy: TokenCount = { ok: false, reason: "busy" };
const bytesPerText = 64;
const attemptsMax = 2;

export function startCountingThread(): Worker {
  // The thread must not inherit the process's flags: `--input-type`, for example, does not allow a file.
  return startThread(new URL("./worker.ts", import.meta.url), { name: "token-counter", execArgv: [] });
}

/**
 * Counts on one worker thread, which starts with the first call. If the thread fails, a new thread receives the
 * unanswered calls. If the new thread fails too, these calls are answered `busy`. Calls that arrive before the thread
 * has received the previous batch are sent together as the next batch. An idle thread does not keep the process
 * running; an unanswered call does.
 */
export class CountingThread implements AsyncDisposable {
  readonly #options: CountingThreadOptions;
  #thread: Worker | undefined;
  #nextId = 0;
  #bytes = 0;
  #waiting: PendingJob[] = [];
  readonly #sent = new Map<number, PendingJob>();
  /** True while calls wait for the next batch or the thread has not yet received the previous one. */
  #gathering = false;
  #disposed = false;

  constructor(options: CountingThreadOptions) {
    this.#options = options;
  }

  /**
   * Counts texts together, up to `atMost` tokens. Texts from index `escapedFrom` are escaped first.
   * Answers `busy` if the queue is full, the thread cannot run, or the object has been disposed of.
   */
  count(
    texts: readonly string[],
    encoding: Encoding,
    atMost: number,
    escapedFrom: number = texts.length,
  ): Promise<TokenCount> {
    const bytes = texts.reduce((sum, text) => sum + 2 * text.length + bytesPerText, 0);
    if (!this.#canQueue(bytes)) return Promise.resolve(busy);
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

  #canQueue(bytes: number): boolean {
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
    thread.on("message", (report: TurnReport) => this.#onReport(report, thread));
    thread.on("error", (error) => (reason = error));
    thread.on("exit", () => {
      if (this.#thread === thread) this.#onThreadEnd(reason);
    });
    return thread;
  }

  #onReport(report: TurnReport, thread: Worker): void {
    if (this.#thread !== thread) return;
    for (const { id, tokens } of report.counted) {
      const pending = this.#sent.get(id);
      if (pending !== undefined) this.#settle(pending, { ok: true, tokens });
    }
    if (report.ready) this.#sendBatch();
    if (this.#sent.size === 0) thread.unref();
  }

  /** Sends the unanswered jobs of the ended thread to a new thread, before the jobs that were added since. */
  #onThreadEnd(reason: unknown): void {
    this.#thread = undefined;
    this.#options.onThreadFailure(reason);
    const unanswered: PendingJob[] = [];
    for (const pending of this.#sent.values()) {
      if (pending.attempts < attemptsMax) unanswered.push(pending);
      else this.#settle(pending, busy);
    }
    this.#sent.clear();
    this.#waiting = [...unanswered, ...this.#waiting];
    this.#sendBatch();
  }

  #settle(pending: PendingJob, count: TokenCount): void {
    this.#sent.delete(pending.job.id);
    this.#bytes -= pending.bytes;
    pending.resolve(count);
  }
}
