import { deadlineOf, nextPollAt, type Task } from "../core/tasks.ts";
import type { Clock } from "../ports/clock.ts";
import type { TaskStore } from "../ports/task-store.ts";
import { readTaskRecord } from "../wire/task.ts";

/** A task that the answer of a passed path names, with the charge of its request. */
export type TaskClaim = Pick<Task, "taskId" | "charge" | "key" | "model" | "startedAt"> & {
  readonly isRunning: boolean;
};

/**
 * `bound`: the charge pays for the task, which ends it. `known`: another charge of the same key pays for it already. `foreign`: one of
 * another key. `unavailable`: nothing could be written.
 */
export type Claimed = "bound" | "known" | "foreign" | "unavailable";

export type ClaimTask = (claim: TaskClaim) => Promise<Claimed>;

/** Binds tasks that paths without a description create. */
export function createTaskClaims(parts: {
  readonly tasks: Pick<TaskStore, "bind" | "find">;
  readonly clock: Clock;
  readonly random: () => number;
  readonly wakePoller: () => void;
}): ClaimTask {
  return async ({ isRunning, ...claim }) => {
    const createdAt = parts.clock.now();
    const task = {
      ...claim,
      taskType: null,
      status: isRunning ? "running" : "pending",
      createdAt,
      quantity: null,
    } as const;
    const deadlineAt = deadlineOf(task);
    const bound = await parts.tasks.bind({
      ...task,
      deadlineAt,
      nextPollAt: nextPollAt({ createdAt, deadlineAt }, createdAt, parts.random()),
    });
    if (bound.ok) parts.wakePoller();
    if (bound.ok) return "bound";
    if (bound.reason !== "taken") return "unavailable";
    return (await parts.tasks.find(claim.taskId))?.key === claim.key ? "known" : "foreign";
  };
}

/** The task that an answer made: one record that names a task which the request does not name. Null for any other answer. */
export function taskMadeBy(
  answer: Buffer,
  request: { readonly target: string; readonly body: Buffer },
): Pick<TaskClaim, "taskId" | "startedAt" | "isRunning"> | null {
  // Most answers name no task and are not parsed for it.
  const record = answer.includes("task_id") ? readTaskRecord(answer) : undefined;
  const taskId = record?.taskId ?? null;
  if (record === undefined || taskId === null || request.target.includes(taskId) || request.body.includes(taskId))
    return null;
  return { taskId, startedAt: record.startedAt, isRunning: record.status === "running" };
}
