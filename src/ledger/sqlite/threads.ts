/* oxlint-disable unicorn/require-post-message-target-origin -- these are threads, not windows of a browser */
import { Worker } from "node:worker_threads";
import type { BatchChannel, BatchResult, Command } from "../commands.ts";
import type { LongQueries } from "../queries/interfaces.ts";
import type { OpenedFiles } from "./opened-files.ts";
import { unpackOutcomes, type PackedOutcomes } from "./packed-outcomes.ts";

/** `read`: queries that may take seconds. `figures`: figures that are queried often. */
export type ReaderRole = "read" | "figures";

/** Data that a thread starts with. */
export interface ThreadData {
  readonly role: "write" | ReaderRole;
  readonly path: string;
  readonly timeZone: string;
  readonly owner: number;
  /** Counter of changes when the store was opened. */
  readonly changes: number;
  readonly opened: OpenedFiles;
}

export type WriterMessage =
  | (Omit<BatchResult, "outcomes"> & { readonly kind: "applied"; readonly outcomes: PackedOutcomes })
  /** Another process changed keys, budgets or settings. */
  | { readonly kind: "changed" }
  | { readonly kind: "lost"; readonly lost: Lost };

/** Report of a lost file. */
export interface Lost {
  readonly reason: string;
  readonly holdsCharges: boolean;
}

export type ReaderMessage =
  | { readonly ok: true; readonly answer: unknown }
  | { readonly ok: false; readonly message: string };

/** A .ts file in a checkout, a .js file in the package. */
const entry = new URL(import.meta.url.endsWith(".ts") ? "./worker.ts" : "./worker.js", import.meta.url);

interface Call<T> {
  readonly resolve: (answer: T) => void;
  readonly reject: (error: Error) => void;
}

/**
 * Worker thread that answers calls in order. The first call starts it, unless it was started before; the next call
 * replaces one that died.
 */
class CallableThread<T> {
  readonly #data: ThreadData;
  readonly #onMessage: (message: unknown) => T | undefined;
  #worker: Worker | null = null;
  #calls: Call<T>[] = [];

  /** `onMessage` returns the answer in a message, or undefined if it is no answer. */
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

  /** Stops the thread. Waiting calls are rejected. */
  async stop(): Promise<void> {
    await this.#worker?.terminate();
  }

  /** Stops the thread after it has closed its files. */
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

/** Receives events that the writer's thread notices. */
export interface WatchListener {
  /** Another process changed keys, budgets or settings. */
  changed(): void;
  /** A file of the ledger was deleted, moved or replaced; reported once each time. */
  lost(lost: Lost): void;
}

/** The one writer of a running proxy, on its own thread. */
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
    // Started at once: it watches for changes by other processes.
    this.#thread.start();
  }

  apply(commands: readonly Command[]): Promise<BatchResult> {
    return this.#thread.call(commands);
  }

  /** Stops the thread at once, in any state, as a crash would. */
  stop(): Promise<void> {
    return this.#thread.stop();
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}

/** Queries of a running proxy, on a separate thread. The thread for `read` also checkpoints the write-ahead log. */
export class ReaderThread {
  readonly #thread: CallableThread<ReaderMessage>;
  /** Queries that ask the thread. Arguments that are functions stay on this side. */
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
    // The thread for figures starts with the first query.
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
