import type { BindResult, NewTask, TaskObservation } from "../../ports/stores.ts";
import { rowOfNewTask, rowOfObservation, rowOfTaskEnd, type TaskEndDetails } from "../tables/tasks.ts";
import type { Query } from "../queries/query.ts";
import { insert, one, update } from "../tables/table.ts";

/** Binds a task to its charge. `isPending`: true if the charge is pending and has the kind `task`. */
export function* bindTask(task: NewTask, isPending: boolean): Query<BindResult> {
  const known = yield* one<{ charge: string }>("select charge from tasks where task_id = ?", task.taskId);
  if (known !== undefined) return known.charge === task.charge ? { ok: true } : { ok: false, reason: "taken" };
  const isBound = (yield* one("select 1 from tasks where charge = ?", task.charge)) !== undefined;
  if (!isPending || isBound) return { ok: false, reason: "no_such_charge" };
  yield* insert("tasks", { ...rowOfNewTask(task), seen_at: task.createdAt });
  return { ok: true };
}

const isRunning = "task_id = ? and settled_at is null";

/** Stores an observation of a running task. */
export function* observeTask(taskId: string, observation: TaskObservation): Query<true> {
  yield* update("tasks", rowOfObservation(observation), isRunning, taskId);
  return true;
}

/** Ends a task. Must run in the transaction that settles its charge. */
export function endTask(taskId: string, details: TaskEndDetails): Query<void> {
  const columns = { ...rowOfTaskEnd(details), seen_at: details.at, next_poll_at: null };
  return update("tasks", columns, isRunning, taskId);
}
