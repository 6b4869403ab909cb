import { Worker } from "node:worker_threads";
import type { PriceText } from "./build.ts";
import { catalogueOf, type CatalogueData, type LoadedCatalogue } from "./catalogue.ts";
import type { Fault } from "../core/fault.ts";

/** What the thread answers with: data only. */
export type BuildReport =
  | { readonly ok: true; readonly parts: CatalogueData }
  | { readonly ok: false; readonly faults: readonly Fault[] };

/** The worker is a .ts file in a checkout and a .js file in the package. */
const entry = new URL(import.meta.url.endsWith(".ts") ? "./worker.ts" : "./worker.js", import.meta.url);

export type BuiltOnThread =
  | { readonly ok: true; readonly catalogue: LoadedCatalogue }
  | { readonly ok: false; readonly faults: readonly Fault[] };

/** As `buildCatalogue`, on a thread that ends with it. Rejects when the thread cannot run. */
export function buildOnThread(layers: readonly (readonly PriceText[])[]): Promise<BuiltOnThread> {
  return new Promise((resolve, reject) => {
    // The process's own flags are not for a thread: `--input-type`, for one, forbids it to have a file.
    const worker = new Worker(entry, { name: "prices", workerData: layers, execArgv: [] });
    worker.unref();
    worker.once("message", (report: BuildReport) => {
      resolve(report.ok ? { ok: true, catalogue: catalogueOf(report.parts) } : report);
    });
    worker.once("error", reject);
    worker.once("exit", (code) => reject(new Error(`the thread that checks prices ended with ${code}`)));
  });
}
