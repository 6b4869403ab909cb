/* oxlint-disable unicorn/require-post-message-target-origin -- these are threads, not windows of a browser */
import { Worker } from "node:worker_threads";
import type { BatchChannel, BatchResult, Command } from "../commands.ts";
import type { LongQueries } from "../queries/interfaces.ts";
import type { OpenedFiles } from "./opened-files.ts";
import { unpackOutcomes, type PackedOutcomes } from "./packed-outcomes.ts";

/** `read`: for what may take seconds. `figures`: for figures that are queried often. */
export type ReaderRole = "read" | "figures";

/** Data that a thread starts with. */
export interface ThreadData {
  readonly role: "write" | ReaderRole;
  readonly path: string;
  readonly timeZone: string;
  readonly owner: number;
  /** The counter of changes when the store was opened. */
  readonly changes: number;
  readonly opened: OpenedFiles;
}

export type WriterMessage =
  | (Omit<BatchResult, "outcomes"> & { readonly kind: "applied"; readonly outcomes: PackedOutcomes })
  /** Another process changed keys, budgets or settings. */
  | { readonly kind: "changed" }
  | { readonly kind: "lost"; readonly lost: Lost };

/** What is said of a file that was lost. */
export interface Lost {
  readonly reason: string;
  readonly holdsCharges: boolean;
}

export type ReaderMessage =
  | { readonly ok: true; readonly answer: unknown }
  | { readonly ok: false; readonly message: string };

/** The worker is a .ts file in a checkout and a .js file in the package. */
const entry = new URL(import.meta.url.endsWith(".ts") ? "./worker.ts" : "./worker.js", import.meta.url);

interface Call<T> {
  readonly resolve: (answer: T) => void;
  readonly reject: (error: Error) => void;
}

/** A worker thread that answers calls in their order. It is started by the first call, or before; one that died, by the next call. */
class CallableThread<T> {
  readonly #data: ThreadData;
  readonly #onMessage: (message: unknown) => T | undefined;
  #worker: Worker | null = null;
  #calls: Call<T>[] = [];

  /** `onMessage` gives the answer that a message carries, or undefined where it is none. */
  constructor(data: ThreadData, onMessage: (message: unknown) => T | undefined) {
    this.#data = data;
    this.#onMessage = onMessage;
  }

  start(): void {
    this.#started();
  }

  call(message: unknown): Promise<T> {
    const worker = this.#started();
    return new Promise((resolve, reject) => {
      this.#calls.push({ resolve, reject });
      worker.postMessage(message);
    });
  }

  /** Ends the thread; calls that wait are rejected. */
  async stop(): Promise<void> {
    await this.#worker?.terminate();
  }

  /** Lets the thread close what it has open. */
  async close(): Promise<void> {
    const worker = this.#worker;
    if (worker === null) return;
    await new Promise<void>((resolve) => {
      worker.once("exit", () => resolve());
      worker.postMessage("close");
    });
  }

  #started(): Worker {
    if (this.#worker !== null) return this.#worker;
    const worker = new Worker(entry, { workerData: this.#data });
    worker.on("message", (message) => {
      const answer = this.#onMessage(message);
      if (answer !== undefined) this.#calls.shift()?.resolve(answer);
    });
    const died = (reason: string) => {
      if (this.#worker !== worker) return;
      this.#worker = null;
      const calls = this.#calls;
      this.#calls = [];
      for (const { reject } of calls) reject(new Error(`the ledger's ${this.#data.role} thread died: ${reason}`));
    };
    worker.on("error", (error) => died(error instanceof Error ? error.message : String(error)));
    worker.on("exit", (code) => died(`exit ${code}`));
    this.#worker = worker;
    return worker;
  }
}

/** Receives what the writer notices. */
export interface WatchListener {
  /** Another process changed keys, budgets or settings. */
  changed(): void;
  /** A file of the ledger was deleted, moved or replaced; reported once each time. */
  lost(lost: Lost): void;
}

/** The one writer of a running proxy, in a thread of its own. */
export class WriterThread implements BatchChannel {
  readonly #thread: CallableThread<BatchResult>;

  constructor(data: Omit<ThreadData, "role">, on: WatchListener) {
    this.#thread = new CallableThread({ ...data, role: "write" }, (given) => {
      const message = given as WriterMessage;
      if (message.kind === "changed") on.changed();
      if (message.kind === "lost") on.lost(message.lost);
      if (message.kind !== "applied") return undefined;
      const { outcomes, seconds, changed } = message;
      return { outcomes: unpackOutcomes(outcomes), seconds, changed };
    });
    // It watches for changes of others from the beginning.
    this.#thread.start();
  }

  apply(commands: readonly Command[]): Promise<BatchResult> {
    return this.#thread.call(commands);
  }

  /** Ends the thread at once, wherever it is: what a crash of it would do. */
  stop(): Promise<void> {
    return this.#thread.stop();
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}

/** Reads of a running proxy, in a thread of their own; that of `read` also checkpoints the write-ahead log. */
export class ReaderThread {
  readonly #thread: CallableThread<ReaderMessage>;
  /** Each asks the thread. A function in the place of an argument stays here. */
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
    this.#thread = new CallableThread({ ...data, role }, (message) => message as ReaderMessage);
    // The thread for figures starts with the first query of them.
    if (role === "read") this.#thread.start();
  }

  async #ask(name: string | symbol, args: readonly unknown[]): Promise<unknown> {
    const message = await this.#thread.call([name, ...args]);
    if (!message.ok) throw new Error(message.message);
    return message.answer;
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}
