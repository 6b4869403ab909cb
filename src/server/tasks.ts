import { randomBytes, randomUUIDv7 } from "node:crypto";
import type { Settings } from "../config/settings.ts";
import type { Task } from "../core/tasks.ts";
import type { Route } from "./http/http-app.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { Gateway } from "../ports/gateway.ts";
import type { Seal } from "../ports/seal.ts";
import type { Account } from "../request/account.ts";
import { RecordFetcher } from "../request/fetch-whole.ts";
import type { ForwardLimits } from "../request/forward.ts";
import { createTaskTracker } from "../request/task-tracker.ts";
import { taskCallback } from "../request/task-callback.ts";
import { createCeilingGate } from "../request/task-ceilings.ts";
import { callbackPath, createTaskWebhooks } from "../request/task-webhooks.ts";
import { createTask } from "../request/task-creation.ts";
import { cancelTask, pollTask, retrieveTask, type TaskSteps } from "../request/tasks.ts";
import { isRouted, routedTasks } from "../request/task-routes.ts";
import type { Store } from "../ledger/store.ts";
import { createJudge } from "../gateway/webhooks/judge.ts";
import { taskWebhookRule } from "./delivering.ts";

type Shared =
  | "authenticate"
  | "limiter"
  | "balanceGuard"
  | "forwarder"
  | "scopeName"
  | "mask"
  | "ledger"
  | "gatewayHeaders"
  | "taskOwner"
  | "clock"
  | "events"
  | "log"
  | "background"
  | "wakePoller";

/** Path for all routes of price files, which change while the proxy runs. */
export const routedPath = "/*routed";

interface TaskRoutes {
  readonly routes: readonly Route[];
  /** Routes of price files. They come before paths that are passed through. */
  readonly routed: Route;
  /** Fetches a task's record and applies it. */
  poll(task: Task): Promise<void>;
  /** Ends every running call at the gateway. */
  stop(): void;
}

/** Builds the routes of tasks and their steps, some of which all requests share. */
export function buildTaskRoutes(
  settings: Settings,
  parts: Pick<TaskSteps, Shared | "random"> & {
    readonly store: Store;
    readonly gateway: Gateway;
    readonly catalogue: () => Catalogue;
    readonly account: Account;
    readonly seal: Seal;
    readonly wakeDelivery: () => void;
    readonly limits: ForwardLimits;
  },
): TaskRoutes {
  const { store, gateway, catalogue, account, seal, wakeDelivery, limits, ...shared } = parts;
  const { ledger, keys, tasks, callbacks, outbox } = store;
  const { clock, events, log, random } = shared;
  const records = new RecordFetcher({ gateway, clock, limits });
  const steps: TaskSteps = {
    ...shared,
    catalogue,
    unpriced: settings.pricing.unpriced,
    tasks,
    tracker: createTaskTracker({ tasks, ledger, keys, catalogue, events, clock, log, random }),
    webhooks: createTaskWebhooks({
      callbacks,
      seal,
      clock,
      log,
      judge: createJudge({ clock, rule: taskWebhookRule(settings) }),
      publicUrl: settings.listen.publicUrl,
      newToken: () => randomBytes(32).toString("hex"),
    }),
    admitTask: createCeilingGate({ mode: settings.tasks.ceilings, account, tasks, clock }),
    random,
    newId: randomUUIDv7,
  };
  const poll = pollTask(records, steps.tracker);
  const callback = taskCallback({
    callbacks,
    seal,
    outbox,
    clock,
    log,
    wakeDelivery,
    newId: randomUUIDv7,
    taskOf: (charge) => tasks.ofCharge(charge),
    find: (taskId) => tasks.find(taskId),
    poll,
    background: shared.background,
  });
  return {
    routes: [
      { method: "post", path: "/api/v1/task", handler: createTask(steps) },
      { method: "get", path: "/api/v1/task/:task_id", handler: retrieveTask(steps) },
      { method: "delete", path: "/api/v1/task/:task_id", handler: cancelTask(steps) },
      { method: "post", path: `${callbackPath}/:token`, handler: callback },
    ],
    routed: { method: "all", path: routedPath, handler: routedTasks(steps, catalogue), isMine: isRouted(catalogue) },
    poll,
    stop: () => records.stopAll(),
  };
}
