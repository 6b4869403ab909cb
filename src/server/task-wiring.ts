import { randomBytes } from "node:crypto";
import type { Settings } from "../config/settings.ts";
import { callbackPath } from "../core/task-routes.ts";
import type { Task } from "../core/tasks.ts";
import type { Route } from "./http/http-app.ts";
import type { Gateway } from "../ports/gateway.ts";
import type { Seal } from "../ports/seal.ts";
import type { Account } from "../request/account.ts";
import { RecordFetcher } from "../request/fetch-whole.ts";
import type { KeyWatch } from "../request/gateway-key.ts";
import type { ForwardLimits } from "../request/forward.ts";
import type { ShortageView } from "../request/hold.ts";
import type { PipelineSteps } from "../request/pipeline.ts";
import { TaskTracker } from "../request/task-tracker.ts";
import { taskCallback } from "../request/task-callback.ts";
import { createCeilingGate } from "../request/task-ceilings.ts";
import { createTaskWebhooks } from "../request/task-webhooks.ts";
import { createTask } from "../request/task-creation.ts";
import { cancelTask, pollTask, retrieveTask, taskPath, type TaskSteps } from "../request/tasks.ts";
import { isRouted, routedTasks } from "../request/task-routes.ts";
import type { Store } from "../ports/stores.ts";
import { createEndpointCheck } from "../gateway/webhooks/endpoint-check.ts";
import { taskWebhookRule } from "./delivering.ts";

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

/** Builds the routes of tasks, and the function that polls a task. */
export function buildTaskRoutes(
  settings: Settings,
  parts: PipelineSteps &
    ShortageView &
    Pick<TaskSteps, "catalogue" | "mask" | "wakePoller"> & {
      readonly random: () => number;
      readonly store: Store;
      readonly gateway: Gateway;
      readonly account: Account;
      readonly keyWatch: KeyWatch;
      readonly seal: Seal;
      readonly wakeDelivery: () => void;
      readonly limits: ForwardLimits;
    },
): TaskRoutes {
  const { store, catalogue, account, clock, newId } = parts;
  const { tasks, callbacks, outbox } = store;
  const records = new RecordFetcher(parts);
  const steps: TaskSteps = {
    ...parts,
    unpriced: settings.pricing.unpriced,
    tasks,
    tracker: new TaskTracker({ ...parts, ...store }),
    webhooks: createTaskWebhooks({
      ...parts,
      callbacks,
      checkEndpoint: createEndpointCheck({ clock, rule: taskWebhookRule(settings) }),
      publicUrl: settings.listen.publicUrl,
      newToken: () => randomBytes(32).toString("hex"),
    }),
    admitTask: createCeilingGate({ mode: settings.tasks.ceilings, account, tasks, clock }),
  };
  const poll = pollTask(records, steps.tracker);
  const callback = taskCallback({ ...parts, callbacks, outbox, tasks, newId, poll });
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
