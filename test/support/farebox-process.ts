import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { builtProgram } from "./built-program.ts";
import { compileCache, nodeFlags } from "./node-flags.ts";

/** Program of the checkout, which runs its TypeScript sources. */
const sources = fileURLToPath(new URL("../../bin/farebox.mjs", import.meta.url));

/** Compile cache. The built program has a new folder in each run, which contains its cache. */
export const programCache = builtProgram === null ? compileCache : join(dirname(builtProgram), "compile-cache");

/** Longest wait for a child process, in milliseconds; only a broken process takes that long. */
const patienceMs = 150_000;

export interface Ended {
  /** Null if a signal ended it. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A farebox running in a separate process; disposing of it kills it. */
interface FareboxProcess extends AsyncDisposable {
  readonly pid: number;
  readonly stdout: string;
  readonly stderr: string;
  /** Resolves with the first match in stdout or stderr; rejects if the process ends without a match. */
  printed(pattern: RegExp): Promise<RegExpExecArray>;
  signal(name: NodeJS.Signals): void;
  readonly ended: Promise<Ended>;
  readonly hasEnded: boolean;
}

interface StartOptions {
  /** Variables in addition to the cleaned environment; undefined removes one. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Default: an unrelated folder. */
  readonly cwd?: string;
  /** True to start the checkout even in a run of all tests. */
  readonly fromSources?: boolean;
  /** Path of another program, such as that of the next release. */
  readonly program?: string;
}

/** Returns the variables that the machine needs, without any that farebox or an SDK reads. */
export function cleanEnvironment(): Record<string, string> {
  const kept = Object.entries(process.env).filter(
    ([name, value]) =>
      value !== undefined &&
      !/^(FAREBOX|OPENAI|ANTHROPIC|OTEL|VITEST|NODE_OPTIONS|NODE_V8|NODE_EXTRA|npm_)|^(https?|no)_proxy$/i.test(name),
  );
  return Object.fromEntries(kept) as Record<string, string>;
}

export function startFarebox(args: readonly string[], options: StartOptions = {}): FareboxProcess {
  return startProgram(fareboxCommand(args, options), options);
}

/** Starts any command, such as a shell, without a terminal. */
export function startProgram([program = "", ...args]: readonly string[], { env, cwd }: StartOptions): FareboxProcess {
  const child = spawn(program, args, {
    env: { ...cleanEnvironment(), NODE_COMPILE_CACHE: programCache, ...env },
    cwd: cwd ?? tmpdir(),
    stdio: ["ignore", "pipe", "pipe"],
  });
  return new Watched(child);
}

/** A running farebox whose stdin, stdout and stderr are a terminal. */
export interface TerminalProcess extends FareboxProcess {
  /** Types a text; "\x03" is Ctrl-C. */
  type(keys: string): void;
}

/** Opens a terminal for a command, and exits with the command's exit code. */
const terminal = "import os, pty, sys; sys.exit(os.WEXITSTATUS(pty.spawn(sys.argv[1:])))";

/** Acts as `startFarebox` in a terminal; needs `python3`. Both streams are printed to stdout. */
export function startInTerminal(args: readonly string[], options: StartOptions = {}): TerminalProcess {
  return startProgramInTerminal(fareboxCommand(args, options), options);
}

/** Returns the command line that runs farebox. */
export function fareboxCommand(
  args: readonly string[],
  { fromSources = false, program }: Pick<StartOptions, "fromSources" | "program"> = {},
): readonly string[] {
  return [process.execPath, ...nodeFlags, program ?? (fromSources ? sources : (builtProgram ?? sources)), ...args];
}

/** Starts any command in a terminal, such as a shell. */
export function startProgramInTerminal(words: readonly string[], { env, cwd }: StartOptions = {}): TerminalProcess {
  const child = spawn("python3", ["-c", terminal, ...words], {
    env: { ...cleanEnvironment(), NODE_COMPILE_CACHE: programCache, ...env },
    cwd: cwd ?? tmpdir(),
    stdio: ["pipe", "pipe", "pipe"],
  });
  return Object.assign(new Watched(child), { type: (keys: string) => void child.stdin.write(keys) });
}

/** Running processes, so that a test that fails early leaves none behind. */
const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** Runs one command until it ends. */
export async function runFarebox(args: readonly string[], options: StartOptions = {}): Promise<Ended> {
  await using farebox = startFarebox(args, options);
  return await within(farebox.ended, `farebox ${args.join(" ")} to end`, () => farebox.stderr);
}

interface ServeOptions extends StartOptions {
  readonly database: string;
  readonly gateway: { readonly url: string; readonly apiKey: string };
  readonly args?: readonly string[];
}

export interface ServeProcess extends FareboxProcess {
  /** "http://127.0.0.1:43210" */
  readonly url: string;
}

/** Starts `serve` on a free port and waits for its line on stdout. */
export async function startServe({ database, gateway, args = [], env, ...rest }: ServeOptions): Promise<ServeProcess> {
  const variables = {
    FAREBOX_GATEWAY_URL: gateway.url,
    FAREBOX_GATEWAY_API_KEY: gateway.apiKey,
    FAREBOX_DATABASE: database,
    FAREBOX_PORT: "0",
    // By default the proxy accepts requests for two more seconds at its end, for load balancers. Tests of that set
    // the time.
    FAREBOX_DRAIN: "0s",
    ...env,
  };
  const farebox = startFarebox(["serve", ...args], { ...rest, env: variables });
  try {
    const [, url = ""] = await farebox.printed(/^farebox listening on (http:\S+)$/m);
    return Object.assign(farebox, { url });
  } catch (error) {
    await farebox[Symbol.asyncDispose]();
    throw error;
  }
}

/** Creates a folder that is removed with the test. */
export async function temporaryFolder(): Promise<{ readonly path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(tmpdir(), "farebox-e2e-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

class Watched implements FareboxProcess {
  readonly ended: Promise<Ended>;
  readonly #child: ChildProcess;
  readonly #text = { stdout: "", stderr: "" };
  readonly #waiters = new Set<() => void>();
  #hasEnded = false;

  constructor(child: ChildProcess) {
    this.#child = child;
    running.add(child);
    for (const name of ["stdout", "stderr"] as const) {
      child[name]?.setEncoding("utf8").on("data", (text: string) => {
        this.#text[name] += text;
        this.#changed();
      });
    }
    this.ended = new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code, signal) => {
        this.#hasEnded = true;
        running.delete(child);
        resolve({ code, signal, ...this.#text });
        this.#changed();
      });
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }
  get stdout(): string {
    return this.#text.stdout;
  }
  get stderr(): string {
    return this.#text.stderr;
  }
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  printed(pattern: RegExp): Promise<RegExpExecArray> {
    const found = new Promise<RegExpExecArray>((resolve, reject) => {
      const check = () => {
        const match = pattern.exec(this.stdout) ?? pattern.exec(this.stderr);
        if (match === null && !this.#hasEnded) return;
        this.#waiters.delete(check);
        if (match !== null) resolve(match);
        else reject(new Error(`farebox ended without printing ${pattern}:\n${this.stdout}\n${this.stderr}`));
      };
      this.#waiters.add(check);
      check();
    });
    return within(found, `farebox to print ${pattern}`, () => `${this.stdout}\n${this.stderr}`);
  }

  signal(name: NodeJS.Signals): void {
    if (!this.#hasEnded) this.#child.kill(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.signal("SIGKILL");
    await this.ended;
  }

  #changed(): void {
    for (const waiter of this.#waiters) waiter();
  }
}

/** Rejects after `patienceMs`, with the output so far. */
async function within<T>(promise: Promise<T>, what: string, seen: () => string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${patienceMs} ms for ${what}; so far:\n${seen()}`)), patienceMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
