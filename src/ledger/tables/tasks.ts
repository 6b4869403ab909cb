import type { Task } from "../../core/tasks.ts";
import type {
  NewTask,
  TaskCallback,
  TaskCallbacks,
  TaskEnding,
  TaskObservation,
  TaskStore,
} from "../../ports/stores.ts";
import { Conditions } from "../queries/page.ts";
import type { Query } from "../queries/query.ts";
import { all, Columns, insert, marks, one, type Table } from "./table.ts";

type TaskRow = Omit<Task, "consumption"> & { readonly usageType: string | null; readonly usageUnits: string | null };

const given = [
  "taskId",
  "charge",
  "key",
  "model",
  "taskType",
  "status",
  "createdAt",
  "startedAt",
  "deadlineAt",
] as const;
const ended = ["endedAt", "settledAt", "failure", "usageType", "usageUnits", "unitsPerUsd", "quantity"] as const;
const newColumns = new Columns(...given, "quantity", "nextPollAt");
const observedColumns = new Columns("status", "startedAt", "seenAt", "nextPollAt", "deadlineAt");
const endColumns = new Columns("status", "startedAt", ...ended);
const select = `select ${new Columns(...given, ...ended, "seenAt", "nextPollAt").select} from tasks`;

/** Returns the column values of a task that is being bound to its charge. */
export const rowOfNewTask = (task: NewTask) => newColumns.rowOf(task);

/** Returns the column values that an observation sets. */
export const rowOfObservation = (observation: TaskObservation) => observedColumns.rowOf(observation);

/** Details of a task's end that are stored in the row of the task. */
export type TaskEndDetails = Omit<TaskEnding, "settlement" | "end"> & { readonly at: number };

/** Returns the column values that the end of a task sets. */
export function rowOfTaskEnd({ inputs: { consumption, unitsPerUsd, quantity }, at, ...details }: TaskEndDetails) {
  const usage = { usageType: consumption?.type ?? null, usageUnits: consumption?.units ?? null, unitsPerUsd, quantity };
  return endColumns.rowOf({ ...details, ...usage, settledAt: at });
}

/** SQL condition on `charges` for charges with a task in `tasks`. Such a charge is settled only when its task ends. */
export const runsTask = "(kind = 'task' and exists (select 1 from tasks where tasks.charge = charges.id))";

function taskOf({ usageType: type, usageUnits: units, ...task }: TaskRow): Task {
  return { ...task, consumption: type === null || units === null ? null : { type, units } };
}

function* findBy(column: "task_id" | "charge", value: string): Query<Task | undefined> {
  const row = yield* one<TaskRow>(`${select} where ${column} = ?`, value);
  return row && taskOf(row);
}

/** Tasks. Separate commands of the writer bind, observe and end tasks. */
export const tasks: Table<Omit<TaskStore, "bind" | "observe" | "end">, never> = {
  queries: {
    find: (taskId) => findBy("task_id", taskId),
    ofCharge: (charge) => findBy("charge", charge),
    *due({ now, limit, pauseMsMax, except }) {
      const others =
        except.length === 0 ? "settled_at is null" : `settled_at is null and task_id not in (${marks(except)})`;
      const dueWhen = (isDue: string) => `${select} where ${others} and ${isDue} order by next_poll_at limit ?`;
      const next = yield* one<{ at: number | null }>(
        `select min(next_poll_at) as at from tasks where ${others} and next_poll_at > ? and next_poll_at <= ?`,
        ...except,
        now,
        now + pauseMsMax,
      );
      const due = yield* all<TaskRow>(dueWhen("next_poll_at <= ?"), ...except, now, limit);
      // A poll this far ahead means that the clock was set back.
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
      const where = new Conditions().add("key = ?", key).add("seq < (select seq from tasks where task_id = ?)", after);
      if (running !== undefined) where.add(`settled_at is ${running ? "" : "not "}null`);
      const sql = `${select} where ${where.sql} order by seq desc limit ?`;
      const rows = yield* all<TaskRow>(sql, ...where.values, limit + 1);
      const tasks = rows.slice(0, limit).map(taskOf);
      return { tasks, next: rows.length > limit ? (tasks.at(-1)?.taskId ?? null) : null };
    },
  },
  announces: false,
  writes: {},
};

const callbackColumns = new Columns("charge", "digest", "sealed", "createdAt");
const selectCallback = `select ${callbackColumns.select} from task_callbacks`;

/** Callbacks that Farebox requested from the gateway for tasks. */
export const callbacks: Table<TaskCallbacks, "put"> = {
  queries: {
    byDigest: (digest) => one<TaskCallback>(`${selectCallback} where digest = ?`, digest),
    byCharge: (charge) => one<TaskCallback>(`${selectCallback} where charge = ?`, charge),
  },
  announces: false,
  unavailable: { put: false },
  writes: {
    put: (callback) => insert("task_callbacks", callbackColumns.rowOf(callback)),
  },
};
