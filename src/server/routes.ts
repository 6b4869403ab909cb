import { createAdminGate } from "../admin/admin-gate.ts";
import type { Settings } from "../config/settings.ts";
import type { Preset } from "../core/price.ts";
import type { Task } from "../core/tasks.ts";
import { dashboardRoutes, frontRoute } from "./http/dashboard/files.ts";
import { BrowserSessions } from "./http/dashboard/signed-in.ts";
import type { Route } from "./http/http-app.ts";
import { latePaths, loadedLater } from "./http/late-paths.ts";
import { healthz, metricsPage, readyz, type Readiness } from "./http/operations.ts";
import type { ProcessHealth } from "./http/admin/health.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Calendar } from "../ports/calendar.ts";
import type { Seal } from "../ports/seal.ts";
import {
  accountInfo,
  checkGatewayKey,
  createAccountCache,
  createBalanceGuard,
  type AccountCache,
} from "../request/account.ts";
import { createAuthenticator, createKeyring } from "../request/authenticate.ts";
import { createRateLimiter, type ProcessRateLimiter } from "../request/rate-limits.ts";
import { createTaskClaims } from "../request/task-ownership.ts";
import type { TaskOwner } from "../request/response.ts";
import type { RequestSteps } from "../request/metered-request.ts";
import { settleCharge, type SettleParams } from "../request/settle.ts";
import type { StoredUser } from "../wire/headers.ts";
import { newestReview } from "../reporting/prices.ts";
import { SpendMemory } from "../reporting/spend-memory.ts";
import type { Store } from "../ports/stores.ts";
import type { FleetMember } from "./fleet.ts";
import { dashboardFolder } from "./package.ts";
import { buildSteps, freeRoutes, meteredRoutes, modelRoutes, passedRoutes, type ProcessParts } from "./steps.ts";
import { buildTaskRoutes } from "./task-wiring.ts";

/** Parts that only the primary has, for requests to the gateway. */
interface RequestParts {
  readonly store: Store;
  /** Receives reports of work for the jobs, and knows the peers. */
  readonly fleet: Pick<FleetMember, "report" | "peerUsage">;
  readonly access: Pick<Access, "authenticate">;
  readonly storedUser: StoredUser | null;
  readonly seal: Seal;
  /** Returns a random number of at least 0 and below 1. */
  readonly random: () => number;
}

/** Routes that need the gateway, and parts of them that other routes and jobs use. */
export interface RequestRoutes {
  readonly routes: readonly Route[];
  /** Routes of all remaining paths. They come after all other routes. */
  readonly otherPaths: readonly Route[];
  /** Steps that all processes of this proxy share. */
  readonly shared: Pick<RequestSteps, "balanceGuard" | "claimTask"> & {
    readonly limiter: ProcessRateLimiter;
    settle(params: SettleParams): Promise<void>;
    readonly taskOwner: TaskOwner;
  };
  readonly account: AccountCache;
  checkGatewayKey(): Promise<void>;
  /** Fetches and applies a task's record. */
  pollTask(task: Task): Promise<void>;
  /** Ends every running call to the gateway. Each of them is settled. */
  stopForwarding(): void;
}

/** Builds the steps of requests, and the routes that need the gateway. */
export function buildRequestRoutes(
  settings: Settings,
  parts: ProcessParts,
  { store, fleet, access: { authenticate }, storedUser, seal, random }: RequestParts,
): RequestRoutes {
  const { clock, log, events, gateway, keyWatch, catalogue } = parts;
  const { ledger, keys, tasks: stored } = store;
  const { silenceMs } = settings.gateway;
  const { report } = fleet;
  const account = createAccountCache({ gateway, clock, events, keyWatch, ttlMs: settings.balance.ttlMs, silenceMs });
  const shared = {
    limiter: createRateLimiter({ clock, peerUsage: fleet.peerUsage }),
    balanceGuard: createBalanceGuard({ account, clock, floor: settings.balance.floor, log }),
    taskOwner: async (taskId: string) => (await stored.find(taskId))?.key,
    claimTask: createTaskClaims({ tasks: stored, clock, catalogue, random, wakePoller: report.tasks }),
  };
  const built = buildSteps(settings, parts, { ...shared, authenticate, storedUser, ledger, keys });
  const { steps, mask } = built;
  const tasks = buildTaskRoutes(settings, parts, built, { store, account, seal, report, random });
  return {
    routes: [
      ...meteredRoutes(steps),
      ...freeRoutes(steps),
      ...modelRoutes({ authenticate, catalogue, clock }),
      ...tasks.routes,
      {
        method: "get",
        path: "/account/info",
        handler: accountInfo({ authenticate, account, clock, mask, view: settings.access.accountInfo }),
      },
    ],
    otherPaths: [tasks.routed, ...passedRoutes(settings, steps)],
    shared: { ...shared, settle: async (params) => void (await settleCharge(steps, params)) },
    account,
    checkGatewayKey: () => checkGatewayKey(account, gateway, keyWatch, silenceMs),
    pollTask: tasks.poll,
    stopForwarding() {
      built.forwarder.stopAll();
      tasks.stop();
    },
  };
}

export type Access = ReturnType<typeof buildAccess>;

/**
 * Builds the authentication of requests: by key, by admin token, or by a session of the dashboard. `keysRemembered`:
 * largest number of cached keys; the keyring's default if missing.
 */
export function buildAccess(
  { access }: Settings,
  { keys, teams, sessions, changes, admins, dashboardSessions }: Store,
  { clock, events }: Pick<ProcessParts, "clock" | "events">,
  keysRemembered?: number,
) {
  const keyring = createKeyring({ keys, teams, sessions, changes, clock, rememberedMax: keysRemembered });
  const gate = createAdminGate({
    admins,
    clock,
    settingsToken: access.adminToken?.reveal() ?? null,
    onFailure: (why) => events.adminFailed(why),
  });
  return {
    keyring,
    gate,
    authenticate: createAuthenticator({ keyring, mode: access.auth }),
    browserSessions: new BrowserSessions({ gate, keyring, clock, stored: dashboardSessions }),
  };
}

/** Parts of `ownRoutes`, in addition to those of the process and of the requests. */
interface OwnParts {
  readonly store: Store;
  readonly calendar: Calendar;
  readonly access: Access;
  readonly storedUser: StoredUser | null;
  /** Reports that a key asked for a raise. */
  readonly onRaiseRequest: () => void;
  /** Writes the refusals that are still in memory. */
  readonly flushRefusals: () => Promise<void>;
  readonly process: ProcessHealth;
}

/** Returns the routes that Farebox answers without the gateway. */
export function ownRoutes(
  settings: Settings,
  { clock, catalogue }: Pick<ProcessParts, "clock" | "catalogue">,
  { account, shared: { limiter } }: RequestRoutes,
  { store, calendar, access, storedUser, onRaiseRequest, flushRefusals, process }: OwnParts,
): readonly Route[] {
  const { authenticate, keyring, gate, browserSessions } = access;
  const { version } = process;
  // Cached spend, so that pages with many readers do not wait for the long queries of other pages.
  const memory = new SpendMemory(store.figures.ledger, clock);
  const tools = { ...store, clock, calendar, catalogue, memory, storedUser };
  return [
    ...loadedLater(latePaths.selfService, async () => {
      const { selfServiceRoutes } = await import("./http/self-service.ts");
      return selfServiceRoutes({
        ...tools,
        authenticate: browserSessions.acceptKeySessions(authenticate),
        limiter,
        onRaiseRequest,
        flushRefusals,
        outputCap: settings.output.cap,
        ownView: settings.access.ownView,
      });
    }),
    ...loadedLater(latePaths.runSessions, async () => {
      const { runSessionRoutes } = await import("./http/run-sessions.ts");
      return runSessionRoutes({ ...tools, authenticate, keyring });
    }),
    ...loadedLater(latePaths.admin, async () => {
      const [{ adminRoutes }, { serveAdmin }] = await Promise.all([
        import("./http/admin/routes.ts"),
        import("./http/admin/serve-route.ts"),
      ]);
      return serveAdmin(adminRoutes(version), {
        ...tools,
        account: async () => {
          const found = await account.lookUp();
          return found.ok ? found.record : undefined;
        },
        gate,
        browserSessions,
        hasSettingsToken: settings.access.adminToken !== null,
        accountTtlMs: settings.balance.ttlMs,
        process,
      });
    }),
    ...loadedLater(latePaths.dashboardSession, async () => {
      const { sessionRoutes } = await import("./http/dashboard/session-routes.ts");
      return sessionRoutes({ sessions: browserSessions, clock, timeZone: calendar.timeZone, version });
    }),
    frontRoute,
    ...dashboardRoutes({ folder: dashboardFolder }),
  ];
}

/** Checks of a proxy's readiness. `stop` makes it unready. */
export interface ReadinessCheck {
  read(): Promise<Readiness>;
  stop(): void;
}

export function readinessCheck(
  { clock, catalogue }: Pick<ProcessParts, "clock" | "catalogue">,
  { ledger }: Pick<Store, "ledger">,
  { standing }: Pick<FleetMember, "standing">,
  preset: Preset,
): ReadinessCheck {
  let accepting = true;
  return {
    stop: () => (accepting = false),
    async read() {
      const checks = { accepting, ledger: await ledger.isWritable(), prices: true };
      const prices = catalogue();
      return {
        ready: Object.values(checks).every(Boolean),
        checks,
        catalogue: prices.digest,
        prices: { preset, preset_setting: "FAREBOX_PRESET", ...newestReview(prices, clock.now()) },
        peers: standing(),
      };
    },
  };
}

/** Returns the routes that watch a process: its health, its readiness and its metrics. */
export function operationRoutes(
  { metrics: { token } }: Settings,
  readiness: ReadinessCheck,
  { scrape }: Pick<Metrics, "scrape">,
): readonly Route[] {
  return [
    { method: "get", path: "/healthz", handler: healthz },
    { method: "get", path: "/readyz", handler: readyz(readiness.read) },
    { method: "get", path: "/metrics", handler: metricsPage({ token: token?.reveal() ?? null, scrape }) },
  ];
}
