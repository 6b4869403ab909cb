import type { BodyBytes } from "../ports/exchange.ts";
import { deadlineOf, nextPollAt, type Task } from "../core/tasks.ts";
import type { Clock } from "../ports/clock.ts";
import type { BindResult, TaskStore } from "../ports/task-store.ts";
import { readTaskRecord } from "../wire/task.ts";

/** Task that the answer of a forwarded path names, with the charge of its request. */
export type TaskClaim = Pick<Task, "taskId" | "charge" | "key" | "model" | "startedAt"> & {
  readonly isRunning: boolean;
};

/**
 * `bound`: the charge pays for the task, and is settled when the task ends. `known`: another charge of the same key
 * pays for the task. `foreign`: a charge of another key pays for it. `unavailable`: the ledger could not bind the task.
 */
export type Claimed = "bound" | "known" | "foreign" | "unavailable";

export type ClaimTask = (claim: TaskClaim) => Promise<Claimed>;

interface BindDeps {
  readonly tasks: Pick<TaskStore, "bind">;
  readonly clock: Clock;
  /** Returns a random number of at least 0 and below 1. */
  readonly random: () => number;
}

/** Binds a task to the charge that pays for it, and sets the time of its first poll. */
export function bindTask(
  { tasks, clock, random }: BindDeps,
  made: Omit<Parameters<TaskStore["bind"]>[0], "createdAt" | "deadlineAt" | "nextPollAt">,
): Promise<BindResult> {
  const createdAt = clock.now();
  const task = { ...made, createdAt };
  const deadlineAt = deadlineOf(task);
  return tasks.bind({ ...task, deadlineAt, nextPollAt: nextPollAt({ createdAt, deadlineAt }, createdAt, random()) });
}

/** Returns a function that binds tasks that undocumented paths create. */
export function createTaskClaims(
  deps: BindDeps & { readonly tasks: Pick<TaskStore, "bind" | "find">; readonly wakePoller: () => void },
): ClaimTask {
  return async ({ isRunning, ...claim }) => {
    const status = isRunning ? "running" : "pending";
    const bound = await bindTask(deps, { ...claim, taskType: null, status, quantity: null });
    if (bound.ok) deps.wakePoller();
    if (bound.ok) return "bound";
    if (bound.reason !== "taken") return "unavailable";
    return (await deps.tasks.find(claim.taskId))?.key === claim.key ? "known" : "foreign";
  };
}

/** Returns the new task if an answer is the record of one task that the request does not name; null otherwise. */
export function taskMadeBy(
  answer: Buffer,
  request: { readonly target: string; readonly body: BodyBytes },
): Pick<TaskClaim, "taskId" | "startedAt" | "isRunning"> | null {
  // Avoids parsing most answers, because they name no task.
  const record = answer.includes("task_id") ? readTaskRecord(answer) : undefined;
  const taskId = record?.taskId ?? null;
  if (record === undefined || taskId === null || request.target.includes(taskId) || request.body.whole.includes(taskId))
    return null;
  return { taskId, startedAt: record.startedAt, isRunning: record.status === "running" };
}
