import { checkAnswers, checkLedgers } from "./check.ts";
import { measureHeld } from "./held.ts";
import { runLoad, runPaced, type Sample } from "./load.ts";
import type { Options } from "./options.ts";
import { startTargets, type FoundTarget, type Target, type TargetName } from "./targets.ts";
import { pacedChunkMs, type Workload } from "./workloads.ts";

/** Size of the warm-up, in rounds. V8 optimizes hot code only after thousands of calls. */
const warmUpFactor = 4;
/** Largest number of rounds if each round starts new processes. */
const freshRoundsMax = 3;

type ByTarget<T> = Readonly<Partial<Record<TargetName, T>>>;

/** Measurements of one workload, by target and round. */
export interface Measured {
  readonly workload: Workload;
  readonly samples: ByTarget<readonly Sample[]>;
  /** Chunks of each stream; 0 if the workload has no streams. */
  readonly chunks: number;
  /** Memory of each proxy before its first request and at the peak, in bytes. */
  readonly memory: ByTarget<{ readonly atRest: number; readonly peak: number }>;
}

/**
 * Starts new processes, checks their answers, warms them up, and measures them in turn. Each round begins with a
 * different target, because the machine's speed changes over time.
 */
export async function measure(
  workload: Workload,
  found: readonly FoundTarget[],
  options: Options,
  progress: (text: string) => void,
): Promise<Measured> {
  const samples: Partial<Record<TargetName, Sample[]>> = {};
  const keep = (name: TargetName, sample: Sample) => (samples[name] ??= []).push(sample);
  const paced = workload.measure === "paced";
  const pacedChunks = Math.max(1, Math.round((options.seconds * 1000) / pacedChunkMs));
  if (workload.measure === "held") {
    for (let round = 0; round < Math.min(freshRoundsMax, options.rounds); round++) {
      progress(`${workload.name}: round ${round + 1}`);
      for (const [name, sample] of await measureHeld(workload, { held: options.held, targets: inTurn(found, round) }))
        keep(name, sample);
    }
    return { workload, samples, chunks: 0, memory: {} };
  }

  await using targets = await startTargets({
    gateway: paced ? "paced-gateway" : "gateway",
    chunks: pacedChunks,
    chunkMs: pacedChunkMs,
    profile: options.profile,
    targets: found,
  });
  const { all } = targets;
  const atRest = await memoryOf(all, "rssBytes");
  if (!paced) await checkAnswers(workload, all);
  const requests = options.requests ?? workload.requests ?? options.streams;
  const connections = workload.measure === "cpu" ? options.connections : 1;
  const sample = (target: Target, factor = 1) =>
    paced
      ? runPaced(workload, target, options.streams, pacedChunks)
      : runLoad(workload, target, { requests: factor * requests, connections: factor * connections });

  progress(`${workload.name}: warm-up`);
  for (const target of all) await sample(target, warmUpFactor);
  for (let round = 0; round < options.rounds; round++) {
    progress(`${workload.name}: round ${round + 1} of ${options.rounds}`);
    for (const target of inTurn(all, round)) keep(target.name, await sample(target));
  }
  await checkLedgers(workload, all);
  const peak = await memoryOf(all, "peakRssBytes");
  const memory: { [N in TargetName]?: { atRest: number; peak: number } } = {};
  for (const { name } of all) {
    const [rest, most] = [atRest.get(name), peak.get(name)];
    if (rest !== undefined && most !== undefined) memory[name] = { atRest: rest, peak: most };
  }
  return { workload, samples, chunks: paced ? pacedChunks : (workload.deltas ?? 0), memory };
}

/** Returns all, beginning with another one in each round. */
export function inTurn<T>(all: readonly T[], round: number): T[] {
  const first = round % all.length;
  return [...all.slice(first), ...all.slice(0, first)];
}

async function memoryOf(
  targets: readonly Target<TargetName>[],
  which: "rssBytes" | "peakRssBytes",
): Promise<Map<TargetName, number>> {
  const found = new Map<TargetName, number>();
  for (const target of targets) {
    const figures = await target.figures();
    if (figures !== null) found.set(target.name, figures[which]);
  }
  return found;
}
