import { checkAnswers, checkBooks } from "./check.ts";
import { runLoad, runPaced, type Sample } from "./load.ts";
import type { Options } from "./options.ts";
import { startTargets, targetNames, type Target, type TargetName } from "./targets.ts";
import { pacedChunkMs, type Workload } from "./workloads.ts";

/** V8 compiles what is hot only after thousands of calls: each target is warmed up by as many requests as the others. */
const warmUpFactor = 4;

/** All that was measured of one workload, by target and round. */
export interface Measured {
  readonly workload: Workload;
  readonly samples: Readonly<Record<TargetName, readonly Sample[]>>;
  /** Of the proxies: before their first request, and at most. Bytes. */
  readonly memory: Readonly<Partial<Record<TargetName, { readonly atRest: number; readonly peak: number }>>>;
}

/**
 * Starts fresh processes, checks their answers, warms them up, and measures them in turns: every round begins with
 * another target, so that neither the machine's moods nor a neighbour's heat meets one of them alone.
 */
export async function measure(workload: Workload, options: Options, progress: (text: string) => void): Promise<Measured> {
  const paced = workload.measure === "paced";
  const chunks = Math.max(1, Math.round((options.seconds * 1000) / pacedChunkMs));
  await using targets = await startTargets({ gateway: paced ? "paced-gateway" : "gateway", chunks, profile: options.profile });
  const { all } = targets;
  const atRest = await memoryOf(all, "rssBytes");
  const bodyBytes = paced ? 0 : await checkAnswers(workload, all);
  const requests = options.requests ?? workload.requests ?? options.streams;
  const connections = workload.measure === "cpu" ? options.connections : 1;
  const sample = (target: Target, factor = 1) =>
    paced
      ? runPaced(workload, target, options.streams, chunks)
      : runLoad(workload, target, { requests: factor * requests, connections: factor * connections, bodyBytes });

  progress(`${workload.name}: warm-up`);
  for (const target of all) await sample(target, warmUpFactor);
  const samples: Record<TargetName, Sample[]> = { direct: [], bare: [], farebox: [], undici: [] };
  for (let round = 0; round < options.rounds; round++) {
    progress(`${workload.name}: round ${round + 1} of ${options.rounds}`);
    for (const target of inTurn(all, round)) samples[target.name].push(await sample(target));
  }
  await checkBooks(workload, all);
  const peak = await memoryOf(all, "peakRssBytes");
  const memory: { [N in TargetName]?: { atRest: number; peak: number } } = {};
  for (const name of targetNames) {
    const [rest, most] = [atRest.get(name), peak.get(name)];
    if (rest !== undefined && most !== undefined) memory[name] = { atRest: rest, peak: most };
  }
  return { workload, samples, memory };
}

function inTurn<T>(all: readonly T[], round: number): T[] {
  const first = round % all.length;
  return [...all.slice(first), ...all.slice(0, first)];
}

async function memoryOf(targets: readonly Target[], which: "rssBytes" | "peakRssBytes"): Promise<Map<TargetName, number>> {
  const found = new Map<TargetName, number>();
  for (const target of targets) {
    const figures = await target.figures();
    if (figures !== null) found.set(target.name, figures[which]);
  }
  return found;
}
