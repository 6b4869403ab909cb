/**
 * Entry point of the thread that builds a catalogue. Checking price files takes tens of milliseconds, for which no
 * request should wait.
 */
import { parentPort, workerData } from "node:worker_threads";
import { invariant } from "../core/assert.ts";
import { buildCatalogue, type PriceText } from "./build.ts";
import type { BuildReport } from "./watched-prices.ts";

invariant(parentPort !== null, "this file is the entry of a thread");
const result = buildCatalogue(workerData as readonly (readonly PriceText[])[]);
const report: BuildReport = result.ok ? { ok: true, parts: result.catalogue.parts } : result;
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
parentPort.postMessage(report);
