import { fork, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Answers, FromChild, Question, Ready, StartParams, ToChild } from "./messages.ts";

/** Until a process that was asked to stop is killed, and until one that was asked anything has failed. */
const stopMs = 10_000;
const answerMs = 300_000;

export type ProgramName = "gateway" | "paced-gateway" | "bare" | "farebox" | "nginx" | "portkey" | "litellm";

export interface ChildParams extends Omit<StartParams, "folder"> {
  /** Folder for a CPU profile of each of its threads. */
  readonly profile: string | null;
}

/** One process of the benchmark, with a folder of its own. Disposing of it ends it, by its id if it must. */
export class Child implements AsyncDisposable {
  readonly #process: ChildProcess;
  readonly #folder: string;
  readonly #exited: Promise<void>;
  #ready: Ready | undefined;

  private constructor(child: ChildProcess, folder: string) {
    this.#process = child;
    this.#folder = folder;
    this.#exited = new Promise((resolve) => child.once("exit", () => resolve()));
  }

  static async start(program: ProgramName, { profile, ...params }: ChildParams): Promise<Child> {
    const folder = await mkdtemp(join(tmpdir(), "farebox-bench-"));
    const file = fileURLToPath(new URL(`./targets/${program}.ts`, import.meta.url));
    const execArgv = profile === null ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`];
    const process = fork(file, [JSON.stringify({ ...params, folder })], {
      execArgv,
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    const child = new Child(process, folder);
    try {
      const first = await child.#nextMessage();
      if (first.kind !== "ready") throw new Error(`${program} began with ${first.kind}`);
      child.#ready = first;
      return child;
    } catch (error) {
      await child.#end(true);
      throw error;
    }
  }

  get port(): number {
    return this.#ready?.port ?? 0;
  }

  /** Key of its clients. */
  get key(): string {
    return this.#ready?.key ?? "";
  }

  /** One question at a time. */
  async ask<Q extends Question>(ask: Q): Promise<Answers[Q]> {
    const message = this.#nextMessage();
    this.#process.send({ ask } satisfies ToChild);
    const answer = await message;
    if (answer.kind !== "answer") throw new Error(`asked for ${ask}, was told ${answer.kind}`);
    return answer.answer as Answers[Q];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end(false);
  }

  async #end(atOnce: boolean): Promise<void> {
    if (atOnce || !this.#process.connected) this.#process.kill("SIGKILL");
    else this.#process.send({ ask: "stop" } satisfies ToChild, () => undefined);
    const timer = setTimeout(() => this.#process.kill("SIGKILL"), stopMs);
    if (this.#process.exitCode === null && this.#process.signalCode === null) await this.#exited;
    clearTimeout(timer);
    await rm(this.#folder, { recursive: true, force: true });
  }

  #nextMessage(): Promise<FromChild> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => end(() => reject(new Error("a process of the benchmark does not answer"))),
        answerMs,
      );
      const end = (conclude: () => void) => {
        clearTimeout(timer);
        this.#process.off("message", told);
        this.#process.off("exit", died);
        conclude();
      };
      const told = (message: FromChild) =>
        end(() => (message.kind === "failed" ? reject(new Error(message.message)) : resolve(message)));
      const died = () => end(() => reject(new Error("a process of the benchmark died")));
      this.#process.once("message", told);
      this.#process.once("exit", died);
    });
  }
}
