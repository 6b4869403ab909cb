import { Connection, chatRequest } from "./connection.ts";
import type { Sample } from "./load.ts";
import type { Options } from "./options.ts";
import { startTargets, type FoundTarget, type Target, type TargetName } from "./targets.ts";
import { heldChunkMs, heldChunks, type Workload } from "./workloads.ts";

/** Number of streams opened and closed before the measurement, because code and pools must already be in memory. */
const warmUpStreams = 50;
/** Pause for garbage collection after the last stream has begun, in milliseconds. */
const restMs = 3000;
/** Longest time until every stream has begun, in milliseconds. */
const beginMs = (heldChunks - 10) * heldChunkMs;

/** Starts new processes, and measures the memory of each target with many open streams. */
export async function measureHeld(
  workload: Workload,
  { held, targets }: Pick<Options, "held"> & { readonly targets: readonly FoundTarget[] },
): Promise<ReadonlyMap<TargetName, Sample>> {
  await using started = await startTargets({
    gateway: "paced-gateway",
    chunks: heldChunks,
    chunkMs: heldChunkMs,
    profile: null,
    targets,
  });
  const samples = new Map<TargetName, Sample>();
  for (const target of started.all) samples.set(target.name, await holdOpen(workload, target, held));
  return samples;
}

async function holdOpen(workload: Workload, target: Target, count: number): Promise<Sample> {
  // The pause lets the gateway end the warm-up streams before the measured streams begin.
  await opened(workload, target, warmUpStreams).then((streams) => streams[Symbol.dispose]());
  await pause(1000);
  const before = await target.figures();
  const startedAt = performance.now();
  using streams = await opened(workload, target, count);
  await pause(restMs);
  const after = await target.figures();
  if (streams.ended() > 0)
    throw new Error(`${workload.name}: ${streams.ended()} streams of ${target.name} ended while they were held`);
  return {
    requests: count,
    seconds: (performance.now() - startedAt) / 1000,
    cpuUs: null,
    p50Us: 0,
    p99Us: 0,
    heldBytes: before === null || after === null ? null : after.rssBytes - before.rssBytes,
  };
}

/** Opens `count` streams. Resolves when each has received its first byte. */
async function opened(workload: Workload, target: Target, count: number): Promise<Disposable & { ended(): number }> {
  const connections: Connection[] = [];
  const request = chatRequest(target, workload.body);
  let ended = 0;
  const first = async () => {
    const connection = await Connection.open(target.port);
    connections.push(connection);
    await new Promise<void>((resolve, reject) => {
      const onEnd = () => {
        ended++;
        reject(new Error(`${workload.name}: a stream of ${target.name} ended too early`));
      };
      target.sent++;
      connection.send(request, () => resolve()).then(onEnd, onEnd);
    });
  };
  const timer = setTimeout(() => connections.forEach((each) => each[Symbol.dispose]()), beginMs);
  try {
    await Promise.all(Array.from({ length: count }, first));
  } finally {
    clearTimeout(timer);
  }
  return { ended: () => ended, [Symbol.dispose]: () => connections.forEach((each) => each[Symbol.dispose]()) };
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
