import { fileURLToPath } from "node:url";
import { Worker, type WorkerOptions } from "node:worker_threads";

const entry = new URL("./entry.mjs", import.meta.url);

/** File that a worker process runs. Its first argument is the address of the module to load. */
export const processEntry = fileURLToPath(entry);

/** Limits the young generation of a thread's heap to three semi-spaces of 4 MB each. */
const resourceLimits = { maxYoungGenerationSizeMb: 12 };

/** Starts a thread that runs a module of this program. */
export function startThread(module: URL, options: WorkerOptions): Worker {
  return new Worker(entry, { ...options, resourceLimits, argv: [moduleAddress(module)] });
}

/**
 * Returns the address of a module, given the address of its TypeScript file. A package contains a JavaScript file
 * instead.
 */
export function moduleAddress({ href }: URL): string {
  return import.meta.url.endsWith(".ts") ? href : href.replace(/\.ts$/, ".js");
}
