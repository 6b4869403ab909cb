import { writeFile } from "node:fs/promises";
import { compareWithBase } from "./compare.ts";
import { measure, type Measured } from "./measure.ts";
import { readOptions, usage, type Options } from "./options.ts";
import { figuresOf, machine, tableOf } from "./report.ts";
import { findTargets, targetNames } from "./targets.ts";
import { workloads } from "./workloads.ts";

/*
 * Compares Farebox with a bare proxy and with no proxy. Everything runs on this machine over loopback: this process
 * generates the load; the gateway and each proxy are separate processes.
 */
try {
  const options = readOptions(process.argv.slice(2));
  if (options === "help") console.log(usage);
  else if ("against" in options) await check(options.against);
  else await run(options);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function check(against: string | null): Promise<void> {
  if (!(await compareWithBase(against, (line) => console.log(line)))) process.exitCode = 1;
}

async function run(options: Options): Promise<void> {
  const facts = machine();
  console.log(
    `${facts["cores"]} cores (${facts["cpu"]}) shared by load generator, proxy and gateway; Node ${facts["node"]}`,
  );
  console.log(`load average before the run: ${facts["loadAverage"]}. If it is above 1, trust only the ratios.`);
  const { found, missing } = findTargets(options.targets, options.others);
  for (const sentence of missing) console.log(sentence);
  const all: Measured[] = [];
  for (const workload of workloads.filter(({ name }) => options.only.some((wanted) => wanted === name))) {
    const measured = await measure(workload, found, options, (text) => console.error(text));
    all.push(measured);
    console.log(tableOf(measured));
  }
  if (options.json !== null) await writeFile(options.json, JSON.stringify(asJson(facts, options, all), null, 2));
}

function asJson(
  facts: object,
  { rounds, requests, seconds, connections, streams, held }: Options,
  all: readonly Measured[],
): object {
  return {
    machine: facts,
    options: { rounds, requests, seconds, connections, streams, held },
    workloads: all.map((measured) => ({
      name: measured.workload.name,
      memory: measured.memory,
      figures: Object.fromEntries(
        targetNames
          .filter((name) => measured.samples[name] !== undefined)
          .map((name) => [name, figuresOf(measured, name)]),
      ),
      samples: measured.samples,
    })),
  };
}
