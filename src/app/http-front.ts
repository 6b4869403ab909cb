import type { RequestListener, Server as HttpServer } from "node:http";
import type { AddressInfo, Server } from "node:net";
import { isLoopback } from "../config/addresses.ts";
import type { Settings } from "../config/settings.ts";
import { BodyAllowance, type BodyMemory } from "../http/body.ts";
import { createHttpApp, type Route } from "../http/http-app.ts";
import { hostName } from "../http/origins.ts";
import { createHttpServer } from "../http/server.ts";
import type { ProcessMetric } from "../metrics/process-metrics.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import type { Log } from "../ports/log.ts";
import type { Work } from "./work.ts";

/** Where a proxy's clients are answered: by this process, or by workers of it. */
export interface Front {
  /** "http://127.0.0.1:4000" */
  readonly url: string;
  /** Deaf after two seconds; done when every request is settled, those that are cut off at the end of the time too. */
  drain(): Promise<void>;
  /** Ends every connection and call at once, and settles what ran. */
  cutOff(): Promise<void>;
  /** Of workers: resolves with one sentence when none can be kept running. */
  readonly failed?: Promise<string>;
  /** Of workers: the metrics of each one's process, by its number. All that happened there before is told by then. */
  readonly processMetrics?: () => Promise<ReadonlyMap<string, readonly ProcessMetric[]>>;
}

export type FrontResult =
  | { readonly ok: true; readonly front: Front }
  /** One sentence. */
  | { readonly ok: false; readonly problem: string };

export interface HttpFrontDeps {
  readonly routes: readonly Route[];
  readonly events: Events;
  readonly log: Log;
  readonly clock: Clock;
  /** What runs, and must be waited for. */
  readonly work: Work;
  /** Unless given, this process has all that the settings allow. */
  readonly bodyMemory?: BodyMemory;
  /** Ends every running call at the gateway; each is settled. */
  readonly stopForwarding: () => void;
  /** Ends the connections to it. */
  readonly gateway: AsyncDisposable;
  readonly isLedgerWritable: () => Promise<boolean>;
}

/** For this long a draining proxy still takes new requests, so that balancers notice first. Milliseconds. */
export const lameDuckMs = 2_000;
/** For the error events of streams that the end of the drain cuts off. Milliseconds. */
export const lastWordsMs = 1_000;
/** At the end, settlements that take longer than this may be waiting for a ledger that cannot be written. Milliseconds. */
const stuckMs = 1_000;

/** Answers requests in this process, which listens for them itself. */
export async function openHttpFront(settings: Pick<Settings, "listen">, parts: HttpFrontDeps): Promise<FrontResult> {
  const { server, ...ending } = buildHttpFront(settings, parts);
  const listening = await listen(server, settings.listen);
  return listening.ok ? { ok: true, front: { url: listening.url, ...ending } } : listening;
}

/** A server that answers requests, and its end; wherever its connections come from. */
export function buildHttpFront(
  { listen: settings }: Pick<Settings, "listen">,
  parts: HttpFrontDeps,
): Pick<Front, "drain" | "cutOff"> & { readonly server: HttpServer } {
  const { events, clock, work, stopForwarding, gateway } = parts;
  const app: RequestListener = createHttpApp({
    routes: parts.routes,
    events,
    log: parts.log,
    clock,
    loopbackOnly: isLoopback(settings.host),
    publicHost: settings.publicUrl === null ? null : (hostName(new URL(settings.publicUrl).host) ?? null),
    corsOrigins: settings.corsOrigins,
    bodyBytesMax: settings.bodyBytesMax,
    bodyMemory: parts.bodyMemory ?? new BodyAllowance(settings.bodyMemoryBytesMax),
    running: (running) => work.add(running),
  });
  const server = createHttpServer(app, { onRefusal: (refusal) => events.refused(refusal) });

  let draining = false;
  server.prependListener("request", (_request, response) => {
    // A connection that stays open would bring requests until it is cut off in the middle of one.
    if (draining) response.shouldKeepAlive = false;
  });
  /** Whoever still waits, on either side, waits for a connection: without one all come to their end and are settled. */
  const cutOff = async (): Promise<void> => {
    server.close();
    stopForwarding();
    server.closeAllConnections();
    await gateway[Symbol.asyncDispose]();
    await settledOrStuck(parts);
  };
  return {
    server,
    cutOff,
    async drain() {
      draining = true;
      const takingMs = Math.min(lameDuckMs, settings.drainMs);
      await pause(clock, takingMs);
      server.close();
      server.closeIdleConnections();
      await Promise.race([work.done(), pause(clock, settings.drainMs - takingMs)]);
      stopForwarding();
      await Promise.race([work.done(), pause(clock, lastWordsMs)]);
      await cutOff();
    },
  };
}

/** What a full disk does not take is left to the next start, which posts its hold: nobody has to kill a proxy for it. */
export async function settledOrStuck({
  work,
  clock,
  isLedgerWritable,
}: Pick<HttpFrontDeps, "work" | "clock" | "isLedgerWritable">): Promise<void> {
  for (;;) {
    const isDone = await Promise.race([work.done().then(() => true), pause(clock, stuckMs).then(() => false)]);
    if (isDone || !(await isLedgerWritable())) return;
  }
}

export function pause(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => clock.after(ms, resolve));
}

type Listening = { readonly ok: true; readonly url: string } | { readonly ok: false; readonly problem: string };

const listenProblems: Readonly<Record<string, string>> = {
  EADDRINUSE: "another program listens there; choose another --port, or 0 for a free one",
  EACCES: "this user may not listen there; choose a port above 1023",
  EADDRNOTAVAIL: "this machine has no such address; choose another --host",
};

/** Connections that may wait to be accepted: a burst of clients beyond it would wait a second for their next try. */
const backlogMax = 4096;

export function listen(
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<Listening> {
  return new Promise((resolve) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const why = listenProblems[error.code ?? ""] ?? error.message;
      resolve({ ok: false, problem: `cannot listen on ${host}:${port}: ${why}` });
    });
    server.listen({ port, host, backlog: backlogMax }, () => {
      const bound = server.address() as AddressInfo;
      const shown = bound.family === "IPv6" ? `[${bound.address}]` : bound.address;
      resolve({ ok: true, url: `http://${shown}:${bound.port}` });
    });
  });
}
