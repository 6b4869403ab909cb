// cspell:ignore gomodel bifrost
import { fork, type ChildProcess } from "node:child_process";
import { rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { compileCache } from "../test/support/node-flags.ts";
import { exitOnSignals } from "./program.ts";
import type { Answers, FromChild, Query, Ready, StartParams, ToChild } from "./messages.ts";

/** Time after which a process that was asked to stop is killed, in milliseconds. */
const stopMs = 10_000;
/** Longest wait for an answer from a process, in milliseconds. */
const answerMs = 300_000;

export type ProgramName =
  | "gateway"
  | "paced-gateway"
  | "bare"
  | "farebox"
  | "served"
  | "nginx"
  | "portkey"
  | "litellm"
  | "gomodel"
  | "bifrost";

export interface ChildParams extends Omit<StartParams, "folder"> {
  /** Folder for the CPU profiles of the process, one for each thread; null for no profiles. */
  readonly profile: string | null;
}

/**
 * Process of the benchmark, with its own folder. Disposal ends the process and removes the folder, and so does the end of this
 * process.
 */
export class Child implements AsyncDisposable {
  readonly #process: ChildProcess;
  readonly #folder: string;
  readonly #exited: Promise<void>;
  readonly #removeFolder = () => rmSync(this.#folder, { recursive: true, force: true });
  #ready: Ready | undefined;

  private constructor(child: ChildProcess, folder: string) {
    this.#process = child;
    this.#folder = folder;
    exitOnSignals();
    process.once("exit", this.#removeFolder);
    this.#exited = new Promise((resolve) => child.once("exit", () => resolve()));
  }

  static async start(program: ProgramName, { profile, ...params }: ChildParams): Promise<Child> {
    const folder = await mkdtemp(join(tmpdir(), "farebox-bench-"));
    const file = fileURLToPath(new URL(`./targets/${program}.ts`, import.meta.url));
    const execArgv = profile === null ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`];
    const child = fork(file, [JSON.stringify({ ...params, folder })], {
      execArgv,
      // Like `farebox serve`, the processes keep compiled code. Otherwise each of them would load what strips types.
      env: { ...process.env, NODE_COMPILE_CACHE: compileCache },
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    const started = new Child(child, folder);
    try {
      const first = await started.#nextMessage();
      if (first.kind !== "ready") throw new Error(`${program} sent "${first.kind}" before it was ready`);
      started.#ready = first;
      return started;
    } catch (error) {
      await started.#end(true);
      throw error;
    }
  }

  get port(): number {
    return this.#ready?.port ?? 0;
  }

  /** Key that clients must send. */
  get key(): string {
    return this.#ready?.key ?? "";
  }

  /** Sends a query to the process and returns the answer. Only one query may wait for its answer. */
  async query<Q extends Query>(query: Q): Promise<Answers[Q]> {
    const message = this.#nextMessage();
    this.#process.send({ query } satisfies ToChild);
    const answer = await message;
    if (answer.kind !== "answer") throw new Error(`the answer to "${query}" was a message of kind "${answer.kind}"`);
    return answer.answer as Answers[Q];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end(false);
  }

  async #end(atOnce: boolean): Promise<void> {
    if (atOnce || !this.#process.connected) this.#process.kill("SIGKILL");
    else this.#process.send({ query: "stop" } satisfies ToChild, () => undefined);
    const timer = setTimeout(() => this.#process.kill("SIGKILL"), stopMs);
    if (this.#process.exitCode === null && this.#process.signalCode === null) await this.#exited;
    clearTimeout(timer);
    process.off("exit", this.#removeFolder);
    await rm(this.#folder, { recursive: true, force: true });
  }

  #nextMessage(): Promise<FromChild> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => end(() => reject(new Error(`a benchmark process did not answer within ${answerMs / 1000} s`))),
        answerMs,
      );
      const end = (conclude: () => void) => {
        clearTimeout(timer);
        this.#process.off("message", onMessage);
        this.#process.off("exit", onExit);
        conclude();
      };
      const onMessage = (message: FromChild) =>
        end(() => (message.kind === "failed" ? reject(new Error(message.message)) : resolve(message)));
      const onExit = () => end(() => reject(new Error("a benchmark process exited")));
      this.#process.once("message", onMessage);
      this.#process.once("exit", onExit);
    });
  }
}
