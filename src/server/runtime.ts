import { setFlagsFromString } from "node:v8";
import type { Worker } from "node:worker_threads";

/**
 * Turns off V8's pretenuring, which allocates objects of hot code in the old generation. In a proxy nearly all objects
 * live as long as one request. A dead object in the old generation keeps the rest of its request alive until the next
 * full collection. The flag can be set at run time, and applies to threads too.
 *
 * Under load, the young generation has its default size of 16 MB. V8 shrinks it to 1 MB while there are few requests,
 * and must be able to enlarge it again. With 1 MB, a request takes 50% more CPU (measured; 4 to 32 MB take the same).
 */
export function tuneRuntime(): void {
  setFlagsFromString("--no-allocation-site-pretenuring");
}

/** True from `stayLean` until `growUnderLoad`. */
let isLean = false;

/** Keeps the young generation small. V8 ignores this value on the command line. */
function keepSmall(): void {
  if (isLean) setFlagsFromString("--semi-space-growth-factor=1");
}

/** A thread's heap sets the flag of the whole process to its default. */
const keepSmallAgain = (thread: Worker) => void thread.once("online", keepSmall);

/**
 * Keeps the young generation small until `growUnderLoad`, which saves 6 MB in an idle process. Call it before the modules
 * of a server are loaded. For `serve`, bin/farebox.mjs sets the flag even before the modules of the command are loaded.
 */
export function stayLean(): void {
  isLean = true;
  keepSmall();
  process.on("worker", keepSmallAgain);
  removeWebSocket();
}

/**
 * Removes the browser's WebSocket from `node:http`. Otherwise an ES module that imports `node:http` would load it,
 * and with it 13 MB of Node's own undici.
 */
function removeWebSocket(): void {
  const http = process.getBuiltinModule("node:http");
  for (const name of ["WebSocket", "CloseEvent", "MessageEvent"]) Reflect.deleteProperty(http, name);
}

/** Lets the young generation grow from now on. */
export function growUnderLoad(): void {
  isLean = false;
  process.off("worker", keepSmallAgain);
  setFlagsFromString("--semi-space-growth-factor=2");
}
