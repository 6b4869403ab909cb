/** The counting thread: takes batches of jobs, works in turns, reports after each turn. */
import { parentPort } from "node:worker_threads";
import { invariant } from "../../core/assert.ts";
import { countPiece } from "./encoders.ts";
import { Turns, type JobBatch, type TurnReport } from "./turns.ts";

const port = parentPort;
invariant(port !== null, "the counting worker runs as a worker thread");

const turns = new Turns(countPiece);
let tookBatch = false;

port.on("message", (batch: JobBatch) => {
  const wasIdle = turns.idle;
  turns.add(batch);
  tookBatch = true;
  if (wasIdle) turn();
});

/** One turn, then the next after waiting messages have been taken in. */
function turn(): void {
  const report: TurnReport = { counted: turns.take(), ready: tookBatch };
  tookBatch = false;
  if (report.ready || report.counted.length > 0) port?.postMessage(report);
  if (!turns.idle) setImmediate(turn);
}
