import type { CatalogueBuilder } from "../catalogue/build.ts";
import { watchPrices } from "../catalogue/watched-prices.ts";
import { storeProblem } from "../cli/tools.ts";
import { shownDatabase } from "../config/database.ts";
import type { Settings } from "../config/settings.ts";
import { formatFault } from "../core/fault.ts";
import { createGateway } from "../gateway/gateway.ts";
import type { Alerts } from "../jobs/alerts.ts";
import { startBalanceSampler, type BalanceSampler } from "../jobs/balance-sampler.ts";
import { startRecovery } from "../jobs/recovery.ts";
import { startSessionTidying } from "../jobs/session-tidying.ts";
import { startTaskPoller, type TaskPoller } from "../jobs/task-poller.ts";
import { createMetrics } from "../metrics/metrics.ts";
import type { Clock } from "../ports/clock.ts";
import type { KeyStore } from "../ports/key-store.ts";
import { LedgerUnavailable, type Ledger } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { RunSessions } from "../ports/run-sessions.ts";
import type { TaskStore } from "../ports/task-store.ts";
import type { TeamStore } from "../ports/team-store.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import { SpendMemory } from "../reporting/spend-memory.ts";
import { calendarOf } from "../time/calendar.ts";
import { createTokenCounter } from "../tokens/token-counter.ts";
import { createSeal } from "../webhook/seal.ts";
import { heardBy, startAlerting } from "./alerting.ts";
import { startDelivering } from "./delivering.ts";
import { differenceOfDay, ledgerFigures, unlessUnavailable } from "./figures.ts";
import { fleetMember, type FleetMember } from "./fleet.ts";
import { openLedger } from "./ledger.ts";
import { GatewayWatch } from "./gateway-health.ts";
import { openHttpFront, type FrontResult } from "./http-front.ts";
import { shippedPrices } from "./package.ts";
import { tellReload } from "./price-reloads.ts";
import { spendByTeam } from "./spend.ts";
import { tellStoreEvent } from "./store-events.ts";
import { buildRoutes } from "./routes.ts";
import { Work } from "./work.ts";
import { workerCount } from "./workers/count.ts";
import type { CrewParts } from "./workers/crew.ts";

/** The running proxy. Disposing of it ends it at once; `drain` first lets running requests finish. */
export interface Serving extends AsyncDisposable {
  /** "http://127.0.0.1:4000" */
  readonly url: string;
  readonly ledger: Ledger;
  readonly keys: KeyStore;
  readonly teams: TeamStore;
  readonly tasks: TaskStore;
  readonly sessions: RunSessions;
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
  /** Resolves with one sentence where workers answer the requests and none can be kept running. */
  readonly failed: Promise<string>;
}

export type ServingResult =
  | { readonly ok: true; readonly serving: Serving }
  /** One line a problem. */
  | { readonly ok: false; readonly problems: readonly string[] };

export interface ServingParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  /** False keeps an SQLite ledger on this thread. */
  readonly ledgerThreads?: boolean;
  /** A counter that proxies of one process share; one of its own unless given. */
  readonly tokens?: TokenCounter;
  /** As `tokens`, for the catalogue. */
  readonly buildCatalogue?: CatalogueBuilder;
  /** Keys remembered between requests, for which room is taken at the start. */
  readonly keysRemembered?: number;
}

/** A settlement waits so long for a hold to share its transaction. A crash meanwhile posts the hold, as assumed. Milliseconds. */
const settlePauseMs = 10;

/** Builds everything that a running proxy is made of, and listens. */
export async function startServing(settings: Settings, parts: ServingParts): Promise<ServingResult> {
  const { address, apiKey } = settings.gateway;
  if (address === null || apiKey === null)
    return { ok: false, problems: ["serve needs a gateway address and its key"] };
  await using owned = new AsyncDisposableStack();
  const calendar = calendarOf(settings.timeZone);
  const metrics = createMetrics({
    pricesLoadedAt: parts.clock.now(),
    version: parts.version,
    keysMax: settings.metrics.keysMax,
    otel: settings.metrics.otel,
    clock: parts.clock,
    figures: () =>
      unlessUnavailable(
        ledgerFigures(store, parts.clock.now(), { spend: (at) => spend(at), difference: () => difference() }),
      ),
    does: (job) => member?.jobs.of(job).isMine() ?? false,
  });
  let member: FleetMember | null = null;
  const pricesListeners: (() => void)[] = [];
  const opened = await watchPrices({
    folders: { shipped: shippedPrices, user: settings.pricing.folder ?? undefined },
    clock: parts.clock,
    ...(parts.buildCatalogue && { build: parts.buildCatalogue }),
    onReload: (reload) => {
      tellReload(reload, { log: parts.log, count: metrics.priceReloads, at: parts.clock.now() });
      if (reload.kind === "taken") for (const listener of pricesListeners) listener();
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
    version: parts.version,
    ...(parts.ledgerThreads === false && { threads: false }),
  });
  if (!opening.ok) return { ok: false, problems: [storeProblem(opening.failure, place)] };
  const store = owned.use(opening.store);
  const difference = differenceOfDay(store.figures);
  const spend = spendByTeam({ atOnce: store.figures.ledger, later: store.ledger }, calendar);
  const recovery = await recover(store.ledger, parts.clock.now());
  if (!recovery.ok) return { ok: false, problems: [`the ledger at ${place} cannot be written: ${recovery.message}`] };

  const fleet = owned.use(
    fleetMember({ fleet: store.fleet, clock: parts.clock, log: parts.log, gauges: metrics.fleet, prices }),
  );
  member = fleet;
  const { jobs } = fleet;
  const gateway = owned.use(
    createGateway(settings.gateway.engine, {
      baseUrl: address.origin + address.basePath,
      apiKey: apiKey.reveal(),
      clock: parts.clock,
    }),
  );
  const tokens = parts.tokens ?? owned.use(createTokenCounter());
  const work = new Work();
  const seal = createSeal(apiKey.reveal());
  const delivery = startDelivering(
    settings,
    { ...parts, outbox: store.outbox, seal, metrics, claim: jobs.of("deliveries") },
    owned,
  );
  const wakeDelivery = () => {
    fleet.did("queued");
    delivery.wake();
  };
  const alerts = startAlerting(
    settings,
    { ...parts, store, calendar, metrics, drift: difference, wakeDelivery, claim: jobs.of("alerts") },
    owned,
  );
  const watch = new GatewayWatch(parts.clock);
  const spent = () => {
    fleet.did("posted");
    alerts.spent();
  };
  const heard = {
    ...metrics,
    events: watch.hears(heardBy({ spent, refused: (refusal) => alerts.refused(refusal) }, metrics.events)),
  };
  const looks = {
    memory: new SpendMemory(store.figures.ledger, parts.clock),
    gatewayHealth: () => watch.health(),
    startedAt: parts.clock.now(),
  };
  let poller: TaskPoller | null = null;
  const wakePoller = () => {
    fleet.did("tasks");
    poller?.wake();
  };
  const built = buildRoutes(settings, {
    ...parts,
    calendar,
    store,
    gateway,
    tokens,
    catalogue: () => prices.current,
    metrics: heard,
    work,
    wakePoller,
    wakeDelivery,
    seal,
    random: Math.random,
    peerUsage: fleet.peerUsage,
    peers: fleet.standing,
    ...looks,
  });
  const { ledger, samples } = store;
  const sampler = owned.use(
    startBalanceSampler({
      ledger,
      samples,
      clock: parts.clock,
      log: parts.log,
      everyMs: settings.balance.ttlMs,
      fetch: built.freshAccount,
      claim: jobs.of("account"),
    }),
  );
  poller = owned.use(
    startTaskPoller({
      tasks: store.tasks,
      poll: built.pollTask,
      clock: parts.clock,
      log: parts.log,
      claim: jobs.of("tasks"),
    }),
  );
  owned.use(startSessionTidying({ sessions: store.sessions, clock: parts.clock, log: parts.log }));
  if (store.fleet !== null)
    owned.use(startRecovery({ ledger, clock: parts.clock, log: parts.log, claim: jobs.of("recovery") }));
  fleet.join(built.limitsUsed, {
    posted: () => alerts.spent(),
    queued: () => delivery.wake(),
    tasks: () => poller?.wake(),
  });
  const { events } = heard;
  const { routes, shared, stopForwarding } = built;
  const common = {
    ...parts,
    routes,
    events,
    work,
    gateway,
    stopForwarding,
    isLedgerWritable: () => store.ledger.isWritable(),
  };
  const fronting = await openFront(settings, {
    ...common,
    shared,
    commands: store.commands,
    keys: store.keys,
    teams: store.teams,
    sessions: store.sessions,
    changes: store.changes,
    catalogue: () => prices.current,
    onPrices: (listener) => pricesListeners.push(listener),
    lost: metrics.lost,
  });
  if (!fronting.ok) return { ok: false, problems: [fronting.problem] };
  const { front } = fronting;
  metrics.showWorkers(front.processMetrics ?? null);
  const kept = owned.move();
  return {
    ok: true,
    serving: {
      url: front.url,
      ledger: store.ledger,
      keys: store.keys,
      teams: store.teams,
      tasks: store.tasks,
      sessions: store.sessions,
      sampler,
      alerts,
      recovered: recovery.count,
      created: store.created,
      settled: () => work.done(),
      reloadPrices: () => prices.reload(),
      failed: front.failed ?? new Promise(() => undefined),
      async drain() {
        built.stopBeingReady();
        await front.drain();
      },
      async [Symbol.asyncDispose]() {
        await front.cutOff();
        await kept.disposeAsync();
      },
    },
  };
}

/** Whoever answers the requests: this process, or workers of it. */
async function openFront(settings: Settings, parts: CrewParts): Promise<FrontResult> {
  if (workerCount(settings) === 1) return await openHttpFront(settings, parts);
  const { openCrew } = await import("./workers/crew.ts");
  return await openCrew(settings, parts);
}

/** Posts what a dead proxy left; a disk that is full is no bug. */
async function recover(
  ledger: Ledger,
  at: number,
): Promise<{ readonly ok: true; readonly count: number } | { readonly ok: false; readonly message: string }> {
  try {
    return { ok: true, count: await ledger.recover(at) };
  } catch (error) {
    if (!(error instanceof LedgerUnavailable)) throw error;
    return { ok: false, message: error.message };
  }
}
