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
import { accountInfo, createAccount, type Account } from "../request/account.ts";
import { createAuthenticator, createKeyring } from "../request/authenticate.ts";
import { createBalanceGuard } from "../request/balance-guard.ts";
import { createTaskClaims, type TaskOwner } from "../request/task-ownership.ts";
import { createMask } from "../request/mask.ts";
import type { RequestSteps } from "../request/metered-request.ts";
import { settleCharge, type SettleParams } from "../request/settle.ts";
import { createLimiter, type ProcessLimiter, type PeerUsage } from "../request/limits.ts";
import type { GatewayHealth } from "../reporting/health.ts";
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

/** Builds the request path and all routes: each step with its own dependencies. */
export function buildRoutes(settings: Settings, deps: RouteDeps): BuiltRoutes {
  const { clock, log, store, gateway, catalogue, wakePoller, random } = deps;
  const { events } = deps.metrics;
  const { ledger, keys } = store;
  const mask = createMask(settings.gateway.apiKey?.reveal() ?? "");
  const limiter = createLimiter({ clock, peerUsage: deps.peerUsage });
  const access = buildAccess(settings, deps);
  const { authenticate } = access;
  const account = createAccount({
    gateway,
    clock,
    events,
    ttlMs: settings.balance.ttlMs,
    silenceMs: settings.gateway.silenceMs,
  });
  let draining = false;
  const readiness = () => readinessOf(deps, !draining);
  const balanceGuard = createBalanceGuard({ account, clock, floor: settings.balance.floor, log });
  const taskOwner: TaskOwner = async (taskId) => (await store.tasks.find(taskId))?.key;
  const claimTask = createTaskClaims({ tasks: store.tasks, clock, random, wakePoller });
  const shared = { limiter, balanceGuard, taskOwner, claimTask };
  const { steps, forwarder, limits } = buildSteps(settings, {
    ...deps,
    ...shared,
    events,
    authenticate,
    ledger,
    keys,
    mask,
  });
  const tasks = buildTaskRoutes(settings, { ...deps, ...steps, mask, limits, account });
  const routes: Route[] = [
    ...meteredRoutes(steps),
    ...modelRoutes({ authenticate, catalogue, clock }),
    ...tasks.routes,
    {
      method: "get",
      path: "/account/info",
      handler: accountInfo({ authenticate, account, clock, mask, view: settings.access.accountInfo }),
    },
    ...ownRoutes(settings, deps, { access, account, limiter, readiness }),
    tasks.routed,
    ...passedRoutes(settings, steps, catalogue),
  ];
  return {
    routes,
    freshAccount: async () => (await account.refresh())?.body,
    stopForwarding() {
      forwarder.stopAll();
      tasks.stop();
    },
    shared: { ...shared, settle: (params) => settleCharge(steps, params) },
    pollTask: tasks.poll,
    stopBeingReady: () => (draining = true),
    limitsUsed: limiter.used,
  };
}

type Access = ReturnType<typeof buildAccess>;

/** Builds what says who a request is from: a key, an administrator, or a session of the dashboard. */
function buildAccess({ access }: Settings, { clock, store, metrics, keysRemembered }: RouteDeps) {
  const { keys, teams, sessions, changes, admins } = store;
  const keyring = createKeyring({ keys, teams, sessions, changes, clock, rememberedMax: keysRemembered });
  const gate = createAdminGate({
    admins,
    clock,
    settingsToken: access.adminToken?.reveal() ?? null,
    onFailure: (why) => metrics.events.adminFailed(why),
  });
  return {
    keyring,
    gate,
    authenticate: createAuthenticator({ keyring, mode: access.auth }),
    dashboardSessions: createDashboardSessions({ gate, keyring, clock }),
  };
}

async function readinessOf({ store, catalogue, clock, peers }: RouteDeps, accepting: boolean): Promise<Readiness> {
  const checks = { accepting, ledger: await store.ledger.isWritable(), prices: true };
  const prices = newestReview(catalogue(), clock.now());
  return {
    ready: Object.values(checks).every(Boolean),
    checks,
    catalogue: catalogue().digest,
    prices,
    peers: peers?.() ?? null,
  };
}

interface OwnDeps {
  readonly access: Access;
  readonly account: Account;
  readonly limiter: ProcessLimiter;
  readonly readiness: () => Promise<Readiness>;
}

/** Routes that Farebox answers itself, without the gateway. */
function ownRoutes(
  settings: Settings,
  deps: RouteDeps,
  { access: { authenticate, keyring, gate, dashboardSessions }, account, limiter, readiness }: OwnDeps,
): readonly Route[] {
  const { clock, store, calendar, catalogue, memory, metrics, version, startedAt } = deps;
  const { ledger, keys, sessions } = store;
  const latest = store.figures.ledger;
  return [
    ...selfServiceRoutes({
      authenticate: dashboardSessions.own(authenticate),
      limiter,
      ledger,
      latest,
      keys,
      memory,
      calendar,
      clock,
      outputCap: settings.output.cap,
    }),
    ...runSessionRoutes({ authenticate, keyring, sessions, keys, latest, clock }),
    ...serveAdmin(adminRoutes(version), {
      ...store,
      latest,
      calendar,
      clock,
      catalogue,
      account: async () => {
        const found = await account.lookUp();
        return found.ok ? found.record : undefined;
      },
      gate,
      dashboardSessions,
      accountTtlMs: settings.balance.ttlMs,
      memory,
      process: { version, startedAt, gateway: deps.gatewayHealth, ready: async () => (await readiness()).ready },
    }),
    ...sessionRoutes({ sessions: dashboardSessions, clock, timeZone: calendar.timeZone, version }),
    ...dashboardRoutes({ folder: dashboardFolder }),
    { method: "get", path: "/healthz", handler: healthz },
    { method: "get", path: "/readyz", handler: readyz(readiness) },
    {
      method: "get",
      path: "/metrics",
      handler: metricsPage({ token: settings.metrics.token?.reveal() ?? null, scrape: metrics.scrape }),
    },
  ];
}
