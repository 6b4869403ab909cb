import type { Task } from "../core/tasks.ts";
import { isoTime, type NameOf } from "./names.ts";

/** A task as an administrator sees it: what Farebox keeps of it, never what was asked for or made. */
export function taskJson(task: Task, nameOf: NameOf) {
  const time = (at: number | null) => (at === null ? null : isoTime(at));
  return {
    task_id: task.taskId,
    request_id: task.charge,
    key: nameOf(task.key),
    model: task.model,
    task_type: task.taskType,
    status: task.status,
    failure: task.failure,
    created_at: isoTime(task.createdAt),
    started_at: time(task.startedAt),
    ended_at: time(task.endedAt),
    settled_at: time(task.settledAt),
    seen_at: isoTime(task.seenAt),
    next_look_at: time(task.nextPollAt),
    consumption: task.consumption === null ? null : { ...task.consumption, units_per_usd: task.unitsPerUsd },
    quantity: task.quantity,
  };
}
