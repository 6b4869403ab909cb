import type { RequestListener, Server as HttpServer } from "node:http";
import type { Settings } from "../config/settings.ts";
import { isLoopbackHost } from "../core/addresses.ts";
import type { OrProblem } from "../core/fault.ts";
import { BodyAllowance, type BodyPool } from "./http/body-memory.ts";
import { createHttpApp, type HttpAppOptions, createHttpServer } from "./http/http-app.ts";
import { hostName } from "./http/exchange.ts";
import type { ProcessMetric } from "./metrics/process-metrics.ts";
import { sleep } from "../platform/loop.ts";
import { listen } from "./listen.ts";
import type { ProcessParts } from "./steps.ts";

/** Server for the proxy's clients, in this process or in its workers. */
export interface Front {
  /** Address of the server, such as "http://127.0.0.1:4000". */
  readonly url: string;
  /**
   * Stops accepting connections after at most two seconds. Resolves when every request is settled. Requests that take too long
   * are cut off.
   */
  drain(): Promise<void>;
  /** Closes all connections and ends all calls at once. Settles the requests in flight. */
  cutOff(): Promise<void>;
  /** Resolves with one sentence if no worker can be kept running. */
  readonly failed?: Promise<string>;
  /**
   * Returns the metrics of each worker process by the worker's number. All earlier events of a worker arrive before its
   * metrics.
   */
  readonly processMetrics?: () => Promise<ReadonlyMap<string, readonly ProcessMetric[]>>;
}

export type FrontResult = OrProblem<{ front: Front }>;

/** Parts of its process that a front uses. It closes the gateway's connections at the end. */
export interface FrontProcess extends Pick<ProcessParts, "clock" | "log" | "events" | "work"> {
  readonly gateway: AsyncDisposable;
}

/** Routes that a front answers, and the functions that its end needs. */
export interface Answering extends Pick<HttpAppOptions, "routes"> {
  /** Ends all running calls to the gateway. Each of them is settled. */
  readonly stopForwarding: () => void;
  readonly isLedgerWritable: () => Promise<boolean>;
}

/**
 * Time for which a draining proxy still accepts new requests, in milliseconds. Load balancers notice the drain within
 * this time.
 */
export const drainAcceptingMs = 2_000;
/** Time to send error events to streams that are cut off at the end of the drain, in milliseconds. */
export const errorEventsMs = 1_000;
/**
 * Interval for checks of the ledger while a shutdown waits for settlements, in milliseconds. Settlements may be pending
 * because the ledger cannot be written.
 */
const stuckMs = 1_000;

/** Listens and answers requests in this process. */
export async function openHttpFront(
  settings: Pick<Settings, "listen">,
  parts: FrontProcess,
  answering: Answering,
): Promise<FrontResult> {
  // This process may use all memory for bodies that the settings allow.
  const bodyMemory = new BodyAllowance(settings.listen.bodyMemoryBytesMax, parts.clock);
  const { server, ...ending } = buildHttpFront(settings, parts, answering, bodyMemory);
  const listening = await listen(server, settings.listen);
  return listening.ok ? { ok: true, front: { url: listening.url, ...ending } } : listening;
}

/** Builds a server and the functions that end it. The caller lets it listen, or passes it connections. */
export function buildHttpFront(
  { listen: settings }: Pick<Settings, "listen">,
  { clock, log, events, work, gateway }: FrontProcess,
  { routes, stopForwarding, isLedgerWritable }: Answering,
  bodyMemory: BodyPool,
): Pick<Front, "drain" | "cutOff"> & { readonly server: HttpServer } {
  const app: RequestListener = createHttpApp({
    routes,
    events,
    log,
    clock,
    loopbackOnly: isLoopbackHost(settings.host),
    publicHost: settings.publicUrl === null ? null : (hostName(new URL(settings.publicUrl).host) ?? null),
    corsOrigins: settings.corsOrigins,
    bodyBytesMax: settings.bodyBytesMax,
    bodyMemory,
    running: work.add,
  });
  const server = createHttpServer(app, { onRefusal: (refusal) => events.refused({ refusal, request: null }) });

  let draining = false;
  server.prependListener("request", (_request, response) => {
    // A client could send a further request on an open connection, and the end of the drain would interrupt it.
    if (draining) response.shouldKeepAlive = false;
  });
  /** Closes the connections to clients and to the gateway, so that every waiting request ends and is settled. */
  const cutOff = async (): Promise<void> => {
    server.close();
    stopForwarding();
    server.closeAllConnections();
    await gateway[Symbol.asyncDispose]();
    await settledOrStuck({ work, clock }, isLedgerWritable);
  };
  return {
    server,
    cutOff,
    async drain() {
      draining = true;
      const acceptingMs = Math.min(drainAcceptingMs, settings.drainMs);
      await sleep(clock, acceptingMs);
      server.close();
      server.closeIdleConnections();
      await Promise.race([work.done(), sleep(clock, settings.drainMs - acceptingMs)]);
      stopForwarding();
      await Promise.race([work.done(), sleep(clock, errorEventsMs)]);
      await cutOff();
    },
  };
}

/**
 * Waits until all requests are settled. Stops waiting if the ledger cannot be written; the next start then posts the
 * open holds.
 */
export async function settledOrStuck(
  { work, clock }: Pick<FrontProcess, "work" | "clock">,
  isLedgerWritable: () => Promise<boolean>,
): Promise<void> {
  for (;;) {
    const isDone = await Promise.race([work.done().then(() => true), sleep(clock, stuckMs).then(() => false)]);
    if (isDone || !(await isLedgerWritable())) return;
  }
}
