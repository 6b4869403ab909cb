import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { watchPrices } from "../catalogue/watched-prices.ts";
import { storeProblem } from "../cli/context.ts";
import { isLoopback } from "../config/addresses.ts";
import { shownDatabase } from "../config/database.ts";
import type { Settings } from "../config/settings.ts";
import { formatFault } from "../core/fault.ts";
import { createGateway } from "../gateway/gateway.ts";
import { createHttpApp } from "../http/http-app.ts";
import { hostName } from "../http/origins.ts";
import { createHttpServer } from "../http/server.ts";
import type { Alerts } from "../jobs/alerts.ts";
import { startBalanceSampler, type BalanceSampler } from "../jobs/balance-sampler.ts";
import { startRecovery } from "../jobs/recovery.ts";
import { startTaskPoller, type TaskPoller } from "../jobs/task-poller.ts";
import { createMetrics } from "../metrics/metrics.ts";
import type { Clock } from "../ports/clock.ts";
import type { KeyStore } from "../ports/key-store.ts";
import { LedgerUnavailable, type Ledger } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { TaskStore } from "../ports/task-store.ts";
import type { TeamStore } from "../ports/team-store.ts";
import { SpendMemory } from "../reporting/spend-memory.ts";
import { calendarOf } from "../time/calendar.ts";
import { createTokenCounter } from "../tokens/token-counter.ts";
import { createSeal } from "../webhook/seal.ts";
import { heardBy, startAlerting } from "./alerting.ts";
import { startDelivering } from "./delivering.ts";
import { differenceOfDay, ledgerFigures } from "./figures.ts";
import { fleetMember, type FleetMember } from "./fleet.ts";
import { openLedger } from "./ledger.ts";
import { GatewayWatch } from "./gateway-health.ts";
import { shippedPrices } from "./package.ts";
import { tellReload } from "./price-reloads.ts";
import { spendByTeam } from "./spend.ts";
import { tellStoreEvent } from "./store-events.ts";
import { buildStory } from "./story.ts";
import { Work } from "./work.ts";

/** The running proxy. Disposing of it ends it at once; `drain` first lets running requests finish. */
export interface Serving extends AsyncDisposable {
  /** "http://127.0.0.1:4000" */
  readonly url: string;
  readonly ledger: Ledger;
  readonly keys: KeyStore;
  readonly teams: TeamStore;
  readonly tasks: TaskStore;
  readonly sampler: BalanceSampler;
  readonly alerts: Alerts;
  /** Holds of a proxy that died, posted at the start. */
  readonly recovered: number;
  /** Whether the start made the database. */
  readonly created: boolean;
  /** Resolves when no request runs and every one is settled. */
  settled(): Promise<void>;
  /** Reads the price files now; what was in force stays in force where they are wrong. */
  reloadPrices(): Promise<void>;
  /** Not ready at once, deaf after two seconds; done when every request is settled, those that are cut off at the end of the time too. */
  drain(): Promise<void>;
}

export type ServingResult =
  | { readonly ok: true; readonly serving: Serving }
  /** One line a problem. */
  | { readonly ok: false; readonly problems: readonly string[] };

export interface ServingParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
}

/** A settlement waits so long for a hold to share its transaction. A crash meanwhile posts the hold, as assumed. Milliseconds. */
const settlePauseMs = 10;
/** For this long a draining proxy still takes new requests, so that balancers notice first. Milliseconds. */
const lameDuckMs = 2_000;
/** For the error events of streams that the end of the drain cuts off. Milliseconds. */
const lastWordsMs = 1_000;

/** At the end, settlements that take longer than this may be waiting for a ledger that cannot be written. Milliseconds. */
const stuckMs = 1_000;

/** Builds everything that a running proxy is made of, and listens. */
export async function startServing(settings: Settings, parts: ServingParts): Promise<ServingResult> {
  const { address, apiKey } = settings.gateway;
  if (address === null || apiKey === null) return { ok: false, problems: ["serve needs a gateway address and its key"] };
  await using owned = new AsyncDisposableStack();
  const calendar = calendarOf(settings.timeZone);
  const metrics = createMetrics({
    pricesLoadedAt: parts.clock.now(),
    version: parts.version,
    keysMax: settings.metrics.keysMax,
    otel: settings.metrics.otel,
    clock: parts.clock,
    figures: () => ledgerFigures(store, parts.clock.now(), { spend: (at) => spend(at), difference: () => difference() }),
    does: (job) => member?.duties.of(job).isMine() ?? false,
  });
  let member: FleetMember | null = null;
  const opened = await watchPrices({
    folders: { shipped: shippedPrices, user: settings.pricing.folder ?? undefined },
    clock: parts.clock,
    onReload: (reload) => {
      tellReload(reload, { log: parts.log, count: metrics.priceReloads, at: parts.clock.now() });
      member?.pricesChanged();
    },
  });
  if (!opened.ok) return { ok: false, problems: opened.faults.map(formatFault) };
  const prices = owned.use(opened.prices);
  const place = shownDatabase(settings.database);
  const opening = await openLedger(settings.database, {
    calendar,
    clock: parts.clock,
    access: "serve",
    onWrite: (seconds, calls) => metrics.events.ledgerWrote(seconds, calls),
    onEvent: (event) => tellStoreEvent(event, place, parts.log),
    settlePauseMs,
    requestLifeMs: settings.gateway.streamMs + settings.gateway.silenceMs,
  });
  if (!opening.ok) return { ok: false, problems: [storeProblem(opening.failure, place)] };
  const store = owned.use(opening.store);
  const difference = differenceOfDay(store.figures);
  const spend = spendByTeam({ atOnce: store.figures.ledger, later: store.ledger }, calendar);
  const recovery = await recover(store.ledger, parts.clock.now());
  if (!recovery.ok) return { ok: false, problems: [`the ledger at ${place} cannot be written: ${recovery.message}`] };

  const fleet = owned.use(fleetMember({ fleet: store.fleet, clock: parts.clock, log: parts.log, gauges: metrics.fleet, prices }));
  member = fleet;
  const { duties } = fleet;
  const gateway = owned.use(
    createGateway(settings.gateway.engine, {
      baseUrl: address.origin + address.basePath,
      apiKey: apiKey.reveal(),
      clock: parts.clock,
    }),
  );
  const tokens = owned.use(createTokenCounter());
  const work = new Work();
  const seal = createSeal(apiKey.reveal());
  const delivery = startDelivering(settings, { ...parts, outbox: store.outbox, seal, metrics, duty: duties.of("deliveries") }, owned);
  const wakeDelivery = () => {
    fleet.did("queued");
    delivery.wake();
  };
  const alerts = startAlerting(settings, { ...parts, store, calendar, metrics, drift: difference, wakeDelivery, duty: duties.of("alerts") }, owned);
  const watch = new GatewayWatch(parts.clock);
  const spent = () => {
    fleet.did("posted");
    alerts.spent();
  };
  const heard = { ...metrics, events: watch.hears(heardBy({ spent, refused: (refusal) => alerts.refused(refusal) }, metrics.events)) };
  const looks = { memory: new SpendMemory(store.figures.ledger, parts.clock), gatewayHealth: () => watch.health(), startedAt: parts.clock.now() };
  let poller: TaskPoller | null = null;
  const wakePoller = () => {
    fleet.did("tasks");
    poller?.wake();
  };
  const story = buildStory(settings, { ...parts, calendar, store, gateway, tokens, catalogue: () => prices.current, metrics: heard, work, wakePoller, wakeDelivery, seal, random: Math.random, elsewhere: fleet.elsewhere, peers: fleet.standing, ...looks });
  const app = createHttpApp({
    routes: story.routes,
    events: heard.events,
    log: parts.log,
    clock: parts.clock,
    loopbackOnly: isLoopback(settings.listen.host),
    publicHost: settings.listen.publicUrl === null ? null : hostName(new URL(settings.listen.publicUrl).host) ?? null,
    corsOrigins: settings.listen.corsOrigins,
    bodyBytesMax: settings.listen.bodyBytesMax,
    bodyMemoryBytesMax: settings.listen.bodyMemoryBytesMax,
    running: (running) => work.add(running),
  });
  const { ledger, samples } = store;
  const sampler = owned.use(
    startBalanceSampler({ ledger, samples, clock: parts.clock, log: parts.log, everyMs: settings.balance.ttlMs, fetch: story.freshAccount, duty: duties.of("account") }),
  );
  poller = owned.use(startTaskPoller({ tasks: store.tasks, look: story.lookAtTask, clock: parts.clock, log: parts.log, duty: duties.of("tasks") }));
  if (store.fleet !== null) owned.use(startRecovery({ ledger, clock: parts.clock, log: parts.log, duty: duties.of("recovery") }));
  fleet.join(story.limitsUsed, { posted: () => alerts.spent(), queued: () => delivery.wake(), tasks: () => poller?.wake() });
  const listening = await listen(createHttpServer(app, { onRefusal: (refusal) => heard.events.refused(refusal) }), settings.listen);
  if (!listening.ok) return { ok: false, problems: [listening.problem] };
  const { server, url } = listening;

  let draining = false;
  server.prependListener("request", (_request, response) => {
    // A connection that stays open would bring requests until it is cut off in the middle of one.
    if (draining) response.shouldKeepAlive = false;
  });
  const drain = async (): Promise<void> => {
    draining = true;
    story.stopBeingReady();
    const { drainMs } = settings.listen;
    const takingMs = Math.min(lameDuckMs, drainMs);
    await pause(parts.clock, takingMs);
    server.close();
    server.closeIdleConnections();
    await Promise.race([work.done(), pause(parts.clock, drainMs - takingMs)]);
    story.stopForwarding();
    await Promise.race([work.done(), pause(parts.clock, lastWordsMs)]);
    await cutOff();
  };
  /** Whoever still waits, on either side, waits for a connection: without one all come to their end and are settled. */
  const cutOff = async (): Promise<void> => {
    server.close();
    story.stopForwarding();
    server.closeAllConnections();
    await gateway[Symbol.asyncDispose]();
    await settledOrStuck();
  };
  /** What a full disk does not take is left to the next start, which posts its hold: nobody has to kill a proxy for it. */
  const settledOrStuck = async (): Promise<void> => {
    for (;;) {
      const isDone = await Promise.race([work.done().then(() => true), pause(parts.clock, stuckMs).then(() => false)]);
      if (isDone || !(await store.ledger.isWritable())) return;
    }
  };
  const kept = owned.move();
  return {
    ok: true,
    serving: {
      url,
      ledger: store.ledger,
      keys: store.keys,
      teams: store.teams,
      tasks: store.tasks,
      sampler,
      alerts,
      recovered: recovery.count,
      created: store.created,
      settled: () => work.done(),
      reloadPrices: () => prices.reload(),
      drain,
      async [Symbol.asyncDispose]() {
        await cutOff();
        await kept.disposeAsync();
      },
    },
  };
}

/** Posts what a dead proxy left; a disk that is full is no bug. */
async function recover(ledger: Ledger, at: number): Promise<{ readonly ok: true; readonly count: number } | { readonly ok: false; readonly message: string }> {
  try {
    return { ok: true, count: await ledger.recover(at) };
  } catch (error) {
    if (!(error instanceof LedgerUnavailable)) throw error;
    return { ok: false, message: error.message };
  }
}

function pause(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => clock.after(ms, resolve));
}

type Listening =
  | { readonly ok: true; readonly server: Server; readonly url: string }
  | { readonly ok: false; readonly problem: string };

const listenProblems: Readonly<Record<string, string>> = {
  EADDRINUSE: "another program listens there; choose another --port, or 0 for a free one",
  EACCES: "this user may not listen there; choose a port above 1023",
  EADDRNOTAVAIL: "this machine has no such address; choose another --host",
};

/** Connections that may wait to be accepted: a burst of clients beyond it would wait a second for their next try. */
const backlogMax = 4096;

function listen(server: Server, { host, port }: { readonly host: string; readonly port: number }): Promise<Listening> {
  return new Promise((resolve) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const why = listenProblems[error.code ?? ""] ?? error.message;
      resolve({ ok: false, problem: `cannot listen on ${host}:${port}: ${why}` });
    });
    server.listen({ port, host, backlog: backlogMax }, () => {
      const bound = server.address() as AddressInfo;
      const shown = bound.family === "IPv6" ? `[${bound.address}]` : bound.address;
      resolve({ ok: true, server, url: `http://${shown}:${bound.port}` });
    });
  });
}
