import { pollPauseMsMax, type Task } from "../core/tasks.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { TaskStore } from "../ports/task-store.ts";
import { loop } from "../platform/loop.ts";
import type { JobClaim } from "./job-claims.ts";

/** Polls tasks whose clients do not. Disposing of it waits for the polls in progress. */
interface TaskPoller extends AsyncDisposable {
  /** Checks for due tasks now. Callers use it if there is a new task, or if a task is due earlier than planned. */
  wake(): void;
}

/** Largest number of parallel polls. After a restart many old tasks may be due, and a burst could overload the gateway. */
const pollsAtOnceMax = 4;

/**
 * Shortest pause between two polls of a task, in milliseconds. It is shorter than any planned pause. A task whose result
 * could not be written remains due; without this pause it would be polled again at once.
 */
const restMs = 2_000;

/** Pause after due tasks could not be read, in milliseconds. */
const afterErrorMs = 5_000;

/** Polls each task when it is due. `poll` fetches the task's record and applies it, which also sets the time of the next poll. */
export function startTaskPoller(deps: {
  readonly tasks: Pick<TaskStore, "due">;
  readonly poll: (task: Task) => Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
  readonly claim: JobClaim;
}): TaskPoller {
  const { tasks, clock, log, claim } = deps;
  const polling = new Map<string, Promise<void>>();
  /** End of each polled task's pause, by the monotonic clock. */
  const resting = new Map<string, number>();

  const poll = async (task: Task): Promise<void> => {
    const { taskId } = task;
    try {
      await deps.poll(task);
    } catch (error) {
      log.error({ task_id: taskId, err: error }, "a task could not be polled");
    }
    polling.delete(taskId);
    resting.set(taskId, clock.monotonic() + restMs);
    polls.wake();
  };
  /** Starts the polls that are due, up to the limit. The others wait until a poll ends. */
  const startDue = async (): Promise<number> => {
    const limit = pollsAtOnceMax - polling.size;
    if (limit <= 0 || !claim.isMine()) return Infinity;
    const [now, monotonic] = [clock.now(), clock.monotonic()];
    for (const [taskId, until] of resting) if (until <= monotonic) resting.delete(taskId);
    const except = [...polling.keys(), ...resting.keys()];
    const due = await tasks.due({ now, limit, except, pauseMsMax: pollPauseMsMax });
    if (polls.ending.aborted || !claim.isMine()) return Infinity;
    for (const task of due.tasks) polling.set(task.taskId, poll(task));
    const pauses = [...resting.values()].map((until) => until - monotonic);
    return Math.max(1, Math.min((due.nextPollAt ?? Infinity) - now, ...pauses));
  };

  const polls = loop(clock, startDue, {
    everyMs: afterErrorMs,
    onError: (error) => log.error({ err: error }, "tasks that are due could not be read"),
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
