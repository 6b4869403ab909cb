import { Child } from "./child.ts";
import { chatRequest, Connection } from "./connection.ts";
import { runLoad } from "./load.ts";
import { percentile, sortedCopy } from "./statistics.ts";
import { defaultParams, plainTarget, type Target } from "./targets.ts";
import { workloads, type Workload } from "./workloads.ts";

/*
 * What `serve --workers` is worth: plain requests as fast as they are answered, with each number of workers in turn.
 * Everything shares this machine's cores, the load generator and the gateway too, so besides requests a second stand the CPU of
 * the primary and of the workers for each request: the first is what bounds a larger machine.
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
  /** CPU for one request, by process. Microseconds. */
  readonly primaryUs: number;
  readonly workersUs: number;
}

await using owned = new AsyncDisposableStack();
const gateway = owned.use(await Child.start("gateway", defaultParams));
const behind = { ...defaultParams, gatewayUrl: `http://127.0.0.1:${gateway.port}` };
const targets = new Map<number, Target>();
for (const workers of counts.split(",").map(Number)) {
  const target = plainTarget("farebox", owned.use(await Child.start("farebox", { ...behind, workers })), true);
  target.answerBytes = await bytesOfAnswer(target);
  // Its CPU is read from its metrics, which have that of its workers too.
  targets.set(workers, { ...target, figures: async () => null });
}
const all = new Map<number, Figures[]>([...targets.keys()].map((workers) => [workers, []]));
for (const target of targets.values()) await sample(target, 2 * Number(requests));
for (let round = 0; round < Number(rounds); round++) {
  for (const [workers, target] of targets) all.get(workers)?.push(await sample(target, Number(requests)));
}
for (const [workers, target] of targets) {
  const books = await target.books();
  if (books === null || books.differences + books.pending > 0)
    throw new Error(`with ${workers} workers the books say ${JSON.stringify(books)}`);
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
  if (found === undefined) throw new Error("there is no plain workload");
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

/** Seconds since the start; one process is a primary alone. */
async function cpuOf({ port }: Target): Promise<{ readonly primary: number; readonly workers: number }> {
  const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const found = { primary: 0, workers: 0 };
  for (const [, worker, seconds] of page.matchAll(/^process_cpu_seconds_total(?:\{worker="(\w+)"\})? (\S+)$/gm)) {
    found[worker === undefined || worker === "primary" ? "primary" : "workers"] += Number(seconds);
  }
  return found;
}
