import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { connect, createServer, type AddressInfo } from "node:net";
import type { ProcessFigures } from "../messages.ts";
import type { Running } from "./process.ts";

/** Until a program listens: LiteLLM takes half a minute on a slow machine. */
const startMs = 90_000;
/** Microseconds of a tick in /proc/PID/stat: hundredths of a second on Linux. */
const tickUs = 10_000;

export interface ProgramParams {
  readonly command: string;
  readonly args: readonly string[];
  /** All of its environment, beside PATH. */
  readonly env?: Readonly<Record<string, string>>;
  readonly folder: string;
  readonly port: number;
  /** Key of its clients. */
  readonly key: string;
}

/** Starts a program that is not ours, waits until it listens, and tells what its whole tree of processes uses. */
export async function startProgram({ command, args, env = {}, folder, port, key }: ProgramParams): Promise<Running> {
  const child = spawn(command, args, {
    cwd: folder,
    env: { PATH: process.env["PATH"] ?? "", HOME: folder, ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr?.on("data", (chunk: Buffer) => (said = (said + chunk.toString()).slice(-4000)));
  // Whatever happens to this process, the program must not outlive it.
  process.once("exit", () => child.kill("SIGKILL"));
  await listens(child, port, () => said);
  const { pid } = child;
  if (pid === undefined) throw new Error(`${command} has no process`);
  return {
    port,
    key,
    figures: () => treeFigures(pid),
    async stop() {
      child.kill("SIGTERM");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    },
  };
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

async function listens(child: ChildProcess, port: number, said: () => string): Promise<void> {
  const endsAt = performance.now() + startMs;
  let failure: Error | undefined;
  child.once("error", (error) => (failure = error));
  while (!(await accepts(port))) {
    if (failure !== undefined || child.exitCode !== null || performance.now() > endsAt) {
      child.kill("SIGKILL");
      throw new Error(`it does not come to listen: ${failure?.message ?? said()}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1" });
    socket.once("error", () => resolve(false));
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
  });
}

/** CPU and memory of a process with all that descend from it. Pages that they share count in each. */
export function treeFigures(root: number): ProcessFigures {
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

/** Returns a process's CPU time: by its ticks, which include ended threads, or by its threads' nanoseconds, which are finer. */
function cpuOf(pid: number): number {
  const fields = fieldsOf(pid);
  const ticks = Number(fields[11] ?? 0) + Number(fields[12] ?? 0);
  const threads = entries(`/proc/${pid}/task`).map((task) =>
    Number(read(`/proc/${pid}/task/${task}/schedstat`).split(" ")[0] ?? 0),
  );
  return Math.max(ticks * tickUs, threads.reduce((sum, ns) => sum + ns, 0) / 1000);
}

/** Returns the fields of /proc/PID/stat after the name, which may contain blanks: the state, the parent, … */
function fieldsOf(pid: number): string[] {
  const text = read(`/proc/${pid}/stat`);
  return text.slice(text.lastIndexOf(")") + 2).split(" ");
}

function kilobytes(status: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? 0) * 1024;
}

/** "" of a process that has ended meanwhile. */
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
