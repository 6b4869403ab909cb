import type { CatalogueBuilder } from "../catalogue/build.ts";
import { watchPrices, type PricesOpening, type WatchedPrices } from "../catalogue/watched-prices.ts";
import { storeProblem } from "../cli/tools.ts";
import { shownDatabase } from "../config/database.ts";
import type { Settings } from "../config/settings.ts";
import { formatFault } from "../core/fault.ts";
import { createGateway } from "../gateway/gateway.ts";
import type { Alerts } from "../jobs/alerts.ts";
import { startBalanceSampler, type BalanceSampler } from "../jobs/balance-sampler.ts";
import { startRecovery } from "../jobs/recovery.ts";
import { startSessionTidying } from "../jobs/session-tidying.ts";
import { startTaskPoller } from "../jobs/task-poller.ts";
import { createMetrics, type Metrics } from "./metrics/metrics.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Clock } from "../ports/clock.ts";
import { LedgerUnavailable } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import { SpendMemory } from "../reporting/spend-memory.ts";
import type { QueuedStore, Store } from "../ledger/store.ts";
import { calendarOf } from "../platform/clock.ts";
import { createTokenCounter } from "../platform/tokens/token-counter.ts";
import { createSeal } from "../gateway/webhooks/seal.ts";
import { startAlerting, withAlerts } from "./alerting.ts";
import { startDelivering } from "./delivering.ts";
import { differenceOfDay, ledgerFigures } from "./figures.ts";
import { fleetMember, type FleetMember } from "./fleet.ts";
import { openLedger } from "./ledger.ts";
import { GatewayWatch } from "./gateway-health.ts";
import { openHttpFront, type Front, type FrontResult } from "./http-front.ts";
import { shippedPrices } from "./package.ts";
import { logReload } from "./price-reloads.ts";
import { buildRoutes, type BuiltRoutes } from "./routes.ts";
import { spendByTeam } from "./spend.ts";
import { logStoreEvent } from "./store-events.ts";
import { Work } from "./work.ts";
import type { WorkerPoolDeps } from "./workers/worker-pool.ts";
import { workerCount } from "./workers/settings.ts";

/** The running proxy. Disposing of it ends it at once; `drain` first lets running requests finish. */
export interface Serving
  extends AsyncDisposable, Pick<Store, "ledger" | "keys" | "teams" | "tasks" | "sessions" | "created"> {
  /** "http://127.0.0.1:4000" */
  readonly url: string;
  readonly sampler: BalanceSampler;
  readonly alerts: Alerts;
  /** Number of holds of a proxy that died, posted at the start. */
  readonly recovered: number;
  /** Resolves when no request runs and every one is settled. */
  settled(): Promise<void>;
  /** Reads the price files now. Wrong files are not taken over. */
  reloadPrices(): Promise<void>;
  /** Not ready at once, not accepting connections after two seconds. Resolves when every request is settled, cut off if it takes too long. */
  drain(): Promise<void>;
  /** Resolves with one sentence where workers answer the requests and none can be kept running. */
  readonly failed: Promise<string>;
}

type ServingResult =
  | { readonly ok: true; readonly serving: Serving }
  /** One line for each problem. */
  | { readonly ok: false; readonly problems: readonly string[] };

interface ServingOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  /** False keeps an SQLite ledger on this thread. */
  readonly ledgerThreads?: boolean;
  /** A counter that proxies of one process share; its own unless given. */
  readonly tokens?: TokenCounter;
  /** Builds the catalogue; for proxies of one process that share it. */
  readonly buildCatalogue?: CatalogueBuilder;
  /** Number of keys remembered between requests, for which memory is taken at the start. */
  readonly keysRemembered?: number;
}

/** Time that a settlement waits for a hold to share its transaction. After a crash meanwhile the hold is posted as assumed. Milliseconds. */
const settlePauseMs = 10;

/** Builds a running proxy, and listens. */
export async function startServing(settings: Settings, options: ServingOptions): Promise<ServingResult> {
  const { clock, log, version } = options;
  const { address, apiKey } = settings.gateway;
  if (address === null || apiKey === null) return failure("serve needs a gateway address and its key");
  await using owned = new AsyncDisposableStack();
  const calendar = calendarOf(settings.timeZone);
  const { keysMax, otel } = settings.metrics;
  const metrics = createMetrics({ keysMax, otel, version, clock, pricesLoadedAt: clock.now() });
  const opened = await openPrices(settings, options, metrics);
  if (!opened.ok) return failure(...opened.faults.map(formatFault));
  const prices = owned.use(opened.prices);
  const opening = await openStore(settings, options, calendar, metrics);
  if (!opening.ok) return failure(opening.problem);
  const store = owned.use(opening.store);
  const drift = differenceOfDay(store.figures);
  const spend = spendByTeam({ atOnce: store.figures.ledger, later: store.ledger }, calendar);
  metrics.showLedger(() => ledgerFigures(store, { at: clock.now(), spend, difference: drift }));

  const fleet = owned.use(fleetMember({ fleet: store.fleet, clock, log, gauges: metrics.fleet, prices }));
  const baseUrl = address.origin + address.basePath;
  const gateway = owned.use(createGateway(settings.gateway.engine, { baseUrl, apiKey: apiKey.reveal(), clock }));
  const tokens = options.tokens ?? owned.use(createTokenCounter());
  const seal = createSeal(apiKey.reveal());
  owned.use(startDelivering(settings, { outbox: store.outbox, seal, clock, log, metrics, fleet }));
  const alerts = owned.use(startAlerting(settings, { store, calendar, clock, log, metrics, drift, fleet }));
  const watch = new GatewayWatch(clock);
  const spent = () => fleet.did("posted");
  const events = watch.watching(withAlerts(metrics.events, { spent, refused: alerts.refused }));
  const work = new Work();
  const common = { ...options, store, gateway, work, catalogue: () => prices.current };
  const built = buildRoutes(settings, {
    ...common,
    calendar,
    tokens,
    metrics: { events, scrape: metrics.scrape },
    wakePoller: () => fleet.did("tasks"),
    wakeDelivery: () => fleet.did("queued"),
    seal,
    random: Math.random,
    peerUsage: fleet.peerUsage,
    peers: fleet.standing,
    memory: new SpendMemory(store.figures.ledger, clock),
    gatewayHealth: () => watch.health(),
    startedAt: clock.now(),
  });
  const sampler = startJobs(settings, { clock, log, store, fleet, built }, owned);
  fleet.join(built.limitsUsed);
  const fronting = await openFront(settings, {
    ...common,
    ...built,
    events,
    isLedgerWritable: () => store.ledger.isWritable(),
    onPrices: (listener) => prices.onTaken(listener),
    lost: metrics.lost,
  });
  if (!fronting.ok) return failure(fronting.problem);
  const { front } = fronting;
  metrics.showWorkers(front.processMetrics ?? null);
  const { recovered } = opening;
  return {
    ok: true,
    serving: servingOf({ store, prices, sampler, alerts, recovered, work, built, front }, owned.move()),
  };
}

interface Running extends Pick<Serving, "sampler" | "alerts" | "recovered"> {
  readonly store: Store;
  readonly prices: WatchedPrices;
  readonly work: Work;
  readonly built: BuiltRoutes;
  readonly front: Front;
}

function servingOf(
  { store, prices, sampler, alerts, recovered, work, built, front }: Running,
  owned: AsyncDisposableStack,
): Serving {
  const { ledger, keys, teams, tasks, sessions, created } = store;
  return {
    url: front.url,
    ledger,
    keys,
    teams,
    tasks,
    sessions,
    sampler,
    alerts,
    created,
    recovered,
    settled: () => work.done(),
    reloadPrices: () => prices.reload(),
    failed: front.failed ?? new Promise(() => undefined),
    async drain() {
      built.stopBeingReady();
      await front.drain();
    },
    async [Symbol.asyncDispose]() {
      await front.cutOff();
      await owned.disposeAsync();
    },
  };
}

function failure(...problems: readonly string[]): ServingResult & { readonly ok: false } {
  return { ok: false, problems };
}

/** Loads the prices, and logs and counts their reloads. */
function openPrices(
  settings: Settings,
  { clock, log, buildCatalogue }: ServingOptions,
  { priceReloads }: Metrics,
): Promise<PricesOpening> {
  return watchPrices({
    folders: { shipped: shippedPrices, user: settings.pricing.folder ?? undefined },
    clock,
    ...(buildCatalogue && { build: buildCatalogue }),
    onReload: (reload) => logReload(reload, { log, count: priceReloads, at: clock.now() }),
  });
}

type StoreOpening =
  | { readonly ok: true; readonly store: QueuedStore; readonly recovered: number }
  | { readonly ok: false; readonly problem: string };

/** Opens the ledger and posts the holds of a proxy that died. */
async function openStore(
  { database, gateway }: Settings,
  { clock, log, version, ledgerThreads }: ServingOptions,
  calendar: Calendar,
  metrics: Metrics,
): Promise<StoreOpening> {
  const place = shownDatabase(database);
  const opening = await openLedger(database, {
    calendar,
    clock,
    access: "serve",
    onWrite: (seconds, calls) => metrics.events.ledgerWrote(seconds, calls),
    onEvent: (event) => logStoreEvent(event, place, log),
    settlePauseMs,
    requestLifeMs: gateway.streamMs + gateway.silenceMs,
    version,
    ...(ledgerThreads === false && { threads: false }),
  });
  if (!opening.ok) return { ok: false, problem: storeProblem(opening.failure, place) };
  const { store } = opening;
  try {
    return { ok: true, store, recovered: await store.ledger.recover(clock.now()) };
  } catch (error) {
    await store[Symbol.asyncDispose]();
    if (!(error instanceof LedgerUnavailable)) throw error;
    return { ok: false, problem: `the ledger at ${place} cannot be written: ${error.message}` };
  }
}

interface JobDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Store;
  readonly fleet: FleetMember;
  readonly built: BuiltRoutes;
}

/** Starts the jobs that ask the gateway or maintain the ledger. */
function startJobs(
  settings: Settings,
  { clock, log, store, fleet, built }: JobDeps,
  owned: AsyncDisposableStack,
): BalanceSampler {
  const { ledger, samples, tasks, sessions } = store;
  const { jobs } = fleet;
  const sampler = owned.use(
    startBalanceSampler({
      ledger,
      samples,
      clock,
      log,
      everyMs: settings.balance.ttlMs,
      fetch: built.freshAccount,
      claim: jobs.of("account"),
    }),
  );
  const poller = owned.use(startTaskPoller({ tasks, poll: built.pollTask, clock, log, claim: jobs.of("tasks") }));
  fleet.on("tasks", poller.wake);
  owned.use(startSessionTidying({ sessions, clock, log }));
  if (store.fleet !== null) owned.use(startRecovery({ ledger, clock, log, claim: jobs.of("recovery") }));
  return sampler;
}

/** Opens the server: in this process, or in workers of it. */
async function openFront(settings: Settings, deps: WorkerPoolDeps): Promise<FrontResult> {
  if (workerCount(settings) === 1) return await openHttpFront(settings, deps);
  const { openWorkerPool } = await import("./workers/worker-pool.ts");
  return await openWorkerPool(settings, deps);
}
