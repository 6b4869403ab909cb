import { pollPauseMsMax, type Task } from "../core/tasks.ts";
import type { Clock, Timer } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { TaskStore } from "../ports/task-store.ts";
import { ownDuty, type Duty } from "./duties.ts";

/** Follows the tasks that nobody asks for. Disposing of it ends it, after the looks that run. */
export interface TaskPoller extends AsyncDisposable {
  /** There is a task to follow, or one is due earlier. */
  wake(): void;
}

/** Looks at once, so that many old tasks after a restart are no burst at the gateway. */
const looksAtOnceMax = 4;

/** Less than any pause between two looks: a look that could not be written down leaves its task due, and is no circle. */
const restMs = 2_000;

/** Before the tasks that are due are asked for again when they could not be read. Milliseconds. */
const afterFaultMs = 5_000;

/**
 * Looks at each task when it is due: `look` has its record fetched and taken to heart, which also says when it is due
 * again. One timer for the task that is due first. Rests while another proxy has the duty.
 */
export function startTaskPoller(parts: {
  readonly tasks: Pick<TaskStore, "due">;
  readonly look: (task: Task) => Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
  /** This proxy's own unless given. */
  readonly duty?: Duty;
}): TaskPoller {
  const { tasks, clock, log, duty = ownDuty } = parts;
  const looking = new Map<string, Promise<void>>();
  const resting = new Map<string, Timer>();
  let timer: Timer | null = null;
  let planning: Promise<void> | null = null;
  let wokenMeanwhile = false;
  let ended = false;

  const arm = (ms: number): void => {
    timer?.cancel();
    timer = ended ? null : clock.after(ms, wake);
  };
  const look = async (task: Task): Promise<void> => {
    const { taskId } = task;
    try {
      await parts.look(task);
    } catch (error) {
      log.error({ task_id: taskId, err: error }, "a look at a task failed");
    }
    looking.delete(taskId);
    if (ended) return;
    resting.set(
      taskId,
      clock.after(restMs, () => {
        resting.delete(taskId);
        wake();
      }),
    );
    wake();
  };
  /** Starts what is due and has room; what has none waits for the next look that ends. */
  const plan = async (): Promise<void> => {
    const limit = looksAtOnceMax - looking.size;
    if (limit <= 0 || !duty.isMine()) return;
    const now = clock.now();
    const due = await tasks.due({
      now,
      limit,
      besides: [...looking.keys(), ...resting.keys()],
      pauseMsMax: pollPauseMsMax,
    });
    if (ended || !duty.isMine()) return;
    for (const task of due.tasks) looking.set(task.taskId, look(task));
    if (due.nextPollAt !== null) arm(due.nextPollAt - now);
  };
  const wake = (): void => {
    if (ended) return;
    wokenMeanwhile = planning !== null;
    planning ??= plan()
      .catch((error: unknown) => {
        log.error({ err: error }, "tasks that are due could not be read");
        arm(afterFaultMs);
      })
      .then(() => {
        planning = null;
        if (wokenMeanwhile) wake();
      });
  };
  duty.onTaken(wake);
  wake();
  return {
    wake,
    async [Symbol.asyncDispose]() {
      ended = true;
      timer?.cancel();
      for (const rest of resting.values()) rest.cancel();
      await planning;
      await Promise.all(looking.values());
    },
  };
}
