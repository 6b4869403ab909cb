/**
 * Entry point of the thread that builds a catalogue. The thread is needed because checking price files takes tens of
 * milliseconds, and requests should not wait that long.
 */
import { parentPort, workerData } from "node:worker_threads";
import { invariant } from "../core/assert.ts";
import { buildCatalogue, type PriceText } from "./build.ts";
import type { BuildReport } from "./watched-prices.ts";

invariant(parentPort !== null, "this file is the entry of a thread");
const result = buildCatalogue(workerData as readonly (readonly PriceText[])[]);
const report: BuildReport = result.ok ? { ok: true, data: result.catalogue.data } : result;
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
parentPort.postMessage(report);
