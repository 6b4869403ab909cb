import { Connection, chatRequest } from "./connection.ts";
import type { Sample } from "./load.ts";
import type { Options } from "./options.ts";
import { startTargets, type FoundTarget, type Target, type TargetName } from "./targets.ts";
import { heldChunkMs, heldChunks, type Workload } from "./workloads.ts";

/** Opened, looked at and left before the figure is taken: what the first streams bring in (code, pools) is not a stream's. */
const warmUpStreams = 50;
/** After the last stream has begun: what its beginning left behind may be collected meanwhile. */
const restMs = 3000;
/** Until every stream has begun. */
const beginMs = (heldChunks - 10) * heldChunkMs;

/** The memory of each target's processes with many streams open, in fresh processes; a round's figure of each. */
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
  // Left again, and ended at the gateway, before the others begin.
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

/** So many streams, each with its first byte there. */
async function opened(workload: Workload, target: Target, count: number): Promise<Disposable & { ended(): number }> {
  const connections: Connection[] = [];
  const request = chatRequest(target, workload.body);
  let ended = 0;
  const first = async () => {
    const connection = await Connection.open(target.port);
    connections.push(connection);
    await new Promise<void>((resolve, reject) => {
      const over = () => {
        ended++;
        reject(new Error(`${workload.name}: a stream of ${target.name} is over`));
      };
      target.sent++;
      connection.send(request, () => resolve()).then(over, over);
    });
  };
  const late = setTimeout(() => connections.forEach((each) => each[Symbol.dispose]()), beginMs);
  try {
    await Promise.all(Array.from({ length: count }, first));
  } finally {
    clearTimeout(late);
  }
  return { ended: () => ended, [Symbol.dispose]: () => connections.forEach((each) => each[Symbol.dispose]()) };
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
