import { checkAnswers } from "./check.ts";
import { Child, type ProgramName } from "./child.ts";
import { checkout, checkOutBase } from "./base.ts";
import { formatVerdict, verdictOn, type ComparedName } from "./verdict.ts";
import { runLoad, runPaced, type Sample } from "./load.ts";
import { inTurn } from "./measure.ts";
import { defaultParams, plainTarget, type Target } from "./targets.ts";
import { pacedChunkMs, workloads, type Workload, type WorkloadName } from "./workloads.ts";

interface Comparison {
  readonly name: string;
  readonly workload: WorkloadName;
  readonly hasBudget: boolean;
}

const comparisons: readonly Comparison[] = [
  { name: "plain", workload: "plain", hasBudget: true },
  { name: "burst stream", workload: "stream", hasBudget: true },
  { name: "burst stream without a budget", workload: "stream", hasBudget: false },
  { name: "burst stream without a maximum", workload: "open-stream", hasBudget: true },
  { name: "100 streams at 5 ms a chunk", workload: "paced", hasBudget: true },
  { name: "100 streams without a maximum", workload: "open-paced", hasBudget: true },
  { name: "100 kB prompt", workload: "prompt", hasBudget: true },
];
/**
 * Rounds of a workload. V8 optimizes hot code only after thousands of calls, hence the rounds before the first sample. The
 * ratios of single rounds spread by a quarter on a machine with two cores: with 15 of them, the same code was once 17% worse.
 */
const rounds = { warmUp: 3, min: 3, max: 40 };
/** Time after which a workload begins no further round, in milliseconds. All workloads then take less than five minutes. */
const workloadMs = 35_000;
const [connections, pacedStreams, pacedChunks] = [16, 100, 300];

/**
 * Compares the CPU of this checkout, including its uncommitted changes, with that of another commit. Both and the bare proxy
 * are measured in turns, so that all see the same machine. Returns false if a workload is worse by more than 15%.
 *
 * @param against Revision; null for the commit on which this checkout's changes are based
 */
export async function compareWithBase(against: string | null, print: (line: string) => void): Promise<boolean> {
  using base = await checkOutBase(against);
  print(`CPU of a request with this checkout, divided by that with commit ${base.commit.slice(0, 8)}:`);
  let isWorse = false;
  for (const each of comparisons) {
    const verdict = verdictOn(await compare(each, { base: base.folder, change: checkout }));
    print(formatVerdict(each.name, verdict));
    isWorse ||= verdict.isWorse;
  }
  return !isWorse;
}

async function compare(
  { workload: name, hasBudget }: Comparison,
  folders: Readonly<Record<"base" | "change", string>>,
) {
  const workload = workloads.find((each) => each.name === name);
  if (workload === undefined) throw new Error(`no workload "${name}"`);
  const paced = workload.measure === "paced";
  const endsAt = performance.now() + workloadMs;
  await using owned = new AsyncDisposableStack();
  const params = { ...defaultParams, chunks: pacedChunks, chunkMs: pacedChunkMs, hasBudget };
  const gateway = owned.use(await Child.start(paced ? "paced-gateway" : "gateway", params));
  const gatewayUrl = `http://127.0.0.1:${gateway.port}`;
  const start = async (target: ComparedName, program: ProgramName, folder: string) =>
    plainTarget(target, owned.use(await Child.start(program, { ...params, gatewayUrl, program: folder })), false);
  const targets = [
    await start("bare", "bare", ""),
    await start("base", "served", folders.base),
    await start("change", "served", folders.change),
  ];
  if (!paced) await checkAnswers(workload, [plainTarget("direct", gateway, false), ...targets]);
  return await measureInTurns(workload, targets, endsAt);
}

async function measureInTurns(workload: Workload, targets: readonly Target<ComparedName>[], endsAt: number) {
  const samples: Record<ComparedName, Sample[]> = { bare: [], base: [], change: [] };
  const sample = (target: Target) =>
    workload.measure === "paced"
      ? runPaced(workload, target, pacedStreams, pacedChunks)
      : runLoad(workload, target, { requests: workload.requests ?? 0, connections });
  for (let round = 0; round < rounds.warmUp; round++) for (const target of targets) await sample(target);
  for (let round = 0; round < rounds.max && (round < rounds.min || performance.now() < endsAt); round++)
    for (const target of inTurn(targets, round)) samples[target.name].push(await sample(target));
  return samples;
}
