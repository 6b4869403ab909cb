import type { Refusal } from "../core/refusals.ts";
import type { Log } from "../ports/log.ts";
import { tasksNamed } from "../wire/task.ts";

/** The answer to a request for a task that the caller does not own, whether the task exists or not. */
export const noSuchTask: Refusal = { code: "not_found", message: "There is no such task." };

/** The reason of a charge whose gateway answer showed a task of another key: nothing says what the request cost. */
export const foreignTask = "task_of_another_key";

/** Returns the id of the key that made a task; undefined for a task that the ledger does not know. */
export type TaskOwner = (taskId: string) => Promise<string | undefined>;

/** Whether the gateway's answer to a caller shows a task of another key, and must not be passed on. */
export type ShowsForeignTask = (answer: Buffer, to: AnsweredCaller) => boolean | Promise<boolean>;

interface AnsweredCaller {
  readonly requestId: string;
  readonly key: string;
  /** A task that is known to be the caller's, or that is checked when it is bound. */
  readonly own?: string | undefined;
}

/** A task that cannot be looked up counts as foreign. */
export function createForeignTaskCheck({
  taskOwner,
  log,
}: {
  readonly taskOwner: TaskOwner;
  readonly log: Log;
}): ShowsForeignTask {
  const anyForeign = async (named: ReadonlySet<string>, { requestId, key, own }: AnsweredCaller) => {
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
  };
  return (answer, to) => {
    const named = tasksNamed(answer);
    return named.size > 0 && anyForeign(named, to);
  };
}
