import { z } from "zod";
import { findKeyIfNamed } from "../../../admin/key-changes.ts";
import { failure } from "../../../admin/result.ts";
import type { Task } from "../../../core/tasks.ts";
import { isoTime, isoTimeOrNull } from "../../../core/time.ts";
import type { Store } from "../../../ports/stores.ts";
import { keyNamesIn, type NameOf } from "../../../reporting/names.ts";
import { type TaskJson, taskListSchema, taskSchema } from "../../../reporting/shapes/charges.ts";
import { cursor, limitOf } from "./fields.ts";
import { found, routesFor } from "./route.ts";

const taskQuery = z.strictObject({
  key: z.string().max(200).optional().meta({ description: "A key's name or id." }),
  running: z
    .enum(["true", "false"], "must be true or false")
    .optional()
    .meta({ description: "`true` for unsettled tasks only, `false` for settled ones only." }),
  limit: limitOf(100),
  cursor: cursor.optional(),
});

const route = routesFor<Pick<Store, "tasks" | "keys">>();

export const taskRoutes = [
  route("GET /tasks", {
    role: "viewer",
    summary: "Tasks of all keys, newest first, in pages",
    query: taskQuery,
    answer: taskListSchema,
    handle: async ({ tasks, keys }, { query: { key: nameOrId, running, limit, cursor: after } }) => {
      const named = await findKeyIfNamed(keys, nameOrId);
      if (!named.ok) return named;
      const { key } = named;
      const page = await tasks.list({
        limit,
        ...(key !== undefined && { key: key.id }),
        ...(running !== undefined && { running: running === "true" }),
        ...(after !== undefined && { after }),
      });
      const nameOf = await keyNamesIn(keys, page.tasks);
      return found({ tasks: page.tasks.map((each) => taskJson(each, nameOf)), next: page.next });
    },
  }),
  route("GET /tasks/{task_id}", {
    role: "viewer",
    summary: "One task, of any key",
    answer: taskSchema,
    handle: async ({ tasks, keys }, { params: [taskId = ""] }) => {
      const known = await tasks.find(taskId);
      if (known === undefined) return failure("not_found", "there is no such task");
      return found(taskJson(known, await keyNamesIn(keys, [known])));
    },
  }),
];

function taskJson(task: Task, nameOf: NameOf): TaskJson {
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
