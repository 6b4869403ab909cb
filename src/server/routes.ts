import { createAdminGate } from "../admin/admin-gate.ts";
import type { Settings } from "../config/settings.ts";
import type { Task } from "../core/tasks.ts";
import { adminRoutes } from "./http/admin/routes.ts";
import { serveAdmin } from "./http/admin/serve-route.ts";
import { dashboardRoutes } from "./http/dashboard/files.ts";
import { sessionRoutes } from "./http/dashboard/session-routes.ts";
import { createDashboardSessions } from "./http/dashboard/signed-in.ts";
import type { Route } from "./http/http-app.ts";
import { healthz, metricsPage, readyz, type Readiness } from "./http/operations.ts";
import { runSessionRoutes } from "./http/run-sessions.ts";
import { selfServiceRoutes } from "./http/self-service.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import type { Gateway } from "../ports/gateway.ts";
import type { Log } from "../ports/log.ts";
import type { Seal } from "../ports/seal.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import { accountInfo, createAccount } from "../request/account.ts";
import { createAuthenticator, createKeyring } from "../request/authenticate.ts";
import { createBalanceGuard } from "../request/balance-guard.ts";
import { createTaskClaims } from "../request/task-ownership.ts";
import type { TaskOwner } from "../request/task-ownership.ts";
import { createMask } from "../request/mask.ts";
import type { RequestSteps } from "../request/metered-request.ts";
import { settleCharge, type SettleParams } from "../request/settle.ts";
import { createLimiter, type ProcessLimiter, type PeerUsage } from "../request/limits.ts";
import type { GatewayHealth, ProcessHealth } from "../reporting/health.ts";
import { newestReview } from "../reporting/price-review.ts";
import type { SpendMemory } from "../reporting/spend-memory.ts";
import type { Store } from "../ledger/store.ts";
import type { PeersStanding } from "./fleet.ts";
import { dashboardFolder } from "./package.ts";
import { buildSteps, meteredRoutes, modelRoutes, passedRoutes } from "./steps.ts";
import { buildTaskRoutes } from "./tasks.ts";
import type { Work } from "./work.ts";

interface RouteDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  readonly calendar: Calendar;
  readonly store: Store;
  readonly gateway: Gateway;
  readonly tokens: TokenCounter;
  /** Returns the prices in force, for each request. */
  readonly catalogue: () => Catalogue;
  readonly metrics: Pick<Metrics, "events" | "scrape">;
  readonly work: Work;
  /** Spend for a page with many readers; no long query of others delays it. */
  readonly memory: SpendMemory;
  readonly gatewayHealth: () => GatewayHealth;
  readonly startedAt: number;
  /** Reports a task that the poller is to follow. */
  readonly wakePoller: () => void;
  /** Something was put into the outbox. */
  readonly wakeDelivery: () => void;
  readonly seal: Seal;
  /** Usage of limits by peers, where there are any. */
  readonly peerUsage?: PeerUsage | undefined;
  /** Returns the state of peers for `/readyz`; null where there are none. */
  readonly peers?: () => PeersStanding | null;
  /** At least 0, below 1. */
  readonly random: () => number;
  /** Keys remembered between requests; as many as the authenticator pleases unless given. */
  readonly keysRemembered?: number;
}

export interface BuiltRoutes {
  readonly routes: readonly Route[];
  /** Steps that all processes of this proxy share. */
  readonly shared: Pick<RequestSteps, "limiter" | "balanceGuard" | "claimTask"> & {
    settle(params: SettleParams): Promise<void>;
    readonly taskOwner: TaskOwner;
  };
  stopBeingReady(): void;
  /** The account record as the gateway has it now; undefined where it gives none. */
  freshAccount(): Promise<unknown>;
  /** Fetches and applies a task's record. */
  pollTask(task: Task): Promise<void>;
  /** Ends every running call at the gateway; each is settled. */
  stopForwarding(): void;
  /** Returns the usage here of limits of keys and teams. */
  limitsUsed: ProcessLimiter["used"];
}

/** The request path: its steps, each with what it needs and no more. */
export function buildRoutes(settings: Settings, parts: RouteDeps): BuiltRoutes {
  const { clock, log, store, gateway, tokens, catalogue, metrics, work } = parts;
  const { events } = metrics;
  const { ledger, keys } = store;
  const mask = createMask(settings.gateway.apiKey?.reveal() ?? "");
  const limiter = createLimiter({ clock, peerUsage: parts.peerUsage });
  const keyring = createKeyring({
    keys,
    teams: store.teams,
    sessions: store.sessions,
    changes: store.changes,
    clock,
    rememberedMax: parts.keysRemembered,
  });
  const authenticate = createAuthenticator({ keyring, mode: settings.access.auth });
  const gate = createAdminGate({
    admins: store.admins,
    clock,
    settingsToken: settings.access.adminToken?.reveal() ?? null,
    onFailure: (why) => events.adminFailed(why),
  });
  const dashboardSessions = createDashboardSessions({ gate, keyring, clock });
  const account = createAccount({
    gateway,
    clock,
    events,
    ttlMs: settings.balance.ttlMs,
    silenceMs: settings.gateway.silenceMs,
  });
  let draining = false;
  const healthFacts: ProcessHealth = {
    version: parts.version,
    startedAt: parts.startedAt,
    gateway: parts.gatewayHealth,
    ready: async () => (await readiness()).ready,
  };
  const readiness = async (): Promise<Readiness> => {
    const checks = { accepting: !draining, ledger: await ledger.isWritable(), prices: true };
    const prices = newestReview(catalogue(), clock.now());
    return {
      ready: Object.values(checks).every(Boolean),
      checks,
      catalogue: catalogue().digest,
      prices,
      peers: parts.peers?.() ?? null,
    };
  };
  const balanceGuard = createBalanceGuard({ account, clock, floor: settings.balance.floor, log });
  const taskOwner: TaskOwner = async (taskId) => (await store.tasks.find(taskId))?.key;
  const { wakePoller, wakeDelivery, seal, random } = parts;
  const claimTask = createTaskClaims({ tasks: store.tasks, clock, random, wakePoller });
  const { steps, forwarder, limits } = buildSteps(settings, {
    clock,
    log,
    events,
    authenticate,
    limiter,
    balanceGuard,
    ledger,
    keys,
    taskOwner,
    claimTask,
    gateway,
    mask,
    tokens,
    catalogue,
    work,
  });
  const tasks = buildTaskRoutes(settings, {
    ...steps,
    store,
    gateway,
    catalogue,
    mask,
    limits,
    wakePoller,
    account,
    seal,
    wakeDelivery,
    random,
  });
  const routes: Route[] = [
    ...meteredRoutes(steps),
    ...modelRoutes({ authenticate, catalogue, clock }),
    ...tasks.routes,
    {
      method: "get",
      path: "/account/info",
      handler: accountInfo({ authenticate, account, clock, mask, view: settings.access.accountInfo }),
    },
    ...selfServiceRoutes({
      authenticate: dashboardSessions.own(authenticate),
      limiter,
      ledger,
      latest: store.figures.ledger,
      keys,
      memory: parts.memory,
      calendar: parts.calendar,
      clock,
      outputCap: settings.output.cap,
    }),
    ...runSessionRoutes({
      authenticate,
      keyring,
      sessions: store.sessions,
      keys,
      latest: store.figures.ledger,
      clock,
    }),
    ...serveAdmin(adminRoutes(parts.version), {
      ...store,
      latest: store.figures.ledger,
      calendar: parts.calendar,
      clock,
      catalogue,
      account: async () => {
        const found = await account.lookUp();
        return found.ok ? found.record : undefined;
      },
      gate,
      dashboardSessions,
      accountTtlMs: settings.balance.ttlMs,
      memory: parts.memory,
      process: healthFacts,
    }),
    ...sessionRoutes({ sessions: dashboardSessions, clock, timeZone: parts.calendar.timeZone, version: parts.version }),
    ...dashboardRoutes({ folder: dashboardFolder }),
    { method: "get", path: "/healthz", handler: healthz },
    { method: "get", path: "/readyz", handler: readyz(readiness) },
    {
      method: "get",
      path: "/metrics",
      handler: metricsPage({ token: settings.metrics.token?.reveal() ?? null, scrape: metrics.scrape }),
    },
    tasks.routed,
    ...passedRoutes(settings, steps, catalogue),
  ];
  const freshAccount = async () => (await account.refresh())?.body;
  const stopForwarding = () => {
    forwarder.stopAll();
    tasks.stop();
  };
  return {
    routes,
    freshAccount,
    stopForwarding,
    shared: { limiter, balanceGuard, settle: (params) => settleCharge(steps, params), taskOwner, claimTask },
    pollTask: tasks.poll,
    stopBeingReady: () => (draining = true),
    limitsUsed: limiter.used,
  };
}
