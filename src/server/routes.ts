import { createAdminGate } from "../admin/admin-gate.ts";
import type { Settings } from "../config/settings.ts";
import type { Task } from "../core/tasks.ts";
import { dashboardRoutes, frontRoute } from "./http/dashboard/files.ts";
import { BrowserSessions } from "./http/dashboard/signed-in.ts";
import type { Route, Work } from "./http/http-app.ts";
import { latePaths, loadedLater } from "./http/late-paths.ts";
import { healthz, metricsPage, readyz, type Readiness } from "./http/operations.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import type { Gateway } from "../ports/gateway.ts";
import type { Log } from "../ports/log.ts";
import type { Seal } from "../ports/seal.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import type { Tracing } from "../ports/tracing.ts";
import { accountInfo, checkGatewayKey, createAccount, type Account } from "../request/account.ts";
import { createAuthenticator, createKeyring } from "../request/authenticate.ts";
import { createBalanceGuard, createLimiter, type ProcessLimiter } from "../request/limits.ts";
import { KeyWatch } from "../request/gateway-key.ts";
import { createTaskClaims } from "../request/task-ownership.ts";
import { type TaskOwner, createMask } from "../request/response.ts";
import type { RequestSteps } from "../request/metered-request.ts";
import { settleCharge, type SettleParams } from "../request/settle.ts";
import type { StoredUser } from "../wire/headers.ts";
import type { GatewayHealth } from "../reporting/gateway-watch.ts";
import { newestReview } from "../reporting/prices.ts";
import type { SpendMemory } from "../reporting/spend-memory.ts";
import type { Store } from "../ports/stores.ts";
import type { FleetMember } from "./fleet.ts";
import { dashboardFolder } from "./package.ts";
import { buildSteps, meteredRoutes, modelRoutes, passedRoutes } from "./steps.ts";
import { buildTaskRoutes } from "./task-wiring.ts";

interface RouteDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  readonly calendar: Calendar;
  readonly store: Store;
  readonly gateway: Gateway;
  readonly tokens: TokenCounter;
  readonly tracing: Tracing | null;
  readonly storedUser: StoredUser | null;
  /** Returns the prices in force. Called for each request. */
  readonly catalogue: () => Catalogue;
  readonly metrics: Pick<Metrics, "scrape"> & { readonly events: Events };
  readonly work: Work;
  /** Cached spend, for pages with many readers. Such a page does not wait for the long queries of other pages. */
  readonly memory: SpendMemory;
  readonly gatewayHealth: () => GatewayHealth;
  readonly startedAt: number;
  /** Writes the refusals that are still in memory. */
  readonly flushRefusals: () => Promise<void>;
  readonly seal: Seal;
  /** Receives reports of work for the jobs, and knows the peers. */
  readonly fleet: Pick<FleetMember, "did" | "peerUsage" | "standing">;
  /** Returns a random number of at least 0 and below 1. */
  readonly random: () => number;
  /** Largest number of cached keys; the keyring's default if missing. */
  readonly keysRemembered?: number;
}

export interface BuiltRoutes {
  readonly routes: readonly Route[];
  /** Steps that all processes of this proxy share. */
  readonly shared: Pick<RequestSteps, "limiter" | "balanceGuard" | "claimTask"> & {
    settle(params: SettleParams): Promise<void>;
    readonly taskOwner: TaskOwner;
  };
  /** Makes `/readyz` answer that this proxy is not ready. */
  stopBeingReady(): void;
  /** Returns a code that stands for this token, for one sign-in in a browser. */
  readonly signInCode: (token: string) => string;
  /** Fetches the account record from the gateway. Returns undefined if it cannot be read. */
  freshAccount(): Promise<unknown>;
  checkGatewayKey(): Promise<void>;
  /** Fetches and applies a task's record. */
  pollTask(task: Task): Promise<void>;
  /** Ends every running call to the gateway. Each of them is settled. */
  stopForwarding(): void;
  /** Returns the usage of the limits of keys and teams in this proxy. */
  limitsUsed: ProcessLimiter["used"];
}

/** Builds the steps of requests and all routes. */
export function buildRoutes(settings: Settings, deps: RouteDeps): BuiltRoutes {
  const { clock, log, store, gateway, catalogue, fleet, random } = deps;
  const { events } = deps.metrics;
  const { ledger, keys } = store;
  const mask = createMask(settings.gateway.apiKey?.reveal() ?? "");
  const limiter = createLimiter({ clock, peerUsage: fleet.peerUsage });
  const access = buildAccess(settings, deps);
  const { authenticate } = access;
  const { silenceMs } = settings.gateway;
  const keyWatch = new KeyWatch(events);
  const account = createAccount({ gateway, clock, events, keyWatch, ttlMs: settings.balance.ttlMs, silenceMs });
  let draining = false;
  const readiness = () => readinessOf(deps, !draining);
  const balanceGuard = createBalanceGuard({ account, clock, floor: settings.balance.floor, log });
  const taskOwner: TaskOwner = async (taskId) => (await store.tasks.find(taskId))?.key;
  const { tasks: wakePoller, queued: wakeDelivery } = fleet.did;
  const claimTask = createTaskClaims({ tasks: store.tasks, clock, catalogue, random, wakePoller });
  const shared = { limiter, balanceGuard, taskOwner, claimTask };
  const { steps, forwarder, limits } = buildSteps(settings, {
    ...deps,
    ...shared,
    events,
    keyWatch,
    authenticate,
    ledger,
    windowsOf: (caller, at) => ledger.windowsOf(caller, at),
    keys,
    mask,
  });
  const tasks = buildTaskRoutes(settings, {
    ...deps,
    ...steps,
    mask,
    limits,
    account,
    keyWatch,
    wakePoller,
    wakeDelivery,
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
    ...ownRoutes(settings, deps, { access, account, limiter, readiness }),
    tasks.routed,
    ...passedRoutes(settings, steps, catalogue),
  ];
  return {
    routes,
    checkGatewayKey: () => checkGatewayKey(account, gateway, keyWatch, silenceMs),
    freshAccount: async () => (await account.refresh())?.body,
    stopForwarding() {
      forwarder.stopAll();
      tasks.stop();
    },
    shared: { ...shared, settle: async (params) => void (await settleCharge(steps, params)) },
    pollTask: tasks.poll,
    signInCode: (token) => access.browserSessions.code(token),
    stopBeingReady: () => (draining = true),
    limitsUsed: limiter.used,
  };
}

type Access = ReturnType<typeof buildAccess>;

/** Builds the authentication of requests: by key, by admin token, or by a session of the dashboard. */
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
    browserSessions: new BrowserSessions({ gate, keyring, clock, stored: store.dashboardSessions }),
  };
}

async function readinessOf({ store, catalogue, clock, fleet }: RouteDeps, accepting: boolean): Promise<Readiness> {
  const checks = { accepting, ledger: await store.ledger.isWritable(), prices: true };
  const prices = newestReview(catalogue(), clock.now());
  return {
    ready: Object.values(checks).every(Boolean),
    checks,
    catalogue: catalogue().digest,
    prices,
    peers: fleet.standing(),
  };
}

interface OwnDeps {
  readonly access: Access;
  readonly account: Account;
  readonly limiter: ProcessLimiter;
  readonly readiness: () => Promise<Readiness>;
}

/** Returns the routes that Farebox answers without the gateway. */
function ownRoutes(
  settings: Settings,
  deps: RouteDeps,
  { access: { authenticate, keyring, gate, browserSessions }, account, limiter, readiness }: OwnDeps,
): readonly Route[] {
  const { clock, calendar, catalogue, memory, storedUser, metrics, version, startedAt } = deps;
  const shared = { ...deps.store, clock, calendar, catalogue, memory, storedUser };
  return [
    ...loadedLater(latePaths.selfService, async () => {
      const { selfServiceRoutes } = await import("./http/self-service.ts");
      return selfServiceRoutes({
        ...shared,
        authenticate: browserSessions.own(authenticate),
        limiter,
        onRaiseRequest: deps.fleet.did.posted,
        flushRefusals: deps.flushRefusals,
        outputCap: settings.output.cap,
        ownView: settings.access.ownView,
      });
    }),
    ...loadedLater(latePaths.runSessions, async () => {
      const { runSessionRoutes } = await import("./http/run-sessions.ts");
      return runSessionRoutes({ ...shared, authenticate, keyring });
    }),
    ...loadedLater(latePaths.admin, async () => {
      const [{ adminRoutes }, { serveAdmin }] = await Promise.all([
        import("./http/admin/routes.ts"),
        import("./http/admin/serve-route.ts"),
      ]);
      return serveAdmin(adminRoutes(version), {
        ...shared,
        account: async () => {
          const found = await account.lookUp();
          return found.ok ? found.record : undefined;
        },
        gate,
        browserSessions,
        hasSettingsToken: settings.access.adminToken !== null,
        accountTtlMs: settings.balance.ttlMs,
        process: { version, startedAt, gateway: deps.gatewayHealth, ready: async () => (await readiness()).ready },
      });
    }),
    ...loadedLater(latePaths.dashboardSession, async () => {
      const { sessionRoutes } = await import("./http/dashboard/session-routes.ts");
      return sessionRoutes({ sessions: browserSessions, clock, timeZone: calendar.timeZone, version });
    }),
    frontRoute,
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
