import type { Settings } from "../config/settings.ts";
import type { Task } from "../core/tasks.ts";
import type { Route } from "../http/http-app.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { Gateway } from "../ports/gateway.ts";
import { createTaskPricer } from "../proxy/task-price.ts";
import { createTaskBook } from "../proxy/task-settlement.ts";
import { asIs, cancelTask, createTask, lookAtTask, retrieveTask, type TaskSteps } from "../proxy/tasks.ts";
import { createWholeCalls } from "../proxy/whole-calls.ts";
import type { Store } from "../store/sqlite/open.ts";

type Shared = "authenticate" | "limiter" | "balanceGuard" | "scopeName" | "mask" | "settle" | "limits" | "clock" | "events" | "log" | "background" | "wakePoller";

export interface TaskStory {
  readonly routes: readonly Route[];
  /** Has a task's record fetched and taken to heart. */
  look(task: Task): Promise<void>;
  /** Ends every running call at the gateway. */
  stop(): void;
}

/** The path of tasks: its steps, those that all requests share among them. */
export function buildTasks(
  settings: Settings,
  parts: Pick<TaskSteps, Shared> & { readonly store: Store; readonly gateway: Gateway; readonly catalogue: () => Catalogue },
): TaskStory {
  const { store, gateway, catalogue, ...shared } = parts;
  const { ledger, keys, tasks } = store;
  const { clock, events, log, limits } = shared;
  const random = Math.random;
  const calls = createWholeCalls({ gateway, clock, limits });
  const steps: TaskSteps = {
    ...shared,
    price: createTaskPricer({ catalogue, unpriced: settings.pricing.unpriced }),
    ledger,
    calls,
    tasks,
    book: createTaskBook({ tasks, ledger, keys, catalogue, events, clock, log, random }),
    rewrite: asIs,
    random,
  };
  return {
    routes: [
      { method: "post", path: "/api/v1/task", handler: createTask(steps) },
      { method: "get", path: "/api/v1/task/:task_id", handler: retrieveTask(steps) },
      { method: "delete", path: "/api/v1/task/:task_id", handler: cancelTask(steps) },
    ],
    look: lookAtTask(steps),
    stop: () => calls.stopAll(),
  };
}
