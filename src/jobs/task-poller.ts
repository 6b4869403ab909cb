import { pollPauseMsMax, type Task } from "../core/tasks.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { TaskStore } from "../ports/stores.ts";
import { loop } from "../platform/loop.ts";
import type { JobClaim } from "./job-claims.ts";

/** Polls tasks that are due. Disposal waits for the polls in progress. */
interface TaskPoller extends AsyncDisposable {
  /** Checks for due tasks now. Callers use it for a new task, or for a task that is due earlier than before. */
  wake(): void;
}

/**
 * Largest number of parallel polls. After a restart, many tasks may be due. Polling all of them at once could overload
 * the gateway.
 */
const pollsAtOnceMax = 4;

/**
 * Shortest pause between two polls of a task, in milliseconds. It is shorter than every scheduled pause. It matters if
 * the result of a poll could not be written. Such a task is still due, and without the pause the next poll would follow
 * immediately.
 */
const pauseMsMin = 2_000;

/** Pause after an error while reading due tasks, in milliseconds. */
const afterErrorMs = 5_000;

/** Polls each task when it is due. `poll` fetches the task's record, applies it and schedules the next poll. */
export function startTaskPoller(deps: {
  readonly tasks: Pick<TaskStore, "due">;
  readonly poll: (task: Task) => Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
  readonly claim: JobClaim;
}): TaskPoller {
  const { tasks, clock, log, claim } = deps;
  const polling = new Map<string, Promise<void>>();
  /** Earliest time of the next poll, by task id, on the monotonic clock. Contains only tasks that were just polled. */
  const pausedUntil = new Map<string, number>();

  const poll = async (task: Task): Promise<void> => {
    const { taskId } = task;
    try {
      await deps.poll(task);
    } catch (error) {
      log.error({ task_id: taskId, err: error }, "a task could not be polled");
    }
    polling.delete(taskId);
    pausedUntil.set(taskId, clock.monotonic() + pauseMsMin);
    polls.wake();
  };
  /**
   * Starts the polls that are due, up to the limit. Returns the time until the next run, in milliseconds; Infinity if
   * only `wake` starts it.
   */
  const startDue = async (): Promise<number> => {
    const limit = pollsAtOnceMax - polling.size;
    if (limit <= 0 || !claim.isMine()) return Infinity;
    const [now, monotonic] = [clock.now(), clock.monotonic()];
    for (const [taskId, until] of pausedUntil) if (until <= monotonic) pausedUntil.delete(taskId);
    const except = [...polling.keys(), ...pausedUntil.keys()];
    const due = await tasks.due({ now, limit, except, pauseMsMax: pollPauseMsMax });
    if (polls.ending.aborted || !claim.isMine()) return Infinity;
    for (const task of due.tasks) polling.set(task.taskId, poll(task));
    const pauses = [...pausedUntil.values()].map((until) => until - monotonic);
    return Math.max(1, Math.min((due.nextPollAt ?? Infinity) - now, ...pauses));
  };

  const polls = loop(clock, startDue, {
    everyMs: afterErrorMs,
    onError: (error) => log.error({ err: error }, "due tasks could not be read"),
  });
  claim.onTaken(polls.wake);
  return {
    wake: polls.wake,
    async [Symbol.asyncDispose]() {
      await polls[Symbol.asyncDispose]();
      await Promise.all(polling.values());
    },
  };
}
