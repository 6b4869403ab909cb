import cluster, { type Worker } from "node:cluster";
import { createServer, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import type { Settings } from "../../config/settings.ts";
import { BodyAllowance } from "../http/body.ts";
import type { ProcessMetric } from "../metrics/process-metrics.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/log.ts";
import type { QueuedStore } from "../../ledger/store.ts";
import { sleep } from "../../platform/loop.ts";
import {
  lameDuckMs,
  lastWordsMs,
  listen,
  settledOrStuck,
  type Front,
  type FrontResult,
  type HttpFrontDeps,
} from "../http-front.ts";
import { WorkerHandler, type WorkerHandlerDeps } from "./worker-handler.ts";
import { Link, type Handlers } from "./link.ts";
import { packSettings, workerCount } from "./settings.ts";
import type { PrimaryCalls, Start, WorkerCalls, WorkerLink } from "./protocol.ts";

export interface WorkerPoolDeps
  extends Omit<HttpFrontDeps, "bodyMemory">, Omit<WorkerHandlerDeps, "bodyMemory" | "changesApplied" | "routes"> {
  readonly store: Pick<QueuedStore, "commands" | "keys" | "teams" | "sessions" | "changes">;
  /** Calls back whenever other prices are in force. */
  readonly onPrices: (listener: () => void) => void;
}

/** The worker is a .ts file in a checkout and a .js file in the package. */
const entry = new URL(import.meta.url.endsWith(".ts") ? "./entry.ts" : "./entry.js", import.meta.url);

/** Workers in a row that may end before they are ready. Then the pool fails: at the start, and later if no worker is ready. */
const failedStartsMax = 3;
/** Pause after the death of a worker that has only just started; it doubles each time. Milliseconds. */
const firstPauseMs = 100;
const longestPauseMs = 5_000;
/** A worker that lived this long is replaced at once. Milliseconds. */
const soundMs = 10_000;
/** Time for a worker to return its metrics. Milliseconds. */
const metricsMs = 2_000;
/** Time for a worker to apply a change; one that hangs delays no one for longer. Milliseconds. */
const changeMs = 1_000;
/** Time to read the last messages of a dead worker. Milliseconds. */
const lastReadMs = 250;
/** A draining primary stops listening this long before its workers: by then they have taken its last connections. Milliseconds. */
const handOverMs = 50;
/** Time for a worker to end after its time to drain, before it is killed. Milliseconds. */
const endMs = 10_000;

/** Listens, and starts the workers. Resolves when all can answer. */
export async function openWorkerPool(settings: Settings, deps: WorkerPoolDeps): Promise<FrontResult> {
  const pool = new WorkerPool(settings, deps);
  const problem = await pool.start();
  if (problem === null) return { ok: true, front: pool };
  await pool.cutOff();
  return { ok: false, problem };
}

interface Member {
  readonly number: number;
  readonly worker: Worker;
  readonly link: WorkerLink;
  readonly handler: WorkerHandler;
  readonly startedAt: number;
  isReady: boolean;
  /** A connection that was sent to it and that it has not taken yet. If it dies, another worker gets it. */
  inTransit: Socket | null;
  /** Resolves when its process has ended and its last messages are read. */
  readonly ended: Promise<void>;
}

/** Workers that answer the requests of one proxy. */
class WorkerPool implements Front {
  readonly failed: Promise<string>;
  readonly #fail: (problem: string) => void;
  readonly #settings: Settings;
  readonly #deps: WorkerPoolDeps;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #size: number;
  readonly #bodyMemory: BodyAllowance;
  readonly #members = new Map<number, Member>();
  /** Connections that were sent to no worker yet. */
  readonly #waiting: Socket[] = [];
  readonly #server = createServer({ pauseOnConnect: true, noDelay: true }, (connection) => {
    this.#waiting.push(connection);
    this.#handOut();
  });
  /** Index of the next connection's worker, among those that are free. */
  #turn = 0;
  #url = "";
  #failedStarts = 0;
  #quickDeaths = 0;
  /** True once all have been ready at the same time. */
  #isReady = false;
  #isEnding = false;
  #changesApplied: Promise<void> = Promise.resolve();
  readonly #unlisten: () => void;

  constructor(settings: Settings, deps: WorkerPoolDeps) {
    const failed = Promise.withResolvers<string>();
    this.failed = failed.promise;
    this.#fail = failed.resolve;
    this.#settings = settings;
    this.#deps = deps;
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.#size = workerCount(settings);
    this.#bodyMemory = new BodyAllowance(settings.listen.bodyMemoryBytesMax);
    cluster.setupPrimary({ exec: fileURLToPath(entry), args: [], serialization: "advanced" });
    this.#unlisten = deps.store.changes.onChange(() => this.#spreadChange());
    deps.onPrices(() => this.#notifyAll("prices", deps.catalogue().parts));
  }

  get url(): string {
    return this.#url;
  }

  /** Returns null when all are ready; otherwise the reason why they never will be. */
  async start(): Promise<string | null> {
    const listening = await listen(this.#server, this.#settings.listen);
    if (!listening.ok) return listening.problem;
    this.#url = listening.url;
    const all = Promise.all(Array.from({ length: this.#size }, (_, index) => this.#keep(index + 1)));
    const problem = await Promise.race([all.then(() => null), this.failed]);
    this.#isReady = true;
    return problem;
  }

  async drain(): Promise<void> {
    const { work, clock, stopForwarding } = this.#deps;
    this.#isEnding = true;
    const { drainMs } = this.#settings.listen;
    const limitMs = drainMs + lastWordsMs + endMs;
    this.#clock.after(Math.max(0, Math.min(lameDuckMs, drainMs) - handOverMs), () => this.#server.close());
    await Promise.all([...this.#members.values()].map((member) => this.#end(member, "drain", limitMs)));
    stopForwarding();
    await Promise.race([work.done(), sleep(clock, lastWordsMs)]);
    await this.cutOff();
  }

  async cutOff(): Promise<void> {
    this.#isEnding = true;
    this.#unlisten();
    this.#server.close();
    await Promise.all([...this.#members.values()].map((member) => this.#end(member, "cutOff", endMs)));
    for (const connection of this.#waiting.splice(0)) connection.destroy();
    this.#deps.stopForwarding();
    await this.#deps.gateway[Symbol.asyncDispose]();
    await settledOrStuck(this.#deps);
  }

  readonly processMetrics = async (): Promise<ReadonlyMap<string, readonly ProcessMetric[]>> => {
    const ready = [...this.#members.values()].filter(({ isReady }) => isReady);
    const asked = ready.map(async ({ number, link }) => {
      const answer = await Promise.race([
        link.ask("metrics", null).catch(() => []),
        sleep(this.#clock, metricsMs).then(() => []),
      ]);
      return [String(number), answer] as const;
    });
    return new Map((await Promise.all(asked)).sort(([a], [b]) => Number(a) - Number(b)));
  };

  /** Sends connections to the workers in turn, one at a time to each: answers of the ledger would wait behind many. */
  #handOut(): void {
    for (;;) {
      const free = [...this.#members.values()].filter(({ isReady, inTransit }) => isReady && inTransit === null);
      const member = free[this.#turn++ % free.length];
      const connection = member && this.#waiting.shift();
      if (member === undefined || connection === undefined) return;
      member.inTransit = connection;
      // It is kept open here until the worker has taken it: if that dies first, another worker gets it.
      member.worker.send({ kind: "connection" }, connection, { keepOpen: true }, () => undefined);
    }
  }

  #took(member: Member): void {
    member.inTransit?.destroy();
    member.inTransit = null;
    this.#handOut();
  }

  /** Keeps a worker of this number running. Resolves when it, or its replacement, is ready. */
  async #keep(number: number): Promise<void> {
    const ready = Promise.withResolvers<void>();
    const begin = (): void => {
      if (this.#isEnding) return;
      const member = this.#fork(number, ready.resolve);
      void member.ended.then(async () => {
        this.#members.delete(number);
        if (member.inTransit !== null) this.#waiting.unshift(member.inTransit);
        this.#handOut();
        const pauseMs = this.#pauseAfter(member);
        this.#deps.work.add(this.#clearAway(member));
        if (pauseMs > 0) await sleep(this.#clock, pauseMs);
        begin();
      });
    };
    begin();
    await ready.promise;
  }

  #fork(number: number, onReady: () => void): Member {
    const worker = cluster.fork();
    const { handler, link } = this.#connect(worker, number, {
      ready: () => {
        member.isReady = true;
        this.#failedStarts = 0;
        this.#log.info({ worker: number, pid: worker.process.pid }, "a worker listens");
        onReady();
        this.#handOut();
      },
      took: () => this.#took(member),
    });
    const member: Member = {
      number,
      worker,
      link,
      handler,
      startedAt: this.#clock.monotonic(),
      isReady: false,
      inTransit: null,
      ended: this.#endOf(worker),
    };
    this.#members.set(number, member);
    return member;
  }

  /** Resolves when the process has ended and all its messages are read. */
  async #endOf(worker: Worker): Promise<void> {
    const disconnected = new Promise<void>((resolve) => void worker.once("disconnect", () => resolve()));
    await new Promise<void>((resolve) => void worker.once("exit", () => resolve()));
    // Node does not always emit "disconnect" for a process that died while a connection was being sent to it.
    await Promise.race([disconnected, sleep(this.#clock, lastReadMs)]);
    if (worker.process.connected) worker.process.disconnect();
  }

  #connect(
    worker: Worker,
    number: number,
    own: Pick<Handlers<PrimaryCalls>, "ready" | "took">,
  ): Pick<Member, "handler" | "link"> {
    const handler = new WorkerHandler(
      { ...this.#deps, bodyMemory: this.#bodyMemory, changesApplied: () => this.#changesApplied },
      () => link,
    );
    const link: WorkerLink = new Link<WorkerCalls, PrimaryCalls>(
      (message) => void worker.send(message, () => undefined),
      {
        ...handler.handlers,
        ...own,
        hello: () => this.#startOf(number),
      },
    );
    worker.on("message", (message) => link.receive(message));
    return { handler, link };
  }

  #startOf(number: number): Start {
    const routes = this.#deps.routes.map(({ method, path }) => ({ method, path }));
    return {
      number,
      workers: this.#size,
      routes,
      settings: packSettings(this.#settings),
      prices: this.#deps.catalogue().parts,
    };
  }

  /** Milliseconds to wait before a worker that has ended is replaced. */
  #pauseAfter({ number, isReady, startedAt, worker }: Member): number {
    if (this.#isEnding) return 0;
    if (!isReady) this.#failedStarts++;
    const isQuick = this.#clock.monotonic() - startedAt < soundMs;
    this.#quickDeaths = isQuick ? this.#quickDeaths + 1 : 0;
    const { exitCode, signalCode } = worker.process;
    const noneIsReady = ![...this.#members.values()].some((other) => other.isReady);
    if (this.#failedStarts >= failedStartsMax && (noneIsReady || !this.#isReady)) {
      this.#fail(
        `no worker can be started: ${this.#failedStarts} in a row ended before they were ready, the last with ${signalCode ?? `exit code ${exitCode}`}`,
      );
    }
    this.#log.error(
      { worker: number, pid: worker.process.pid, code: exitCode, signal: signalCode },
      "a worker died: another one replaces it",
    );
    return isQuick ? Math.min(firstPauseMs * 2 ** (this.#quickDeaths - 1), longestPauseMs) : 0;
  }

  /** Settles the holds that a worker left. */
  async #clearAway({ number, link, handler }: Member): Promise<void> {
    link.close();
    const { requests, holds } = await handler.close();
    if (requests > 0 || holds > 0)
      this.#log.warn(
        { worker: number, requests, holds },
        "requests ended with their worker: its holds were posted as assumed",
      );
  }

  /** Asks a worker to end, and kills it when it does not. */
  async #end({ worker, link, ended }: Member, how: "drain" | "cutOff", limitMs: number): Promise<void> {
    const done = link.ask(how, null).catch(() => undefined);
    const timer = this.#clock.after(limitMs, () => worker.process.kill("SIGKILL"));
    await Promise.race([done, ended]);
    if (worker.process.connected) worker.process.disconnect();
    await ended;
    timer.cancel();
  }

  #spreadChange(): void {
    const applied = [...this.#members.values()].map(({ link }) => link.ask("changed", null).catch(() => undefined));
    const all = Promise.all([this.#changesApplied, ...applied]).then(() => undefined);
    this.#changesApplied = Promise.race([all, sleep(this.#clock, changeMs)]);
  }

  #notifyAll<N extends keyof WorkerCalls>(name: N, given: Parameters<WorkerCalls[N]>[0]): void {
    for (const { link } of this.#members.values()) link.notify(name, given);
  }
}
