import { differenceOfDay } from "../src/server/figures.ts";
import { GatewayWatch } from "../src/reporting/gateway-watch.ts";
import { buildAccess, buildRequestRoutes, ownRoutes, type RequestRoutes } from "../src/server/routes.ts";
import { routedPath } from "../src/server/task-wiring.ts";
import { Work } from "../src/server/http/http-app.ts";
import type { Settings } from "../src/config/settings.ts";
import { startDelivery } from "../src/jobs/delivery.ts";
import { createSigner } from "../src/wire/webhook-signature.ts";
import { startAlerts, type Alerts } from "../src/jobs/alerts.ts";
import { startBalanceSampler } from "../src/jobs/balance-sampler.ts";
import { alwaysMine } from "../src/jobs/job-claims.ts";
import { startTaskPoller } from "../src/jobs/task-poller.ts";
import type { BudgetWindow } from "../src/core/budget.ts";
import type { Calendar } from "../src/ports/calendar.ts";
import type { Catalogue } from "../src/ports/catalogue.ts";
import { combineEvents, type Events, type RefusedEvent } from "../src/ports/events.ts";
import type { Gateway } from "../src/ports/gateway.ts";
import type { Log } from "../src/ports/log.ts";
import type { TokenCounter } from "../src/ports/token-counter.ts";
import type { WebhookSender } from "../src/ports/webhook-sender.ts";
import type { Handler } from "../src/ports/exchange.ts";
import { burnPerHour } from "../src/reporting/balance.ts";
import { KeyWatch } from "../src/request/gateway-key.ts";
import { keyNames } from "../src/reporting/names.ts";
import type { Store } from "../src/ports/stores.ts";
import { createSeal } from "../src/gateway/webhooks/seal.ts";
import type { SimulatedExchange } from "./client.ts";
import type { Owner, World } from "./world.ts";

interface InstanceDeps {
  readonly world: World;
  readonly owner: Owner;
  readonly settings: Settings;
  readonly calendar: Calendar;
  readonly store: Store;
  readonly gateway: Gateway;
  readonly tokens: TokenCounter;
  readonly catalogue: () => Catalogue;
  readonly sender: WebhookSender;
  readonly newId: () => string;
  /** Called after each query for windows to alert. */
  readonly onEvaluated: (at: number, windows: readonly BudgetWindow[]) => void;
  /** Called for each logged error. */
  readonly onError: (message: string, error: unknown) => void;
}

/** Run of the proxy. It is assembled as in `startServing`, but with simulated ports for sockets, files and threads. */
export interface Instance {
  readonly owner: Owner;
  readonly store: Store;
  readonly alerts: Alerts;
  /** Starts the handler of an exchange. */
  handle(exchange: SimulatedExchange): void;
  /** Exchanges whose handlers have not returned. */
  readonly running: ReadonlySet<SimulatedExchange>;
  /** Resolves when every request so far is settled. */
  settled(): Promise<void>;
  /** Acts as SIGTERM does: waits for running requests, ends those that run too long, and settles all of them. */
  drain(): Promise<void>;
}

/** Longest wait for running requests after SIGTERM, in milliseconds. */
const drainMs = 5_000;

/** Recovers the ledger, and starts everything that a proxy starts. Rejects if the ledger could not be written. */
export async function startInstance(deps: InstanceDeps): Promise<Instance> {
  const { world, owner, settings, calendar, gateway, tokens, catalogue, sender, newId } = deps;
  const clock = world.clock(owner);
  const log: Log = {
    debug() {},
    info() {},
    warn() {},
    error: (fields, message) => deps.onError(message, (fields as { err?: unknown }).err),
  };
  const store = delayed(world, owner, deps.store);
  await store.ledger.recover(clock.now());
  const work = new Work();
  const { ledger, samples, outbox } = store;
  const target = "alert webhook";
  const delivery = startDelivery({
    outbox,
    clock,
    log,
    sender,
    random: () => world.chance.next(),
    destinationOf: async ({ payload }) => ({
      url: "https://alerts.simulated/",
      rule: "administrator",
      body: payload,
      headers: createSigner("whsec_c2VjcmV0"),
    }),
    countResult: () => {},
    claim: alwaysMine,
  });
  const alerts = startAlerts({
    ledger: Object.assign(Object.create(ledger) as typeof ledger, {
      async windowsToAlert(at: number, limit: number) {
        const windows = await ledger.windowsToAlert(at, limit);
        deps.onEvaluated(at, windows);
        return windows;
      },
    }),
    samples,
    raiseRequests: store.raiseRequests,
    outbox,
    calendar,
    clock,
    log,
    newId,
    target,
    rules: settings.alerts,
    names: () => keyNames(store.keys),
    burnPerHour: () => burnPerHour(ledger, clock.now()),
    drift: differenceOfDay(store),
    countAlert: () => {},
    claim: alwaysMine,
    wakeDelivery: () => delivery.wake(),
  });
  const watch = new GatewayWatch(clock);
  const jobs = { posted: alerts.spent, refused: ({ refusal }: RefusedEvent) => alerts.refused(refusal) };
  const events = combineEvents(silentEvents, jobs, watch.events);
  const parts = { clock, log, events, work, gateway, tokens, catalogue, keyWatch: new KeyWatch(events), tracing: null };
  const access = buildAccess(settings, store, parts, 10);
  const storedUser = (name: string) => name;
  const requests = buildRequestRoutes(settings, parts, {
    store,
    access,
    storedUser,
    seal,
    fleet: {
      report: { posted: alerts.spent, tasks: () => poller.wake(), queued: () => delivery.wake() },
      peerUsage: undefined,
    },
    random: () => world.chance.next(),
  });
  const own = ownRoutes(settings, parts, requests, {
    store,
    calendar,
    access,
    storedUser,
    onRaiseRequest: alerts.spent,
    flushRefusals: async () => {},
    process: {
      version: "simulated",
      startedAt: clock.now(),
      preset: settings.pricing.preset,
      gateway: () => watch.health(),
      ready: async () => true,
    },
  });
  const poller = startTaskPoller({ tasks: store.tasks, poll: requests.pollTask, clock, log, claim: alwaysMine });
  const sampler = startBalanceSampler({
    ledger,
    samples,
    clock,
    log,
    everyMs: settings.balance.ttlMs,
    fetch: async () => (await requests.account.refresh())?.body,
    claim: alwaysMine,
  });
  const running = new Set<SimulatedExchange>();
  const handlers = new Map(
    [...requests.routes, ...own, ...requests.otherPaths].map(({ method, path, handler }) => [
      `${method.toUpperCase()} ${path}`,
      handler,
    ]),
  );
  return {
    owner,
    store: deps.store,
    alerts,
    running,
    handle(exchange) {
      running.add(exchange);
      work.add(answer(handlers, exchange, log).finally(() => running.delete(exchange)));
    },
    settled: () => work.done(),
    async drain() {
      await finish(work, requests, clock.after);
      await alerts[Symbol.asyncDispose]();
      await sampler[Symbol.asyncDispose]();
      await poller[Symbol.asyncDispose]();
      await delivery[Symbol.asyncDispose]();
      await deps.store[Symbol.asyncDispose]();
    },
  };
}

async function answer(handlers: ReadonlyMap<string, Handler>, exchange: SimulatedExchange, log: Log): Promise<void> {
  const route = exchange.path.replace(/^(\/api\/v1\/task\/).+$/, "$1:task_id");
  const handler = handlers.get(`${exchange.method} ${route}`) ?? handlers.get(`ALL ${routedPath}`);
  if (handler === undefined) throw new Error(`no handler for ${exchange.method} ${exchange.path}`);
  try {
    await handler(exchange);
  } catch (error) {
    log.error({ err: error }, "a request failed inside Farebox");
    if (exchange.status === null) exchange.refuse({ code: "internal_error" });
    else exchange.breakOff();
  }
}

async function finish(
  work: Work,
  { stopForwarding }: RequestRoutes,
  after: (ms: number, callback: () => void) => unknown,
): Promise<void> {
  await Promise.race([work.done(), new Promise<void>((resolve) => after(drainMs, resolve))]);
  stopForwarding();
  await work.done();
}

/** Wraps a store. Each call of the store becomes one event, and its answer another. */
function delayed(world: World, owner: Owner, store: Store): Store {
  const wrapped = <T extends object>(port: T, name: string): T =>
    new Proxy(port, {
      get(target, member) {
        const value: unknown = Reflect.get(target, member, target);
        if (typeof value !== "function" || typeof member !== "string") return value;
        return (...args: unknown[]) =>
          world.call(owner, `${name}.${member}`, async () =>
            (value as (...all: unknown[]) => unknown).apply(target, args),
          );
      },
    });
  const { ledger, keys, teams, samples, outbox, tasks } = store;
  return {
    ...store,
    ledger: wrapped(ledger, "ledger"),
    keys: wrapped(keys, "keys"),
    teams: wrapped(teams, "teams"),
    samples: wrapped(samples, "samples"),
    outbox: wrapped(outbox, "outbox"),
    tasks: wrapped(tasks, "tasks"),
  };
}

/** Seal that all runs share, because deriving it from the gateway's key takes time. */
const seal = createSeal("gateway-key");

const silentEvents: Events = {
  requestStarted() {},
  requestEnded() {},
  admitted() {},
  refused() {},
  unknownFields() {},
  streamBurst() {},
  adminFailed() {},
  posted() {},
  ledgerWrote() {},
  spansSent() {},
  gatewayKey() {},
  accountRead() {},
  taskEnded() {},
};
