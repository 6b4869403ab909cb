import { randomInt } from "node:crypto";
import { plant } from "./mutations.ts";
import { readOptions, usage, type Options } from "./options.ts";
import type { RunOptions, RunResult } from "./simulation.ts";

/** Each fault is shown with all that it takes to see it again; after so many there is nothing new. Of a planted bug one is enough. */
const failuresShown = { ofChance: 3, planted: 1 } as const;

try {
  const options = readOptions(process.argv.slice(2));
  if (options === null) console.log(usage);
  else process.exitCode = (await run(options)) ? 0 : 1;
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 2;
}

/** True where no fault was found. */
async function run(options: Options): Promise<boolean> {
  if (options.mutation !== null) plant(options.mutation);
  // Only now, so that the planted bug is in what is loaded.
  const { simulate } = await import("./simulation.ts");
  const startedAt = performance.now();
  const sums = { runs: 0, steps: 0, charges: 0, crashes: 0 };
  const most = options.mutation === null ? failuresShown.ofChance : failuresShown.planted;
  let failures = 0;
  const once = async (asked: RunOptions): Promise<RunResult> => {
    const result = await simulate(asked);
    sums.runs++;
    for (const name of ["steps", "charges", "crashes"] as const) sums[name] += result[name];
    if (options.trace) console.log(result.trace?.join("\n"));
    if (result.faults.length > 0 && failures++ < most) tell(asked, result);
    return result;
  };
  for (const seed of seedsOf(options, startedAt)) {
    const asked = { seed: String(seed), traced: options.trace };
    const result = await once(options.crashAt === null ? asked : { ...asked, crashAt: options.crashAt });
    if (options.crashEverywhere)
      for (let step = 1; step <= result.steps; step++) await once({ ...asked, crashAt: step });
    if (failures >= most) break;
  }
  const seconds = (performance.now() - startedAt) / 1000;
  const rate = (count: number) => Math.round(count / seconds).toLocaleString("en");
  console.log(
    `${sums.runs} runs (${rate(sums.runs)} a second), ${sums.steps} steps in the order that chance picked (${rate(sums.steps)} a second), ` +
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

function tell({ seed, crashAt }: RunOptions, { faults }: RunResult): void {
  console.log(`seed ${seed} fails:\n  ${faults.join("\n  ")}`);
  console.log(
    `see it again: npm run simulate -- --seed ${seed}${crashAt === undefined ? "" : ` --crash-at ${crashAt}`} --trace`,
  );
}
