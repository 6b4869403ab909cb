import type { Task } from "../core/tasks.ts";
import { isoTime, isoTimeOrNull } from "../core/time.ts";
import type { NameOf } from "./names.ts";
import type { TaskJson } from "./shapes/charges.ts";

export function taskJson(task: Task, nameOf: NameOf): TaskJson {
  return {
    task_id: task.taskId,
    request_id: task.charge,
    key: nameOf(task.key),
    model: task.model,
    task_type: task.taskType,
    status: task.status,
    failure: task.failure,
    created_at: isoTime(task.createdAt),
    started_at: isoTimeOrNull(task.startedAt),
    ended_at: isoTimeOrNull(task.endedAt),
    settled_at: isoTimeOrNull(task.settledAt),
    seen_at: isoTime(task.seenAt),
    next_look_at: isoTimeOrNull(task.nextPollAt),
    consumption: task.consumption === null ? null : { ...task.consumption, units_per_usd: task.unitsPerUsd },
    quantity: task.quantity,
  };
}
