import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { logVariable } from "./outside-guard.ts";
import { startOutsideProxy } from "./outside-proxy.ts";

export interface ProgramEnd {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Hosts beyond this machine that it tried to reach, each once; it reached none. */
  readonly outside: readonly string[];
}

/** Longest run of a program before it counts as one that does not end, in milliseconds. */
const patienceMs = 150_000;

/** A folder that is also the program's home, so that it finds no settings of the machine's user. */
export async function temporaryHome(): Promise<{ readonly path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(tmpdir(), "farebox-clients-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** Runs a client's program (a script for Node, installed in this folder) to its end, with nothing beyond this machine in reach. */
export async function runProgram(
  name: string,
  args: readonly string[],
  home: string,
  env: Readonly<Record<string, string>>,
): Promise<ProgramEnd> {
  const log = join(home, "outside.log");
  const script = fileURLToPath(new URL(`../node_modules/.bin/${name}`, import.meta.url));
  const ended = await run(process.execPath, [script, ...args], home, {
    NODE_OPTIONS: `--import ${new URL("outside-guard.ts", import.meta.url).href}`,
    [logVariable]: log,
    ...env,
  });
  return { ...ended, outside: await hostsIn(log) };
}

/** Runs any other program to its end. Its way out of this machine lets nothing through. */
export async function runForeign(
  file: string,
  args: readonly string[],
  home: string,
  env: Readonly<Record<string, string>>,
): Promise<ProgramEnd> {
  await using outside = await startOutsideProxy();
  const ended = await run(file, args, home, { ...outside.env, ...env });
  return { ...ended, outside: [...outside.hosts] };
}

/** A program that Python installed, such as `python` itself; `among`: a file of `python/` that names the packages. */
export function pythonProgram(name: string, among = "default"): string {
  return fileURLToPath(new URL(`../.python/${among}/bin/${name}`, import.meta.url));
}

/** The script of that name in `python/`. */
export function pythonScript(name: string): string {
  return fileURLToPath(new URL(`../python/${name}`, import.meta.url));
}

async function run(
  file: string,
  args: readonly string[],
  home: string,
  env: Readonly<Record<string, string>>,
): Promise<Omit<ProgramEnd, "outside">> {
  const child = spawn(file, args, {
    cwd: home,
    stdio: ["ignore", "pipe", "pipe"],
    timeout: patienceMs,
    killSignal: "SIGKILL",
    env: { PATH: process.env["PATH"], HOME: home, NO_COLOR: "1", ...env },
  });
  const said = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"] as const)
    child[stream].setEncoding("utf8").on("data", (text: string) => (said[stream] += text));
  const { promise: code, resolve, reject } = Promise.withResolvers<number | null>();
  child.once("error", reject).once("close", resolve);
  return { code: await code, ...said };
}

async function hostsIn(log: string): Promise<string[]> {
  const text = await readFile(log, "utf8").catch(() => "");
  return [...new Set(text.split("\n").filter((line) => line !== ""))];
}
