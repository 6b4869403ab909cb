import { withAlerts } from "../src/server/alerting.ts";
import { differenceOfDay } from "../src/server/figures.ts";
import { GatewayWatch } from "../src/server/gateway-health.ts";
import { buildRoutes, type BuiltRoutes } from "../src/server/routes.ts";
import { routedPath } from "../src/server/tasks.ts";
import { Work } from "../src/server/work.ts";
import type { Settings } from "../src/config/settings.ts";
import { startDelivery } from "../src/jobs/delivery.ts";
import { signedWith } from "../src/wire/webhook-signature.ts";
import { startAlerts, type Alerts } from "../src/jobs/alerts.ts";
import { startBalanceSampler } from "../src/jobs/balance-sampler.ts";
import { alwaysMine } from "../src/jobs/job-claims.ts";
import { startTaskPoller } from "../src/jobs/task-poller.ts";
import type { Calendar } from "../src/ports/calendar.ts";
import type { Catalogue } from "../src/ports/catalogue.ts";
import type { Events } from "../src/ports/events.ts";
import type { Gateway } from "../src/ports/gateway.ts";
import type { Log } from "../src/ports/log.ts";
import type { TokenCounter } from "../src/ports/token-counter.ts";
import type { WebhookSender } from "../src/ports/webhook-sender.ts";
import type { Handler } from "../src/request/handler.ts";
import { burnPerHour } from "../src/reporting/balance.ts";
import { keyNames } from "../src/reporting/names.ts";
import { SpendMemory } from "../src/reporting/spend-memory.ts";
import type { Store } from "../src/ledger/store.ts";
import { createSeal } from "../src/gateway/webhooks/seal.ts";
import type { SimulatedExchange } from "./client.ts";
import type { Owner, World } from "./world.ts";

export interface InstanceDeps {
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
  /** Told of what is logged as an error. */
  readonly onError: (message: string, error: unknown) => void;
}

/** One run of the proxy: what `startServing` makes, with simulated ports in the place of sockets, files and threads. */
export interface Instance {
  readonly owner: Owner;
  readonly store: Store;
  readonly alerts: Alerts;
  /** Answers an exchange; in `running` while its handler is at work. */
  handle(exchange: SimulatedExchange): void;
  readonly running: ReadonlySet<SimulatedExchange>;
  /** Resolves when every request that came is settled. */
  settled(): Promise<void>;
  /** Acts as SIGTERM: lets running requests finish for a while, then ends them; everything is settled. */
  drain(): Promise<void>;
}

/** Longest time for running requests after SIGTERM, in milliseconds. */
const drainMs = 5_000;

/** Recovers, and starts what a proxy starts. Rejects where the database could not be written. */
export async function startInstance(deps: InstanceDeps): Promise<Instance> {
  const { world, owner, settings, calendar, gateway, tokens, catalogue, sender, newId } = deps;
  const clock = world.clock(owner);
  const log: Log = {
    debug() {},
    info() {},
    warn() {},
    error: (fields, message) => deps.onError(message, (fields as { err?: unknown }).err),
  };
  const store = inItsOwnTime(world, owner, deps.store);
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
      url: "https://told.simulated/",
      rule: "administrator",
      body: payload,
      headers: signedWith("whsec_c2VjcmV0"),
    }),
    countResult: () => {},
    claim: alwaysMine,
  });
  const alerts = startAlerts({
    ledger,
    samples,
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
  const events = watch.watching(withAlerts(silentEvents, alerts));
  const looks = {
    memory: new SpendMemory(store.figures.ledger, clock),
    gatewayHealth: () => watch.health(),
    startedAt: clock.now(),
  };
  const scrape = () => Promise.resolve({ contentType: "text/plain", text: "" });
  const built = buildRoutes(settings, {
    clock,
    log,
    version: "simulated",
    calendar,
    store,
    gateway,
    tokens,
    catalogue,
    metrics: { events, scrape },
    work,
    wakePoller: () => poller.wake(),
    wakeDelivery: () => delivery.wake(),
    seal,
    random: () => world.chance.next(),
    keysRemembered: 10,
    ...looks,
  });
  const poller = startTaskPoller({ tasks: store.tasks, poll: built.pollTask, clock, log, claim: alwaysMine });
  const sampler = startBalanceSampler({
    ledger,
    samples,
    clock,
    log,
    everyMs: settings.balance.ttlMs,
    fetch: built.freshAccount,
    claim: alwaysMine,
  });
  const running = new Set<SimulatedExchange>();
  const handlers = new Map(
    built.routes.map(({ method, path, handler }) => [`${method.toUpperCase()} ${path}`, handler]),
  );
  return {
    owner,
    store: deps.store,
    alerts,
    running,
    handle(exchange) {
      running.add(exchange);
      work.add(answered(handlers, exchange, log).finally(() => running.delete(exchange)));
    },
    settled: () => work.done(),
    async drain() {
      await end(work, built, clock.after);
      await alerts[Symbol.asyncDispose]();
      await sampler[Symbol.asyncDispose]();
      await poller[Symbol.asyncDispose]();
      await delivery[Symbol.asyncDispose]();
      await deps.store[Symbol.asyncDispose]();
    },
  };
}

async function answered(handlers: ReadonlyMap<string, Handler>, exchange: SimulatedExchange, log: Log): Promise<void> {
  const route = exchange.path.replace(/^(\/api\/v1\/task\/).+$/, "$1:task_id");
  const handler = handlers.get(`${exchange.method} ${route}`) ?? handlers.get(`ALL ${routedPath}`);
  if (handler === undefined) throw new Error(`no handler of ${exchange.method} ${exchange.path}`);
  try {
    await handler(exchange);
  } catch (error) {
    log.error({ err: error }, "a request failed inside Farebox");
    if (exchange.status === null) exchange.refuse({ code: "internal_error" });
    else exchange.breakOff();
  }
}

async function end(
  work: Work,
  built: BuiltRoutes,
  after: (ms: number, callback: () => void) => unknown,
): Promise<void> {
  built.stopBeingReady();
  await Promise.race([work.done(), new Promise<void>((resolve) => after(drainMs, resolve))]);
  built.stopForwarding();
  await work.done();
}

/** A store whose every call is carried out, and answered, when the world comes to it. */
function inItsOwnTime(world: World, owner: Owner, store: Store): Store {
  const slowed = <T extends object>(port: T, name: string): T =>
    new Proxy(port, {
      get(target, member) {
        const value: unknown = Reflect.get(target, member, target);
        if (typeof value !== "function" || typeof member !== "string") return value;
        return (...asked: unknown[]) =>
          world.call(owner, `${name}.${member}`, async () =>
            (value as (...all: unknown[]) => unknown).apply(target, asked),
          );
      },
    });
  const { ledger, keys, teams, samples, outbox, tasks } = store;
  return {
    ...store,
    ledger: slowed(ledger, "ledger"),
    keys: slowed(keys, "keys"),
    teams: slowed(teams, "teams"),
    samples: slowed(samples, "samples"),
    outbox: slowed(outbox, "outbox"),
    tasks: slowed(tasks, "tasks"),
  };
}

/** One for all: it is made from the gateway's key, which costs time. */
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
  accountRead() {},
  taskEnded() {},
};
