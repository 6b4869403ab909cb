import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Root of the checkout. */
export const checkout = fileURLToPath(new URL("../../", import.meta.url));

/** Longest wait for a program, in milliseconds; only a broken program takes that long. */
const patienceMs = 150_000;

export interface RunOptions {
  readonly cwd: string;
  /** Whole environment; default: `machineEnvironment()`. */
  readonly env?: Readonly<Record<string, string>>;
  /** Number of the user and group to run as; default: those of the test. */
  readonly user?: number | undefined;
}

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Returns the environment of the test with this Node first in PATH, and without the variables of Farebox, OpenAI, Anthropic,
 * Vitest, Node and a surrounding npm.
 */
export function machineEnvironment(): Record<string, string> {
  const foreign =
    /^(FAREBOX|OPENAI|ANTHROPIC|VITEST|NODE_(OPTIONS|ENV|V8|COMPILE)|npm_(?!config_(registry|cache|userconfig)$)|INIT_CWD$)/;
  const kept = Object.entries(process.env).filter(([name]) => !foreign.test(name)) as [string, string][];
  const path = [dirname(process.execPath), process.env["PATH"] ?? ""].join(delimiter);
  return { ...Object.fromEntries(kept), PATH: path, npm_config_prefer_offline: "true", npm_config_loglevel: "error" };
}

/** A program that runs until it is ended; disposing of it kills it. */
export class RunningProgram implements AsyncDisposable {
  readonly ended: Promise<Ended>;
  readonly #child: ChildProcess;
  readonly #text = { stdout: "", stderr: "" };
  #changed = () => {};

  constructor(file: string, args: readonly string[], { cwd, env = machineEnvironment(), user }: RunOptions) {
    const identity = user === undefined ? {} : { uid: user, gid: user };
    this.#child = spawn(file, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"], ...identity });
    for (const name of ["stdout", "stderr"] as const) {
      this.#child[name]?.setEncoding("utf8").on("data", (text: string) => {
        this.#text[name] += text;
        this.#changed();
      });
    }
    this.ended = new Promise((resolve, reject) => {
      this.#child.once("error", reject);
      this.#child.once("close", (code) => resolve({ code, ...this.#text }));
    });
  }

  get stderr(): string {
    return this.#text.stderr;
  }

  /** Resolves with the first group of the pattern's first match in stdout. */
  async printed(pattern: RegExp): Promise<string> {
    const found = new Promise<string>((resolve) => {
      this.#changed = () => {
        const match = pattern.exec(this.#text.stdout);
        if (match !== null) resolve(match[1] ?? "");
      };
      this.#changed();
    });
    const tooEarly = this.ended.then(({ code, stdout, stderr }) => {
      throw new Error(`ended with ${code} before it printed ${pattern}:\n${stdout}\n${stderr}`);
    });
    return Promise.race([found, tooEarly]);
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.signal("SIGKILL");
    await this.ended.catch(() => undefined);
  }
}

/** Runs a program until it ends. */
export async function run(file: string, args: readonly string[], options: RunOptions): Promise<Ended> {
  await using program = new RunningProgram(file, args, options);
  const timer = setTimeout(() => program.signal("SIGKILL"), patienceMs);
  try {
    return await program.ended;
  } finally {
    clearTimeout(timer);
  }
}

/** Runs a program that must succeed, and returns its stdout. */
export async function runWell(file: string, args: readonly string[], options: RunOptions): Promise<string> {
  const { code, stdout, stderr } = await run(file, args, options);
  if (code !== 0) throw new Error(`${file} ${args.join(" ")} ended with ${code}:\n${stdout}\n${stderr}`);
  return stdout;
}

/** Creates an empty folder that is removed with the test and that other users can enter. */
export async function emptyFolder(): Promise<{ readonly path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(tmpdir(), "farebox-package-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** A chat request long enough to be counted on the worker thread, whose answer has no usage. */
export const unreported = {
  model: "gpt-4o",
  messages: [{ role: "user", content: `${"A farebox counts every coin. ".repeat(200)} #sandbox no-usage` }],
  max_tokens: 50,
};

/** Sends a chat request and returns its status and Farebox's id of it. */
export async function sendChat(url: string, key: string, body: object): Promise<{ status: number; id: string | null }> {
  const headers = { "content-type": "application/json", authorization: `Bearer ${key}` };
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body: JSON.stringify(body) });
  await response.text();
  return { status: response.status, id: response.headers.get("x-farebox-request-id") };
}

/** Returns the path of a Node on this machine that is older than 24. */
export function oldNode(): string | undefined {
  const folders = new Set([...(process.env["PATH"] ?? "").split(delimiter), "/usr/bin", "/usr/local/bin"]);
  const candidates = [...folders].map((folder) => join(folder, "node")).filter((path) => existsSync(path));
  const found = candidates.find((path) => {
    const version = spawnSync(path, ["--version"], { encoding: "utf8" }).stdout ?? "";
    return Number(/^v(\d+)\./.exec(version)?.[1]) < 24;
  });
  if (found === undefined)
    process.stderr.write("\nSKIPPED: an old Node is turned away: there is none on this machine\n");
  return found;
}
