import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { compileCache, nodeFlags } from "./node-flags.ts";

/** The program as its users start it. */
const bin = fileURLToPath(new URL("../../bin/farebox.mjs", import.meta.url));

/** Longest wait for a child process, in milliseconds; only a broken one takes it. */
const patienceMs = 90_000;

export interface Ended {
  /** Null where a signal ended it. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A running farebox in a process of its own; disposing of it kills it. */
export interface FareboxProcess extends AsyncDisposable {
  readonly pid: number;
  readonly stdout: string;
  readonly stderr: string;
  /** Resolves with the first match in stdout or stderr; rejects when the process ends without one. */
  printed(pattern: RegExp): Promise<RegExpExecArray>;
  signal(name: NodeJS.Signals): void;
  readonly ended: Promise<Ended>;
  readonly hasEnded: boolean;
}

export interface StartOptions {
  /** Variables beside the cleaned environment; undefined takes one away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Default: a folder of no interest. */
  readonly cwd?: string;
}

/** Returns the variables that the machine needs, and none that farebox or an SDK would read. */
export function cleanEnvironment(): Record<string, string> {
  const kept = Object.entries(process.env).filter(
    ([name, value]) => value !== undefined && !/^(FAREBOX|OPENAI|VITEST|NODE_OPTIONS|NODE_V8|npm_)/.test(name),
  );
  return Object.fromEntries(kept) as Record<string, string>;
}

export function startFarebox(args: readonly string[], { env, cwd }: StartOptions = {}): FareboxProcess {
  const child = spawn(process.execPath, [...nodeFlags, bin, ...args], {
    env: { ...cleanEnvironment(), NODE_COMPILE_CACHE: compileCache, ...env },
    cwd: cwd ?? tmpdir(),
    stdio: ["ignore", "pipe", "pipe"],
  });
  return new Watched(child);
}

/** A running farebox whose stdin, stdout and stderr are a terminal of its own. */
export interface TerminalProcess extends FareboxProcess {
  /** Types this; "\x03" is Ctrl-C. */
  type(keys: string): void;
}

/** Opens a terminal for a command, and ends with the command's exit code. */
const terminal = "import os, pty, sys; sys.exit(os.WEXITSTATUS(pty.spawn(sys.argv[1:])))";

/** Acts as `startFarebox`, in a terminal; needs `python3`. Both streams are printed to stdout. */
export function startInTerminal(args: readonly string[], { env, cwd }: StartOptions = {}): TerminalProcess {
  const child = spawn("python3", ["-c", terminal, process.execPath, ...nodeFlags, bin, ...args], {
    env: { ...cleanEnvironment(), NODE_COMPILE_CACHE: compileCache, ...env },
    cwd: cwd ?? tmpdir(),
    stdio: ["pipe", "pipe", "pipe"],
  });
  return Object.assign(new Watched(child), { type: (keys: string) => void child.stdin.write(keys) });
}

/** Processes that run; a test that fails before it has taken one over leaves none behind. */
const running = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** Runs one command to its end. */
export async function runFarebox(args: readonly string[], options: StartOptions = {}): Promise<Ended> {
  await using farebox = startFarebox(args, options);
  return await within(farebox.ended, `farebox ${args.join(" ")} to end`, () => farebox.stderr);
}

export interface ServeOptions extends StartOptions {
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
    // At its end it would take requests for two seconds more, for balancers. Tests of that say how long.
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

/** A folder that goes with the test. */
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
      const look = () => {
        const match = pattern.exec(this.stdout) ?? pattern.exec(this.stderr);
        if (match === null && !this.#hasEnded) return;
        this.#waiters.delete(look);
        if (match !== null) resolve(match);
        else reject(new Error(`farebox ended without printing ${pattern}:\n${this.stdout}\n${this.stderr}`));
      };
      this.#waiters.add(look);
      look();
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

/** Fails with what is known when something does not come. */
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
