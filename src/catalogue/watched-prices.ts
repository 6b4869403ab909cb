import { watch, type FSWatcher } from "node:fs";
import type { Clock } from "../ports/clock.ts";
import { loop, sleep, type Loop } from "../platform/loop.ts";
import { startThread } from "../platform/thread.ts";
import type { CatalogueBuilder } from "./build.ts";
import { catalogueOf, type CatalogueData, type LoadedCatalogue } from "./catalogue.ts";
import { messageOf, type Fault, type OrFaults } from "../core/fault.ts";
import { readPriceFolder, readPriceTexts, type PriceFolders, type PriceTexts } from "./load.ts";
import { fingerprint, prebuiltCatalogue, type PriceLayers } from "./prebuilt.ts";

/** Result of reloading the price files. */
export type Reload =
  /** The new prices are in force. `before` is the digest of the previous catalogue. */
  | { readonly kind: "applied"; readonly before: string; readonly catalogue: LoadedCatalogue }
  /** The previous prices stay in force. */
  | { readonly kind: "refused"; readonly faults: readonly Fault[] };

interface WatchOptions {
  readonly folders: PriceFolders;
  readonly clock: Clock;
  /** Called after every attempted reload. */
  readonly onReload: (reload: Reload) => void;
  /** Time for which the texts must stay unchanged before they are applied, in milliseconds; 250 by default. */
  readonly quietMs?: number;
  /** Interval at which the user's folder is read without a change notification, in milliseconds; 5000 by default. */
  readonly pollMs?: number;
  /** Prices to begin with; by default, those that `readFirstPrices` returns for the folders. */
  readonly first?: FirstPrices;
}

export type PricesOpening = OrFaults<{ prices: WatchedPrices }>;

/** Loads the prices. Applies changes in the user's folder until the result is disposed. */
export async function watchPrices(options: WatchOptions): Promise<PricesOpening> {
  const first = options.first ?? (await readFirstPrices(options.folders));
  if (!first.ok) return first;
  const built = await first.built;
  return built.ok ? { ok: true, prices: new WatchedPrices(options, built.catalogue, first.texts) } : built;
}

type ReadTexts = PriceTexts & { readonly ok: true };

/** Texts of the price files, and the catalogue that is being built from them. */
export type FirstPrices = OrFaults<{ texts: ReadTexts; built: Promise<Built> }>;

/**
 * Reads the price files and begins to build their catalogue: with `build`, or from the package's prebuilt catalogue if
 * it was built from the same texts. Otherwise a thread builds it, so that this thread loads neither the parser nor the
 * schema. If the thread cannot run, this thread builds it.
 */
export async function readFirstPrices(folders: PriceFolders, build?: CatalogueBuilder): Promise<FirstPrices> {
  const texts = await readPriceTexts(folders);
  return texts.ok ? { ok: true, texts, built: firstCatalogue(texts, build) } : texts;
}

function firstCatalogue({ layers }: ReadTexts, build: CatalogueBuilder | undefined): Promise<Built> {
  if (build !== undefined) return Promise.resolve(build(layers));
  const prebuilt = prebuiltCatalogue(layers);
  if (prebuilt !== undefined) return Promise.resolve({ ok: true, catalogue: prebuilt });
  const building = buildOnThread(layers, { keepsRunning: true }).catch(() => buildHere(layers));
  // The caller may end before it awaits the catalogue.
  building.catch(() => undefined);
  return building;
}

async function buildHere(layers: PriceLayers): Promise<Built> {
  const { buildCatalogue } = await import("./build.ts");
  return buildCatalogue(layers);
}

/**
 * Prices in force. A reload replaces the whole catalogue or nothing. File system notifications and a slow poll detect
 * changes. A change is applied only when the texts have stopped changing, because editors may write a file in several
 * steps. Only `reload` reads the shipped files again: a program update under a running proxy must not change its
 * prices.
 */
export class WatchedPrices implements Disposable {
  readonly #options: WatchOptions;
  readonly #quietMs: number;
  readonly #checks: Loop;
  #current: LoadedCatalogue;
  /** All layers but the user's. Used only if there is a user's folder. */
  #shipped: PriceLayers;
  /** Fingerprint of the texts that were applied or refused most recently. */
  #seen: string;
  #watcher: FSWatcher | null = null;
  /** True if the next check must read all files, including the shipped ones, even if none seems to have changed. */
  #isForced = false;
  readonly #listeners: (() => void)[] = [];

  /** Returns the catalogue in force. */
  readonly current = (): LoadedCatalogue => this.#current;

  constructor(options: WatchOptions, current: LoadedCatalogue, read: ReadTexts) {
    this.#options = options;
    this.#quietMs = options.quietMs ?? 250;
    this.#current = current;
    this.#shipped = read.layers.slice(0, -1);
    this.#seen = fingerprint(read);
    this.#watchFolder();
    const everyMs = options.folders.user === undefined ? Infinity : (options.pollMs ?? 5_000);
    this.#checks = loop(options.clock, () => this.#check(), {
      firstMs: everyMs,
      everyMs,
      onError: (error) => options.onReload(this.#notChecked(error)),
    });
  }

  /** Calls the listener each time new prices are in force. */
  onApplied(listener: () => void): void {
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
    const texts = await this.#stableTexts(isForced);
    if (texts === null || this.#hasEnded()) return;
    const reload = await this.#checked(texts);
    if (this.#hasEnded()) return;
    this.#seen = fingerprint(texts);
    if (reload.kind === "applied") {
      if (texts.ok) this.#shipped = texts.layers.slice(0, -1);
      this.#current = reload.catalogue;
    }
    // The path may now refer to a different folder.
    this.#watchFolder();
    this.#options.onReload(reload);
    if (reload.kind === "applied") for (const listener of this.#listeners) listener();
  }

  #hasEnded(): boolean {
    return this.#checks.ending.aborted;
  }

  /**
   * Reads the texts repeatedly until two reads in a row are equal, and returns the texts. Returns null if the watch has
   * ended, or if the texts were already checked and the check is not forced.
   */
  async #stableTexts(isForced: boolean): Promise<PriceTexts | null> {
    const isNew = (read: PriceTexts) => isForced || fingerprint(read) !== this.#seen;
    let texts = await this.#read(isForced);
    if (!isNew(texts)) return null;
    for (;;) {
      await sleep(this.#options.clock, this.#quietMs, this.#checks.ending);
      const again = await this.#read(isForced);
      if (this.#hasEnded()) return null;
      if (fingerprint(again) === fingerprint(texts)) return isNew(texts) ? texts : null;
      texts = again;
    }
  }

  async #read(withShipped: boolean): Promise<PriceTexts> {
    const { folders } = this.#options;
    const { user } = folders;
    if (withShipped || user === undefined) return readPriceTexts(folders);
    const { texts, faults } = await readPriceFolder(user, user);
    return faults.length > 0 ? { ok: false, faults } : { ok: true, layers: [...this.#shipped, texts] };
  }

  async #checked(texts: PriceTexts): Promise<Reload> {
    if (!texts.ok) return { kind: "refused", faults: texts.faults };
    const before = this.#current.digest;
    try {
      const built = await buildOnThread(texts.layers, { keepsRunning: false });
      return built.ok
        ? { kind: "applied", before, catalogue: built.catalogue }
        : { kind: "refused", faults: built.faults };
    } catch (error) {
      return this.#notChecked(error);
    }
  }

  #notChecked(error: unknown): Reload {
    const message = `could not be checked: ${messageOf(error)}`;
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
      // The folder does not exist, or the system cannot watch more folders. The poll then detects changes.
    }
  }
}

/** Result of the thread that builds a catalogue, as plain data. */
export type BuildReport = OrFaults<{ data: CatalogueData }>;

type Built = OrFaults<{ catalogue: LoadedCatalogue }>;

/**
 * Runs `buildCatalogue` on a thread that ends after one build. Rejects if the thread cannot run. `keepsRunning`: the
 * process does not end before the build does.
 */
function buildOnThread(layers: PriceLayers, { keepsRunning }: { readonly keepsRunning: boolean }): Promise<Built> {
  return new Promise((resolve, reject) => {
    // The thread must not inherit the process's flags: with `--input-type`, for example, it could not run a file.
    const module = new URL("./worker.ts", import.meta.url);
    const worker = startThread(module, { name: "prices", workerData: layers, execArgv: [] });
    if (!keepsRunning) worker.unref();
    worker.once("message", (report: BuildReport) => {
      resolve(report.ok ? { ok: true, catalogue: catalogueOf(report.data) } : report);
    });
    worker.once("error", reject);
    worker.once("exit", (code) => reject(new Error(`the thread that checks prices ended with ${code}`)));
  });
}
