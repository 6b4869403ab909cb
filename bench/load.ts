import { hasRightLength } from "./check.ts";
import { Connection, chatRequest } from "./connection.ts";
import { percentile, sortedCopy } from "./statistics.ts";
import type { Target } from "./targets.ts";
import { nowUs, sinceUs } from "./timestamps.ts";
import { pacedChunkMs, type Workload } from "./workloads.ts";

interface LoadOptions {
  readonly requests: number;
  readonly connections: number;
}

/** Longest time of a measurement, in milliseconds. Slow targets get fewer requests. */
const loadMsMax = 3_000;

const nothing = Buffer.alloc(0);

/** One measurement of one target. Times are in microseconds. */
export interface Sample {
  readonly requests: number;
  readonly seconds: number;
  /** CPU time of the proxy; null for the gateway alone. */
  readonly cpuUs: number | null;
  readonly p50Us: number;
  readonly p99Us: number;
  /** Memory that open streams added to the proxy's processes; null if it was not measured. */
  readonly heldBytes: number | null;
}

/** Measures a closed loop: each connection sends its next request as soon as the answer is complete. */
export async function runLoad(workload: Workload, target: Target, options: LoadOptions): Promise<Sample> {
  await using connections = await openAll(target, options.connections);
  const requests = target.keys.map((key) => chatRequest({ ...target, key }, workload.body));
  const untilFirstByte = workload.measure === "firstByte";
  const times: number[] = [];
  const before = await target.figures();
  const startedAt = performance.now();
  const endsAt = startedAt + loadMsMax;
  let toSend = options.requests;

  const loop = async (connection: Connection) => {
    while (toSend > 0 && performance.now() < endsAt) {
      toSend--;
      const request = requests[target.sent++ % requests.length] ?? nothing;
      let firstByteAt = 0;
      const sentAt = performance.now();
      const { status, bodyBytes } = await connection.send(request, () => {
        if (firstByteAt === 0) firstByteAt = performance.now();
      });
      times.push(((untilFirstByte ? firstByteAt : performance.now()) - sentAt) * 1000);
      if (status !== 200 || !hasRightLength(target, bodyBytes)) {
        throw new Error(`${workload.name}: ${target.name} answered ${status} with ${bodyBytes} bytes under load`);
      }
    }
  };
  await Promise.all(connections.all.map(loop));
  const seconds = (performance.now() - startedAt) / 1000;
  const after = await target.figures();
  const sorted = sortedCopy(times);
  return {
    requests: times.length,
    seconds,
    cpuUs: before === null || after === null ? null : after.cpuUs - before.cpuUs,
    p50Us: percentile(sorted, 0.5),
    p99Us: percentile(sorted, 0.99),
    heldBytes: null,
  };
}

/**
 * Measures many streams at once. Each chunk contains the time at which the gateway wrote it. The sample's times are the
 * delays of the chunks.
 */
export async function runPaced(workload: Workload, target: Target, streams: number, chunks: number): Promise<Sample> {
  await using connections = await openAll(target, streams);
  const request = chatRequest(target, workload.body);
  const delays: number[] = [];
  const before = await target.figures();
  const startedAt = performance.now();
  await Promise.all(
    connections.all.map(async (connection, index) => {
      // Spread the starts over the time of one chunk, because independent clients do not start together.
      await new Promise((resolve) => setTimeout(resolve, (index * pacedChunkMs) / streams));
      const reader = new TimestampReader(delays);
      target.sent++;
      const { status } = await connection.send(request, (bytes) => reader.feed(bytes));
      if (status !== 200 || reader.count !== chunks || !reader.isComplete) {
        throw new Error(`${workload.name}: ${target.name} answered ${status} with ${reader.count} chunks`);
      }
    }),
  );
  const seconds = (performance.now() - startedAt) / 1000;
  const after = await target.figures();
  const sorted = sortedCopy(delays);
  return {
    requests: streams,
    seconds,
    cpuUs: before === null || after === null ? null : after.cpuUs - before.cpuUs,
    p50Us: percentile(sorted, 0.5),
    p99Us: percentile(sorted, 0.99),
    heldBytes: null,
  };
}

/** Finds the timestamps `@…;` in a stream whose bytes arrive in pieces of any size. */
class TimestampReader {
  readonly #delays: number[];
  #rest = "";
  count = 0;

  constructor(delays: number[]) {
    this.#delays = delays;
  }

  get isComplete(): boolean {
    return this.#rest.endsWith("data: [DONE]\n\n");
  }

  feed(bytes: Buffer): void {
    const now = nowUs();
    const text = this.#rest + bytes.toString("latin1");
    let from = 0;
    for (;;) {
      const at = text.indexOf("@", from);
      const end = at === -1 ? -1 : text.indexOf(";", at);
      if (end === -1) break;
      this.#delays.push(sinceUs(text.slice(at + 1, end), now));
      this.count++;
      from = end;
    }
    this.#rest = text.slice(Math.max(from, text.length - 300));
  }
}

async function openAll(
  target: Target,
  count: number,
): Promise<AsyncDisposable & { readonly all: readonly Connection[] }> {
  await using owned = new AsyncDisposableStack();
  const all: Connection[] = [];
  for (let index = 0; index < count; index++) all.push(owned.use(await Connection.open(target.port)));
  const kept = owned.move();
  return { all, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}
