import cluster, { type Worker } from "node:cluster";
import { createServer, type AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import type { Settings } from "../../config/settings.ts";
import { BodyAllowance } from "../../http/body.ts";
import type { ProcessMetric } from "../../metrics/process-metrics.ts";
import type { Changes } from "../../ports/changes.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/log.ts";
import { lastWordsMs, pause, settledOrStuck, type Front, type FrontResult, type HttpFrontParts } from "../http-front.ts";
import { workerCount } from "./count.ts";
import { WorkerDesk, type DeskParts } from "./desk.ts";
import { Link } from "./link.ts";
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

/** Workers that end before they listen, in a row, after which the crew gives up: at the start, and later where none listens. */
const failedStartsMax = 3;
/** Between the deaths of a worker that has only just begun and the next try: this long, and twice as long each time. Milliseconds. */
const firstPauseMs = 100;
const longestPauseMs = 5_000;
/** Whoever lived so long is replaced at once. Milliseconds. */
const soundMs = 10_000;
/** A worker that is asked for its metrics is waited for this long. Milliseconds. */
const metricsMs = 2_000;
/** Beyond its time to drain a worker has this long to end, before it is killed. Milliseconds. */
const endMs = 10_000;

/** Starts the workers; resolves when all listen. */
export async function openCrew(settings: Settings, parts: CrewParts): Promise<FrontResult> {
  const { port, host } = settings.listen;
  // All workers listen on one port, those too that come when all others have died.
  const free = port === 0 ? await freePort(host) : port;
  const crew = new Crew({ ...settings, listen: { ...settings.listen, port: free } }, parts);
  const problem = await crew.start();
  if (problem === null) return { ok: true, front: crew };
  await crew.cutOff();
  return { ok: false, problem };
}

/** One that the system has free now; the port itself where it says that there is none. */
function freePort(host: string): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(0));
    server.listen({ port: 0, host }, () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

interface Member {
  readonly number: number;
  readonly worker: Worker;
  readonly link: WorkerLink;
  readonly desk: WorkerDesk;
  readonly startedAt: number;
  isListening: boolean;
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
  #url = "";
  #failedStarts = 0;
  #quickDeaths = 0;
  /** Whether all have listened at the same time. */
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

  /** Null when all listen; else why they never will. */
  async start(): Promise<string | null> {
    const all = Promise.all(Array.from({ length: this.#size }, (_, index) => this.#keep(index + 1)));
    const problem = await Promise.race([all.then(() => null), this.failed]);
    this.#isReady = true;
    return problem;
  }

  async drain(): Promise<void> {
    const { work, clock, stopForwarding } = this.#parts;
    this.#isEnding = true;
    const limitMs = this.#settings.listen.drainMs + lastWordsMs + endMs;
    await Promise.all([...this.#members.values()].map((member) => this.#end(member, "drain", limitMs)));
    stopForwarding();
    await Promise.race([work.done(), pause(clock, lastWordsMs)]);
    await this.cutOff();
  }

  async cutOff(): Promise<void> {
    this.#isEnding = true;
    this.#unlisten();
    await Promise.all([...this.#members.values()].map((member) => this.#end(member, "cutOff", endMs)));
    this.#parts.stopForwarding();
    await this.#parts.gateway[Symbol.asyncDispose]();
    await settledOrStuck(this.#parts);
  }

  readonly processMetrics = async (): Promise<ReadonlyMap<string, readonly ProcessMetric[]>> => {
    const listening = [...this.#members.values()].filter(({ isListening }) => isListening);
    const asked = listening.map(async ({ number, link }) => {
      const answer = await Promise.race([link.ask("metrics", null).catch(() => []), pause(this.#clock, metricsMs).then(() => [])]);
      return [String(number), answer] as const;
    });
    return new Map((await Promise.all(asked)).sort(([a], [b]) => Number(a) - Number(b)));
  };

  /** Starts a worker of this number; resolves when it, or another one in its place, listens. */
  async #keep(number: number): Promise<void> {
    const listens = Promise.withResolvers<void>();
    const begin = (): void => {
      if (this.#isEnding) return;
      const member = this.#fork(number, listens.resolve);
      void member.ended.then(async () => {
        this.#members.delete(number);
        const pauseMs = this.#pauseAfter(member);
        this.#parts.work.add(this.#clearAway(member));
        if (pauseMs > 0) await pause(this.#clock, pauseMs);
        begin();
      });
    };
    begin();
    await listens.promise;
  }

  #fork(number: number, onListening: () => void): Member {
    const worker = cluster.fork();
    const { desk, link } = this.#connect(worker, number, () => {
      member.isListening = true;
      this.#failedStarts = 0;
      this.#log.info({ worker: number, pid: worker.process.pid }, "a worker listens");
      onListening();
    });
    // The one tells that the process has ended, the other that all it had said is read.
    const gone = ["exit", "disconnect"].map((event) => new Promise<void>((resolve) => void worker.once(event, () => resolve())));
    const member: Member = { number, worker, link, desk, startedAt: this.#clock.monotonic(), isListening: false, ended: Promise.all(gone).then(() => undefined) };
    this.#members.set(number, member);
    return member;
  }

  #connect(worker: Worker, number: number, onListening: () => void): Pick<Member, "desk" | "link"> {
    const desk = new WorkerDesk({ ...this.#parts, bodyMemory: this.#bodyMemory, changesHeard: () => this.#changesHeard }, () => link);
    const link: WorkerLink = new Link<WorkerCalls, PrimaryCalls>((message) => void worker.send(message, () => undefined), {
      ...desk.handlers,
      hello: () => this.#startOf(number),
      listening: ({ url }) => {
        this.#url = url;
        onListening();
      },
      unfit: ({ problem }) => this.#fail(problem),
    });
    worker.on("message", (message) => link.receive(message));
    return { desk, link };
  }

  #startOf(number: number): Start {
    const routes = this.#parts.routes.map(({ method, path }) => ({ method, path }));
    return { number, workers: this.#size, routes, settings: packSettings(this.#settings), prices: this.#parts.catalogue().parts };
  }

  /** How long to wait before another one takes the place of a worker that has ended. Milliseconds. */
  #pauseAfter({ number, isListening, startedAt, worker }: Member): number {
    if (this.#isEnding) return 0;
    if (!isListening) this.#failedStarts++;
    const isQuick = this.#clock.monotonic() - startedAt < soundMs;
    this.#quickDeaths = isQuick ? this.#quickDeaths + 1 : 0;
    const { exitCode, signalCode } = worker.process;
    const nobodyListens = ![...this.#members.values()].some((other) => other.isListening);
    if (this.#failedStarts >= failedStartsMax && (nobodyListens || !this.#isReady)) {
      this.#fail(`no worker can be started: ${this.#failedStarts} in a row ended before they listened, the last with ${signalCode ?? `exit code ${exitCode}`}`);
    }
    this.#log.error({ worker: number, pid: worker.process.pid, code: exitCode, signal: signalCode }, "a worker died: another one takes its place");
    return isQuick ? Math.min(firstPauseMs * 2 ** (this.#quickDeaths - 1), longestPauseMs) : 0;
  }

  /** What a worker leaves is settled by the primary. */
  async #clearAway({ number, link, desk }: Member): Promise<void> {
    link.close();
    const { requests, holds } = await desk.close();
    if (requests > 0 || holds > 0) this.#log.warn({ worker: number, requests, holds }, "requests ended with their worker: its holds were posted as assumed");
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
    this.#changesHeard = Promise.all([this.#changesHeard, ...heard]).then(() => undefined);
  }

  #tellAll<N extends keyof WorkerCalls>(name: N, given: Parameters<WorkerCalls[N]>[0]): void {
    for (const { link } of this.#members.values()) link.tell(name, given);
  }
}
