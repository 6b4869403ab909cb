/** Worker thread that counts tokens. It receives batches of jobs, counts in turns, and reports after each turn. */
import { parentPort } from "node:worker_threads";
import { get_encoding, type Tiktoken } from "tiktoken";
import { invariant } from "../../core/assert.ts";
import type { Encoding } from "../../ports/catalogue.ts";
import { Turns, type JobBatch, type TurnReport } from "./turns.ts";

const port = parentPort;
invariant(port !== null, "the counting worker runs as a worker thread");

/**
 * The encoders of this thread. Each is loaded on first use and never freed, because loading takes about 110 ms and
 * 50-80 MB.
 */
const encoders = new Map<Encoding, Tiktoken>();

/**
 * Counts the tokens of one piece of text. Special tokens count as plain text, lone surrogates as U+FFFD. The time grows
 * with the square of the length, so callers cut long texts first.
 */
function countPiece(piece: string, encoding: Encoding): number {
  let encoder = encoders.get(encoding);
  if (encoder === undefined) encoders.set(encoding, (encoder = get_encoding(encoding)));
  return encoder.encode_ordinary(piece).length;
}

const turns = new Turns(countPiece);
let hasNewBatch = false;

port.on("message", (batch: JobBatch) => {
  const wasIdle = turns.idle;
  turns.add(batch);
  hasNewBatch = true;
  if (wasIdle) turn();
});

/** Runs one turn. Schedules the next turn after the messages that are waiting. */
function turn(): void {
  const report: TurnReport = { counted: turns.run(), ready: hasNewBatch };
  hasNewBatch = false;
  if (report.ready || report.counted.length > 0) port?.postMessage(report);
  if (!turns.idle) setImmediate(turn);
}
