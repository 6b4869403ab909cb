import { randomBytes } from "node:crypto";
import type { Settings } from "../config/settings.ts";
import { callbackPath } from "../core/task-routes.ts";
import type { Task } from "../core/tasks.ts";
import type { Route } from "./http/http-app.ts";
import type { Seal } from "../ports/seal.ts";
import type { AccountCache } from "../request/account.ts";
import { RecordFetcher } from "../request/fetch-whole.ts";
import { TaskTracker } from "../request/task-tracker.ts";
import { taskCallback } from "../request/task-callback.ts";
import { createCeilingGate } from "../request/task-ceilings.ts";
import { createTaskWebhooks } from "../request/task-webhooks.ts";
import { createTask } from "../request/task-creation.ts";
import { cancelTask, pollTask, retrieveTask, taskPath, type TaskSteps } from "../request/task-retrieval.ts";
import { isRouted, routedTasks } from "../request/task-routes.ts";
import type { Store } from "../ports/stores.ts";
import { createEndpointCheck } from "../gateway/webhooks/endpoint-check.ts";
import { taskWebhookRule } from "./delivering.ts";
import type { FleetMember } from "./fleet.ts";
import type { BuiltSteps, ProcessParts } from "./steps.ts";

/** Pattern that matches every path, because the routes of price files may change while the proxy runs. */
export const routedPath = "/*routed";

interface TaskRoutes {
  readonly routes: readonly Route[];
  /** Serves all routes that price files define. Must come before the routes that pass requests through. */
  readonly routed: Route;
  /** Fetches a task's record and applies it. */
  poll(task: Task): Promise<void>;
  /** Ends every running fetch of a task's record. */
  stop(): void;
}

/** Parts that only requests for tasks use. */
interface TaskParts {
  readonly store: Store;
  readonly account: AccountCache;
  readonly seal: Seal;
  /** Receives reports of work for the jobs. */
  readonly report: FleetMember["report"];
  /** Returns a random number of at least 0 and below 1. */
  readonly random: () => number;
}

/** Builds the routes of tasks, and the function that polls a task. */
export function buildTaskRoutes(
  settings: Settings,
  parts: ProcessParts,
  { steps: requestSteps, limits, mask }: BuiltSteps,
  { store, account, seal, report, random }: TaskParts,
): TaskRoutes {
  const { clock, log, catalogue } = parts;
  const { tasks, callbacks, outbox } = store;
  const { newId, background } = requestSteps;
  const records = new RecordFetcher({ ...parts, limits });
  const steps: TaskSteps = {
    ...requestSteps,
    catalogue,
    unpriced: settings.pricing.unpriced,
    mask,
    tasks,
    tracker: new TaskTracker({ ...parts, ...store, random }),
    webhooks: createTaskWebhooks({
      callbacks,
      seal,
      clock,
      log,
      checkEndpoint: createEndpointCheck({ clock, rule: taskWebhookRule(settings) }),
      publicUrl: settings.listen.publicUrl,
      newToken: () => randomBytes(32).toString("hex"),
    }),
    admitTask: createCeilingGate({ mode: settings.tasks.ceilings, account, tasks, clock }),
    wakePoller: report.tasks,
  };
  const poll = pollTask(records, steps.tracker);
  const relay = { callbacks, seal, outbox, tasks, clock, log, newId, background, wakeDelivery: report.queued };
  const callback = taskCallback({ ...relay, poll });
  return {
    routes: [
      { method: "post", path: taskPath, handler: createTask(steps) },
      { method: "get", path: `${taskPath}/:task_id`, handler: retrieveTask(steps) },
      { method: "delete", path: `${taskPath}/:task_id`, handler: cancelTask(steps) },
      { method: "post", path: `${callbackPath}/:token`, handler: callback },
    ],
    routed: { method: "all", path: routedPath, handler: routedTasks(steps, catalogue), accepts: isRouted(catalogue) },
    poll,
    stop: () => records.stopAll(),
  };
}
