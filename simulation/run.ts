import { randomInt } from "node:crypto";
import { plant } from "./mutations.ts";
import { readOptions, usage, type Options } from "./options.ts";
import type { RunOptions, RunResult } from "./simulation.ts";

/** Number of failures after which the command stops. */
const failuresMax = { random: 3, planted: 1 } as const;

try {
  const options = readOptions(process.argv.slice(2));
  if (options === null) console.log(usage);
  else process.exitCode = (await run(options)) ? 0 : 1;
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 2;
}

/** Runs the simulation of each seed and prints failures. Returns true if there are none. */
async function run(options: Options): Promise<boolean> {
  if (options.mutation !== null) plant(options.mutation);
  // Load the product's code only after the bug is planted in it.
  const { simulate } = await import("./simulation.ts");
  const startedAt = performance.now();
  const sums = { runs: 0, steps: 0, charges: 0, crashes: 0 };
  const limit = options.mutation === null ? failuresMax.random : failuresMax.planted;
  let failures = 0;
  const runOnce = async (asked: RunOptions): Promise<RunResult> => {
    const result = await simulate(asked);
    sums.runs++;
    for (const name of ["steps", "charges", "crashes"] as const) sums[name] += result[name];
    if (options.trace) console.log(result.trace?.join("\n"));
    if (result.faults.length > 0 && failures++ < limit) printFailure(asked, result);
    return result;
  };
  for (const seed of seedsOf(options, startedAt)) {
    const asked = { seed: String(seed), traced: options.trace };
    const result = await runOnce(options.crashAt === null ? asked : { ...asked, crashAt: options.crashAt });
    if (options.crashEverywhere)
      for (let step = 1; step <= result.steps; step++) await runOnce({ ...asked, crashAt: step });
    if (failures >= limit) break;
  }
  const seconds = (performance.now() - startedAt) / 1000;
  const rate = (count: number) => Math.round(count / seconds).toLocaleString("en");
  console.log(
    `${sums.runs} runs (${rate(sums.runs)} a second), ${sums.steps} steps in random order (${rate(sums.steps)} a second), ` +
      `${sums.charges} charges, ${sums.crashes} crashes, ${failures} failures`,
  );
  return failures === 0;
}

function* seedsOf({ seeds, seconds }: Options, startedAt: number): Generator<number> {
  if (seeds === null) {
    let seed = randomInt(1e9);
    console.log(`random seeds from ${seed}, for ${seconds} s`);
    while (performance.now() - startedAt < seconds * 1000) yield seed++;
    return;
  }
  for (let seed = seeds.first; seed <= seeds.last; seed++) yield seed;
}

function printFailure({ seed, crashAt }: RunOptions, { faults }: RunResult): void {
  console.log(`seed ${seed} fails:\n  ${faults.join("\n  ")}`);
  console.log(
    `to reproduce it: npm run simulate -- --seed ${seed}${crashAt === undefined ? "" : ` --crash-at ${crashAt}`} --trace`,
  );
}
