import type { Task } from "../../core/tasks.ts";
import type { TaskStore } from "../../ports/task-store.ts";
import type { Query } from "../queries/query.ts";
import { all, marks, one, type Table } from "./table.ts";

type TaskRow = Omit<Task, "consumption"> & { readonly usageType: string | null; readonly usageUnits: string | null };

const select = `select task_id as "taskId", charge, key, model, task_type as "taskType", status, created_at as "createdAt",
  started_at as "startedAt", ended_at as "endedAt", settled_at as "settledAt", seen_at as "seenAt", next_poll_at as "nextPollAt",
  deadline_at as "deadlineAt", failure, usage_type as "usageType", usage_units as "usageUnits", units_per_usd as "unitsPerUsd", quantity
  from tasks`;

/** SQL condition on `charges` for charges of known tasks. Only the task ends such a charge. */
export const runsTask = "(kind = 'task' and exists (select 1 from tasks where tasks.charge = charges.id))";

function taskOf({ usageType: type, usageUnits: units, ...task }: TaskRow): Task {
  return { ...task, consumption: type === null || units === null ? null : { type, units } };
}

function* found(column: "task_id" | "charge", value: string): Query<Task | undefined> {
  const row = yield* one<TaskRow>(`${select} where ${column} = ?`, value);
  return row && taskOf(row);
}

/** Tasks and the charges that pay for them. The writers bind and end them with their charges. */
export const tasks: Table<Omit<TaskStore, "bind" | "observe" | "end">, never> = {
  queries: {
    find: (taskId) => found("task_id", taskId),
    ofCharge: (charge) => found("charge", charge),
    *due({ now, limit, pauseMsMax, except }) {
      const others =
        except.length === 0 ? "settled_at is null" : `settled_at is null and task_id not in (${marks(except)})`;
      // SQLite prepares a statement again at each new value of a bare `limit ?`.
      const dueWhen = (isDue: string) => `${select} where ${others} and ${isDue} order by next_poll_at limit ? + 0`;
      const next = yield* one<{ at: number | null }>(
        `select min(next_poll_at) as at from tasks where ${others} and next_poll_at > ? and next_poll_at <= ?`,
        ...except,
        now,
        now + pauseMsMax,
      );
      const due = yield* all<TaskRow>(dueWhen("next_poll_at <= ?"), ...except, now, limit);
      const tooFar = yield* all<TaskRow>(dueWhen("next_poll_at > ?"), ...except, now + pauseMsMax, limit - due.length);
      return { tasks: [...due, ...tooFar].map(taskOf), nextPollAt: next?.at ?? null };
    },
    *running() {
      const row = yield* one<{ count: number }>("select count(*) as count from tasks where settled_at is null");
      return row?.count ?? 0;
    },
    runningTasks: () =>
      all(
        `select charge, model, task_type as "taskType" from tasks where settled_at is null and status <> 'completed'`,
      ),
    *list({ key, running, limit, after }) {
      const conditions = [
        ...(key === undefined ? [] : ["key = ?"]),
        ...(running === undefined ? [] : [`settled_at is ${running ? "" : "not "}null`]),
        ...(after === undefined ? [] : ["seq < (select seq from tasks where task_id = ?)"]),
      ];
      const where = conditions.length === 0 ? "" : `where ${conditions.join(" and ")}`;
      const values = [key, after].filter((value) => value !== undefined);
      const rows = yield* all<TaskRow>(`${select} ${where} order by seq desc limit ?`, ...values, limit + 1);
      const tasks = rows.slice(0, limit).map(taskOf);
      return { tasks, next: rows.length > limit ? (tasks.at(-1)?.taskId ?? null) : null };
    },
  },
  announces: false,
  writes: {},
};
