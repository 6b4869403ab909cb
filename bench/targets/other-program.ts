import { readdirSync, readFileSync } from "node:fs";
import type { ProcessFigures } from "../messages.ts";
import { Program, type ProgramOptions } from "../program.ts";
import type { Running } from "./process.ts";

/** Length of a tick in /proc/PID/stat in microseconds. On Linux, it is a hundredth of a second. */
const tickUs = 10_000;

/** Starts another product, and measures all of its processes. `key`: the key that clients must send. */
export async function startProgram({ key, ...options }: ProgramOptions & { readonly key: string }): Promise<Running> {
  const program = await Program.start(options);
  return {
    port: options.port,
    key,
    figures: () => treeFigures(program.pid ?? 0),
    stop: () => program[Symbol.asyncDispose](),
  };
}

/** Returns the CPU and memory of a process with its descendants. Shared pages count for each process. */
function treeFigures(root: number): ProcessFigures {
  let [cpuUs, rssBytes, peakRssBytes] = [0, 0, 0];
  for (const pid of treeOf(root)) {
    cpuUs += cpuOf(pid);
    const status = read(`/proc/${pid}/status`);
    rssBytes += kilobytes(status, "VmRSS");
    peakRssBytes += kilobytes(status, "VmHWM");
  }
  return { cpuUs, rssBytes, peakRssBytes };
}

function treeOf(root: number): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync("/proc")) {
    if (/^\d+$/.test(name)) parents.set(Number(name), Number(fieldsOf(Number(name))[1]));
  }
  const tree = [root];
  for (const parent of tree) for (const [pid, of] of parents) if (of === parent) tree.push(pid);
  return tree;
}

/**
 * Returns a process's CPU time: its ticks, which include ended threads, or the sum of its threads' nanoseconds, which are
 * more precise. Returns the larger of the two.
 */
function cpuOf(pid: number): number {
  const fields = fieldsOf(pid);
  const ticks = Number(fields[11] ?? 0) + Number(fields[12] ?? 0);
  const threads = entries(`/proc/${pid}/task`).map((task) =>
    Number(read(`/proc/${pid}/task/${task}/schedstat`).split(" ")[0] ?? 0),
  );
  return Math.max(ticks * tickUs, threads.reduce((sum, ns) => sum + ns, 0) / 1000);
}

/** Returns the fields of /proc/PID/stat after the name, which may contain spaces: the state, the parent, and so on. */
function fieldsOf(pid: number): string[] {
  const text = read(`/proc/${pid}/stat`);
  return text.slice(text.lastIndexOf(")") + 2).split(" ");
}

function kilobytes(status: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? 0) * 1024;
}

/** Reads a file of /proc. Returns "" if the process has ended. */
function read(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}

function entries(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}
