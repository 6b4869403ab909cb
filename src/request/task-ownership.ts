import type { Refusal } from "../core/refusals.ts";
import { deadlineOf, nextPollAt, type Task } from "../core/tasks.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { BindResult, TaskStore } from "../ports/task-store.ts";
import { readTaskRecord, tasksNamed } from "../wire/task.ts";

/** The answer to a request for a task that the caller does not own, whether the task exists or not. */
export const noSuchTask: Refusal = { code: "not_found", message: "There is no such task." };

/** The reason of a charge whose gateway answer showed a task of another key: nothing says what the request cost. */
export const foreignTask = "task_of_another_key";

/** Returns the id of the key that made a task; undefined for a task that the ledger does not know. */
export type TaskOwner = (taskId: string) => Promise<string | undefined>;

interface AnsweredCaller {
  readonly requestId: string;
  readonly key: string;
  /** A task that is known to be the caller's, or that is checked when it is bound. */
  readonly own?: string | undefined;
}

interface OwnerDeps {
  readonly taskOwner: TaskOwner;
  readonly log: Log;
}

/** Reports whether the gateway's answer to a caller shows a task of another key, and must not be passed on. */
export function showsForeignTask(deps: OwnerDeps, answer: Buffer, to: AnsweredCaller): boolean | Promise<boolean> {
  const named = tasksNamed(answer);
  return named.size > 0 && anyForeign(deps, named, to);
}

/** A task whose owner cannot be read counts as foreign. */
async function anyForeign(
  { taskOwner, log }: OwnerDeps,
  named: ReadonlySet<string>,
  { requestId, key, own }: AnsweredCaller,
): Promise<boolean> {
  try {
    for (const taskId of named) {
      const owner = taskId === own ? key : await taskOwner(taskId);
      if (owner === undefined || owner === key) continue;
      log.warn(
        { request_id: requestId, task_id: taskId },
        "the gateway answered with a task of another key; the answer is not shown",
      );
      return true;
    }
    return false;
  } catch (error) {
    log.error(
      { request_id: requestId, err: error },
      "the owner of a task could not be looked up; the answer is not shown",
    );
    return true;
  }
}

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

interface BindDeps {
  readonly tasks: Pick<TaskStore, "bind">;
  readonly clock: Clock;
  /** At least 0, below 1. */
  readonly random: () => number;
}

/** Binds a task to the charge that pays for it, and sets when the poller asks for it first. */
export function bindTask(
  { tasks, clock, random }: BindDeps,
  made: Omit<Parameters<TaskStore["bind"]>[0], "createdAt" | "deadlineAt" | "nextPollAt">,
): Promise<BindResult> {
  const createdAt = clock.now();
  const task = { ...made, createdAt };
  const deadlineAt = deadlineOf(task);
  return tasks.bind({ ...task, deadlineAt, nextPollAt: nextPollAt({ createdAt, deadlineAt }, createdAt, random()) });
}

/** Binds tasks that paths without a description create. */
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
