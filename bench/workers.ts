import { Child } from "./child.ts";
import { chatRequest, Connection } from "./connection.ts";
import { runLoad } from "./load.ts";
import { percentile, sortedCopy } from "./statistics.ts";
import { defaultParams, plainTarget, type Target } from "./targets.ts";
import { workloads, type Workload } from "./workloads.ts";

/*
 * Measures plain requests per second with different numbers of workers, in turn. The load generator and the gateway share
 * this machine's cores. The table therefore also shows the CPU per request of the primary and of the workers. The primary's
 * CPU limits the throughput of a larger machine.
 *
 *   node bench/workers.ts [WORKERS,WORKERS,…] [REQUESTS] [ROUNDS]
 */
const [counts = "1,2", requests = "3000", rounds = "3"] = process.argv.slice(2);
const connections = 32;
const workload = plainWorkload();

interface Figures {
  readonly perSecond: number;
  readonly p50Us: number;
  readonly p99Us: number;
  /** CPU of the primary for one request, in microseconds. */
  readonly primaryUs: number;
  /** CPU of all workers for one request, in microseconds. */
  readonly workersUs: number;
}

await using owned = new AsyncDisposableStack();
const gateway = owned.use(await Child.start("gateway", defaultParams));
const params = { ...defaultParams, gatewayUrl: `http://127.0.0.1:${gateway.port}` };
const targets = new Map<number, Target>();
for (const workers of counts.split(",").map(Number)) {
  const target = plainTarget("farebox", owned.use(await Child.start("farebox", { ...params, workers })), true);
  target.answerBytes = await bytesOfAnswer(target);
  // The CPU comes from the metrics, which include the workers.
  targets.set(workers, { ...target, figures: async () => null });
}
const all = new Map<number, Figures[]>([...targets.keys()].map((workers) => [workers, []]));
for (const target of targets.values()) await sample(target, 2 * Number(requests));
for (let round = 0; round < Number(rounds); round++) {
  for (const [workers, target] of targets) all.get(workers)?.push(await sample(target, Number(requests)));
}
for (const [workers, target] of targets) {
  const ledger = await target.ledger();
  if (ledger === null || ledger.differences + ledger.pending > 0)
    throw new Error(`with ${workers} workers, the ledger has ${JSON.stringify(ledger)}`);
}
console.log(
  "| workers | requests a second | p50 | p99 | CPU a request: primary | workers |\n|---|---|---|---|---|---|",
);
for (const [workers, figures] of all) {
  const of = (name: keyof Figures) => Math.round(percentile(sortedCopy(figures.map((each) => each[name])), 0.5));
  console.log(
    `| ${workers} | ${of("perSecond")} | ${of("p50Us")} µs | ${of("p99Us")} µs | ${of("primaryUs")} µs | ${of("workersUs")} µs |`,
  );
}

function plainWorkload(): Workload {
  const found = workloads.find(({ name }) => name === "plain");
  if (found === undefined) throw new Error('no workload "plain"');
  return found;
}

async function sample(target: Target, count: number): Promise<Figures> {
  const before = await cpuOf(target);
  const { requests: done, seconds, p50Us, p99Us } = await runLoad(workload, target, { requests: count, connections });
  const after = await cpuOf(target);
  const usOf = (which: keyof typeof after) => ((after[which] - before[which]) * 1e6) / done;
  return { perSecond: done / seconds, p50Us, p99Us, primaryUs: usOf("primary"), workersUs: usOf("workers") };
}

async function bytesOfAnswer(target: Target): Promise<number> {
  using connection = await Connection.open(target.port);
  return (await connection.send(chatRequest(target, workload.body), () => undefined)).bodyBytes;
}

/** Returns the CPU seconds since the start. A single process counts as the primary. */
async function cpuOf({ port }: Target): Promise<{ readonly primary: number; readonly workers: number }> {
  const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const found = { primary: 0, workers: 0 };
  for (const [, worker, seconds] of page.matchAll(/^process_cpu_seconds_total(?:\{worker="(\w+)"\})? (\S+)$/gm)) {
    found[worker === undefined || worker === "primary" ? "primary" : "workers"] += Number(seconds);
  }
  return found;
}
