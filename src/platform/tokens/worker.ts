/** Port to the main thread. The worker receives batches of jobs, counts in turns, and reports after each turn. */
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

/** Runs one turn. Schedules the next turn after the messages that are waiting. */
function turn(): void {
  const report: TurnReport = { counted: turns.take(), ready: tookBatch };
  tookBatch = false;
  if (report.ready || report.counted.length > 0) port?.postMessage(report);
  if (!turns.idle) setImmediate(turn);
}
