import { cpus, loadavg, totalmem } from "node:os";
import type { Sample } from "./load.ts";
import type { Measured } from "./measure.ts";
import { pairedDifferences, pairedRatios, spreadOf, type Spread } from "./statistics.ts";
import { targetNames, type TargetName } from "./targets.ts";

/** Describes the machine, without its name or any path. */
export function machine(): Record<string, string | number> {
  const { node, v8 } = process.versions;
  return {
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    cores: cpus().length,
    /** Average load of the machine before the run. */
    loadAverage: Math.round((loadavg()[0] ?? 0) * 10) / 10,
    memoryGb: Math.round(totalmem() / 1e9),
    system: `${process.platform} ${process.arch}`,
    node,
    v8,
  };
}

const columns = [
  "target",
  "requests/s",
  "CPU µs",
  "CPU %",
  "chunks/CPU s",
  "p50 µs",
  "p99 µs",
  "x bare",
  "(range)",
  "added p50",
  "(range)",
  "added p99",
  "rest MB",
  "peak MB",
  "kB a stream",
  "(range)",
];

/** Formats one workload as a table of medians over the rounds. Ratios and differences are computed within each round. */
export function tableOf(measured: Measured): string {
  const { workload, memory, samples } = measured;
  const rows = targetNames
    .filter((name) => samples[name] !== undefined)
    .map((name) => {
      const { throughput, cpuUs, cpuPercent, chunksPerCpuSecond, p50, p99, byBare, addedP50, addedP99, heldKb } =
        figuresOf(measured, name);
      const held = memory[name];
      return [
        name,
        workload.measure === "cpu" ? number(throughput.median) : "",
        workload.measure === "paced" ? "" : number(cpuUs?.median),
        number(cpuPercent?.median),
        number(chunksPerCpuSecond?.median),
        number(p50?.median),
        number(p99?.median),
        byBare === null ? "" : byBare.median.toFixed(2),
        byBare === null ? "" : `${byBare.min.toFixed(2)}-${byBare.max.toFixed(2)}`,
        addedP50 === null ? "" : number(addedP50.median),
        addedP50 === null ? "" : `${number(addedP50.min)}-${number(addedP50.max)}`,
        number(addedP99?.median),
        number(held && held.atRest / 1e6),
        number(held && held.peak / 1e6),
        number(heldKb?.median),
        heldKb === null ? "" : `${number(heldKb.min)}-${number(heldKb.max)}`,
      ];
    });
  return `\n${workload.name}: ${workload.about}\n${aligned([columns, ...rows])}\n`;
}

interface Figures {
  readonly throughput: Spread;
  /** CPU of a request in microseconds; null for the gateway alone. */
  readonly cpuUs: Spread | null;
  /** CPU in percent of one core. */
  readonly cpuPercent: Spread | null;
  /** Number of chunks of a stream for each second of CPU. */
  readonly chunksPerCpuSecond: Spread | null;
  readonly p50: Spread | null;
  readonly p99: Spread | null;
  /** CPU divided by the CPU of the bare proxy in the same round. */
  readonly byBare: Spread | null;
  /** Latency above that of the gateway alone in the same round; null for workloads that saturate the CPU. */
  readonly addedP50: Spread | null;
  readonly addedP99: Spread | null;
  /** Memory that one open stream adds, in kB. */
  readonly heldKb: Spread | null;
}

export function figuresOf({ workload, samples, chunks }: Measured, name: TargetName): Figures {
  const own = samples[name] ?? [];
  const cpu = cpuOf(own);
  const bare = cpuOf(samples.bare ?? []);
  const isHeld = workload.measure === "held";
  const added = (of: (sample: Sample) => number) =>
    name === "direct" || workload.measure === "cpu" || isHeld || samples.direct === undefined
      ? null
      : spreadOf(pairedDifferences(own.map(of), samples.direct.map(of)));
  return {
    throughput: spreadOf(own.map(({ requests, seconds }) => requests / seconds)),
    cpuUs: cpu === null ? null : spreadOf(cpu),
    cpuPercent: cpu === null ? null : spreadOf(own.map(({ cpuUs, seconds }) => ((cpuUs ?? 0) / seconds) * 1e-4)),
    chunksPerCpuSecond: cpu === null || chunks === 0 ? null : spreadOf(cpu.map((each) => (chunks * 1e6) / each)),
    p50: isHeld ? null : spreadOf(own.map(({ p50Us }) => p50Us)),
    p99: isHeld ? null : spreadOf(own.map(({ p99Us }) => p99Us)),
    byBare:
      name === "direct" || name === "bare" || cpu === null || bare === null ? null : spreadOf(pairedRatios(cpu, bare)),
    addedP50: added(({ p50Us }) => p50Us),
    addedP99: added(({ p99Us }) => p99Us),
    heldKb:
      isHeld && name !== "direct"
        ? spreadOf(own.map(({ heldBytes, requests }) => (heldBytes ?? 0) / requests / 1024))
        : null,
  };
}

/** Returns the CPU of a request in each round, in microseconds; null if a round has no figure. */
function cpuOf(samples: readonly Sample[]): number[] | null {
  const known = samples.flatMap(({ cpuUs, requests }) => (cpuUs === null ? [] : [cpuUs / requests]));
  return known.length > 0 && known.length === samples.length ? known : null;
}

function number(value: number | undefined): string {
  return value === undefined ? "" : String(Math.round(value));
}

function aligned(rows: readonly (readonly string[])[]): string {
  const widths = columns.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) =>
      widths
        .map((width, column) => (column === 0 ? (row[0] ?? "").padEnd(width) : (row[column] ?? "").padStart(width)))
        .join("  "),
    )
    .join("\n");
}
