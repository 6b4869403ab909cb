import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { fareboxCommand, programCache } from "../../../support/farebox-process.ts";
import { logVariable } from "./outside-guard.ts";
import { startOutsideProxy } from "./outside-proxy.ts";

export interface ProgramEnd {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Hosts beyond this machine that the program tried to reach, each once. */
  readonly outside: readonly string[];
}

/** Time after which a program is killed, in milliseconds. */
const patienceMs = 150_000;

/** Creates a folder for the program's home, so that it finds no settings of the machine's user. */
export async function temporaryHome(): Promise<{ readonly path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(tmpdir(), "farebox-clients-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** Runs a client's Node script, installed in this folder, to its end without access beyond this machine. */
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

/** Runs any other program to its end, with an HTTP proxy that refuses every request. */
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

/** Runs a command as a session, with a running proxy and a key as the only settings: `farebox run -- COMMAND`. */
export function runAsSession(
  command: readonly string[],
  home: string,
  {
    baseURL,
    apiKey,
    env,
  }: { readonly baseURL: string; readonly apiKey: string; readonly env?: Readonly<Record<string, string>> },
): Promise<ProgramEnd> {
  const [file = "", ...args] = fareboxCommand(["run", "--", ...command]);
  return runForeign(file, args, home, {
    FAREBOX_PORT: new URL(baseURL).port,
    FAREBOX_KEY: apiKey,
    NODE_COMPILE_CACHE: programCache,
    ...env,
  });
}

/** Returns the path of a program such as `python` in the virtual environment of a package list in `python/`. */
export function pythonProgram(name: string, list = "default"): string {
  return fileURLToPath(new URL(`../.python/${list}/bin/${name}`, import.meta.url));
}

/** Returns the path of a script in `python/`. */
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
  const output = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"] as const)
    child[stream].setEncoding("utf8").on("data", (text: string) => (output[stream] += text));
  const { promise: code, resolve, reject } = Promise.withResolvers<number | null>();
  child.once("error", reject).once("close", resolve);
  const ended = { code: await code, ...output };
  if (child.killed)
    throw new Error(`waited ${patienceMs} ms for ${file} to end; so far:\n${output.stdout}\n${output.stderr}`);
  return ended;
}

async function hostsIn(log: string): Promise<string[]> {
  const text = await readFile(log, "utf8").catch(() => "");
  return [...new Set(text.split("\n").filter((line) => line !== ""))];
}
