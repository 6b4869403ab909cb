import { createHash } from "node:crypto";
import { watch, type FSWatcher } from "node:fs";
import type { Clock } from "../ports/clock.ts";
import { loop, sleep, type Loop } from "../platform/loop.ts";
import { buildCatalogue, type CatalogueBuilder, type PriceText } from "./build.ts";
import { catalogueOf, type CatalogueData, type LoadedCatalogue } from "./catalogue.ts";
import type { Fault } from "../core/fault.ts";
import { readPriceFolder, readPriceTexts, type PriceFolders, type PriceTexts } from "./load.ts";
import { Worker } from "node:worker_threads";

/** Result of reloading the price files. */
export type Reload =
  /** The new prices are in force. `before` is the digest of the previous catalogue. */
  | { readonly kind: "taken"; readonly before: string; readonly catalogue: LoadedCatalogue }
  /** The previous prices stay in force. */
  | { readonly kind: "refused"; readonly faults: readonly Fault[] };

interface WatchOptions {
  readonly folders: PriceFolders;
  readonly clock: Clock;
  /** Called after every attempted reload. */
  readonly onReload: (reload: Reload) => void;
  /** Time without changes before the files are read, in milliseconds; 250 by default. */
  readonly quietMs?: number;
  /** Interval at which the user's folder is read without a change notification, in milliseconds; 5000 by default. */
  readonly pollMs?: number;
  /** Builds the first catalogue; `buildCatalogue` by default. */
  readonly build?: CatalogueBuilder;
}

export type PricesOpening =
  | { readonly ok: true; readonly prices: WatchedPrices }
  | { readonly ok: false; readonly faults: readonly Fault[] };

/** Loads the prices and applies changes in the user's folder until disposed. */
export async function watchPrices(options: WatchOptions): Promise<PricesOpening> {
  const read = await readPriceTexts(options.folders);
  if (!read.ok) return read;
  const built = (options.build ?? buildCatalogue)(read.layers);
  if (!built.ok) return built;
  return { ok: true, prices: new WatchedPrices(options, built.catalogue, read) };
}

/**
 * Holds the prices in force. A reload replaces the whole catalogue or nothing. A file system notification or a slow
 * poll detects a change, which is applied once the texts stay the same, because editors may write a file in several
 * steps. Only `reload` reads the shipped files again: updating the program under a running proxy must not change its
 * prices.
 */
export class WatchedPrices implements Disposable {
  readonly #options: WatchOptions;
  readonly #quietMs: number;
  readonly #checks: Loop;
  #current: LoadedCatalogue;
  #shipped: readonly PriceText[];
  /** Fingerprint of the texts that were last applied or refused. */
  #seen: string;
  #watcher: FSWatcher | null = null;
  /** True if the next check must read all files, including the shipped ones, even if none seems to have changed. */
  #isForced = false;
  readonly #listeners: (() => void)[] = [];

  constructor(options: WatchOptions, current: LoadedCatalogue, read: PriceTexts & { readonly ok: true }) {
    this.#options = options;
    this.#quietMs = options.quietMs ?? 250;
    this.#current = current;
    this.#shipped = read.layers[0] ?? [];
    this.#seen = fingerprint(read);
    this.#watchFolder();
    const everyMs = options.folders.user === undefined ? Infinity : (options.pollMs ?? 5_000);
    this.#checks = loop(options.clock, () => this.#check(), {
      firstMs: everyMs,
      everyMs,
      onError: (error) => options.onReload(this.#notChecked(error)),
    });
  }

  get current(): LoadedCatalogue {
    return this.#current;
  }

  /** Calls the listener whenever new prices are in force. */
  onTaken(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Reads and checks all files, including the shipped ones, even if none seems to have changed. Resolves when done. */
  async reload(): Promise<void> {
    this.#isForced = true;
    await this.#checks.run();
  }

  [Symbol.dispose](): void {
    void this.#checks[Symbol.asyncDispose]();
    this.#watcher?.close();
  }

  async #check(): Promise<void> {
    const isForced = this.#isForced;
    this.#isForced = false;
    const texts = await this.#settled(isForced);
    if (texts === null || this.#hasEnded()) return;
    const reload = await this.#judge(texts);
    if (this.#hasEnded()) return;
    this.#seen = fingerprint(texts);
    if (reload.kind === "taken") {
      if (texts.ok) this.#shipped = texts.layers[0] ?? [];
      this.#current = reload.catalogue;
    }
    // The path may now refer to a different folder.
    this.#watchFolder();
    this.#options.onReload(reload);
    if (reload.kind === "taken") for (const listener of this.#listeners) listener();
  }

  #hasEnded(): boolean {
    return this.#checks.ending.aborted;
  }

  /** Reads the texts until they stay the same; returns null if they have already been checked. */
  async #settled(always: boolean): Promise<PriceTexts | null> {
    const isNew = (read: PriceTexts) => always || fingerprint(read) !== this.#seen;
    let texts = await this.#read(always);
    if (!isNew(texts)) return null;
    for (;;) {
      await sleep(this.#options.clock, this.#quietMs, this.#checks.ending);
      const again = await this.#read(always);
      if (this.#hasEnded()) return null;
      if (fingerprint(again) === fingerprint(texts)) return isNew(texts) ? texts : null;
      texts = again;
    }
  }

  async #read(withShipped: boolean): Promise<PriceTexts> {
    const { shipped, user } = this.#options.folders;
    if (withShipped || user === undefined) return readPriceTexts({ shipped, user });
    const { texts, faults } = await readPriceFolder(user, user);
    return faults.length > 0 ? { ok: false, faults } : { ok: true, layers: [this.#shipped, texts] };
  }

  async #judge(texts: PriceTexts): Promise<Reload> {
    if (!texts.ok) return { kind: "refused", faults: texts.faults };
    const before = this.#current.digest;
    try {
      const built = await buildOnThread(texts.layers);
      return built.ok
        ? { kind: "taken", before, catalogue: built.catalogue }
        : { kind: "refused", faults: built.faults };
    } catch (error) {
      return this.#notChecked(error);
    }
  }

  #notChecked(error: unknown): Reload {
    const message = `could not be checked: ${error instanceof Error ? error.message : String(error)}`;
    return {
      kind: "refused",
      faults: [{ file: this.#options.folders.user ?? "pricing", line: 1, column: 1, message }],
    };
  }

  #watchFolder(): void {
    const { user } = this.#options.folders;
    if (user === undefined) return;
    this.#watcher?.close();
    this.#watcher = null;
    try {
      const watcher = watch(user, { persistent: false }, () => this.#checks.wake());
      // The poll detects changes that the watcher misses.
      watcher.on("error", () => watcher.close());
      this.#watcher = watcher;
    } catch {
      // No notifications: the folder is gone, or the system cannot watch more folders.
    }
  }
}

function fingerprint(texts: PriceTexts): string {
  return createHash("sha256").update(JSON.stringify(texts)).digest("hex");
}

/** Result of the thread, as plain data. */
export type BuildReport =
  | { readonly ok: true; readonly parts: CatalogueData }
  | { readonly ok: false; readonly faults: readonly Fault[] };

/** The worker is a .ts file in a checkout and a .js file in the package. */
const entry = new URL(import.meta.url.endsWith(".ts") ? "./worker.ts" : "./worker.js", import.meta.url);

type BuiltOnThread =
  | { readonly ok: true; readonly catalogue: LoadedCatalogue }
  | { readonly ok: false; readonly faults: readonly Fault[] };

/** Runs `buildCatalogue` on a thread that ends after one build. Rejects if the thread cannot run. */
function buildOnThread(layers: readonly (readonly PriceText[])[]): Promise<BuiltOnThread> {
  return new Promise((resolve, reject) => {
    // The thread must not inherit the process's flags: with `--input-type`, for example, it could not run a file.
    const worker = new Worker(entry, { name: "prices", workerData: layers, execArgv: [] });
    worker.unref();
    worker.once("message", (report: BuildReport) => {
      resolve(report.ok ? { ok: true, catalogue: catalogueOf(report.parts) } : report);
    });
    worker.once("error", reject);
    worker.once("exit", (code) => reject(new Error(`the thread that checks prices ended with ${code}`)));
  });
}
