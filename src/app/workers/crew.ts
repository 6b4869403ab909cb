import cluster, { type Worker } from "node:cluster";
import { createServer, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import type { Settings } from "../../config/settings.ts";
import { BodyAllowance } from "../../http/body.ts";
import type { ProcessMetric } from "../../metrics/process-metrics.ts";
import type { Changes } from "../../ports/changes.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/log.ts";
import {
  lameDuckMs,
  lastWordsMs,
  listen,
  pause,
  settledOrStuck,
  type Front,
  type FrontResult,
  type HttpFrontParts,
} from "../http-front.ts";
import { workerCount } from "./count.ts";
import { WorkerDesk, type DeskParts } from "./desk.ts";
import { Link, type Handlers } from "./link.ts";
import type { PrimaryCalls, Start, WorkerCalls } from "./protocol.ts";
import { packSettings } from "./settings.ts";
import type { WorkerLink } from "./worker-link.ts";

/** What the workers of a proxy need of its primary process. */
export interface CrewParts
  extends Omit<HttpFrontParts, "bodyMemory">, Omit<DeskParts, "bodyMemory" | "changesHeard" | "routes"> {
  readonly changes: Changes;
  /** Told of other prices when they come in force. */
  readonly onPrices: (listener: () => void) => void;
}

/** The worker is a .ts file in a checkout and a .js file in the package. */
const entry = new URL(import.meta.url.endsWith(".ts") ? "./entry.ts" : "./entry.js", import.meta.url);

/** Workers that end before they are ready, in a row, after which the crew gives up: at the start, and later where none is ready. */
const failedStartsMax = 3;
/** Between the deaths of a worker that has only just begun and the next try: this long, and twice as long each time. Milliseconds. */
const firstPauseMs = 100;
const longestPauseMs = 5_000;
/** Whoever lived so long is replaced at once. Milliseconds. */
const soundMs = 10_000;
/** A worker that is asked for its metrics is waited for this long. Milliseconds. */
const metricsMs = 2_000;
/** Whoever makes a change waits so long for a worker to hear of it: one that hangs keeps nobody waiting. Milliseconds. */
const heardMs = 1_000;
/** What a dead worker had said is read within this time. Milliseconds. */
const lastReadMs = 250;
/** So long before its workers a draining primary is deaf: what it has handed on is taken by then. Milliseconds. */
const deafMs = 50;
/** Beyond its time to drain a worker has this long to end, before it is killed. Milliseconds. */
const endMs = 10_000;

/** Listens, and starts the workers; resolves when all can answer. */
export async function openCrew(settings: Settings, parts: CrewParts): Promise<FrontResult> {
  const crew = new Crew(settings, parts);
  const problem = await crew.start();
  if (problem === null) return { ok: true, front: crew };
  await crew.cutOff();
  return { ok: false, problem };
}

interface Member {
  readonly number: number;
  readonly worker: Worker;
  readonly link: WorkerLink;
  readonly desk: WorkerDesk;
  readonly startedAt: number;
  isReady: boolean;
  /** A connection that it was handed and has not taken yet: dead, it loses none. */
  inTransit: Socket | null;
  /** Resolves when its process has ended and its last words are heard. */
  readonly ended: Promise<void>;
}

/** Workers that answer the requests of one proxy. */
class Crew implements Front {
  readonly failed: Promise<string>;
  readonly #fail: (problem: string) => void;
  readonly #settings: Settings;
  readonly #parts: CrewParts;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #size: number;
  readonly #bodyMemory: BodyAllowance;
  readonly #members = new Map<number, Member>();
  /** Connections that no worker has been handed yet. */
  readonly #waiting: Socket[] = [];
  readonly #server = createServer({ pauseOnConnect: true, noDelay: true }, (connection) => {
    this.#waiting.push(connection);
    this.#handOut();
  });
  /** Who is handed the next connection, of those that are free. */
  #turn = 0;
  #url = "";
  #failedStarts = 0;
  #quickDeaths = 0;
  /** Whether all have been ready at the same time. */
  #isReady = false;
  #isEnding = false;
  #changesHeard: Promise<void> = Promise.resolve();
  readonly #unlisten: () => void;

  constructor(settings: Settings, parts: CrewParts) {
    const failed = Promise.withResolvers<string>();
    this.failed = failed.promise;
    this.#fail = failed.resolve;
    this.#settings = settings;
    this.#parts = parts;
    this.#clock = parts.clock;
    this.#log = parts.log;
    this.#size = workerCount(settings);
    this.#bodyMemory = new BodyAllowance(settings.listen.bodyMemoryBytesMax);
    cluster.setupPrimary({ exec: fileURLToPath(entry), args: [], serialization: "advanced" });
    this.#unlisten = parts.changes.onChange(() => this.#spreadChange());
    parts.onPrices(() => this.#tellAll("prices", parts.catalogue().parts));
  }

  get url(): string {
    return this.#url;
  }

  /** Null when all are ready; else why they never will be. */
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
    const { work, clock, stopForwarding } = this.#parts;
    this.#isEnding = true;
    const { drainMs } = this.#settings.listen;
    const limitMs = drainMs + lastWordsMs + endMs;
    this.#clock.after(Math.max(0, Math.min(lameDuckMs, drainMs) - deafMs), () => this.#server.close());
    await Promise.all([...this.#members.values()].map((member) => this.#end(member, "drain", limitMs)));
    stopForwarding();
    await Promise.race([work.done(), pause(clock, lastWordsMs)]);
    await this.cutOff();
  }

  async cutOff(): Promise<void> {
    this.#isEnding = true;
    this.#unlisten();
    this.#server.close();
    await Promise.all([...this.#members.values()].map((member) => this.#end(member, "cutOff", endMs)));
    for (const connection of this.#waiting.splice(0)) connection.destroy();
    this.#parts.stopForwarding();
    await this.#parts.gateway[Symbol.asyncDispose]();
    await settledOrStuck(this.#parts);
  }

  readonly processMetrics = async (): Promise<ReadonlyMap<string, readonly ProcessMetric[]>> => {
    const ready = [...this.#members.values()].filter(({ isReady }) => isReady);
    const asked = ready.map(async ({ number, link }) => {
      const answer = await Promise.race([
        link.ask("metrics", null).catch(() => []),
        pause(this.#clock, metricsMs).then(() => []),
      ]);
      return [String(number), answer] as const;
    });
    return new Map((await Promise.all(asked)).sort(([a], [b]) => Number(a) - Number(b)));
  };

  /** Hands connections on in turn, one at a time to each worker: answers of the ledger would wait behind many. */
  #handOut(): void {
    for (;;) {
      const free = [...this.#members.values()].filter(({ isReady, inTransit }) => isReady && inTransit === null);
      const member = free[this.#turn++ % free.length];
      const connection = member && this.#waiting.shift();
      if (member === undefined || connection === undefined) return;
      member.inTransit = connection;
      // It is kept open here until the worker says that it has it; a worker that dies first leaves it to another.
      member.worker.send({ kind: "connection" }, connection, { keepOpen: true }, () => undefined);
    }
  }

  #took(member: Member): void {
    member.inTransit?.destroy();
    member.inTransit = null;
    this.#handOut();
  }

  /** Starts a worker of this number; resolves when it, or another one in its place, is ready. */
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
        this.#parts.work.add(this.#clearAway(member));
        if (pauseMs > 0) await pause(this.#clock, pauseMs);
        begin();
      });
    };
    begin();
    await ready.promise;
  }

  #fork(number: number, onReady: () => void): Member {
    const worker = cluster.fork();
    const { desk, link } = this.#connect(worker, number, {
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
      desk,
      startedAt: this.#clock.monotonic(),
      isReady: false,
      inTransit: null,
      ended: this.#endOf(worker),
    };
    this.#members.set(number, member);
    return member;
  }

  /** The process has ended, and all that it had said is read. */
  async #endOf(worker: Worker): Promise<void> {
    const disconnected = new Promise<void>((resolve) => void worker.once("disconnect", () => resolve()));
    await new Promise<void>((resolve) => void worker.once("exit", () => resolve()));
    // Node does not always say so of a process that died while a connection was on its way to it.
    await Promise.race([disconnected, pause(this.#clock, lastReadMs)]);
    if (worker.process.connected) worker.process.disconnect();
  }

  #connect(
    worker: Worker,
    number: number,
    told: Pick<Handlers<PrimaryCalls>, "ready" | "took">,
  ): Pick<Member, "desk" | "link"> {
    const desk = new WorkerDesk(
      { ...this.#parts, bodyMemory: this.#bodyMemory, changesHeard: () => this.#changesHeard },
      () => link,
    );
    const link: WorkerLink = new Link<WorkerCalls, PrimaryCalls>(
      (message) => void worker.send(message, () => undefined),
      {
        ...desk.handlers,
        ...told,
        hello: () => this.#startOf(number),
      },
    );
    worker.on("message", (message) => link.receive(message));
    return { desk, link };
  }

  #startOf(number: number): Start {
    const routes = this.#parts.routes.map(({ method, path }) => ({ method, path }));
    return {
      number,
      workers: this.#size,
      routes,
      settings: packSettings(this.#settings),
      prices: this.#parts.catalogue().parts,
    };
  }

  /** How long to wait before another one takes the place of a worker that has ended. Milliseconds. */
  #pauseAfter({ number, isReady, startedAt, worker }: Member): number {
    if (this.#isEnding) return 0;
    if (!isReady) this.#failedStarts++;
    const isQuick = this.#clock.monotonic() - startedAt < soundMs;
    this.#quickDeaths = isQuick ? this.#quickDeaths + 1 : 0;
    const { exitCode, signalCode } = worker.process;
    const nobodyIsReady = ![...this.#members.values()].some((other) => other.isReady);
    if (this.#failedStarts >= failedStartsMax && (nobodyIsReady || !this.#isReady)) {
      this.#fail(
        `no worker can be started: ${this.#failedStarts} in a row ended before they were ready, the last with ${signalCode ?? `exit code ${exitCode}`}`,
      );
    }
    this.#log.error(
      { worker: number, pid: worker.process.pid, code: exitCode, signal: signalCode },
      "a worker died: another one takes its place",
    );
    return isQuick ? Math.min(firstPauseMs * 2 ** (this.#quickDeaths - 1), longestPauseMs) : 0;
  }

  /** What a worker leaves is settled by the primary. */
  async #clearAway({ number, link, desk }: Member): Promise<void> {
    link.close();
    const { requests, holds } = await desk.close();
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
    const heard = [...this.#members.values()].map(({ link }) => link.ask("changed", null).catch(() => undefined));
    const all = Promise.all([this.#changesHeard, ...heard]).then(() => undefined);
    this.#changesHeard = Promise.race([all, pause(this.#clock, heardMs)]);
  }

  #tellAll<N extends keyof WorkerCalls>(name: N, given: Parameters<WorkerCalls[N]>[0]): void {
    for (const { link } of this.#members.values()) link.tell(name, given);
  }
}
