import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";

export interface ProgramOptions {
  readonly command: string;
  readonly args: readonly string[];
  /** Environment variables in addition to PATH and HOME. */
  readonly env?: Readonly<Record<string, string>>;
  readonly folder: string;
  /** Loopback port on which the program listens. */
  readonly port: number;
  /** Longest wait until the program listens, in milliseconds. Default: 90,000. */
  readonly startMs?: number;
}

/**
 * Program that runs in a separate process group with all its children, because SIGKILL must also end the children. The program
 * ends when this process ends.
 */
export class Program implements AsyncDisposable {
  readonly #options: ProgramOptions;
  #child: ChildProcess;
  #output = "";

  private constructor(options: ProgramOptions) {
    this.#options = options;
    this.#child = this.#spawn();
  }

  /** Resolves when the program listens on its port. */
  static async start(options: ProgramOptions): Promise<Program> {
    const program = new Program(options);
    try {
      await program.#untilListening();
    } catch (error) {
      await program.kill();
      throw error;
    }
    return program;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Last 4,000 characters of the program's output. */
  get output(): string {
    return this.#output;
  }

  /** Sends SIGKILL to the whole group at once, and resolves when the program has ended. */
  kill(): Promise<void> {
    return this.#end("SIGKILL");
  }

  /** Sends SIGKILL at once, and starts the same command again. */
  async restart(): Promise<void> {
    await this.kill();
    this.#child = this.#spawn();
    await this.#untilListening();
  }

  /** Ends the program with SIGTERM, and kills it after five seconds. */
  async [Symbol.asyncDispose](): Promise<void> {
    const ended = this.#end("SIGTERM");
    const timer = setTimeout(() => void this.kill(), 5_000);
    await ended;
    clearTimeout(timer);
  }

  async #end(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    const child = this.#child;
    const { pid } = child;
    const isRunning = child.exitCode === null && child.signalCode === null;
    if (pid !== undefined) signalGroup(pid, signal);
    if (pid !== undefined && isRunning) await once(child, "exit");
    // Children may outlive the program that started them.
    if (pid !== undefined) signalGroup(pid, "SIGKILL");
  }

  #spawn(): ChildProcess {
    const { command, args, env = {}, folder } = this.#options;
    const child = spawn(command, args, {
      cwd: folder,
      env: { PATH: process.env["PATH"] ?? "", HOME: folder, ...env },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    child.on("error", (error) => (this.#output += error.message));
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on("data", (chunk: Buffer) => (this.#output = (this.#output + chunk.toString()).slice(-4000)));
    }
    exitOnSignals();
    const kill = () => child.pid !== undefined && signalGroup(child.pid, "SIGKILL");
    process.once("exit", kill);
    child.once("exit", () => process.off("exit", kill));
    return child;
  }

  async #untilListening(): Promise<void> {
    const { command, port, startMs = 90_000 } = this.#options;
    const endsAt = performance.now() + startMs;
    while (!(await accepts(port))) {
      const child = this.#child;
      if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null)
        throw new Error(`${command} ended before it listened on port ${port}: ${this.#output}`);
      if (performance.now() > endsAt)
        throw new Error(`${command} does not listen on port ${port} after ${startMs} ms: ${this.#output}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

let exitsOnSignals = false;

/**
 * Makes signals end this process through `exit`, whose listeners kill programs and remove folders. A terminal's signals do not
 * reach other process groups.
 */
export function exitOnSignals(): void {
  if (exitsOnSignals) return;
  exitsOnSignals = true;
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => process.exit(1));
}

function signalGroup(pid: number, signal: "SIGKILL" | "SIGTERM"): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // The group has ended.
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
