import { Socket } from "node:net";
import { catalogueOf, type LoadedCatalogue } from "../../catalogue/catalogue.ts";
import type { Settings } from "../../config/settings.ts";
import { invariant } from "../../core/assert.ts";
import { openGateway } from "../gateway.ts";
import { dashboardRoutes, frontRoute } from "../http/dashboard/files.ts";
import { type Route, Work } from "../http/http-app.ts";
import { healthz } from "../http/operations.ts";
import { createLog } from "../../platform/log.ts";
import { createProcessMetrics } from "../metrics/process-metrics.ts";
import type { Events } from "../../ports/events.ts";
import { createAuthenticator, createKeyring } from "../../request/authenticate.ts";
import { KeyWatch } from "../../request/gateway-key.ts";
import { isRouted } from "../../request/task-routes.ts";
import { ChangeListeners } from "../../ledger/queued-store.ts";
import { systemClock } from "../../platform/clock.ts";
import { createTokenCounter } from "../../platform/tokens/token-counter.ts";
import { type Answering, buildHttpFront, type Front } from "../http-front.ts";
import { dashboardFolder, packageVersion } from "../package.ts";
import { growUnderLoad, tuneRuntime } from "../runtime.ts";
import { buildSteps, freeRoutes, meteredRoutes, modelRoutes, passedRoutes, type ProcessParts } from "../steps.ts";
import { routedPath } from "../task-wiring.ts";
import { openTracing } from "../tracing.ts";
import { readStoredUsers } from "../../wire/headers.ts";
import { createRemoteLedger, createRemoteRateLimiter, remoteKeys, WorkerBodyPool } from "./remote.ts";
import { Link } from "./link.ts";
import { RoutedRequests, routeName } from "./routed-requests.ts";
import { unpackSettings } from "./settings.ts";
import { workerEvents, type EventCall, type PrimaryLink, type Start } from "./protocol.ts";

/** Runs a worker until its primary disconnects it or dies. */
async function runWorker(): Promise<void> {
  // Terminals and service managers signal all processes of a group, but only the primary may end a worker.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);
  tuneRuntime();
  const changes = new ChangeListeners();
  const metrics = createProcessMetrics();
  const link: PrimaryLink = new Link((message) => void process.send?.(message, undefined, undefined, () => undefined));
  link.handle({
    changed: () => changes.notify(),
    metrics: () => metrics.read(),
    // Until its server is open, a worker has no requests that must end.
    drain() {},
    cutOff() {},
  });
  process.on("message", (message) => {
    if (Array.isArray(message)) link.receive(message);
  });
  // The primary has disconnected this worker or has died. Without a primary, no amount can be held for a request.
  process.on("disconnect", () => process.exit());

  const start = await link.ask("hello", null);
  process.title = `farebox worker ${start.number}`;
  let catalogue = catalogueOf(start.prices);
  link.handle({ prices: (parts) => void (catalogue = catalogueOf(parts)) });
  const { serve, drain, cutOff } = await openFront(start, { link, changes, prices: () => catalogue });
  link.handle({ drain, cutOff });
  process.on("message", (message, connection) => {
    if (Array.isArray(message)) return;
    link.notify("receivedConnection", null);
    if (connection instanceof Socket) serve(connection);
  });
  growUnderLoad();
  link.notify("ready", null);
}

/** Link to the primary, with the state that arrives through it. */
interface Primary {
  readonly link: PrimaryLink;
  readonly changes: ChangeListeners;
  readonly prices: () => LoadedCatalogue;
}

interface WorkerFront extends Pick<Front, "drain" | "cutOff"> {
  /** Answers the requests of a connection. */
  serve(connection: Socket): void;
}

/**
 * Builds a worker's server. The worker answers metered requests and the other routes of `buildOwnRoutes`; the primary
 * answers all other requests.
 */
async function openFront(start: Start, primary: Primary): Promise<WorkerFront> {
  const settings = unpackSettings(start.settings);
  const { link, prices } = primary;
  const parts = await openParts(settings, start, primary);
  const { routes: own, forwarder } = await buildOwnRoutes(settings, parts, primary);
  const ownByName = new Map(own.map((route) => [routeName(route), route]));
  const routed = new RoutedRequests(link, parts.clock);
  const bodyMemory = new WorkerBodyPool(link, settings.listen, start.workers);
  link.handle({
    readBody: (given) => routed.readBody(given),
    refuseBody: (id) => bodyMemory.refuse(id),
    sendPart: (part) => routed.sendPart(part),
  });
  const answering: Answering = {
    routes: start.routes.map((route, index) => {
      const accepts = route.path === routedPath ? { accepts: isRouted(prices) } : {};
      return ownByName.get(routeName(route)) ?? { ...route, ...accepts, handler: routed.handler(index) };
    }),
    stopForwarding: () => forwarder.stopAll(),
    isLedgerWritable: () => link.ask("isLedgerWritable", null).catch(() => false),
  };
  const { server, ...ending } = buildHttpFront(settings, parts, answering, bodyMemory);
  // The server's timeouts start with this event. The server never listens: the primary does.
  server.emit("listening");
  return {
    serve(connection) {
      server.emit("connection", connection);
      connection.resume();
    },
    cutOff: ending.cutOff,
    async drain() {
      await ending.drain();
      await parts.tracing?.flush();
    },
  };
}

/** Opens the parts that a worker has of its own. */
async function openParts(settings: Settings, start: Start, { link, prices }: Primary) {
  const clock = systemClock();
  const log = await createLog({
    level: settings.logLevel,
    isTerminal: process.stderr.isTTY === true,
    worker: start.number,
  });
  const events = remoteEvents(link);
  const { address, apiKey } = settings.gateway;
  invariant(address !== null && apiKey !== null, "a primary has a gateway");
  const baseUrl = address.origin + address.basePath;
  return {
    clock,
    log,
    events,
    work: new Work(),
    gateway: await openGateway(settings, { baseUrl, apiKey: apiKey.reveal(), clock }),
    keyWatch: new KeyWatch(events),
    tokens: createTokenCounter({ log }),
    catalogue: prices,
    tracing: await openTracing(settings, { version: packageVersion(), clock, onSent: events.spansSent }),
  };
}

/** Builds the routes that a worker answers itself. */
async function buildOwnRoutes(settings: Settings, parts: ProcessParts, { link, changes }: Primary) {
  const { clock, catalogue } = parts;
  const remote = remoteKeys(link);
  const keyring = createKeyring({ ...remote, changes, clock });
  const authenticate = createAuthenticator({ keyring, mode: settings.access.auth });
  const { steps, forwarder } = buildSteps(settings, parts, {
    authenticate,
    storedUser: await readStoredUsers(settings.access.users, remote.sessions),
    limiter: createRemoteRateLimiter(link),
    balanceGuard: settings.balance.floor === null ? () => null : () => link.ask("belowFloor", null),
    taskOwner: (taskId) => link.ask("taskOwner", taskId),
    claimTask: (claim) => link.ask("claimTask", claim),
    ledger: createRemoteLedger(link),
    keys: remote.keys,
  });
  const routes: readonly Route[] = [
    ...meteredRoutes(steps),
    ...freeRoutes(steps),
    ...modelRoutes({ authenticate, catalogue, clock }),
    frontRoute,
    ...dashboardRoutes({ folder: dashboardFolder }),
    { method: "get", path: "/healthz", handler: healthz },
    ...passedRoutes(settings, steps),
  ];
  return { routes, forwarder };
}

/** Returns event handlers that send the events of a worker's requests to the primary, which counts them. */
function remoteEvents(link: PrimaryLink): Events {
  const elsewhere = (): never => {
    throw new Error("only the primary has such events");
  };
  const sent = workerEvents.map((name) => [
    name,
    (given: unknown) => link.notify("event", [name, given] as unknown as EventCall),
  ]);
  return {
    ...(Object.fromEntries(sent) as Pick<Events, (typeof workerEvents)[number]>),
    // The whole key is large, and metrics need only these fields.
    admitted: ({ key, ...admission }) =>
      link.notify("event", ["admitted", { ...admission, key: key && { id: key.id, name: key.name, team: key.team } }]),
    adminFailed: elsewhere,
    taskEnded: elsewhere,
    ledgerWrote: elsewhere,
    accountRead: elsewhere,
  };
}

await runWorker();
