import cluster, { type Worker } from "node:cluster";
import { createServer, type Socket } from "node:net";
import type { WatchedPrices } from "../../catalogue/watched-prices.ts";
import type { Settings } from "../../config/settings.ts";
import { BodyAllowance } from "../http/body-memory.ts";
import type { ProcessMetric } from "../metrics/process-metrics.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/log.ts";
import type { QueuedStore } from "../../ledger/store.ts";
import { sleep } from "../../platform/loop.ts";
import { moduleAddress, processEntry } from "../../platform/thread.ts";
import {
  drainAcceptingMs,
  errorEventsMs,
  settledOrStuck,
  type Answering,
  type Front,
  type FrontProcess,
  type FrontResult,
} from "../http-front.ts";
import { listen } from "../listen.ts";
import { WorkerHandler, type WorkerHandlerDeps } from "./worker-handler.ts";
import { Link } from "./link.ts";
import { packSettings, workerCount } from "./settings.ts";
import type { Start, WorkerCalls, WorkerLink } from "./protocol.ts";

/** Parts of a proxy that its workers call, or that their primary passes to them. */
export interface WorkerPoolDeps extends Pick<WorkerHandlerDeps, "shared" | "lost"> {
  readonly store: Pick<QueuedStore, "commands" | "ledger" | "keys" | "teams" | "sessions" | "changes">;
  readonly prices: Pick<WatchedPrices, "current" | "onApplied">;
}

/**
 * Number of failed starts in a row that make the pool fail. A start fails if the worker ends before it is ready. The
 * pool fails only while it starts itself, or if no worker is ready.
 */
const failedStartsMax = 3;
/**
 * First pause before a worker that ended soon after its start is replaced, in milliseconds. The pause doubles each
 * time.
 */
const firstPauseMs = 100;
/** Longest pause before a worker is replaced, in milliseconds. */
const longestPauseMs = 5_000;
/** Uptime after which a worker that ends is replaced at once, in milliseconds. */
const stableAfterMs = 10_000;
/** Longest wait for a worker's metrics, in milliseconds. */
const metricsMs = 2_000;
/** Longest wait for a worker to apply a change, in milliseconds. A worker that hangs delays answers by at most this time. */
const changeMs = 1_000;
/** Longest time to read the last messages of a dead worker, in milliseconds. */
const lastReadMs = 250;
/**
 * Time for which workers still accept connections after a draining primary has stopped listening, in milliseconds. In
 * this time, they receive the primary's last connections.
 */
const handOverMs = 50;
/** Time after the longest drain, or after `cutOff`, until a worker that still runs is killed, in milliseconds. */
const endMs = 10_000;

/** Listens, and starts the workers. Resolves when all workers can answer. */
export async function openWorkerPool(
  settings: Settings,
  parts: FrontProcess,
  answering: Answering,
  deps: WorkerPoolDeps,
): Promise<FrontResult> {
  const pool = new WorkerPool(settings, parts, answering, deps);
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
  /** Connection that was sent to the worker but not received yet. If the worker dies, another worker gets it. */
  inTransit: Socket | null;
  /** Resolves when the worker's process has ended and its last messages are read. */
  readonly ended: Promise<void>;
}

/** Workers that answer the requests of one proxy. */
class WorkerPool implements Front {
  readonly failed: Promise<string>;
  readonly #fail: (problem: string) => void;
  readonly #settings: Settings;
  readonly #parts: FrontProcess;
  readonly #answering: Answering;
  readonly #deps: WorkerPoolDeps;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #size: number;
  readonly #bodyMemory: BodyAllowance;
  readonly #members = new Map<number, Member>();
  /** Connections that are not sent to a worker yet. */
  readonly #waiting: Socket[] = [];
  readonly #server = createServer({ pauseOnConnect: true, noDelay: true }, (connection) => {
    this.#waiting.push(connection);
    this.#handOut();
  });
  /** Counter that selects the next connection's worker among the free workers. */
  #turn = 0;
  #url = "";
  #failedStarts = 0;
  #quickDeaths = 0;
  /** True once all workers have been ready. */
  #isReady = false;
  #isEnding = false;
  #changesApplied: Promise<void> = Promise.resolve();
  readonly #unlisten: () => void;

  constructor(settings: Settings, parts: FrontProcess, answering: Answering, deps: WorkerPoolDeps) {
    const failed = Promise.withResolvers<string>();
    this.failed = failed.promise;
    this.#fail = failed.resolve;
    this.#settings = settings;
    this.#parts = parts;
    this.#answering = answering;
    this.#deps = deps;
    this.#clock = parts.clock;
    this.#log = parts.log;
    this.#size = workerCount(settings);
    this.#bodyMemory = new BodyAllowance(settings.listen.bodyMemoryBytesMax, parts.clock);
    const args = [moduleAddress(new URL("./process.ts", import.meta.url))];
    cluster.setupPrimary({ exec: processEntry, args, serialization: "advanced" });
    this.#unlisten = deps.store.changes.onChange(() => this.#spreadChange());
    deps.prices.onApplied(() => this.#notifyAll("prices", deps.prices.current().data));
  }

  get url(): string {
    return this.#url;
  }

  /** Starts all workers. Returns null when all are ready, or the reason why they cannot start. */
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
    const { work, clock } = this.#parts;
    this.#isEnding = true;
    const { drainMs } = this.#settings.listen;
    const limitMs = drainMs + errorEventsMs + endMs;
    this.#clock.after(Math.max(0, Math.min(drainAcceptingMs, drainMs) - handOverMs), () => this.#server.close());
    await Promise.all([...this.#members.values()].map((member) => this.#end(member, "drain", limitMs)));
    this.#answering.stopForwarding();
    await Promise.race([work.done(), sleep(clock, errorEventsMs)]);
    await this.cutOff();
  }

  async cutOff(): Promise<void> {
    this.#isEnding = true;
    this.#unlisten();
    this.#server.close();
    await Promise.all([...this.#members.values()].map((member) => this.#end(member, "cutOff", endMs)));
    for (const connection of this.#waiting.splice(0)) connection.destroy();
    this.#answering.stopForwarding();
    await this.#parts.gateway[Symbol.asyncDispose]();
    await settledOrStuck(this.#parts, this.#answering.isLedgerWritable);
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

  /**
   * Sends connections to the workers in turn. Each worker receives one at a time, because several would delay the
   * ledger's answers to the worker.
   */
  #handOut(): void {
    for (;;) {
      const free = [...this.#members.values()].filter(({ isReady, inTransit }) => isReady && inTransit === null);
      const member = free[this.#turn++ % free.length];
      const connection = member && this.#waiting.shift();
      if (member === undefined || connection === undefined) return;
      member.inTransit = connection;
      // Keep the connection open here until the worker has received it. If the worker dies first, another worker gets
      // it.
      member.worker.send({ kind: "connection" }, connection, { keepOpen: true }, () => undefined);
    }
  }

  #onReceived(member: Member): void {
    member.inTransit?.destroy();
    member.inTransit = null;
    this.#handOut();
  }

  /** Keeps a worker with this number running. Resolves when the worker, or its replacement, is ready. */
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
        this.#parts.work.add(this.#settleHolds(member));
        if (pauseMs > 0) await sleep(this.#clock, pauseMs);
        begin();
      });
    };
    begin();
    await ready.promise;
  }

  #fork(number: number, onReady: () => void): Member {
    const worker = cluster.fork();
    const link: WorkerLink = new Link((message) => void worker.send(message, () => undefined));
    const handler = new WorkerHandler(
      {
        ...this.#parts,
        ...this.#answering,
        ...this.#deps,
        catalogue: this.#deps.prices.current,
        bodyMemory: this.#bodyMemory,
        changesApplied: () => this.#changesApplied,
      },
      link,
    );
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
    link.handle({
      ...handler.handlers,
      hello: () => this.#startOf(number),
      ready: () => {
        member.isReady = true;
        this.#failedStarts = 0;
        this.#log.info({ worker: number, pid: worker.process.pid }, "a worker is ready");
        onReady();
        this.#handOut();
      },
      receivedConnection: () => this.#onReceived(member),
    });
    worker.on("message", (message) => link.receive(message));
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

  #startOf(number: number): Start {
    const routes = this.#answering.routes.map(({ method, path }) => ({ method, path }));
    return {
      number,
      workers: this.#size,
      routes,
      settings: packSettings(this.#settings),
      prices: this.#deps.prices.current().data,
    };
  }

  /** Returns the pause before an ended worker is replaced, in milliseconds. Fails the pool at `failedStartsMax`. */
  #pauseAfter({ number, isReady, startedAt, worker }: Member): number {
    if (this.#isEnding) return 0;
    if (!isReady) this.#failedStarts++;
    const isQuick = this.#clock.monotonic() - startedAt < stableAfterMs;
    this.#quickDeaths = isQuick ? this.#quickDeaths + 1 : 0;
    const { exitCode, signalCode } = worker.process;
    const noneIsReady = ![...this.#members.values()].some((other) => other.isReady);
    if (this.#failedStarts >= failedStartsMax && (noneIsReady || !this.#isReady)) {
      this.#fail(
        `no worker can start: ${this.#failedStarts} in a row ended before they were ready, the last with ${signalCode ?? `exit code ${exitCode}`}`,
      );
    }
    this.#log.error(
      { worker: number, pid: worker.process.pid, code: exitCode, signal: signalCode },
      "a worker died: another one replaces it",
    );
    return isQuick ? Math.min(firstPauseMs * 2 ** (this.#quickDeaths - 1), longestPauseMs) : 0;
  }

  /** Settles the open holds of an ended worker. */
  async #settleHolds({ number, link, handler }: Member): Promise<void> {
    link.close();
    const { requests, holds } = await handler.close();
    if (requests > 0 || holds > 0)
      this.#log.warn(
        { worker: number, requests, holds },
        "a worker ended with requests in flight: their holds were posted as assumed",
      );
  }

  /** Asks a worker to end, and kills it if it does not end in time. */
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
