import { Socket } from "node:net";
import { catalogueOf, type LoadedCatalogue } from "../../catalogue/catalogue.ts";
import type { Settings } from "../../config/settings.ts";
import { invariant } from "../../core/assert.ts";
import { createGateway } from "../../gateway/gateway.ts";
import { dashboardRoutes } from "../http/dashboard/files.ts";
import type { Route } from "../http/http-app.ts";
import { healthz } from "../http/operations.ts";
import { createLog } from "../../platform/log.ts";
import { createProcessMetrics } from "../metrics/process-metrics.ts";
import type { Events } from "../../ports/events.ts";
import { createAuthenticator, createKeyring } from "../../request/authenticate.ts";
import { createMask } from "../../request/mask.ts";
import { isRouted } from "../../request/task-routes.ts";
import { ChangeListeners } from "../../ledger/queued-store.ts";
import { systemClock } from "../../platform/clock.ts";
import { createTokenCounter } from "../../platform/tokens/token-counter.ts";
import { buildHttpFront, type Front } from "../http-front.ts";
import { dashboardFolder } from "../package.ts";
import { tuneRuntime } from "../runtime.ts";
import { buildSteps, meteredRoutes, modelRoutes, passedRoutes } from "../steps.ts";
import { routedPath } from "../tasks.ts";
import { Work } from "../work.ts";
import { LentBodyMemory } from "./lent-memory.ts";
import { Link } from "./link.ts";
import { createRemoteLedger, remoteKeys } from "./remote-ledger.ts";
import { createRemoteLimiter } from "./remote-limiter.ts";
import { RoutedRequests, routeName } from "./routed-requests.ts";
import { unpackSettings } from "./settings.ts";
import type { EventCall, PrimaryCalls, PrimaryLink, Start, WorkerCalls } from "./protocol.ts";

/** Runs a worker until its primary disconnects it, or dies. */
export async function runWorker(): Promise<void> {
  // A terminal and a service manager signal all processes of a group. A worker obeys its primary alone.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);
  tuneRuntime();
  const changes = new ChangeListeners();
  const metrics = createProcessMetrics();
  let catalogue: LoadedCatalogue | null = null;
  let front: WorkerFront | null = null;
  let routed: RoutedRequests | null = null;
  const link: PrimaryLink = new Link<PrimaryCalls, WorkerCalls>(
    (message) => void process.send?.(message, undefined, undefined, () => undefined),
    {
      changed: () => changes.notify(),
      prices: (parts) => void (catalogue = catalogueOf(parts)),
      drain: async () => await front?.drain(),
      cutOff: async () => await front?.cutOff(),
      readBody: async ({ id, limitBytes }) => (await routed?.readBody(id, limitBytes)) ?? { ok: false, refusal: null },
      metrics: () => metrics.read(),
    },
  );
  process.on("message", (message, connection) => {
    if (Array.isArray(message)) return link.receive(message);
    link.notify("took", null);
    if (connection instanceof Socket) front?.take(connection);
  });
  // The primary has disconnected it, or has died: no one is left to hold for a request.
  process.on("disconnect", () => process.exit());

  const start = await link.ask("hello", null);
  process.title = `farebox worker ${start.number}`;
  catalogue = catalogueOf(start.prices);
  routed = new RoutedRequests(link, systemClock());
  const prices = () => catalogue ?? catalogueOf(start.prices);
  front = openFront(unpackSettings(start.settings), start, { link, changes, routed, prices });
  link.notify("ready", null);
}

interface FrontDeps {
  readonly link: PrimaryLink;
  readonly changes: ChangeListeners;
  readonly routed: RoutedRequests;
  readonly prices: () => LoadedCatalogue;
}

interface WorkerFront extends Pick<Front, "drain" | "cutOff"> {
  /** Answers the requests of a connection. */
  take(connection: Socket): void;
}

/** Builds a worker's server: metered requests are answered here, all others by the primary. */
function openFront(settings: Settings, start: Start, { link, changes, routed, prices }: FrontDeps): WorkerFront {
  const { address, apiKey } = settings.gateway;
  invariant(address !== null && apiKey !== null, "a primary has a gateway");
  const clock = systemClock();
  const log = createLog({ level: settings.logLevel, isTerminal: process.stderr.isTTY === true, worker: start.number });
  const gateway = createGateway(settings.gateway.engine, {
    baseUrl: address.origin + address.basePath,
    apiKey: apiKey.reveal(),
    clock,
  });
  const work = new Work();
  const events = remoteEvents(link);
  const keyring = createKeyring({ ...remoteKeys(link), changes, clock });
  const authenticate = createAuthenticator({ keyring, mode: settings.access.auth });
  const { steps, forwarder } = buildSteps(settings, {
    clock,
    log,
    events,
    authenticate,
    gateway,
    work,
    limiter: createRemoteLimiter(link),
    balanceGuard: settings.balance.floor === null ? async () => null : () => link.ask("belowFloor", null),
    ledger: createRemoteLedger(link),
    taskOwner: (taskId) => link.ask("taskOwner", taskId),
    claimTask: (claim) => link.ask("claimTask", claim),
    keys: remoteKeys(link).keys,
    mask: createMask(apiKey.reveal()),
    tokens: createTokenCounter(),
    catalogue: prices,
  });
  const own: readonly Route[] = [
    ...meteredRoutes(steps),
    ...modelRoutes({ authenticate, catalogue: prices, clock }),
    ...dashboardRoutes({ folder: dashboardFolder }),
    { method: "get", path: "/healthz", handler: healthz },
    ...passedRoutes(settings, steps, prices),
  ];
  const ownByName = new Map(own.map((route) => [routeName(route), route]));
  const { server, ...ending } = buildHttpFront(settings, {
    routes: start.routes.map((route, index) => {
      const isMine = route.path === routedPath ? { isMine: isRouted(prices) } : {};
      return ownByName.get(routeName(route)) ?? { ...route, ...isMine, handler: routed.handler(index) };
    }),
    events,
    log,
    clock,
    work,
    gateway,
    bodyMemory: new LentBodyMemory(link, { bytesMax: settings.listen.bodyMemoryBytesMax, workers: start.workers }),
    stopForwarding: () => forwarder.stopAll(),
    isLedgerWritable: () => link.ask("isLedgerWritable", null).catch(() => false),
  });
  // Its timeouts begin with this event. The primary listens for it.
  server.emit("listening");
  const take = (connection: Socket) => {
    server.emit("connection", connection);
    connection.resume();
  };
  return { ...ending, take };
}

/** Sends the events of a worker's requests to the primary, which counts them. */
function remoteEvents(link: PrimaryLink): Events {
  const send = (event: EventCall) => link.notify("event", event);
  const elsewhere = (): never => {
    throw new Error("only the primary has such events");
  };
  return {
    requestStarted: (kind) => send(["requestStarted", kind]),
    requestEnded: (event) => send(["requestEnded", event]),
    admitted: ({ key, ...admission }) =>
      send(["admitted", { ...admission, key: key && { id: key.id, name: key.name, team: key.team } }]),
    refused: (refusal) => send(["refused", refusal]),
    unknownFields: (event) => send(["unknownFields", event]),
    streamBurst: (event) => send(["streamBurst", event]),
    posted: (event) => send(["posted", event]),
    adminFailed: elsewhere,
    taskEnded: elsewhere,
    ledgerWrote: elsewhere,
    accountRead: elsewhere,
  };
}
