import type { CatalogueBuilder } from "../catalogue/build.ts";
import {
  readFirstPrices,
  watchPrices,
  type FirstPrices,
  type PricesOpening,
  type WatchedPrices,
} from "../catalogue/watched-prices.ts";
import { shownDatabase } from "../config/database.ts";
import type { Settings } from "../config/settings.ts";
import { formatFault, type OrProblem } from "../core/fault.ts";
import { openGateway } from "./gateway.ts";
import type { Alerts } from "../jobs/alerts.ts";
import { startBalanceSampler, type BalanceSampler } from "../jobs/balance-sampler.ts";
import { unboundUserScopes } from "../admin/scopes.ts";
import { startRefusalRecorder, type RefusalRecorder } from "../jobs/refusal-recorder.ts";
import { startRecovery } from "../jobs/recovery.ts";
import { startSessionTidying } from "../jobs/session-tidying.ts";
import { startTaskPoller } from "../jobs/task-poller.ts";
import { createMetrics, type Metrics } from "./metrics/metrics.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Clock } from "../ports/clock.ts";
import { combineEvents } from "../ports/events.ts";
import { LedgerUnavailable } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import type { QueuedStore } from "../ledger/store.ts";
import type { Store } from "../ports/stores.ts";
import { calendarOf } from "../platform/clock.ts";
import { createTokenCounter } from "../platform/tokens/token-counter.ts";
import { KeyWatch } from "../request/gateway-key.ts";
import { createSeal } from "../gateway/webhooks/seal.ts";
import type { OtlpTracing } from "../tracing/tracing.ts";
import { startAlerting, startDelivering, type JobDeps } from "./delivering.ts";
import { differenceOfDay, ledgerFigures } from "./figures.ts";
import { fleetMember } from "./fleet.ts";
import { openLedger, storeProblem } from "./ledger.ts";
import { GatewayWatch } from "../reporting/gateway-watch.ts";
import type { Answering, Front, FrontProcess, FrontResult } from "./http-front.ts";
import { keyLog, logReload, logStoreEvent } from "./logged-events.ts";
import { priceFolders } from "./price-folders.ts";
import {
  buildAccess,
  buildRequestRoutes,
  operationRoutes,
  ownRoutes,
  readinessCheck,
  type Access,
  type ReadinessCheck,
  type RequestRoutes,
} from "./routes.ts";
import { readStoredUsers } from "../wire/headers.ts";
import { openTracing, spanLog } from "./tracing.ts";
import { Work } from "./http/http-app.ts";
import type { WorkerPoolDeps } from "./workers/worker-pool.ts";
import { workerCount } from "./workers/settings.ts";

/** Running proxy. Disposal ends it at once. `drain` first lets running requests finish. */
export interface Serving extends Store {
  /** Address of the server, such as "http://127.0.0.1:4000". */
  readonly url: string;
  readonly sampler: BalanceSampler;
  readonly alerts: Alerts;
  readonly recorder: RefusalRecorder;
  /** Number of holds that a crashed proxy left pending. They were posted at the start of this proxy. */
  readonly recovered: number;
  /**
   * Returns an address of the dashboard that signs a browser in with this token. The address works once, within ten
   * minutes.
   */
  signInLink(token: string): string;
  /** Resolves once no request is running and every request is settled. */
  settled(): Promise<void>;
  /** Asks the gateway once if it accepts the key of this proxy. A refusal is logged. */
  checkGatewayKey(): Promise<void>;
  /** Reads the price files now. Files with faults do not replace the prices in force. */
  reloadPrices(): Promise<void>;
  /**
   * Makes `/readyz` answer at once that the proxy is not ready. Stops accepting connections after at most two seconds,
   * and aborts requests that take too long. Resolves when every request is settled.
   */
  drain(): Promise<void>;
  /** Resolves with one sentence if no worker can be kept running. */
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
  /** Token counter that proxies of one process share; a new one by default. */
  readonly tokens?: TokenCounter;
  /** Function that builds the catalogue, for proxies of one process that share the function's cache. */
  readonly buildCatalogue?: CatalogueBuilder;
  /** Prices to begin with; read by default. */
  readonly firstPrices?: FirstPrices;
  /** Largest number of cached keys. Their memory is allocated at the start. */
  readonly keysRemembered?: number;
}

/**
 * Longest time that a settlement waits to share the transaction of another request's hold, in milliseconds. If the
 * proxy crashes during this wait, the hold of the settlement is posted as assumed.
 */
const settlePauseMs = 10;

/** Starts a proxy. Returns it once it listens, or the problems that prevented the start. */
export async function startServing(settings: Settings, options: ServingOptions): Promise<ServingResult> {
  const { clock, log, version } = options;
  const { address, apiKey } = settings.gateway;
  if (address === null || apiKey === null)
    return failure("serve needs FAREBOX_GATEWAY_URL and FAREBOX_GATEWAY_API_KEY; set both");
  await using owned = new AsyncDisposableStack();
  const calendar = calendarOf(settings.timeZone);
  const metrics = createMetrics({ ...settings.metrics, version, clock, pricesLoadedAt: clock.now() });
  const opened = await openPrices(settings, options, metrics);
  if (!opened.ok) return failure(...opened.faults.map(formatFault));
  const prices = owned.use(opened.prices);
  const opening = await openStore(settings, options, calendar, metrics);
  if (!opening.ok) return failure(opening.problem);
  const store = owned.use(opening.store);
  // The writer's thread starts meanwhile, and recovers before it does anything else.
  const recovering = recover(store, settings, clock);
  // Its failure ends the start below, even if it fails before then.
  recovering.catch(() => undefined);
  await warnOfUnboundUsers(store, settings, log);

  const drift = differenceOfDay(store.figures);
  const figures = ledgerFigures(store, { calendar, byUserOrTag: settings.metrics.subjectsMax > 0, drift });
  metrics.showLedger(() => figures(clock.now()));
  const { preset } = settings.pricing;
  const fleet = owned.use(fleetMember({ fleet: store.fleet, clock, log, gauges: metrics.fleet, prices, preset }));
  const baseUrl = address.origin + address.basePath;
  const gateway = owned.use(await openGateway(settings, { baseUrl, apiKey: apiKey.reveal(), clock }));
  const tokens = options.tokens ?? owned.use(createTokenCounter({ log }));
  const seal = createSeal(apiKey.reveal());
  const jobDeps = { store, calendar, clock, log, metrics, fleet };
  owned.use(startDelivering(settings, jobDeps, seal));
  const alerts = owned.use(startAlerting(settings, jobDeps, drift));
  const recorder = owned.use(startRefusalRecorder({ refusals: store.refusals, clock, log }));
  const watch = new GatewayWatch(clock);
  const events = combineEvents(...metrics.listeners, spanLog(log), keyLog(log, clock), watch.events, {
    posted: fleet.report.posted,
    refused(event) {
      alerts.refused(event.refusal);
      recorder.record(event);
    },
  });
  const tracing = await openTracing(settings, { version, clock, onSent: events.spansSent });
  const work = new Work();
  const keyWatch = new KeyWatch(events);
  const parts = { clock, log, events, work, gateway, keyWatch, tokens, tracing, catalogue: prices.current };
  const access = buildAccess(settings, store, parts, options.keysRemembered);
  const storedUser = await readStoredUsers(settings.access.users, store.sessions);
  const requests = buildRequestRoutes(settings, parts, { store, fleet, access, storedUser, seal, random: Math.random });
  const readiness = readinessCheck(parts, store, fleet, preset);
  const own = ownRoutes(settings, parts, requests, {
    store,
    calendar,
    access,
    storedUser,
    onRaiseRequest: fleet.report.posted,
    flushRefusals: () => recorder.flushSoon(),
    process: {
      version,
      startedAt: clock.now(),
      preset,
      gateway: () => watch.health(),
      ready: async () => (await readiness.read()).ready,
    },
  });
  const sampler = startJobs(settings, jobDeps, requests, owned);
  fleet.join(requests.shared.limiter.used);
  const recovery = await recovering;
  if (!recovery.ok) return failure(recovery.problem);
  const answering: Answering = {
    routes: [
      ...requests.routes,
      ...own,
      ...operationRoutes(settings, readiness, metrics),
      // They match every path.
      ...requests.otherPaths,
    ],
    stopForwarding: requests.stopForwarding,
    isLedgerWritable: () => store.ledger.isWritable(),
  };
  const { shared } = requests;
  const fronting = await openFront(settings, parts, answering, { store, shared, prices, lost: metrics.lost });
  if (!fronting.ok) return failure(fronting.problem);
  const { front } = fronting;
  metrics.showWorkers(front.processMetrics ?? null);
  log.info({ preset, catalogue: prices.current().digest }, "prices in force");
  const running = { ...store, sampler, alerts, recorder, recovered: recovery.recovered };
  const controlled = controls({ front, prices, work, tracing, readiness, access, requests }, owned.move());
  return { ok: true, serving: { ...running, ...controlled } };
}

interface Running {
  readonly front: Front;
  readonly prices: WatchedPrices;
  readonly work: Work;
  readonly tracing: OtlpTracing | null;
  readonly readiness: ReadinessCheck;
  readonly access: Access;
  readonly requests: RequestRoutes;
}

/** Returns the functions that control and end a running proxy. */
function controls({ front, prices, work, tracing, readiness, access, requests }: Running, owned: AsyncDisposableStack) {
  return {
    url: front.url,
    signInLink: (token: string) => `${front.url}/dashboard#sign-in=${access.browserSessions.code(token)}`,
    settled: () => work.done(),
    checkGatewayKey: () => requests.checkGatewayKey(),
    reloadPrices: () => prices.reload(),
    failed: front.failed ?? new Promise<never>(() => undefined),
    async drain() {
      readiness.stop();
      await front.drain();
    },
    async [Symbol.asyncDispose]() {
      await front.cutOff();
      await tracing?.flush();
      await owned.disposeAsync();
    },
  };
}

function failure(...problems: readonly string[]): ServingResult & { readonly ok: false } {
  return { ok: false, problems };
}

/** Loads the prices and watches their files. Logs and counts reloads. */
async function openPrices(
  settings: Settings,
  { clock, log, buildCatalogue, firstPrices }: ServingOptions,
  { priceReloads }: Metrics,
): Promise<PricesOpening> {
  const folders = priceFolders(settings.pricing);
  return watchPrices({
    folders,
    clock,
    first: firstPrices ?? (await readFirstPrices(folders, buildCatalogue)),
    onReload: (reload) => logReload(reload, { log, count: priceReloads, at: clock.now() }),
  });
}

/** Logs a warning if budgets on users have no effect, because FAREBOX_USERS was changed. The log names no users. */
async function warnOfUnboundUsers({ ledger }: Store, { access }: Settings, log: Log): Promise<void> {
  const scopes = (await ledger.budgets()).map(({ scope }) => scope);
  const budgets = unboundUserScopes(scopes, access.users).length;
  if (budgets > 0)
    log.warn(
      { budgets, users: access.users },
      "budgets on users have no effect, because FAREBOX_USERS was changed and charges now state users differently; farebox doctor names one of them",
    );
}

/** Opens the ledger. */
async function openStore(
  { database, gateway, subjectsMax }: Settings,
  { clock, log, version, ledgerThreads }: ServingOptions,
  calendar: Calendar,
  metrics: Metrics,
): Promise<OrProblem<{ store: QueuedStore }>> {
  const place = shownDatabase(database);
  const opening = await openLedger(database, {
    calendar,
    clock,
    access: "serve",
    onWrite: metrics.ledgerWrote,
    onEvent: (event) => logStoreEvent(event, place, log),
    settlePauseMs,
    requestLifeMs: gateway.streamMs + gateway.silenceMs,
    subjectsMax,
    version,
    ...(ledgerThreads === false && { threads: false }),
  });
  return opening.ok ? opening : { ok: false, problem: storeProblem(opening.failure, place) };
}

/** Posts the holds of a proxy that crashed, as assumed. */
async function recover(
  { ledger }: Store,
  { database }: Settings,
  clock: Clock,
): Promise<OrProblem<{ recovered: number }>> {
  try {
    return { ok: true, recovered: await ledger.recover(clock.now()) };
  } catch (error) {
    if (!(error instanceof LedgerUnavailable)) throw error;
    return { ok: false, problem: `the ledger at ${shownDatabase(database)} cannot be written: ${error.message}` };
  }
}

/** Starts the jobs that poll the gateway or maintain the ledger. Returns the balance sampler. */
function startJobs(
  settings: Settings,
  { store, clock, log, fleet }: JobDeps,
  { account, pollTask }: RequestRoutes,
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
      fetch: async () => (await account.refresh())?.body,
      claim: jobs.of("account"),
    }),
  );
  const poller = owned.use(startTaskPoller({ tasks, poll: pollTask, clock, log, claim: jobs.of("tasks") }));
  fleet.on("tasks", poller.wake);
  owned.use(startSessionTidying({ sessions, clock, log }));
  if (store.fleet !== null) owned.use(startRecovery({ ledger, clock, log, claim: jobs.of("recovery") }));
  return sampler;
}

/** Opens the server in this process, or in worker processes. */
async function openFront(
  settings: Settings,
  parts: FrontProcess,
  answering: Answering,
  deps: WorkerPoolDeps,
): Promise<FrontResult> {
  if (workerCount(settings) === 1) {
    const { openHttpFront } = await import("./http-front.ts");
    return await openHttpFront(settings, parts, answering);
  }
  const { openWorkerPool } = await import("./workers/worker-pool.ts");
  return await openWorkerPool(settings, parts, answering, deps);
}
